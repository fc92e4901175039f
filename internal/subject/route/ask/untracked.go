package ask

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
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
	kind   string // pod or service
	to     netip.AddrPort
	protos []int
	out    string   // the interface through which this node's own packets leave
	from   []origin // for a Service: its endpoints outside this node
}

// origin is an endpoint outside this node, and the interface through which its replies come in.
type origin struct {
	addr   netip.Addr
	device string
}

// here describes what is on the node: its pods with their interfaces, and the interfaces that lead to other nodes.
type here struct {
	pods          []netip.Addr
	podInterfaces []string
	uplinks       []string
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
	targets := destinations(ctx, p, links)
	found := matchUntracked(rules, targets, placeOf(p, targets))
	for _, r := range found {
		p.Report(r)
	}
	if len(found) == 0 {
		p.Report(probe.Found(probe.OK, "no foreign rule disables connection tracking for Services or pods"))
	}
}

// placeOf collects the interfaces of the node's pods, and the interfaces through which packets from
// other nodes come in.
func placeOf(p *probe.Pass, targets []destination) here {
	var out here
	add := func(to *[]string, device string) {
		if device != "" && !slices.Contains(*to, device) {
			*to = append(*to, device)
		}
	}
	for _, t := range p.Of(probe.KindLocal) {
		out.pods = append(out.pods, t.Addr.Unmap())
		add(&out.podInterfaces, deviceTo(t.Addr.Unmap()))
	}
	for _, t := range p.Of(probe.KindPod) {
		if device := deviceTo(t.Addr.Unmap()); !slices.Contains(out.podInterfaces, device) {
			add(&out.uplinks, device)
		}
	}
	for _, t := range targets {
		for _, o := range t.from {
			add(&out.uplinks, o.device)
		}
	}
	return out
}

// deviceTo returns the interface of the node's route to an address, or "" without a route.
func deviceTo(to netip.Addr) string {
	if !to.IsValid() {
		return ""
	}
	way, _, err := kernel.RouteOf(kernel.Packet{To: to})
	if err != nil || len(way.Hops) != 1 || way.Type == kernel.Local {
		return ""
	}
	return way.Hops[0].Device
}

// outside returns a Service's endpoints that are not on this node.
func outside(endpoints []netip.Addr, local []netip.Addr, links []kernel.Link) []origin {
	var out []origin
	for _, a := range endpoints {
		own := slices.ContainsFunc(links, func(l kernel.Link) bool { return l.Has(a) })
		if device := deviceTo(a); device != "" && !own && !slices.Contains(local, a) {
			out = append(out, origin{a, device})
		}
	}
	return out
}

// endpointsIn returns a Service's endpoints from the plan.
func endpointsIn(p *probe.Pass, t probe.Target) []netip.Addr {
	var out []netip.Addr
	for _, at := range t.Endpoints() {
		out = append(out, at.Addr().Unmap())
	}
	for _, o := range p.Of(t.Kind) {
		if strings.HasPrefix(o.Name, "endpoint") && o.Addr.IsValid() {
			out = append(out, o.Addr.Unmap())
		}
	}
	return out
}

