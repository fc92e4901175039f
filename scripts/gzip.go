//go:build ignore

// Gzip packs the file FROM into TO, for embedding in the client. It uses a package from go.mod, because each machine's
// gzip writes different bytes, and a commit must always build the same client.
package main

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"
)

func main() {
	if err := pack(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintf(os.Stderr, "gzip: %v\n", err)
		os.Exit(1)
	}
}

func pack(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	if old, err := os.ReadFile(to); err == nil {
		// Packing takes seconds, so keep an existing file. If another gzip packed the file, its header has another OS.
		if r, err := gzip.NewReader(bytes.NewReader(old)); err == nil && r.OS == w.OS {
			if is, err := io.ReadAll(r); err == nil && bytes.Equal(is, content) {
				return nil
			}
		}
	}
	if _, err := w.Write(content); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(to, packed.Bytes(), 0o644)
}
