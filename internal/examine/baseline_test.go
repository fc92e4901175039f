package examine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/internal/apierror"
	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/suite/cause"
	"github.com/calico-probe/calico-probe/probe"
)

// TestWorthComparing requires that baseline nodes run only the checks that failed here, and only after a failure.
func TestWorthComparing(t *testing.T) {
	t.Parallel()
	seen := diagnose.Findings{Node: "node-a"}
	add := func(node, check string, s probe.Status, facts probe.Facts) {
		seen.Add(probe.Event{
			Type: probe.EventResult, Node: node, Result: &probe.Result{Check: check, Status: s, Facts: facts},
		})
	}
	asked := func() string { return strings.Join(CheckIDs(worthComparing(seen, Suite())), " ") }
	add("node-a", "node-disk", probe.OK, nil)
	add("node-b", "node-clock", probe.Fail, nil)
	add("node-a", "init-stall", probe.Unknown, nil)
	if troubled(seen, cause.All()) {
		t.Error("a fail elsewhere is no trouble")
	}
	if add("node-a", "node-load", probe.Warn, nil); !troubled(seen, cause.All()) {
		t.Error("a warning that no cause explains is trouble")
	}
	if got := asked(); got != "bgp-session neighbour-reach node-load" {
		t.Errorf("asked %s", got)
	}
	add("node-a", "encap-proof", probe.Fail, nil)
	add("node-a", "node-ready", probe.Fail, nil)
	for _, peer := range []string{"10.0.0.2", "rubbish", "10.0.0.3", "10.0.0.2"} {
		add("node-a", "bgp-session", probe.Fail, probe.Facts{bgp.FactPeer: peer})
	}
	if got := asked(); !troubled(seen, cause.All()) || got != "node-ready bgp-session neighbour-reach node-firewall node-load" {
		t.Errorf("asked %s", got)
	}
	add("node-a", "node-state", probe.Info, nil)
	if got := asked(); !strings.Contains(got, "node-state") {
		t.Errorf("asked %s of a node whose state is known", got)
	}
	if got := preferred(seen); len(got) != 2 || got[1].String() != "10.0.0.3" {
		t.Errorf("preferred %v", got)
	}
	alone := diagnose.Findings{Node: "node-a"}
	alone.Add(probe.Event{
		Type: probe.EventResult, Node: "node-a", Result: &probe.Result{Check: probe.CheckPlaced, Status: probe.Unknown},
	})
	if !troubled(alone, cause.All()) {
		t.Error("a node nobody gets onto is trouble")
	}
}

// seenEvents is a report of what was emitted.
type seenEvents []probe.Event

func (s *seenEvents) Event(ev probe.Event) error { *s = append(*s, ev); return nil }

// TestNoBaseline requires that a named check is unknown if no probe could answer it, and is skipped if there is no
// other node.
func TestNoBaseline(t *testing.T) {
	t.Parallel()
	vain := []baseline{{node: "node-b", err: errors.New("no\x1b[2Jimage")}}
	for name, c := range map[string]struct {
		want    []string
		answers []baseline
		status  probe.Status
	}{
		"named":              {[]string{"neighbour-reach"}, vain, probe.Unknown},
		"not named":          {nil, vain, probe.Info},
		"nobody there":       {[]string{"neighbour-reach"}, nil, probe.Skip},
		"somebody's answers": {[]string{"neighbour-reach"}, []baseline{{node: "node-b"}}, probe.Info},
	} {
		var got seenEvents
		var errs bytes.Buffer
		r := newTestRun(Options{Checks: c.want}, &errs, &got)
		if err := r.reportBaselines(c.answers); err != nil || len(got) != 1 || got[0].Result.Status != c.status {
			t.Errorf("%s: %v %+v", name, err, got)
		}
		if strings.ContainsRune(errs.String(), '\x1b') {
			t.Errorf("%s: a node's words reach the terminal: %q", name, errs.String())
		}
	}
}

// TestALateBaselineIsNotTheAPI requires that a late baseline node is distinguished from an API server that does not
// answer.
func TestALateBaselineIsNotTheAPI(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 0, lateError(baselineLimit))
	defer cancel()
	<-ctx.Done()
	for _, err := range []error{fmt.Errorf("reading: %w", ctx.Err()), fmt.Errorf("stopped: %w", context.Cause(ctx))} {
		if got := apierror.Explain(orLate(ctx, err)); strings.Contains(got, "API server") ||
			!strings.Contains(got, baselineLimit.String()) {
			t.Error(got)
		}
	}
	if err := errors.New("no such image"); !errors.Is(orLate(ctx, err), err) || orLate(ctx, nil) != nil {
		t.Error("an error that says why is lost")
	}
	whole, cancel := context.WithTimeoutCause(t.Context(), 0, TimeoutError(time.Minute))
	defer cancel()
	<-whole.Done()
	if err := orLate(whole, whole.Err()); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// TestHeardNothing requires that a node is given up after two baseline nodes' reports, or one report and the API's, but
// not after one report alone.
func TestHeardNothing(t *testing.T) {
	t.Parallel()
	said := func(node string, status probe.Status, reason string) baseline {
		r := probe.Result{Check: link.NeighbourReach.ID, Target: "node-b icmp", Status: status, Saw: "seen"}
		r = r.With(probe.FactReason, reason)
		twice := probe.Event{Type: probe.EventResult, Result: &r}
		return baseline{node: node, events: []probe.Event{twice, twice}}
	}
	deaf, other := said("node-a", probe.Fail, "timeout"), said("node-c", probe.Fail, "host-unreachable")
	hears, refused := said("node-d", probe.OK, ""), said("node-e", probe.Fail, "refused")
	unasked := baseline{node: "node-f"}
	for name, c := range map[string]struct {
		answers       []baseline
		kubeletSilent bool
		want          bool
	}{
		"two":                          {[]baseline{deaf, other}, false, true},
		"one":                          {[]baseline{deaf}, false, false},
		"one, and another was no help": {[]baseline{deaf, unasked}, false, false},
		"one, and the API":             {[]baseline{deaf, unasked}, true, true},
		"two, and one that hears":      {[]baseline{deaf, other, hears}, true, false},
		"one, and one that is refused": {[]baseline{deaf, refused}, true, false},
		"nobody":                       {[]baseline{unasked}, true, false},
	} {
		g := comparison(func() []baseline { return c.answers })
		if got := g.heardNothing(c.kubeletSilent); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
