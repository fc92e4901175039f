package ask

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
)

// routeCanReachCheck binds route.RouteCanReach to the function that runs it.
var routeCanReachCheck = answers.To(route.RouteCanReach, routeCanReach)

func routeCanReach(_ context.Context, p *probe.Pass) {
	targets := node.Unique(p.Of(probe.KindNode, probe.KindPeer, probe.KindPod))
	if len(targets) == 0 {
		p.Report(node.Gap(p, probe.KindPod, "no other node or pod found"))
		return
	}
	own := p.Of(probe.KindSelf)
	for f, of := range node.SplitByFamily(own) {
		if r, ok := defaultRoute(f); ok && len(of) > 0 {
			p.Report(r.On(fmt.Sprintf("IPv%d default route", f)).With(probe.FactFamily, f))
		}
	}
	links, _ := kernel.Links()
	for _, t := range p.Of(probe.KindSession) { // the plan contains a few of the nodes, but all sessions
		same := func(o probe.Target) bool { return o.Addr == t.Addr }
		if ownedBy(links, t) != "" && !slices.ContainsFunc(targets, same) {
			targets = append(targets, t)
		}
	}
	for _, t := range targets {
		way, err := node.Lookup(t.Addr)
		r := judgeRoute(t, way, own)
		if err != nil {
			r = node.Unroutable(err)
		}
		if device := ownedBy(links, t); device != "" {
			r = probe.Found(probe.Fail, "%s is also an address of this node, on %s: packets to it never leave the node", t.Addr, device).
				With(route.FactOwnedBy, device)
		}
		p.Report(r.On(t.String()).With(probe.FactFamily, node.Family(t.Addr)).With(probe.FactNode, t.Node))
	}
}

// ownedBy returns the interface on this node that has another node's address, or "" if there is none.
func ownedBy(links []kernel.Link, t probe.Target) string {
	for _, l := range links {
		if t.Kind != probe.KindPod && l.Has(t.Addr.Unmap()) {
			return l.Name
		}
	}
	return ""
}

// defaultRoute reports whether there is a default route in any table. If the kernel does not report
// this, it returns false.
func defaultRoute(f int) (probe.Result, bool) {
	way, err := node.Lookup(node.DocumentationAddrs[f])
	switch {
	case errors.Is(err, syscall.ENETUNREACH):
		return probe.Found(probe.Info, "no default route").With(route.FactDefault, false), true
	case err != nil:
		return probe.Result{}, false
	}
	r := probe.Found(probe.OK, "dev %s", way.Device)
	if way.Gateway.IsValid() {
		r = probe.Found(probe.OK, "via %s dev %s", way.Gateway, way.Device).With(node.FactGateway, way.Gateway.String())
	}
	return r.With(route.FactDefault, true).With(probe.FactInterface, way.Device), true
}

func judgeRoute(t probe.Target, way node.Hop, own []probe.Target) probe.Result {
	var saw strings.Builder // in the format of 'ip route get'
	if way.Gateway.IsValid() {
		fmt.Fprintf(&saw, "via %s ", way.Gateway)
	}
	fmt.Fprintf(&saw, "dev %s src %s", way.Device, way.Source)
	if way.Match.IsValid() {
		fmt.Fprintf(&saw, ", route %s proto %s", way.Match, way.Proto)
	}
	r := probe.Found(probe.OK, "%s", &saw).With(probe.FactInterface, way.Device).With(probe.FactSource,
		way.Source.String())
	if way.Gateway.IsValid() {
		r = r.With(node.FactGateway, way.Gateway.String())
	}
	if way.Match.IsValid() {
		r = r.With(route.FactMatch, way.Match.String()).With(route.FactRouteProto, way.Proto)
	}
	if t.Kind == probe.KindPod && way.Match.IsValid() && way.Match.Bits() == 0 {
		r.Status = probe.Info
		r.Saw += ": only the default route matches this pod"
	}
	for _, o := range own {
		if t.Kind != probe.KindPod && node.Family(o.Addr) == node.Family(t.Addr) {
			r = r.With(probe.FactRegistered, o.Addr.String())
			if o.Addr != way.Source {
				r.Status = probe.Info
				r.Saw += fmt.Sprintf("; Calico registered %s for this node", o.Addr)
			}
		}
	}
	return r
}
