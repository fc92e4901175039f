package main

import (
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checks"
)

// TestHeardNothing wants a node given up for the word of two neighbours, or of one and the
// API's, and not for one's alone.
func TestHeardNothing(t *testing.T) {
	t.Parallel()
	said := func(node string, status probe.Status, reason string) look {
		r := probe.Result{Check: checks.NeighbourReach.ID, Target: "node-b icmp", Status: status, Saw: "seen"}
		r = r.With(probe.FactReason, reason)
		twice := probe.Event{Type: probe.EventResult, Result: &r}
		return look{node: node, events: []probe.Event{twice, twice}}
	}
	deaf, other := said("node-a", probe.Fail, "timeout"), said("node-c", probe.Fail, "host-unreachable")
	hears, refused := said("node-d", probe.OK, ""), said("node-e", probe.Fail, "refused")
	unasked := look{node: "node-f"}
	for name, c := range map[string]struct {
		looks         []look
		kubeletSilent bool
		want          bool
	}{
		"two":                          {[]look{deaf, other}, false, true},
		"one":                          {[]look{deaf}, false, false},
		"one, and another was no help": {[]look{deaf, unasked}, false, false},
		"one, and the API":             {[]look{deaf, unasked}, true, true},
		"two, and one that hears":      {[]look{deaf, other, hears}, true, false},
		"one, and one that is refused": {[]look{deaf, refused}, true, false},
		"nobody":                       {[]look{unasked}, true, false},
	} {
		g := glance{wait: func() []look { return c.looks }}
		if got := g.heardNothing(c.kubeletSilent); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
