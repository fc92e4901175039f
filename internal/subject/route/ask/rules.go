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
)

// routeRulesCheck binds route.RouteRules to the function that runs it.
var routeRulesCheck = answers.To(route.RouteRules, routeRules)

// The maximum number of route lookups, and of Calico's routes.
const (
	maxLookups = 40
	maxRoutes  = 10000
)

func routeRules(ctx context.Context, p *probe.Pass) {
	said := reportMainless(p)
	tested := len(said) > 0
	for _, f := range []int{4, 6} {
		targets := node.SplitByFamily(node.Unique(p.Of(probe.KindLocal, probe.KindPod)))[f]
		own := node.SplitByFamily(p.Of(probe.KindSelf))[f]
		if len(targets) == 0 || len(own) == 0 {
			continue
		}
		tested = true
		if said[f] {
			continue
		}
		rules, err := kernel.Rules(f)
		if err != nil {
			p.Report(node.Unseen(err).On(node.FamilyText(f)))
			continue
		}
		rules = slices.DeleteFunc(rules, func(r kernel.Rule) bool { return r.Own() || r.Mark != 0 })
		r := probe.Found(probe.OK, "only the kernel's rules and rules for marked packets")
		if len(rules) > 0 {
			ways := routeLookup{node.LookupFrom, calicoRoutes(f, p.Of(probe.KindBlock))}
			if r, err = findDiversion(ctx, rules, own, targets, ways); err != nil {
				r = probe.Failed(err)
			}
		}
		p.Report(r.On(node.FamilyText(f)).With(probe.FactFamily, f).With(probe.FactRules, len(rules)))
	}
	if !tested {
		p.Report(node.Gap(p, probe.KindPod, "no workload pod found"))
	}
}

// reportMainless reports the address families, 4 or 6, in which no rule selects the main table, so packets do not
// use its routes. Without custom rules, IPv6 uses the main table even without a rule for it.
func reportMainless(p *probe.Pass) map[int]bool {
	said := map[int]bool{}
	for _, f := range []int{4, 6} {
		rules, err := kernel.Rules(f)
		if err != nil || !lacksMainRule(rules) { // looking up a packet reports errors
			continue
		}
		routes, err := kernel.Routes(f, kernel.TableMain, maxLookups, func(r kernel.Route) bool {
			return r.Type == 0 && len(r.Hops) > 0 && r.Hops[0].Device != "" && r.Hops[0].Device != "lo"
		})
		switch {
		case len(routes) == 0 && err != nil:
			p.Report(node.Unseen(err).On(node.FamilyText(f)))
		case !isUnrouted(routes):
			continue
		default:
			r := probe.Found(probe.Fail, "no routing rule selects table main: the kernel's own rule (32766: from all "+
				"lookup main) is gone, and %s packets ignore the routes in main", node.FamilyText(f))
			p.Report(r.On(node.FamilyText(f)).With(probe.FactFamily, f).With(route.FactMainless, true).With(probe.FactRules,
				len(rules)))
		}
		said[f] = true
	}
	return said
}

// isUnrouted reports whether the kernel has no route to a destination of the given routes. It ignores the node's own
// addresses, because they are in another table. It also ignores lookups that failed.
func isUnrouted(routes []kernel.Route) bool {
	for _, r := range routes {
		to := r.To.Addr()
		if gateway := r.Hops[0].Gateway; r.To.Bits() == 0 && gateway.IsValid() {
			to = gateway
		} else if r.To.Bits() < to.BitLen() {
			to = to.Next()
		}
		found, _, err := kernel.RouteOf(kernel.Packet{To: to})
		switch {
		case errors.Is(err, syscall.ENETUNREACH):
			return true
		case err == nil && found.Type != kernel.Local:
			return false
		}
	}
	return false
}

// lacksMainRule reports whether no rule sends all packets to the whole main table.
func lacksMainRule(rules []kernel.Rule) bool {
	return !slices.ContainsFunc(rules, func(r kernel.Rule) bool {
		return r.Table == kernel.TableMain && !r.From.IsValid() && !r.To.IsValid() && r.Mark == 0 && r.In == "" &&
			r.Out == "" && !r.Partly
	})
}

// sender is the sender of a packet. It is a local pod, identified by its interface, or the node itself.
type sender struct {
	addr netip.Addr
	in   string
	name string
}

// routeLookup looks up the routes of packets.
type routeLookup struct {
	kernel  func(to, from netip.Addr, in string) (node.Leads, bool) // from and in may be empty
	calicos func(to netip.Addr) (node.Leads,
		bool) // through Calico's route in the main table, if there is one
}

// calicoRoutes finds Calico's routes in the main table. It ignores rules that come before that table. Without a
// route to an address in a block, for example because BGP is down, the result has no device.
func calicoRoutes(f int, blocks []probe.Target) func(netip.Addr) (node.Leads, bool) {
	// If a table cannot be read, the check assumes that Calico has no route, and does not claim anything.
	all, _ := kernel.Routes(f, kernel.TableMain, maxRoutes, func(r kernel.Route) bool {
		made := kernel.ProtocolName(r.Proto)
		return made == "bird" || made == "felix"
	})
	return func(to netip.Addr) (node.Leads, bool) {
		if way, has := longestMatch(all, to); has {
			return way, true
		}
		return node.Leads{}, slices.ContainsFunc(blocks, func(b probe.Target) bool {
			block, err := netip.ParsePrefix(b.Name)
			return err == nil && b.Attrs[probe.AttrOwn] == "" && block.Contains(to)
		})
	}
}

