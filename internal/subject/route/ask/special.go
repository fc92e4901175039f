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
)

// routeSpecialCheck binds route.RouteSpecial to the function that runs it.
var routeSpecialCheck = answers.To(route.RouteSpecial, routeSpecial)

// gatewayOfPods is the pods' IPv4 gateway, which is the same on all nodes.
var gatewayOfPods = netip.MustParseAddr("169.254.1.1")

// maxSpecial is the maximum number of routes to keep in memory, because fail2ban and similar tools
// may add one route for each banned address.
const maxSpecial = 20000

// targetWord maps kinds of targets to the words in FactTowards.
var targetWord = map[string]string{probe.KindNode: "node", probe.KindPeer: "node", probe.KindSession: "node",
	probe.KindPod: "pod", probe.KindLocal: "pod", probe.KindService: "service", probe.KindDNS: "service",
	probe.KindDatastore: "api", probe.KindTypha: "typha", probe.KindEncap: "node"}

// misdirection is a route or rule, and the targets that it affects.
type misdirection struct {
	route  kernel.Route
	rule   *kernel.Rule // the rule that drops packets; nil = the route drops them
	family int
	nodes  []string
	hits   []string
	kinds  []string
	astray bool
}

func routeSpecial(_ context.Context, p *probe.Pass) {
	targets := p.Of(probe.KindNode, probe.KindPeer, probe.KindDatastore, probe.KindPod, probe.KindLocal, probe.KindService,
		probe.KindDNS, probe.KindTypha, probe.KindSession)
	if len(p.Of(probe.KindLocal)) > 0 {
		targets = append(targets, probe.Target{Kind: "gateway", Name: "the gateway of pods", Addr: gatewayOfPods})
	}
	targets = slices.DeleteFunc(node.Unique(targets), func(t probe.Target) bool { return !t.Addr.IsValid() })
	if len(targets) == 0 {
		p.Report(node.Gap(p, probe.KindNode, "no other node or pod found"))
		return
	}
	links, err := kernel.Links()
	if err != nil {
		p.Report(node.Unseen(err))
		return
	}
	var found []misdirection
	for f, of := range node.SplitByFamily(targets) {
		special, err := kernel.Routes(f, 0, maxSpecial, isSpecial)
		if err != nil {
			p.Report(node.Unseen(err).On(node.FamilyText(f)).With(probe.FactFamily, f))
			continue
		}
		rules, err := kernel.Rules(f)
		if err != nil {
			p.Report(node.Unseen(err).On(node.FamilyText(f)).With(probe.FactFamily, f))
		}
		found = append(found, findMisdirected(special, rules, links, of[:min(len(of), 200)])...)
	}
	for _, m := range found {
		p.Report(m.result())
	}
	if len(found) == 0 {
		p.Report(probe.Found(probe.OK, "no foreign route drops traffic to %d nodes, pods and Services", len(targets)))
	}
}

// isSpecial reports whether a route drops packets. The kernel's own routes, and routes for a block, do not count.
func isSpecial(r kernel.Route) bool {
	made := kernel.ProtocolName(r.Proto)
	return slices.Contains(dropping, r.TypeName()) && !slices.Contains([]string{"kernel", "bird", "felix"}, made)
}

var dropping = []string{"blackhole", "unreachable", "prohibit"}

// findMisdirected looks up the route to each target. It finds the routes and rules that misdirect the target's packets.
func findMisdirected(special []kernel.Route, rules []kernel.Rule, links []kernel.Link,
	targets []probe.Target) []misdirection {
	var out []misdirection
	for _, t := range targets {
		way, matched, err := kernel.RouteOf(kernel.Packet{To: t.Addr})
		var by *kernel.Route
		rule := findRejecting(rules, t)
		switch {
		case rule != nil:
		case errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.EACCES):
			by = longestPrefix(special, t.Addr)
		case err == nil && matched != nil && isForeignLocal(*matched):
			by = matched
		case err == nil && matched != nil && targetWord[t.Kind] == "node" && bypassesLink(links, t.Addr, way, *matched):
			by = matched
		}
		var one misdirection
		switch {
		case by != nil:
			one = misdirection{route: *by, family: node.Family(t.Addr), astray: err == nil && by.Type != kernel.Local}
		case rule != nil:
			one = misdirection{rule: rule, family: node.Family(t.Addr)}
		default:
			continue
		}
		i := slices.IndexFunc(out, func(m misdirection) bool { return m.name() == one.name() })
		if i < 0 {
			i, out = len(out), append(out, one)
		}
		out[i].hits = append(out[i].hits, t.String())
		if kind := targetWord[t.Kind]; !slices.Contains(out[i].kinds, kind) {
			out[i].kinds = append(out[i].kinds, kind)
		}
		if t.Node != "" && !slices.Contains(out[i].nodes, t.Node) {
			out[i].nodes = append(out[i].nodes, t.Node)
		}
	}
	return out
}

