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

// Unseen turns an error from reading the node into a result. The result is skip if this access method does not show
// the path, and unknown otherwise.
func Unseen(err error) probe.Result {
	if errors.Is(err, probe.ErrNotVisible) || errors.Is(err, errors.ErrUnsupported) {
		return probe.Found(probe.Skip, "%v", err)
	}
	return probe.Failed(err)
}

// Part limits one of a check's waits to a number of fifths of the check's remaining time, so --check-timeout also
// changes the inner limits. The second value is that limit.
func Part(ctx context.Context, fifths int) (context.Context, time.Duration, context.CancelFunc) {
	limit := probe.DefaultLimit
	if at, ok := ctx.Deadline(); ok {
		limit = time.Until(at)
	}
	limit = limit * time.Duration(fifths) / 5
	ctx, cancel := context.WithTimeout(ctx, limit)
	return ctx, limit.Round(10 * time.Millisecond), cancel
}

// CutShort returns the result of a query if the query was interrupted from outside before its own time was over. It
// also reports whether that was the case.
func CutShort(ctx context.Context, err error) (probe.Result, bool) {
	if ctx.Err() == nil && !errors.Is(err, context.Canceled) {
		return probe.Result{}, false
	}
	if errors.Is(err, context.Canceled) {
		return probe.Found(probe.Unknown, "interrupted before an answer arrived"), true
	}
	return probe.Found(probe.Unknown, "interrupted before an answer arrived: %v", err), true
}

// Gap returns the result of a check that has no targets. It is unknown if the plan reports that the targets could
// not be listed, and skip otherwise.
func Gap(p *probe.Pass, kind, none string) probe.Result {
	if err := Unlisted(p, kind); err != nil {
		return Unseen(fmt.Errorf("the targets are unknown: %w", err))
	}
	if len(p.Targets) == 0 {
		return probe.Found(probe.Skip, "unknown: the API was not queried")
	}
	return probe.Found(probe.Skip, "%s", none)
}

// Unlisted returns the reason why the plan lacks the targets of a kind, or nil if the plan has them.
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

// About adds the state of the target's node in the API to a result. If that node is not ready, a failure is
// expected. If a network policy may cause the failure, the failure is not certain. A node always reaches its own
// pods, because policies must allow the kubelet's probes.
func About(r probe.Result, t probe.Target) probe.Result {
	if t.Kind != probe.KindLocal {
		r = r.Under(t, probe.DeniesIngress)
	}
	if state := t.Attrs[probe.AttrNode]; state != "" && r.Status != probe.OK {
		if r.Status == probe.Fail { // a fault of the other node, not of this one
			r.Status = probe.Warn
		}
		r.Saw += fmt.Sprintf("; the API reports %s as %s", t.Node, state)
		r = r.With(probe.FactNodeState, state)
	}
	return r
}

// Named returns the name of the first target of a kind, or "" if the plan has no such target.
func Named(p *probe.Pass, kind string) string {
	if t := p.Of(kind); len(t) > 0 {
		return t[0].Name
	}
	return ""
}

// SplitByFamily returns the targets of each address family, in order.
func SplitByFamily(targets []probe.Target) map[int][]probe.Target {
	out := map[int][]probe.Target{}
	for _, t := range targets {
		if t.Addr.IsValid() {
			out[Family(t.Addr)] = append(out[Family(t.Addr)], t)
		}
	}
	return out
}

// Unique removes targets whose address is repeated.
func Unique(targets []probe.Target) []probe.Target {
	var out []probe.Target
	for _, t := range targets {
		if !slices.ContainsFunc(out, func(o probe.Target) bool { return o.Addr == t.Addr }) {
			out = append(out, t)
		}
	}
	return out
}

// Each calls f concurrently for every item.
func Each[T any](items []T, f func(T)) {
	var all probe.Workers
	for _, item := range items {
		all.Go(func() { f(item) })
	}
	all.Wait()
}