// longestMatch returns the route with the longest prefix, if that route leads to an interface. The blackhole route for
// the node's own block has no interface.
func longestMatch(all []kernel.Route, to netip.Addr) (node.Leads, bool) {
	best := kernel.Route{}
	for _, r := range all {
		if r.To.Contains(to) && (!best.To.IsValid() || r.To.Bits() > best.To.Bits()) {
			best = r
		}
	}
	if len(best.Hops) == 0 || best.Hops[0].Device == "" {
		return node.Leads{}, false
	}
	return node.Leads{Device: best.Hops[0].Device, Gateway: best.Hops[0].Gateway, Table: kernel.TableMain, Calicos: true},
		true
}

// findDiversion finds the first packet that takes another route because of its source address. If it skipped lookups
// because ctx ended, it returns them as its error.
func findDiversion(ctx context.Context, rules []kernel.Rule, own, targets []probe.Target, ask routeLookup) (
	probe.Result, error) {
	var node, pods []sender
	for _, t := range own {
		node = append(node, sender{addr: t.Addr, name: "this node"})
	}
	for _, t := range targets {
		if at, ok := ask.kernel(t.Addr, netip.Addr{}, ""); t.Kind == probe.KindLocal && ok && len(pods) < maxLookups {
			pods = append(pods, sender{t.Addr, at.Device, t.Name})
		}
	}
	for _, t := range targets[:min(len(targets), maxLookups)] {
		plain, ok := ask.kernel(t.Addr, netip.Addr{}, "")
		if i := ruleOf(rules, plain); ok && !plain.Calicos && i >= 0 {
			if meant, has := ask.calicos(t.Addr); has {
				return diversion(fmt.Sprintf("packets to %s", t), plain, meant, rules[i]), nil
			}
		}
		if !ok || !plain.Calicos { // a cloud CNI plugin routes its pods with rules
			continue
		}
		senders := node
		if t.Kind == probe.KindPod {
			senders = slices.Concat(node, pods)
		}
		for _, from := range senders {
			if ctx.Err() != nil {
				return probe.Result{}, context.Cause(ctx)
			}
			got, ok := ask.kernel(t.Addr, from.addr, from.in)
			if i := rejectingRule(rules, from, t.Addr); !ok && i >= 0 {
				return rejection(from, t, rules[i]), nil
			}
			if !ok || got.Device == plain.Device && got.Gateway == plain.Gateway {
				continue
			}
			if i := ruleOf(rules, got); i >= 0 {
				whose := fmt.Sprintf("packets from %s (%s) to %s", from.name, from.addr, t)
				return diversion(whose, got, plain, rules[i]), nil
			}
		}
	}
	return probe.Found(probe.OK, "%d foreign rules, but they do not change the route of packets to pods", len(rules)), nil
}

// ruleOf returns the index of the rule that selects a route's table, or -1.
func ruleOf(rules []kernel.Rule, way node.Leads) int {
	return slices.IndexFunc(rules, func(r kernel.Rule) bool { return r.Table == way.Table })
}

// rejectingRule returns the index of the rule that drops or rejects all packets from a sender to an address, or -1.
func rejectingRule(rules []kernel.Rule, from sender, to netip.Addr) int {
	return slices.IndexFunc(rules, func(r kernel.Rule) bool {
		return r.Rejects && r.From.IsValid() && r.From.Contains(from.addr) && (r.In == "" || r.In == from.in) &&
			(kernel.Rule{To: r.To, Not: r.Not, Narrow: r.Narrow, Mark: r.Mark, Out: r.Out, Protocol: r.Protocol,
				Ports: r.Ports}).TakesAll(to, 0, 0)
	})
}

// rejection returns the result for packets that a rule drops because of their source address.
func rejection(from sender, to probe.Target, rule kernel.Rule) probe.Result {
	return probe.Found(probe.Fail, "the routing rule %q drops packets from %s (%s) to %s", rule, from.name, from.addr, to).
		With(probe.FactRule, rule.String()).With(route.FactPref, rule.Priority).With(route.FactRejects, true)
}

// diversion returns the result for packets that a rule sends over a route other than the intended one.
func diversion(whose string, got, meant node.Leads, rule kernel.Rule) probe.Result {
	says := "; without it they would leave by " + meant.Text()
	if meant.Device == "" {
		says = "; Calico has no route to this address, although the address is in one of Calico's blocks"
	}
	return probe.Found(probe.Fail, "%s leave by %s because of the rule %q%s", whose, got.Text(), rule, says).With(probe.FactRule, rule.String()).With(route.FactPref, rule.Priority).With(route.FactTable, rule.Table).
		With(probe.FactInterface, got.Device)
}
