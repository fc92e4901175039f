package main

import (
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/internal/report"
)

// tainted counts the nodes that the Node Readiness Controller would taint by a rule in mode continuous that requires
// the condition to be True. It plays the comparison of kubernetes-sigs/node-readiness-controller at commit
// e5ff8d103234409eed9555922465d1c38618564e (v0.5.0), internal/controller/nodereadinessrule_controller.go,
// evaluateRuleForNode: "satisfied := effectiveStatus == condReq.RequiredStatus". So it treats False, Unknown and a
// missing condition alike.
func (a *healthAPI) tainted() int {
	n := 0
	for i := range a.nodes {
		if currentStatus := a.status(nodeNumber(i)); currentStatus != string(corev1.ConditionTrue) {
			n++
		}
	}
	return n
}

// healthy returns an API whose nodes are all True.
func healthy(t *testing.T, nodes int) *healthAPI {
	t.Helper()
	a := newHealthAPI(t, nodes)
	if exit, errs := a.round(t); exit != report.ExitHealthy || a.tainted() != 0 {
		t.Fatalf("exit %d, %d tainted: %s", exit, a.tainted(), errs)
	}
	return a
}

// TestReadinessRollout breaks 9 more of 100 nodes in each round, each time below the limit, until all are broken. The
// limit is never exceeded, and all nodes are untainted in the round after the repair.
func TestReadinessRollout(t *testing.T) {
	t.Parallel()
	a := healthy(t, 100)
	first := a.conditionOf(nodeNumber(99))
	most, last, said := 0, 0, ""
	for round := range 14 {
		a.breaks(9 * (round + 1))
		last, said = a.round(t)
		most = max(most, a.tainted())
	}
	if most != 9 || last != report.ExitIncomplete {
		t.Errorf("%d nodes were tainted at once, want 9 with --at-most 10%%; exit %d, %s", most, last, said)
	}
	if c := a.conditionOf(nodeNumber(99)); !c.LastTransitionTime.Equal(&first.LastTransitionTime) {
		t.Errorf("a node that was held has another transition time: %+v", c)
	}
	a.breaks(0)
	if exit, errs := a.round(t); exit != report.ExitHealthy || a.tainted() != 0 {
		t.Errorf("mended: exit %d, %d tainted: %s", exit, a.tainted(), errs)
	}
}

// TestReadinessBlip breaks nodes in every other round only. Two rounds never agree, so no node is tainted.
func TestReadinessBlip(t *testing.T) {
	t.Parallel()
	a := healthy(t, 100)
	for round := range 6 {
		a.breaks(5 * (1 - round%2))
		if a.conditions(t); a.tainted() > 0 {
			t.Fatalf("round %d: %d are tainted", round, a.tainted())
		}
	}
}

// TestReadinessShared fails a list that only probes need, and requires that nothing is created or written.
func TestReadinessShared(t *testing.T) {
	t.Parallel()
	a := newHealthAPI(t, 3)
	a.failing = "/api/v1/pods "
	exit, _, errs := a.conditions(t, "--via", "pod")
	if exit != report.ExitTool || !strings.Contains(errs, "no node is judged") || a.posts != 0 || a.patches != 0 {
		t.Errorf("exit %d, %d created, %d written: %s", exit, a.posts, a.patches, errs)
	}
	a.failing = ""
	if _, _, errs = a.conditions(t, "--via", "pod"); a.posts == 0 {
		t.Errorf("if every list is answered, no probe is tried: %s", errs)
	}
}

// TestReadinessLists fails each list of the cluster with 503 in three rounds. Nothing is written for an incomplete
// answer, although one node is broken.
func TestReadinessLists(t *testing.T) {
	t.Parallel()
	a := healthy(t, 20)
	var lists []string
	a.locked(func() { lists = slices.Sorted(maps.Keys(a.asked)) })
	if len(lists) < 10 {
		t.Fatalf("only %v are asked for", lists)
	}
	for _, list := range lists {
		a.locked(func() { a.failing, a.patches = list, 0 })
		a.breaks(1)
		for range 3 {
			exit, _, errs := a.conditions(t, "--at-most", "100%")
			if exit != report.ExitTool || !strings.Contains(errs, "error: ") {
				t.Errorf("%s: exit %d, %s", list, exit, errs)
			}
		}
		if patches, _ := a.counts(); patches != 0 || a.tainted() != 0 {
			t.Errorf("%s: %d nodes were written, %d are tainted", list, patches, a.tainted())
		}
	}
}