// name returns the route or rule as the 'ip' command shows it.
func (m misdirection) name() string {
	if m.rule != nil {
		return m.rule.String()
	}
	return m.route.String()
}

// findRejecting returns the rule that drops all packets from this node to a target, or nil. If an earlier table (other
// than local) might have a route, the kernel's own lookup decides.
func findRejecting(rules []kernel.Rule, t probe.Target) *kernel.Rule {
	protocol := 0
	if t.Kind == probe.KindDatastore || t.Kind == probe.KindTypha { // for the other targets, the protocol is unknown
		protocol = syscall.IPPROTO_TCP
	}
	for i, r := range rules {
		switch {
		case r.Rejects && r.TakesAll(t.Addr, protocol, t.Port):
			return &rules[i]
		case !r.Rejects && r.Table != kernel.TableLocal:
			return nil
		}
	}
	return nil
}

// longestPrefix returns the most specific route that matches.
func longestPrefix(routes []kernel.Route, a netip.Addr) *kernel.Route {
	var out *kernel.Route
	for i, r := range routes {
		if r.To.Contains(a.Unmap()) && (out == nil || r.To.Bits() > out.To.Bits()) {
			out = &routes[i]
		}
	}
	return out
}

// isForeignLocal reports whether a route delivers a packet to this machine although no interface has the address.
// The kernel itself creates the routes for its own addresses. Cloud guest agents add such routes for alias ranges.
// An alias range may be a node's block of pod addresses (cilium/cilium#36817).
func isForeignLocal(r kernel.Route) bool {
	return r.Type == kernel.Local && kernel.ProtocolName(r.Proto) != "kernel"
}

// bypassesLink reports whether packets to a node on a directly connected network leave through another interface or a
// gateway. This happens because of a route that neither the kernel nor a routing daemon created.
func bypassesLink(links []kernel.Link, to netip.Addr, way, matched kernel.Route) bool {
	made := kernel.ProtocolName(matched.Proto)
	if len(way.Hops) == 0 || way.Type == kernel.Local || made != "static" && made != "boot" {
		return false
	}
	for _, l := range links {
		for _, own := range l.Addrs {
			if !l.Up || !own.Contains(to.Unmap()) || own.IsSingleIP() || matched.To.Bits() <= own.Bits() {
				continue
			}
			return way.Hops[0].Gateway.IsValid() && way.Hops[0].Gateway != to || way.Hops[0].Device != l.Name
		}
	}
	return false
}

func (m misdirection) result() probe.Result {
	if m.rule != nil {
		return probe.Found(probe.Fail, "the routing rule %q drops traffic to %s", m.name(), node.Some(m.hits)).
			On(fmt.Sprintf("rule %d", m.rule.Priority)).With(probe.FactRule, m.name()).With(route.FactPref, m.rule.Priority).
			With(probe.FactFamily, m.family).With(route.FactMeant, node.First(m.hits)).With(route.FactTowards, m.kinds)
	}
	made := kernel.ProtocolName(m.route.Proto)
	r := probe.Found(probe.Fail, "the route %q drops traffic to %s", m.route, node.Some(m.hits))
	if m.route.Type == kernel.Local {
		r = probe.Found(probe.Fail, "the route %q locally delivers traffic for %s", m.route,
			node.Some(m.hits))
	}
	if m.astray {
		r = probe.Found(probe.Info, "the route %q bypasses the direct link to %s", m.route, node.Some(m.hits))
	}
	r = r.On(strings.TrimSpace(m.route.TypeName()+" "+m.route.To.String())).With(route.FactRoute, m.route.String()).
		With(route.FactRouteType, m.route.TypeName()).With(route.FactMatch, m.route.To.String()).With(route.FactRouteProto,
		made).
		With(route.FactTable, m.route.Table).With(probe.FactFamily, m.family).
		With(route.FactMeant, node.First(m.hits)).With(route.FactTowards, m.kinds)
	if len(m.nodes) == 1 {
		r = r.With(probe.FactNode, m.nodes[0])
	}
	return r
}
