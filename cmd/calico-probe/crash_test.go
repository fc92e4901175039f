package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/probe"
)

// TestBlankTarget makes a node answer about a blank target, which an Intake accepts: every reader of the run shows it,
// and none crashes.
func TestBlankTarget(t *testing.T) {
	plan := probe.Plan{Node: "node-a", Method: "pod", Checks: []string{route.RouteCanReach.ID, link.NodeNeighbours.ID,
		link.NodePing.ID}}
	intake, results := probe.NewIntake(probe.Request{Type: probe.RequestPlan, Plan: &plan}), []probe.Result(nil)
	for _, ev := range []probe.Event{
		{Type: probe.EventStart, Start: &probe.Start{V: 1}},
		{Type: probe.EventResult, Result: &probe.Result{Check: route.RouteCanReach.ID, Status: probe.Fail,
			Facts: probe.Facts{route.FactOwnedBy: "eth0"}}},
		{Type: probe.EventResult, Result: &probe.Result{Check: link.NodeNeighbours.ID, Target: " ", Status: probe.Warn,
			Facts: probe.Facts{link.FactMAC: "02:00:00:00:00:01"}}},
		{Type: probe.EventResult, Result: &probe.Result{Check: link.NodePing.ID, Target: " ", Status: probe.Fail}},
	} {
		let, err := intake.Take(ev, false)
		if err != nil || len(let) != 1 {
			t.Fatalf("%v, %v", err, let)
		}
		if r := let[0].Result; r != nil {
			results = append(results, *r)
		}
	}
	saved := saveRun(t, "node-a", true, results...)
	exit, out, errs := call(t, "analyze", saved)
	if exit != 3 || strings.Contains(out+errs, "crashed") {
		t.Errorf("analyze: exit %d, %s%s", exit, out, errs)
	}
	exit, out, errs = call(t, "bundle", "--offline", saved, "--file", filepath.Join(t.TempDir(), "b.tar.gz"))
	if exit != 0 || errs != "" {
		t.Errorf("bundle: exit %d, %s%s", exit, out, errs)
	}
	text, _, end := offline(t, saved)
	if got := text("result", map[string]any{"id": "saved-1"}); !strings.Contains(got, "verdict: fault") {
		t.Errorf("mcp: %s", got)
	}
	if exit := end(); exit != 0 {
		t.Errorf("mcp: exit %d", exit)
	}
}
