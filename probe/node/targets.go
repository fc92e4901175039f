package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

func Family(a netip.Addr) int {
	if a.Is4() || a.Is4In6() {
		return 4
	}
	return 6
}

// Unseen turns an error of looking at the node into a result: skip when this way
// onto the node does not show the place, unknown otherwise.
func Unseen(err error) probe.Result {
	if errors.Is(err, probe.ErrNotVisible) || errors.Is(err, errors.ErrUnsupported) {
		return probe.Found(probe.Skip, "%v", err)
	}
	return probe.Failed(err)
}

// Part is some fifths of the time a check has left for one of the things it waits
// for, so that a longer or shorter --check-timeout is felt inside too. The second
// value is how long that is.
func Part(ctx context.Context, fifths int) (context.Context, time.Duration, context.CancelFunc) {
	limit := probe.DefaultLimit
	if at, ok := ctx.Deadline(); ok {
		limit = time.Until(at)
	}
	limit = limit * time.Duration(fifths) / 5
	ctx, cancel := context.WithTimeout(ctx, limit)
	return ctx, limit.Round(10 * time.Millisecond), cancel
}

// CutShort is the result of a question that was interrupted from outside before its own time was over;
// false when it was not.
func CutShort(ctx context.Context, err error) (probe.Result, bool) {
	if ctx.Err() == nil && !errors.Is(err, context.Canceled) {
		return probe.Result{}, false
	}
	if errors.Is(err, context.Canceled) {
		return probe.Found(probe.Unknown, "interrupted before an answer arrived"), true
	}
	return probe.Found(probe.Unknown, "interrupted before an answer arrived: %v", err), true
}

// Gap is the result of a check that has nobody to ask: unknown when the plan
// says that they could not be listed, skip otherwise.
func Gap(p *probe.Pass, kind, nobody string) probe.Result {
	if err := Unlisted(p, kind); err != nil {
		return Unseen(fmt.Errorf("the targets are unknown: %w", err))
	}
	if len(p.Targets) == 0 {
		return probe.Found(probe.Skip, "unknown: the API was not queried")
	}
	return probe.Found(probe.Skip, "%s", nobody)
}

// Unlisted is why the plan does not have the targets of a kind, nil when it does.
func Unlisted(p *probe.Pass, kind string) error {
	switch why := p.Gaps[kind]; why {
	case "":
		return nil
	case probe.GapEtcd, probe.GapNotCalicos:
		return fmt.Errorf("%s: %w", why, probe.ErrNotVisible)
	default:
		return errors.New(why)
	}
}

// About adds to what was seen of a target what the API says about the node it
// lives on: of a node that is not ready nothing else is expected. What a policy may forbid is no fault that is
// certain; a node always
// reaches its own pods, which the kubelet probes.
func About(r probe.Result, t probe.Target) probe.Result {
	if t.Kind != probe.KindLocal {
		r = r.Under(t, probe.DeniesIngress)
	}
	if state := t.Attrs[probe.AttrNode]; state != "" && r.Status != probe.OK {
		if r.Status == probe.Fail { // of that node, and this one is not at fault
			r.Status = probe.Warn
		}
		r.Saw += fmt.Sprintf("; the API reports %s as %s", t.Node, state)
		r = r.With(probe.FactNodeState, state)
	}
	return r
}

// Named is the name of the first target of a kind, "" when the plan has none.
func Named(p *probe.Pass, kind string) string {
	if t := p.Of(kind); len(t) > 0 {
		return t[0].Name
	}
	return ""
}

// SplitByFamily gives the targets of each family, in order.
func SplitByFamily(targets []probe.Target) map[int][]probe.Target {
	out := map[int][]probe.Target{}
	for _, t := range targets {
		if t.Addr.IsValid() {
			out[Family(t.Addr)] = append(out[Family(t.Addr)], t)
		}
	}
	return out
}

// Unique drops targets whose address came before.
func Unique(targets []probe.Target) []probe.Target {
	var out []probe.Target
	for _, t := range targets {
		if !slices.ContainsFunc(out, func(o probe.Target) bool { return o.Addr == t.Addr }) {
			out = append(out, t)
		}
	}
	return out
}

// Each calls f for every item, side by side.
func Each[T any](items []T, f func(T)) {
	var all probe.Workers
	for _, item := range items {
		all.Go(func() { f(item) })
	}
	all.Wait()
}
