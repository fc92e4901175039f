package ask

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/httpget"
	"github.com/calico-probe/calico-probe/probe/icmp"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
	"github.com/calico-probe/calico-probe/probe/reach"
)

// neighbourReachCheck binds link.NeighbourReach to the function that runs it.
var neighbourReachCheck = answers.To(link.NeighbourReach, neighbourReach)

func neighbourReach(ctx context.Context, p *probe.Pass) {
	targets := p.Of(probe.KindOutside)
	if len(targets) == 0 {
		p.Report(probe.Found(probe.Skip, "needs a probe on another node, which only the client can start"))
		return
	}
	var bgp []int
	for _, t := range targets {
		if t.Attrs[probe.AttrScope] != "" {
			bgp = append(bgp, t.Port)
		}
	}
	up, err := node.Speaking(bgp...)
	got := testOutside(ctx, p, targets, up, err)
	alive := slices.ContainsFunc(got, func(s outsideResult) bool {
		return s.t.Name == s.t.Node && s.t.Attrs[probe.AttrReference] == "" && hasAnswered(s.r)
	})
	for f, pinged := range node.SplitByFamily(pingable(targets)) {
		table := awaitNeighbours(ctx, pinged, f, alive)
		for i, s := range got {
			if s.t.Port == 0 && node.Family(s.t.Addr) == f {
				got[i].r = addNeighbour(s.r, stateOf(table, s.t.Addr))
			}
		}
	}
	for _, t := range targets { // in the order of the plan
		i := slices.IndexFunc(got, func(s outsideResult) bool {
			return s.t.Kind == t.Kind && s.t.Name == t.Name && s.t.Addr == t.Addr && s.t.Port == t.Port
		})
		r := downgradeExcused(t, got[i].r, alive)
		if t.Port > 0 {
			r = r.With(probe.FactPort, t.Port)
		}
		if t.Attrs[probe.AttrReference] != "" {
			r = r.With(link.FactReference, true)
		}
		p.Report(r.On(outsideName(t, targets)))
	}
}

// pingable returns the targets that have no port.
func pingable(targets []probe.Target) []probe.Target {
	return slices.DeleteFunc(slices.Clone(targets), func(t probe.Target) bool { return t.Port > 0 })
}

// testOutside tests all targets in parallel. up lists the peers that have a BGP session, if they are known.
func testOutside(ctx context.Context, p *probe.Pass, targets []probe.Target, up map[netip.Addr]bool,
	err error) []outsideResult {
	var mu sync.Mutex
	var got []outsideResult
	note := func(t probe.Target, r probe.Result) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, outsideResult{t, r.With(probe.FactFamily, node.Family(t.Addr)).With(probe.FactNode, t.Node)})
	}
	asking, cancel := context.WithTimeout(ctx, probe.DefaultLimit)
	defer cancel()
	var all probe.Workers
	for _, pinged := range node.SplitByFamily(pingable(targets)) {
		all.Go(func() {
			pingOutside(asking, pinged, func(t probe.Target, r probe.Result) { note(t, addPathMTU(asking, t, r)) })
		})
	}
	for _, t := range targets {
		switch {
		case t.Port == 0:
		case t.Port == node.PortKubelet:
			all.Go(func() { note(t, reachKubelet(asking, netip.AddrPortFrom(t.Addr, uint16(t.Port)))) })
		case t.Attrs[probe.AttrScope] == "":
			all.Go(func() { note(t, reach.Connect(asking, netip.AddrPortFrom(t.Addr, uint16(t.Port))).Result(asking)) })
		case err != nil: // there may be a session
			note(t, node.Unseen(err))
		case up[t.Addr]:
			// A session is up until its hold time expires, even if the node is dead.
			note(t, probe.Found(probe.Skip, "not tested: the BGP session is up, see bgp-session"))
		default:
			all.Go(func() {
				r := reach.DialBGP(asking, up, selfOf(p, t.Addr), netip.AddrPortFrom(t.Addr, uint16(t.Port)))
				note(t, retractUnsigned(r, p.Of(probe.KindSession), p.Gaps[probe.KindSession], t.Addr))
			})
		}
	}
	all.Wait()
	return got
}

// addPathMTU measures which packet sizes reach a node that answers pings. If full-size packets are lost, it adds that
// to the ping's result. Connections then open but hang, including those from the API server to the kubelet.
func addPathMTU(ctx context.Context, t probe.Target, r probe.Result) probe.Result {
	if r.Status != probe.OK || t.Name != t.Node || t.Attrs[probe.AttrReference] != "" {
		return r
	}
	m := reach.PathMTU(ctx, t.Addr)
	if m.Status != probe.Fail {
		return r
	}
	r.Saw += "; " + m.Saw
	for _, fact := range []probe.Fact{probe.FactPasses, probe.FactPromised, node.FactSmallest, node.FactDevice} {
		r = r.With(fact, m.Facts[fact])
	}
	return r
}

