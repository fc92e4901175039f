package examine

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestNoAnswer has a probe that sends only its log, as if its streams fail: the next access method must be tried. Once
// the probe has answered, its log must also be reported.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	begins := probe.Event{Type: probe.EventStart, Start: &probe.Start{V: probe.Version}}
	ends := probe.Event{Type: probe.EventLog, Text: "no request from the client for 30s, ending"}
	answer := probe.Found(probe.OK, "no swap")
	answer.Check = host.NodeSwap.ID
	answers := probe.Event{Type: probe.EventResult, Result: &answer}
	for name, c := range map[string]struct {
		says    []probe.Event
		unheard bool
		reason  facts.Reason
		reports string
	}{
		"nothing":           {nil, true, "", ""},
		"that it ends":      {[]probe.Event{ends}, true, facts.ReasonSilent, ""},
		"that it began":     {[]probe.Event{begins, ends}, true, facts.ReasonSilent, ""},
		"an answer of some": {[]probe.Event{begins, answers}, false, "", "begin start result result"},
		"an answer at once": {[]probe.Event{answers, ends}, false, "", "begin result log result"},
	} {
		var got seenEvents
		r := newTestRun(Options{Node: "node-a", Via: ViaAuto}, io.Discard, &got)
		r.picked = []*probe.Check{host.NodeSwap, host.NodeLoad}
		ask := func(_ context.Context, _ probe.Request, each func(probe.Event) bool) error {
			for _, ev := range c.says {
				each(ev)
			}
			return errors.New("no output from the probe for 15s")
		}
		var reports []string
		whole, err := r.AskPlans(t.Context(), injector.MethodPod, nil, ask, func() error {
			reports = append(reports, "begin")
			return nil
		})
		unheard, is := errors.AsType[*SilentProbeError](err)
		var reason facts.Reason
		if placing, ok := errors.AsType[*injector.PlacementError](err); ok {
			reason = placing.Reason
		}
		for _, ev := range got {
			reports = append(reports, string(ev.Type))
		}
		if whole || is != c.unheard || reason != c.reason || strings.Join(reports, " ") != c.reports {
			t.Errorf("%s: whole %v, %v (%q), reports %q", name, whole, unheard, reason, reports)
		}
	}
}