// destinations lists Services and pods. It omits addresses of the node itself on which a process listens.
func destinations(ctx context.Context, p *probe.Pass, links []kernel.Link) []destination {
	pods := map[netip.Addr]bool{}
	var local []netip.Addr
	var out []destination
	add := func(t probe.Target, kind string, protos ...int) {
		if !t.Addr.IsValid() {
			return
		}
		to := netip.AddrPortFrom(t.Addr.Unmap(), uint16(t.Port))
		one := destination{text: t.String(), kind: kind, to: to, protos: protos, out: deviceTo(to.Addr())}
		if kind == "service" {
			one.from = outside(endpointsIn(p, t), local, links)
		}
		if i := slices.IndexFunc(links, func(l kernel.Link) bool { return l.Has(to.Addr()) }); i >= 0 {
			if t.Kind != probe.KindDNS || !errors.Is(reach.Connect(ctx, to).Err, syscall.ECONNREFUSED) {
				return
			}
			one.text += fmt.Sprintf(" (an address of this node's %s, with no listener)", links[i].Name)
		}
		out = append(out, one)
	}
	for _, t := range p.Of(probe.KindPod, probe.KindLocal) {
		pods[t.Addr] = true
		if t.Kind == probe.KindLocal {
			local = append(local, t.Addr.Unmap())
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

// untracks reports whether a rule matches packets to a destination. They come from the node or its pods. Packets to a
// pod may also come from other nodes.
func untracks(r kernel.PacketRule, d destination, at here) bool {
	if r.FromPorts != [2]int{} || !slices.ContainsFunc(d.protos, func(proto int) bool { return r.Matches(d.to, proto) }) {
		return false
	}
	if r.From.IsValid() && !slices.ContainsFunc(at.pods, r.From.Contains) {
		return false
	}
	enter := append([]string{""}, at.podInterfaces...)
	if d.kind == "pod" {
		enter = append(enter, at.uplinks...)
	}
	return r.Passes("output", "", d.out) ||
		slices.ContainsFunc(enter, func(in string) bool { return r.Passes("prerouting", in, "") })
}

// If a rule matches the replies of a Service, untracksReplies returns the interface through which they come in.
// Otherwise, it returns "". Replies go to a port that the client chose, so a rule for a specific port does not match
// them.
func untracksReplies(r kernel.PacketRule, d destination, at here) string {
	if r.FromPorts != [2]int{} || r.ToPorts != [2]int{} || r.Proto != 0 && !slices.Contains(d.protos, r.Proto) ||
		r.Family == 4 && d.to.Addr().Is6() || r.Family == 6 && d.to.Addr().Is4() ||
		r.To.IsValid() && !slices.ContainsFunc(at.pods, r.To.Contains) {
		return ""
	}
	i := slices.IndexFunc(d.from, func(o origin) bool {
		return (!r.From.IsValid() || r.From.Contains(o.addr)) && r.Passes("prerouting", o.device, "")
	})
	if i < 0 {
		return ""
	}
	return d.from[i].device
}

// matched describes what a rule matches.
type matched struct {
	hits, kinds []string
	replies     string // the interface of a Service's replies, "" if the rule matches packets to the Service
}

// matchesOf returns what a rule matches: packets to the destinations or, if there are none, the replies of Services.
func matchesOf(r kernel.PacketRule, targets []destination, at here) matched {
	var there, back matched
	for _, t := range targets {
		into := &there
		if !untracks(r, t, at) {
			device := untracksReplies(r, t, at)
			if device == "" {
				continue
			}
			into, back.replies = &back, device
		}
		into.hits = append(into.hits, t.text)
		if !slices.Contains(into.kinds, t.kind) {
			into.kinds = append(into.kinds, t.kind)
		}
	}
	if len(back.hits) > 0 && !slices.Contains(there.kinds, "service") {
		return back
	}
	return there
}

// matchUntracked returns the rules that match a destination, without duplicates.
func matchUntracked(rules []kernel.PacketRule, targets []destination, at here) []probe.Result {
	var out []probe.Result
	seen := map[string]bool{}
	for _, r := range rules {
		m := matchesOf(r, targets, at)
		if len(m.hits) == 0 || seen[r.String()] {
			continue
		}
		seen[r.String()] = true
		some := node.Some(m.hits)
		one := probe.Found(probe.Warn, "packets to %s are not tracked: policies that allow a connection drop its replies", some)
		switch {
		case r.Partly:
			one = probe.Found(probe.Info, "packets to %s may be untracked: the rule has further conditions", some)
		case m.replies != "":
			one = probe.Found(probe.Fail, "replies from %s that come in by %s are not tracked, so the kernel never "+
				"restores the Service's address in them", some, m.replies)
		case slices.Contains(m.kinds, "service"):
			one = probe.Found(probe.Fail, "packets to %s are not tracked, so the kernel never translates their address to a pod's", some)
		}
		one = one.On(r.String()).With(probe.FactRule, r.String()).With(route.FactMeant, node.First(m.hits)).
			With(route.FactTowards, m.kinds).With(probe.FactChain, r.Chain).With(probe.FactRawTable, r.Table)
		if r.Handle > 0 {
			one = one.With(route.FactHandle, r.Handle).With(route.FactTableFamily, r.TableFamily)
		}
		out = append(out, one.With(route.FactWall, r.Wall))
	}
	return out
}
