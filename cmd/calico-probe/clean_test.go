package main

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/calico-probe/calico-probe/report"
)

// TestCleanFlags wants what cannot be asked refused in one line, before the API is.
func TestCleanFlags(t *testing.T) {
	t.Parallel()
	for args, says := range map[string]string{
		"clean --all":                        "there is no terminal to ask on: add --yes, or name one run with --run ID",
		"clean --run 7f3a09c1 --all":         "--run and --all",
		"clean --run 7f3a09c1 --all --yes":   "--run and --all",
		"clean --run 7f3a09c":                "eight hexadecimal digits",
		"clean --run calico-probe.io/run!=x": "eight hexadecimal digits",
		"clean --yes":                        "--yes answers what --all asks",
		"clean all":                          "all",
	} {
		streams, _, out, errs := genericiooptions.NewTestIOStreams()
		if got := Run(t.Context(), streams, strings.Fields(args)); got != report.ExitUsage {
			t.Errorf("%s: exit %d", args, got)
		}
		if text := errs.String(); !strings.Contains(text, says) || strings.Count(text, "\n") != 1 || out.Len() > 0 {
			t.Errorf("%s: %q %q", args, text, out)
		}
	}
	streams, _, _, _ := genericiooptions.NewTestIOStreams()
	var out bytes.Buffer
	streams.Out = &out
	if got := Run(t.Context(), streams, []string{"clean", "--help"}); got != 0 || !strings.Contains(out.String(), "--run") {
		t.Errorf("exit %d\n%s", got, &out)
	}
}
