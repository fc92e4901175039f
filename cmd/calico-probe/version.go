package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
)

func (a *app) version() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version of the client and the images it uses", Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			switch format {
			case "":
				_, err := io.WriteString(a.Out, versions())
				return err
			case "json":
				return report.WriteJSON(a.Out, "  ", thisBuild())
			case "yaml":
				return report.WriteYAML(a.Out, thisBuild())
			}
			return ui.BadUsage("unknown output format %q: use json or yaml", format)
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", "", "json or yaml instead of text")
	completions(cmd, map[string]completer{"output": oneOf([]string{"json", "yaml"})})
	return cmd
}

// bare adds the actions that do not need a verb: help and version. It avoids cobra's --version, which prints a
// template. A template may call any method, so the linker would keep all of the program's methods.
func (a *app) bare(root *cobra.Command) {
	version := root.Flags().Bool("version", false, "same as the verb version")
	root.Args = func(cmd *cobra.Command, args []string) error {
		if *version {
			return nil
		}
		return aVerb(cmd, args)
	}
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if !*version {
			return cmd.Help()
		}
		_, err := io.WriteString(a.Out, versions())
		return err
	}
}

// identity is the output of 'version -o json'.
type identity struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Platform string `json:"platform"`
	Wire     int    `json:"wireFormat"`
	// The default images; images of a release have a digest.
	Image   string `json:"probeImage"`
	Toolbox string `json:"toolboxImage"`
}

func thisBuild() identity {
	return identity{
		Version: probe.Release, Revision: revision(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Wire: probe.Version,
		Image: envOr("CALICO_PROBE_IMAGE", probeImage()), Toolbox: envOr("CALICO_PROBE_TOOLBOX_IMAGE", toolboxImage()),
	}
}

func versions() string {
	b := thisBuild()
	return fmt.Sprintf("calico-probe %s (%s, %s, wire format %d)\nprobe image %s\ntoolbox image %s\n", b.Version, b.Revision, b.Platform, b.Wire, b.Image, b.Toolbox)
}

// revision returns the commit that the build recorded, or "".
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

// setting returns a setting that the build recorded, or "".
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
