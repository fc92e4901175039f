package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
)

// TestConditionsWritten writes a node's condition in the second round with the same result, and exits 0 whatever the
// status. If one write fails, the other conditions are still written. If too many would change, nothing is written. A
// dry run writes nothing.
func TestConditionsWritten(t *testing.T) {
	t.Parallel()
	const bad = "False"
	for what, c := range map[string]struct {
		args, refused string
		exit          int
		a, b, says    string // after two rounds
	}{
		"all of two":  {"", "", report.ExitIncomplete, "", "", "0 nodes are False or Unknown, and 2 more would exceed"},
		"one named":   {"--node node-001", "", report.ExitHealthy, "", bad, "nodes judged: 1, conditions written: 1"},
		"both":        {"--at-most 100%", "", report.ExitHealthy, bad, bad, "nodes judged: 2, conditions written: 2"},
		"one refused": {"--at-most 2", "node-000", report.ExitTool, "", bad, "the condition of node node-000"},
		"too many":    {"--at-most 1", "", report.ExitIncomplete, "", "", "nothing was written for node-000, node-001"},
		"dry run": {"--dry-run --at-most 2", "", report.ExitHealthy, "", "",
			"conditions would be written: 0, pending until the next round: 2"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			a := newHealthAPI(t, 2)
			a.breaks(2)
			a.conditions(t, strings.Fields(c.args)...) // a node that rejects the condition also rejects the annotation
			if a.status("node-000")+a.status("node-001") != "" {
				t.Error("one round writes a condition")
			}
			a.locked(func() { a.refused = c.refused })
			exit, _, errs := a.conditions(t, strings.Fields(c.args)...)
			if exit != c.exit || a.status("node-000") != c.a || a.status("node-001") != c.b || !strings.Contains(errs, c.says) {
				t.Errorf("exit %d, %q and %q: %s", exit, a.status("node-000"), a.status("node-001"), errs)
			}
			patches, _ := a.counts()
			if dry := strings.Contains(c.args, "--dry-run"); dry != (patches == 0) {
				t.Errorf("%d patches", patches)
			}
		})
	}
}

// TestConditionsAtOnce requires a second call within seconds to count pending conditions, and neither call to announce
// more than --at-most.
func TestConditionsAtOnce(t *testing.T) {
	t.Parallel()
	a := newHealthAPI(t, 2)
	a.breaks(2)
	for range 2 {
		exit, out, errs := call(t, "conditions", "--kubeconfig", a.kubeconfig, "--at-most", "1")
		if exit != report.ExitHealthy || !strings.Contains(errs, "pending until the next round: 2") ||
			!strings.Contains(errs, "their conditions will not be written") || strings.Count(out, "(pending, more than --at-most)") != 2 {
			t.Errorf("exit %d\n%s%s", exit, out, errs)
		}
	}
	exit, out, errs := call(t, "conditions", "--kubeconfig", a.kubeconfig, "--at-most", "2")
	if exit != report.ExitHealthy ||
		strings.Contains(errs, "none of them") || strings.Count(out, "(pending until the next round)") != 2 {
		t.Errorf("exit %d\n%s%s", exit, out, errs)
	}
}

// TestConditionsRefuses requires a loop to end for wrong usage or a refusal, and for nothing else.
func TestConditionsRefuses(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{ui.BadUsage("this would place probes on 21 nodes"): true,
		ui.DeclinedError("no"): true, ui.Exit(5): false, errors.New("no API"): false} {
		if refuses(err) != want {
			t.Errorf("%v", err)
		}
	}
}

// TestConditionsGrow requires a loop to continue when the cluster gets its 21st node, and to report the failed round.
func TestConditionsGrow(t *testing.T) {
	t.Parallel()
	a := newHealthAPI(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 45*time.Second) // two rounds
	defer cancel()
	var errs strings.Builder
	grown := time.AfterFunc(15*time.Second, func() { a.locked(func() { a.nodes = 21 }) })
	defer grown.Stop()
	exit := Run(ctx, genericiooptions.IOStreams{In: strings.NewReader(""), Out: io.Discard, ErrOut: &errs},
		[]string{"conditions", "--every", "30s", "--via", "pod", "--kubeconfig", a.kubeconfig})
	if exit != report.ExitHealthy || !strings.Contains(errs.String(), "this round failed: this would place probes on 21 nodes") {
		t.Errorf("exit %d: %s", exit, errs.String())
	}
}

func TestAtMost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text        string
		nodes, most int
	}{
		{"10%", 1, 1}, {"10%", 2, 1}, {"10%", 3, 2}, {"10%", 4, 3}, {"10%", 30, 3}, {"10%", 5000, 500}, {"0%", 50, 3},
		{"100%", 3, 3}, {"100%", 1, 1}, {"0", 3, 0}, {"7", 3, 7},
	} {
		if most, err := atMost(c.text, c.nodes); err != nil || most != c.most {
			t.Errorf("%s of %d: %d, %v, want %d", c.text, c.nodes, most, err, c.most)
		}
	}
	for _, text := range []string{"", "x", "-1", "101%", "1.5"} {
		if _, err := atMost(text, 10); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
