package main

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/calico-probe/calico-probe/internal/report"
)

// TestCalicoNamespaceFlag requires every verb that reads the cluster to have the flag, and to reject an invalid name in
// one line.
func TestCalicoNamespaceFlag(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{
		"run --node a", "shell --node a -c help", "preflight", "runbook run node-not-ready --node a", "serve", "clean",
	} {
		for _, name := range []string{"a/b", "--all", "Tenant", ""} {
			var out, errs bytes.Buffer
			streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errs}
			code := Run(t.Context(), streams, append(strings.Fields(verb), "--calico-namespace", name))
			said := errs.String()
			if code != report.ExitUsage || !strings.Contains(said, "invalid namespace") ||
				strings.Count(said, "\n") != 1 {
				t.Errorf("%s with %q: exit %d, %s", verb, name, code, said)
			}
		}
	}
	var out, errs bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errs}
	code := Run(t.Context(), streams, []string{"run", "--via", "local", "--calico-namespace", "x"})
	if code != report.ExitUsage || !strings.Contains(errs.String(), "leave out --calico-namespace") {
		t.Errorf("by --via local: exit %d, %s", code, errs.String())
	}
}

// TestNamedNamespace requires an invalid name of -n, and a missing namespace, to end the run.
func TestNamedNamespace(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"run --node a", "shell --node a -c help", "preflight", "clean"} {
		var out, errs bytes.Buffer
		streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errs}
		code := Run(t.Context(), streams, append(strings.Fields(verb), "-n", "Bad_NS"))
		said := errs.String()
		if code != report.ExitUsage || !strings.Contains(said, `-n "Bad_NS": invalid namespace`) || strings.Count(said, "\n") != 1 {
			t.Errorf("%s: exit %d, %s", verb, code, said)
		}
	}
}
