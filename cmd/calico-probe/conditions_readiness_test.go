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
// evaluateRuleForNode: "satisfied := effectiveStatus == condReq.RequiredStatus". So False, Unknown and a condition that
// is missing are the same to it.
func (a *healthAPI) tainted() int {
	n := 0
	for i := range a.nodes {
		if currentStatus := a.status(nodeNumber(i)); currentStatus != string(corev1.ConditionTrue) {
			n++
		}
	}
	return n
}

// healthy is an API whose nodes are all True already.
func healthy(t *testing.T, nodes int) *healthAPI {
	t.Helper()
	a := newHealthAPI(t, nodes)
	if exit, errs := a.round(t); exit != report.ExitHealthy || a.tainted() != 0 {
		t.Fatalf("exit %d, %d tainted: %s", exit, a.tainted(), errs)
	}
	return a
}

// TestReadinessRollout breaks 9 of 100 nodes more in each round, each time below the limit, until all are broken. No
// more than the limit are tainted at any time, and all are free again in the round after they are mended.
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

// TestReadinessBlip has nodes broken in every other round only. Two rounds never agree, so none is tainted.
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

// TestReadinessShared has a list fail that only the probes need, and wants nothing created or written.
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

// TestReadinessLists has each list of the cluster, one after the other, answered by 503 in three rounds. Nothing at all
// is written, although a node is broken and every node may be: half an answer is none.
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
