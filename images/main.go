// Command images writes a container image as an OCI archive from local files, without a container engine. The archive
// contains no timestamps: the same files produce the same bytes.
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "images: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("images", flag.ContinueOnError)
	ref := flags.String("ref", "", "name and tag of the image")
	out := flags.String("o", "", "archive to write")
	cache := flags.String("cache", "../.cache", "folder with the built files")
	platforms := flags.String("platform", "", "only this platform, such as linux/amd64")
	plain := flags.Bool("plain", false, "do not compress; for images that stay on this machine")
	pin := flags.String("pin", "", "also name the image by its digest, and write that name, NAME:TAG@DIGEST, into this file")
	limit := flags.Int64("max", 0, "fail if a platform's compressed image has more than this number of bytes")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 || *ref == "" || *out == "" {
		return fmt.Errorf("usage: images -ref NAME:TAG -o OUT.tar [flags] %s", strings.Join(names(), "|"))
	}
	i := slices.IndexFunc(definitions(), func(d definition) bool { return d.name == flags.Arg(0) })
	if i < 0 {
		return fmt.Errorf("unknown image %q: there are %s", flags.Arg(0), strings.Join(names(), ", "))
	}
	d := definitions()[i]
	if *platforms != "" {
		d.platforms = []string{*platforms}
	}
	return write(d, *ref, *cache, *out, *pin, *plain, *limit)
}

func names() []string {
	var out []string
	for _, d := range definitions() {
		out = append(out, d.name)
	}
	return out
}
