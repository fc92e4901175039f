package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/calico-probe/calico-probe/probe"
)

func (a *app) version() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version of the client and the image it uses", Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(a.Out, versions())
			return err
		},
	}
}

func versions() string {
	return fmt.Sprintf("calico-probe %s (%s, %s/%s, wire format %d)\nprobe image %s\n",
		probe.Release, revision(), runtime.GOOS, runtime.GOARCH, probe.Version, envOr("CALICO_PROBE_IMAGE", probe.Image))
}

// revision is the commit this program was built from, where the build knew it.
func revision() string {
	rev := setting("vcs.revision")
	if rev == "" {
		return "unknown revision"
	}
	rev = rev[:min(12, len(rev))]
	if setting("vcs.modified") == "true" {
		rev += " with changes"
	}
	return rev
}

// setting is what the build knew under a key, "" where it did not.
func setting(key string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}
