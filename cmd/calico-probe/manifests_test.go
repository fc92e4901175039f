package main

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/calico-probe/calico-probe/internal/report"
)

// TestManifestsForServe rejects flags about 'serve' without --serve, where they would have no effect.
func TestManifestsForServe(t *testing.T) {
	t.Parallel()
	for flag, value := range map[string]string{
		"client-image": "x:1", "image": "x:1", "admit": "ops",
	} {
		for _, serve := range []bool{false, true} {
			args, want := []string{"manifests", "--" + flag + "=" + value}, report.ExitUsage
			if serve {
				args, want = append(args, "--serve"), report.ExitHealthy
			}
			var out, errs bytes.Buffer
			code := Run(t.Context(), genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errs}, args)
			if code != want || strings.Contains(errs.String(), "--"+flag+" needs --serve") == serve {
				t.Errorf("%v: exit %d, want %d: %s", args, code, want, errs.String())
			}
		}
	}
}

// TestServeNotes requires the notes of 'manifests --serve' to name who may connect.
func TestServeNotes(t *testing.T) {
	t.Parallel()
	for want, admit := range map[string][]string{
		"# Pods of the namespace calico-probe may connect to it; ":                                                                       nil,
		"# Pods of the namespaces calico-probe and ingress may connect to it, and the network 10.0.0.0/8; change this list with --admit": {"10.0.0.0/8", "ingress"},
	} {
		if got := serveNotes("calico-probe", admit); !strings.Contains(got, want) {
			t.Errorf("%v: no %q in %s", admit, want, got)
		}
	}
}
