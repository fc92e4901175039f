package cause

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/internal/subject/suite"
	"github.com/calico-probe/calico-probe/probe"
)

// TestFlood lets a node of a large cluster use all that one answer may have, spread over all
// checks and gathered in those that make most causes. To explain 20 times as many answers may
// take as many times longer as there are pairs of them, and no more.
func TestFlood(t *testing.T) {
	every := []string{}
	for _, c := range suite.Node() {
		if c.OnNode() {
			every = append(every, c.ID)
		}
	}
	blocks := []string{route.RouteBlocks.ID, link.IPAutodetect.ID, bgp.BGPSession.ID}
	for name, flood := range map[string]struct {
		checks []string
		make   func(check string, i int) probe.Result
	}{
		"all checks": {every, failing},
		"all checks, about one": {every, func(check string, i int) probe.Result {
			return failing(check,
				0).On(fmt.Sprint("t", i))
		}},
		"one check":                 {blocks[:1], manyCauses},
		"what makes most causes":    {blocks, manyCauses},
		"all checks, and all facts": {every, manyCauses},
	} {
		t.Run(name, func(t *testing.T) {
			few := explainTime(t, flood.checks, 1000, flood.make)
			full := explainTime(t, flood.checks, 19_900, flood.make)
			t.Log("1,000:", few, "full:", full)
			if most := 20 * 20 * max(few, 50*time.Millisecond); full > most {
				t.Errorf("%v for a full answer and %v for 1,000 events, want no more than %v", full, few, most)
			}
		})
	}
}

func failing(check string, i int) probe.Result {
	addr := fmt.Sprintf("10.%d.%d.1", i/256, i%256)
	return probe.Result{Check: check, Target: fmt.Sprintf("node-%d %s", i, addr), Status: probe.Fail, Saw: "bad",
		Facts: probe.Facts{
			bgp.FactPeer: addr, probe.FactNode: fmt.Sprintf("node-%d", i), probe.FactNodeState: probe.NodeSilent,
			probe.FactFamily: 4.0,
		}}
}

func manyCauses(check string, i int) probe.Result {
	block := fmt.Sprintf("10.%d.%d.0/26", i/256, i%256)
	owners := map[string]any{}
	r := failing(check, i).With(route.FactOwners, owners)
	for _, key := range []probe.Fact{route.FactShared, route.FactSwallowed, route.FactWrong, route.FactInBIRD} {
		r.Facts[key] = []any{block}
		owners[string(key)] = map[string]any{block: []any{fmt.Sprintf("a%d", i), fmt.Sprintf("b%d", i)}}
	}
	r.Facts[link.FactPicked], r.Facts[probe.FactRegistered] = "1.2.3.4", "1.2.3.5"
	return r.On(fmt.Sprintf("10.9.%d.%d", i/256, i%256))
}

// explainTime is how long it takes to explain what is let through of some events.
func explainTime(t *testing.T, ids []string, events int, give func(string, int) probe.Result) time.Duration {
	t.Helper()
	targets := make([]probe.Target, 0, 5000)
	for i := range 5000 {
		targets = append(targets, probe.Target{Kind: probe.KindNode, Name: fmt.Sprint(i)})
	}
	in := probe.NewIntake(probe.Request{Type: probe.RequestPlan,
		Plan: &probe.Plan{Run: "r", Node: "n", Checks: ids, Targets: targets}})
	f := diagnose.Findings{Node: "n"}
	take := func(ev probe.Event) {
		let, err := in.Take(ev, false)
		if err != nil && !errors.Is(err, probe.ErrTooMuch) {
			t.Fatal(err)
		}
		for _, ev := range let {
			ev.Node = "n"
			f.Add(ev)
		}
	}
	take(probe.Event{Type: probe.EventStart, Start: &probe.Start{V: probe.Version}})
	for i := range events {
		r := give(ids[i%len(ids)], i)
		take(probe.Event{Type: probe.EventResult, Result: &r})
	}
	if len(f.All) < min(events/2, 2000) { // the bytes may end it first
		t.Fatalf("%d of %d events were let through", len(f.All), events)
	}
	begin := time.Now()
	d := diagnose.Explain(f, All())
	took := time.Since(begin)
	if len(d.Causes) == 0 || len(d.Causes) > diagnose.MostCauses {
		t.Errorf("%d causes", len(d.Causes))
	}
	return took
}
