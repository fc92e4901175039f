package ask

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
	"github.com/calico-probe/calico-probe/probe/reach"
)

// untrackedCheck binds route.Untracked to the function that runs it.
var untrackedCheck = answers.To(route.Untracked, untracked)

// destination is a destination of packets that a rule may match.
type destination struct {
	text   string
	kind   string
	to     netip.AddrPort
	protos []int
}

func untracked(ctx context.Context, p *probe.Pass) {
	rules, err := kernel.Untracked(p.Host)
	if err != nil {
		p.Report(node.Unseen(err))
		return
	}
	links, err := kernel.Links()
	if err != nil {
		p.Report(node.Unseen(err))
		return
	}
	var local []netip.Addr
	for _, t := range p.Of(probe.KindLocal) {
		local = append(local, t.Addr.Unmap())
	}
	found := matchUntracked(rules, destinations(ctx, p, links), local)
	for _, r := range found {
		p.Report(r)
	}
	if len(found) == 0 {
		p.Report(probe.Found(probe.OK, "no foreign rule disables connection tracking for Services or pods"))
	}
}

// destinations lists Services and pods, except for addresses of the node itself that have a listener.
func destinations(ctx context.Context, p *probe.Pass, links []kernel.Link) []destination {
	pods := map[netip.Addr]bool{}
	var out []destination
	add := func(t probe.Target, kind string, protos ...int) {
		if !t.Addr.IsValid() {
			return
		}
		one := destination{t.String(), kind, netip.AddrPortFrom(t.Addr.Unmap(), uint16(t.Port)), protos}
		if i := slices.IndexFunc(links, func(l kernel.Link) bool { return l.Has(one.to.Addr()) }); i >= 0 {
			if t.Kind != probe.KindDNS || !errors.Is(reach.Connect(ctx, one.to).Err, syscall.ECONNREFUSED) {
				return
			}
			one.text += fmt.Sprintf(" (an address of this node's %s, with no listener)", links[i].Name)
		}
		out = append(out, one)
	}
	for _, t := range p.Of(probe.KindPod, probe.KindLocal) {
		pods[t.Addr] = true
		if t.Kind == probe.KindLocal {
			add(t, "pod", node.ProtoTCP)
		}
	}
	for _, t := range p.Of(probe.KindService) {
		add(t, "service", node.ProtoTCP)
	}
	for _, t := range p.Of(probe.KindDNS) {
		if t.Name == "service" && !pods[t.Addr] {
			add(t, "service", node.ProtoUDP, node.ProtoTCP)
		}
	}
	for _, t := range p.Of(probe.KindDatastore) {
		if t.Name == "service" {
			add(t, "service", node.ProtoTCP)
		}
	}
	return out
}

// matchUntracked returns the rules that match a destination, without duplicates. local has the addresses of pods here.
func matchUntracked(rules []kernel.PacketRule, targets []destination, local []netip.Addr) []probe.Result {
	var out []probe.Result
	seen := map[string]bool{}
	for _, r := range rules {
		fromPods := !r.From.IsValid() || slices.ContainsFunc(local, r.From.Contains)
		var hits, kinds []string
		for _, t := range targets {
			matches := slices.ContainsFunc(t.protos, func(proto int) bool { return r.Matches(t.to, proto) })
			if matches && fromPods && r.FromPorts == [2]int{} {
				hits = append(hits, t.text)
				if !slices.Contains(kinds, t.kind) {
					kinds = append(kinds, t.kind)
				}
			}
		}
		if len(hits) == 0 || seen[r.String()] {
			continue
		}
		seen[r.String()] = true
		one := probe.Found(probe.Warn, "packets to %s are not tracked: policies that allow a connection drop its replies", node.Some(hits))
		switch {
		case r.Partly:
			one = probe.Found(probe.Info, "packets to %s may be untracked: the rule has further conditions", node.Some(hits))
		case slices.Contains(kinds, "service"):
			one = probe.Found(probe.Fail, "packets to %s are not tracked, so the kernel never translates their address to a pod's", node.Some(hits))
		}
		out = append(out, one.On(r.String()).With(probe.FactRule, r.String()).With(route.FactMeant, node.First(hits)).
			With(route.FactTowards, kinds).With(probe.FactChain, r.Chain).With(probe.FactRawTable, r.Table))
	}
	return out
}
