package checks

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/icmp"
)

// NeighbourReach looks at another node from outside. It is all there is of a node
// on which nothing can be started: a machine that is off, one that is cut off, and one
// whose kubelet is dead look the same to the API.
var NeighbourReach = &probe.Check{
	ID: "neighbour-reach", Asks: "how does the node look from its neighbours?", From: probe.FromNode, In: probe.Standard,
	Tags: []string{tagNetwork}, Access: []string{"host network", "netlink", "NET_RAW"}, Run: neighbourReach,
	Doc: `Asked by probes on other nodes about the node in question, when something is wrong there or no probe can be put on it: does it answer a ping, connections to sshd, to its kubelet and to BGP, and does a workload pod of it answer a ping by the way pods' packets take? BGP's port is not asked where a session stands.
ok: it answers. fail, timeout: nothing comes back. fail, refused: the machine answers and nothing listens there: on the kubelet's port, the kubelet is down and the machine is not. fail, host-unreachable: nobody on the link answers for the address. Where both share a link, the state of the ARP entry tells a machine that is off or cut off (failed, incomplete) from one that drops packets (reachable).
info: sshd does not answer and something else does, as many nodes have none; or a ping does not come back and something else does, as where a network lets none through.
warn or unknown, of a pod: a network policy may forbid the ping. skip: there is no other node to ask from. None of these answers counts in the verdict about the node; causes may rest on them.`,
}

func neighbourReach(ctx context.Context, p *probe.Pass) {
	targets := p.Of(probe.KindOutside)
	if len(targets) == 0 {
		p.Report(probe.Found(probe.Skip, "is asked by a probe on another node, which only the client can place"))
		return
	}
	var bgp []int
	for _, t := range targets {
		if t.Attrs[probe.AttrScope] != "" {
			bgp = append(bgp, t.Port)
		}
	}
	up, err := speaking(bgp...)
	var mu sync.Mutex
	var got []seenFrom
	note := func(t probe.Target, r probe.Result) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, seenFrom{t, r.With(FactFamily, family(t.Addr)).With(FactNode, t.Node)})
	}
	byFamily := splitByFamily(slices.DeleteFunc(slices.Clone(targets), func(t probe.Target) bool { return t.Port > 0 }))
	var all sync.WaitGroup
	for f, pinged := range byFamily {
		all.Go(func() { pingOutside(ctx, pinged, f, note) })
	}
	for _, t := range targets {
		switch {
		case t.Port == 0:
		case t.Attrs[probe.AttrScope] == "":
			all.Go(func() { note(t, connect(ctx, netip.AddrPortFrom(t.Addr, uint16(t.Port))).result(ctx)) })
		case err != nil: // then a session may stand
			note(t, unseen(err))
		default:
			all.Go(func() { note(t, dialBGP(ctx, up, selfOf(p, t.Addr), netip.AddrPortFrom(t.Addr, uint16(t.Port)))) })
		}
	}
	all.Wait()
	alive := slices.ContainsFunc(got, func(s seenFrom) bool { return s.t.Name == s.t.Node && answers(s.r) })
	for _, t := range targets { // in the plan's order
		i := slices.IndexFunc(got, func(s seenFrom) bool {
			return s.t.Kind == t.Kind && s.t.Name == t.Name && s.t.Addr == t.Addr && s.t.Port == t.Port
		})
		r := excused(t, got[i].r, alive)
		if t.Port > 0 {
			r = r.With(FactPort, t.Port)
		}
		p.Report(r.On(outsideName(t, targets)))
	}
}

// seenFrom is what was seen of a target from here.
type seenFrom struct {
	t probe.Target
	r probe.Result
}

// selfOf is the address Calico registered for the node that is asked from, which
// peers expect its connections from.
func selfOf(p *probe.Pass, to netip.Addr) netip.Addr {
	for _, own := range p.Of(probe.KindSelf) {
		if family(own.Addr) == family(to) {
			return own.Addr
		}
	}
	return netip.Addr{}
}

// answers tells whether the machine itself was heard: a refusal is an answer too.
func answers(r probe.Result) bool {
	return r.Status == probe.OK || r.Facts.Str(probe.FactReason) == "refused"
}

// portSSH is where sshd listens unless it is told otherwise.
const portSSH = 22

// excused takes back a fail that alone means nothing: not every node has an sshd,
// and not every network lets a ping through.
func excused(t probe.Target, r probe.Result, alive bool) probe.Result {
	if r.Status == probe.Fail && alive && t.Name == t.Node && (t.Port == 0 || t.Port == portSSH) {
		r.Status = probe.Info
	}
	return r
}

// outsideName names what was asked: "node-b icmp", "node-b tcp 22", "node-b pod
// default/web-1"; the address too where the node has several that were asked.
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

// pingOutside pings targets of one family, and says of those that are silent whether
// the link knows them.
func pingOutside(ctx context.Context, targets []probe.Target, f int, note func(probe.Target, probe.Result)) {
	addrs := make([]netip.Addr, len(targets))
	for i, t := range targets {
		addrs[i] = t.Addr
	}
	stats, err := icmp.Ping(ctx, addrs)
	if err != nil {
		for _, t := range targets {
			note(t, probe.Failed(err))
		}
		return
	}
	// Without the table there is less to tell and nothing amiss.
	table, _ := neighbours(f)
	for i, t := range targets {
		r := pinged(stats[i])
		if r.Status == probe.Fail && r.Facts.Str(probe.FactReason) == "" {
			reason := "timeout"
			if stats[i].Bounced != "" {
				reason = "host-unreachable"
			}
			r = r.With(probe.FactReason, reason)
		}
		// An entry that is being looked for again (delay, probe) tells nothing yet.
		switch state := stateOf(table, t.Addr); {
		case state == "":
		case r.Status == probe.Fail && (state == "failed" || state == "incomplete"):
			r.Saw += fmt.Sprintf("; nobody on the link answers for it (neighbour entry %s)", state)
			r = r.With(FactNeighbour, state)
		default:
			r = r.With(FactNeighbour, state)
		}
		note(t, r.Under(t))
	}
}
