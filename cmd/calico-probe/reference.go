package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"github.com/calico-probe/calico-probe/internal/explain"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
)

// man writes the manual pages for the program's packages.
func (a *app) man() *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Short: "Write the manual pages into a folder", Hidden: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return ui.BadUsage("man takes the folder for the pages")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return ui.BadUsage("%w", err)
			}
			return doc.GenManTree(a.documented(cmd.Root()), &doc.GenManHeader{Section: "1",
				Source: "calico-probe " + probe.Release, Manual: "calico-probe", Date: built()}, args[0])
		},
	}
}

// built returns the commit time of the sources, or nil if the build did not record it. Without it the manual pages use
// SOURCE_DATE_EPOCH, as packagers expect.
func built() *time.Time {
	at, err := time.Parse(time.RFC3339, setting("vcs.time"))
	if err != nil {
		return nil
	}
	return &at
}

// documented returns the command tree without text that depends on this machine.
func (a *app) documented(root *cobra.Command) *cobra.Command {
	delete(root.Annotations, cobra.CommandDisplayNameAnnotation) // the kubectl plugin has the same verbs
	same := map[string]string{"cache-dir": "$HOME/.kube/cache", "image": probe.Image, "toolbox-image": probe.Toolbox}
	var each func(cmd *cobra.Command)
	each = func(cmd *cobra.Command) {
		cmd.DisableAutoGenTag = true
		a.hideKubectls(cmd, true) // the page of the verb options lists kubectl's flags
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if text, ok := same[f.Name]; ok {
				f.DefValue = text
			}
		})
		for _, sub := range cmd.Commands() {
			each(sub)
		}
	}
	each(root)
	return root
}

// written is the first line of each page. It shows which version wrote the page.
const written = "<!-- Written by 'calico-probe docs' of calico-probe " + probe.Release + ". -->\n"

// cliReference returns a page with the exit codes, and with the flags of every verb.
func (a *app) cliReference(root *cobra.Command) (string, error) {
	var b strings.Builder
	b.WriteString(written + "\n# calico-probe on the command line\n\nThe output of `calico-probe VERB --help`.\n" +
		"Verbs that read a cluster also have [kubectl's flags](#calico-probe-options).\n\n" +
		"## Exit codes\n\n| code | means |\n|---|---|\n")
	for _, c := range report.ExitCodes() {
		fmt.Fprintf(&b, "| %d | %s |\n", c.Code, explain.Prose(c.Means))
	}
	b.WriteString("\n")
	anchor := func(file string) string {
		return "#" + strings.ReplaceAll(strings.TrimSuffix(file, ".md"), "_", "-")
	}
	var each func(cmd *cobra.Command) error
	each = func(cmd *cobra.Command) error {
		if cmd.Hidden || cmd.Name() == "help" {
			return nil
		}
		if err := doc.GenMarkdownCustom(cmd, &b, anchor); err != nil {
			return err
		}
		for _, sub := range cmd.Commands() {
			if err := each(sub); err != nil {
				return err
			}
		}
		return nil
	}
	err := each(a.documented(root))
	return b.String(), err
}