// reachKubelet connects to a kubelet and sends a request without credentials. The kernel accepts connections even if
// the kubelet is frozen, but only a working kubelet rejects the request.
func reachKubelet(ctx context.Context, to netip.AddrPort) probe.Result {
	r := reach.Connect(ctx, to).Result(ctx)
	if r.Status != probe.OK {
		return r
	}
	one, limit, cancel := node.Part(ctx, 3)
	defer cancel()
	page, err := httpget.Get(one, fmt.Sprintf("https://%s/healthz", to), httpget.Options{Most: 1 << 10})
	switch {
	case err == nil:
		r.Saw += fmt.Sprintf(", and the kubelet answers (%d)", page.Code)
		return r.With(link.FactSpeaks, true).With(probe.FactCode, page.Code)
	case probe.Reason(err) == "timeout" && ctx.Err() == nil && !errors.Is(err, httpget.ErrNotAccepted):
		r.Saw += fmt.Sprintf(", but the kubelet does not answer a request within %v", limit)
		return r.With(link.FactSpeaks, false)
	}
	return r
}

// retractUnsigned retracts a failure that a password may explain. If the BGP daemon requires signatures (TCP MD5), the
// kernel silently drops unsigned connections. sessions lists the sessions configured for this node. gap is the reason
// why they are unknown.
func retractUnsigned(r probe.Result, sessions []probe.Target, gap string, to netip.Addr) probe.Result {
	secret := slices.ContainsFunc(sessions,
		func(t probe.Target) bool { return t.Addr == to && t.Attrs[probe.AttrPassword] != "" })
	if secret {
		r = r.With(probe.FactPassword, true)
	}
	if r.Status != probe.Fail || r.Facts.Str(probe.FactReason) != "timeout" {
		return r
	}
	switch {
	case secret:
		r.Status, r.Saw = probe.Unknown,
			r.Saw+"; the session has a password, and a connection without it times out too"
	case gap != "":
		r.Status, r.Saw = probe.Unknown, r.Saw+"; unknown whether the session has a password: "+gap
	}
	return r
}

// outsideResult is the result of testing one target from this node.
type outsideResult struct {
	t probe.Target
	r probe.Result
}

// selfOf returns this node's address in Calico, from which peers expect its connections.
func selfOf(p *probe.Pass, to netip.Addr) netip.Addr {
	for _, own := range p.Of(probe.KindSelf) {
		if node.Family(own.Addr) == node.Family(to) {
			return own.Addr
		}
	}
	return netip.Addr{}
}

// hasAnswered reports whether the machine itself answered. A refusal is also an answer.
func hasAnswered(r probe.Result) bool {
	return r.Status == probe.OK || r.Facts.Str(probe.FactReason) == "refused"
}

// portSSH is sshd's default port.
const portSSH = 22

// downgradeExcused retracts a failure that alone proves nothing: some nodes do not run sshd, and
// some networks block pings.
func downgradeExcused(t probe.Target, r probe.Result, alive bool) probe.Result {
	if r.Status == probe.Fail && alive && t.Name == t.Node && (t.Port == 0 || t.Port == portSSH) {
		r.Status = probe.Info
	}
	return r
}

// outsideName returns the name of a test: "node-b icmp", "node-b tcp 22", "node-b pod default/web-1". If several
// of the node's addresses are tested, the name includes the address.
func outsideName(t probe.Target, all []probe.Target) string {
	what := t.Name
	if slices.ContainsFunc(all, func(o probe.Target) bool { return o.Name == t.Name && o.Addr != t.Addr }) {
		what = t.String()
	}
	switch {
	case t.Name != t.Node:
		return fmt.Sprintf("%s pod %s", t.Node, what)
	case t.Port == 0:
		return what + " icmp"
	}
	return fmt.Sprintf("%s tcp %d", what, t.Port)
}

// pingOutside pings the targets in one address family.
func pingOutside(ctx context.Context, targets []probe.Target, note func(probe.Target, probe.Result)) {
	addrs := make([]netip.Addr, len(targets))
	for i, t := range targets {
		addrs[i] = t.Addr
	}
	stats, err := icmp.Ping(ctx, addrs, icmp.Quick)
	for i, t := range targets {
		if err != nil {
			note(t, probe.Failed(err))
			continue
		}
		r := reach.Pinged(stats[i], icmp.Quick)
		if r.Status == probe.Fail && r.Facts.Str(probe.FactReason) == "" {
			reason := "timeout"
			if stats[i].Bounced != "" {
				reason = "host-unreachable"
			}
			r = r.With(probe.FactReason, reason)
		}
		note(t, r.Under(t, probe.DeniesIngress))
	}
}

// awaitNeighbours returns the kernel's neighbour table. The kernel trusts an address that it heard from recently for
// five seconds. It then sends three requests, one second apart (delay_first_probe_time, ucast_solicit: neighbour
// states delay and probe). If a node has not answered otherwise, awaitNeighbours waits until this process is over.
func awaitNeighbours(ctx context.Context, targets []probe.Target, f int, alive bool) []kernel.Neighbour {
	for {
		// Without the table, the result has less detail but is still valid.
		table, err := neighbours(f)
		undecided := slices.ContainsFunc(targets, func(t probe.Target) bool {
			return slices.Contains([]string{"delay", "probe"}, stateOf(table, t.Addr))
		})
		late, bounded := ctx.Deadline()
		if err != nil || alive || !undecided || bounded && time.Until(late) < time.Second {
			return table
		}
		select {
		case <-ctx.Done():
			return table
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// addNeighbour adds the entry from the neighbour table to the result of a ping.
func addNeighbour(r probe.Result, state string) probe.Result {
	if state == "" {
		return r
	}
	if r.Status == probe.Fail && (state == "failed" || state == "incomplete") {
		r.Saw += fmt.Sprintf("; no answer to ARP or NDP on the link (neighbour entry %s)", state)
	}
	return r.With(link.FactNeighbour, state)
}
