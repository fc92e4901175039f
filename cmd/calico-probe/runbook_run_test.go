package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// TestRunbooksKubectl wants a runbook's kubectl led to the cluster that was chosen by
// flags, also when they come from a journal, and not at all where that takes a secret.
func TestRunbooksKubectl(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		typed []string
		want  []string
		not   string
	}{
		"nothing":   {},
		"a context": {[]string{"--context", "far", "--kubeconfig=/k", "--peers", "3", "--cache-dir", "/c"}, []string{"--context=far", "--kubeconfig=/k"}, ""},
		"somebody":  {[]string{"--as=me", "--as-group", "a", "--as-group", "b,c"}, []string{"--as=me", "--as-group=a", "--as-group=b,c"}, ""},
		"a token":   {[]string{"--context=far", "--token", "hush"}, []string{"--context=far"}, "--token"},
	} {
		o := &runbookOptions{runOptions: &runOptions{app: &app{flags: genericclioptions.NewConfigFlags(true)}}}
		typed := pflag.NewFlagSet("run", pflag.ContinueOnError)
		typed.Int("peers", 2, "")
		o.flags.AddFlags(typed)
		if err := typed.Parse(c.typed); err != nil {
			t.Fatal(err)
		}
		got, not := o.kubectl(typed)
		if !slices.Equal(got, c.want) || !strings.Contains(not, c.not) || (not == "") != (c.not == "") || strings.Contains(not+strings.Join(got, ""), "hush") {
			t.Errorf("%s: %q, %q", name, got, not)
		}
	}
}
