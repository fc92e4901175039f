package checks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
)

// RouteCanReach asks the kernel what it would do with a packet, which is what
// Calico's can-reach autodetection does to pick an address.
var RouteCanReach = &probe.Check{
	ID: "route-can-reach", Asks: "by which route and from which address does the kernel send to nodes and pods?",
	From: probe.FromNode,
	Tags: []string{tagNetwork}, Access: []string{"host network", "netlink"}, Run: routeCanReach,
	Doc: `The kernel is asked through netlink for the route to each other node, each address Calico registered for it, and a pod there: interface, gateway, source address, the route that matches and who made it.
ok: there is a route. fail: there is none, or one that forbids (unreachable, blackhole, prohibit).
info: a pod is reached by the default route alone, so BIRD or Felix has made no route for its block; normal where the underlying network routes pods itself, otherwise the reason why pod-ping fails.
Told beside it is the default route of each family in which Calico registered an address: info where there is none. Nothing is wrong with that alone, unless service addresses (which no other route covers) or names outside are to be reached.
fail: an address of another node, or of a BGP peer, is an address of this node as well: what is sent there never leaves.
info: towards another node the kernel uses a source address that is not the one Calico registered for this node; peers that expect the registered one refuse the session.`,
}

// Facts of the route check.
const (
	FactInterface  probe.Fact = "interface"
	FactGateway    probe.Fact = "gateway"
	FactMatch      probe.Fact = "match"      // the route that matches, as a prefix
	FactRouteProto probe.Fact = "proto"      // who made it: bird, kernel, boot, felix, ...
	FactDefault    probe.Fact = "default"    // whether there is a default route
	FactRegistered probe.Fact = "registered" // the address Calico registered for this node
	FactOwnedBy    probe.Fact = "owned_by"   // the interface of this node that has another node's address too
)

// hop is what the kernel does with packets to one address.
type hop struct {
	device  string
	gateway netip.Addr // invalid when the target is on the link
	source  netip.Addr
	match   netip.Prefix // the route that matches; invalid where the kernel does not tell
	proto   string       // who made it
}

// lookup asks the kernel for the way to an address. An error of the kernel's own
// wraps its errno.
func lookup(to netip.Addr) (hop, error) {
	way, matched, err := kernel.RouteOf(kernel.Packet{To: to})
	if err != nil {
		return hop{}, err
	}
	first := way.Hops[0]
	out := hop{device: first.Device, gateway: first.Gateway, source: way.Source}
	if matched != nil {
		out.match, out.proto = matched.To, kernel.ProtocolName(matched.Proto)
	}
	return out, nil
}

func routeCanReach(_ context.Context, p *probe.Pass) {
	targets := unique(p.Of(probe.KindNode, probe.KindPeer, probe.KindPod))
	if len(targets) == 0 {
		p.Report(gap(p, probe.KindPod, "no other node or pod is known"))
		return
	}
	own := p.Of(probe.KindSelf)
	for f, of := range splitByFamily(own) {
		if r, ok := defaultRoute(f); ok && len(of) > 0 {
			p.Report(r.On(fmt.Sprintf("IPv%d default route", f)).With(FactFamily, f))
		}
	}
	links, _ := kernel.Links()
	for _, t := range p.Of(probe.KindSession) { // of nodes the plan has a few, of sessions all
		same := func(o probe.Target) bool { return o.Addr == t.Addr }
		if ownedBy(links, t) != "" && !slices.ContainsFunc(targets, same) {
			targets = append(targets, t)
		}
	}
	for _, t := range targets {
		way, err := lookup(t.Addr)
		r := routed(t, way, own)
		if err != nil {
			r = unroutable(err)
		}
		if device := ownedBy(links, t); device != "" {
			r = probe.Found(probe.Fail, "%s is an address of this node too, on %s: what is sent there never leaves", t.Addr, device).
				With(FactOwnedBy, device)
		}
		p.Report(r.On(t.String()).With(FactFamily, family(t.Addr)).With(probe.FactNode, t.Node))
	}
}

// ownedBy is the interface of this node that has the address of another one, "" where none has.
func ownedBy(links []kernel.Link, t probe.Target) string {
	for _, l := range links {
		if t.Kind != probe.KindPod && l.Has(t.Addr.Unmap()) {
			return l.Name
		}
	}
	return ""
}

// nobodys are addresses that are nobody's (RFC 5737, RFC 3849): only a default route leads there.
var nobodys = map[int]netip.Addr{4: netip.MustParseAddr("198.51.100.1"), 6: netip.MustParseAddr("2001:db8::1")}

// defaultRoute tells whether there is a route for what no other one covers, in whichever table;
// false where the kernel does not say.
func defaultRoute(f int) (probe.Result, bool) {
	way, err := lookup(nobodys[f])
	switch {
	case errors.Is(err, syscall.ENETUNREACH):
		return probe.Found(probe.Info, "there is no default route").With(FactDefault, false), true
	case err != nil:
		return probe.Result{}, false
	}
	r := probe.Found(probe.OK, "by %s", way.device)
	if way.gateway.IsValid() {
		r = probe.Found(probe.OK, "by %s through %s", way.device, way.gateway).With(FactGateway, way.gateway.String())
	}
	return r.With(FactDefault, true).With(FactInterface, way.device), true
}

// unroutable judges what the kernel answers instead of a route.
func unroutable(err error) probe.Result {
	var invalid *kernel.Invalid
	if errors.As(err, &invalid) {
		return probe.Found(probe.Fail, "%s", invalid.Says()).With(probe.FactReason, cmp.Or(string(invalid.Means), "invalid"))
	}
	for errno, saw := range map[syscall.Errno]string{
		syscall.ENETUNREACH:  "the kernel has no route to it",
		syscall.EHOSTUNREACH: "an unreachable route rejects it",
		syscall.EACCES:       "a prohibit route rejects it",
	} {
		if errors.Is(err, errno) {
			return probe.Found(probe.Fail, "%s", saw).With(probe.FactReason, probe.Reason(err))
		}
	}
	return unseen(err)
}

func routed(t probe.Target, way hop, own []probe.Target) probe.Result {
	var saw strings.Builder
	fmt.Fprintf(&saw, "by %s", way.device)
	if way.gateway.IsValid() {
		fmt.Fprintf(&saw, " through %s", way.gateway)
	}
	fmt.Fprintf(&saw, " from %s", way.source)
	if way.match.IsValid() {
		fmt.Fprintf(&saw, ", route %s made by %s", way.match, way.proto)
	}
	r := probe.Found(probe.OK, "%s", &saw).With(FactInterface, way.device).With(FactSource, way.source.String())
	if way.gateway.IsValid() {
		r = r.With(FactGateway, way.gateway.String())
	}
	if way.match.IsValid() {
		r = r.With(FactMatch, way.match.String()).With(FactRouteProto, way.proto)
	}
	if t.Kind == probe.KindPod && way.match.IsValid() && way.match.Bits() == 0 {
		r.Status = probe.Info
		r.Saw += ": only the default route leads to this pod"
	}
	for _, o := range own {
		if t.Kind != probe.KindPod && family(o.Addr) == family(t.Addr) {
			r = r.With(FactRegistered, o.Addr.String())
			if o.Addr != way.source {
				r.Status = probe.Info
				r.Saw += fmt.Sprintf("; Calico registered %s for this node", o.Addr)
			}
		}
	}
	return r
}
