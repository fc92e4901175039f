package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/report"
)

// TestReadme holds the README to what the program is.
func TestReadme(t *testing.T) {
	b, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	readme := string(b)
	for _, c := range suite() {
		if row := fmt.Sprintf("| `%s` | %s |\n", c.ID, c.Asks); !strings.Contains(readme, row) {
			t.Errorf("the table of checks lacks: %s", row)
		}
	}
	for _, way := range wayNames() {
		if !strings.Contains(readme, "| `"+way+"` |") {
			t.Errorf("the table of ways lacks %s", way)
		}
	}
	if !strings.Contains(readme, probe.Image) {
		t.Errorf("the image is %s", probe.Image)
	}
	if !strings.Contains(readme, probe.Toolbox) {
		t.Errorf("the toolbox is %s", probe.Toolbox)
	}
	a := &app{IOStreams: genericiooptions.IOStreams{}, flags: genericclioptions.NewConfigFlags(true)}
	root := a.command()
	kubectl := pflag.NewFlagSet("", pflag.ContinueOnError)
	a.flags.AddFlags(kubectl)
	for _, verb := range root.Commands() {
		if !verb.Hidden && !strings.Contains(readme, "`calico-probe "+verb.Name()) && !strings.Contains(readme, "`"+verb.Name()+"`") {
			t.Errorf("the verb %s is not mentioned", verb.Name())
		}
		if verb.Name() != "run" {
			continue
		}
		verb.Flags().VisitAll(func(f *pflag.Flag) {
			if kubectl.Lookup(f.Name) == nil && f.Name != "help" && !strings.Contains(readme, "--"+f.Name) && !strings.Contains(readme, "`-"+f.Shorthand+" ") {
				t.Errorf("run --%s is not mentioned", f.Name)
			}
		})
	}
}

// TestExitCodes holds the README's table to the codes there are.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	_, table, _ := strings.Cut(read(t, "../../README.md"), "Exit codes\n\n| | |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var want []string
	for _, c := range report.ExitCodes() {
		want = append(want, fmt.Sprintf("| %d | %s |", c.Code, c.Means))
	}
	if got := strings.Join(want, "\n"); got != strings.ReplaceAll(table, "`", "") {
		t.Errorf("the README has\n%s\nwant\n%s", table, got)
	}
}

// TestShellDocs holds the guide of the session to what can be typed there.
func TestShellDocs(t *testing.T) {
	b, err := os.ReadFile("../../docs/shell.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(b), "## What can be typed")
	c := &conversation{shellOptions: &shellOptions{runOptions: &runOptions{app: &app{}}}}
	for _, command := range c.commandsOf() {
		if !regexp.MustCompile("`" + command.Name + "[` ]").MatchString(table) {
			t.Errorf("the command %s is not mentioned", command.Name)
		}
	}
	a := &app{flags: genericclioptions.NewConfigFlags(true)}
	verb, _, err := a.command().Find([]string{"shell"})
	if err != nil {
		t.Fatal(err)
	}
	for _, own := range []string{"--idle", "--transcript", "--toolbox-image", "--timeout"} {
		if verb.Flags().Lookup(own[2:]) == nil || !strings.Contains(table, "`"+own) {
			t.Errorf("%s is not mentioned, or is no flag", own)
		}
	}
}
