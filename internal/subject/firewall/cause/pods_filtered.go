package cause

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/probe"
)

// podsFiltered matches a network that forwards packets with node addresses but not with pod addresses.
func podsFiltered(f diagnose.Findings) []diagnose.Case {
	if !f.Fine(route.RouteBlocks.ID) || !f.Fine(route.RouteCanReach.ID) || !wellItself(f) {
		return nil
	}
	_, lives, seen := evidence.Pinged(f)
	var out []diagnose.Case
	for _, node := range lives {
		there := f.At(node)
		if !slices.Contains(f.Others(), node) || !wellItself(there) {
			continue
		}
		for _, family := range []int{4, 6} {
			lost, answer := evidence.PodsOn(f, node, family)
			back, backAnswer := evidence.PodsOn(there, f.Node, family)
			if len(lost) == 0 || len(back) == 0 || len(answer)+len(backAnswer) > 0 || tunnelled(f, lost[0]) {
				continue
			}
			pings := diagnose.Keep(seen[node], func(r diagnose.Finding) bool {
				return diagnose.FamilyOf(r) == family &&
					evidence.Arrived(r)
			})
			if len(pings) == 0 {
				continue
			}
			_, address, _ := strings.Cut(lost[0].Target, " ")
			c := diagnose.Case{About: node, Peer: node, Family: family, Covers: evidence.PathFollows(f, family, node),
				For: diagnose.Hints(lost[:1]), Args: map[string]diagnose.Arg{"other": diagnose.NodeArg(node),
					"address": diagnose.AddressArg(address)},
				Says: fmt.Sprintf("{node} and %s reach each other but not each other's pods, in either direction, without a tunnel; each reaches its own pods: "+
					"what lies between drops packets with addresses of pods", node)}
			c.For = append(c.For, diagnose.Hints(back[:1])...)
			c.For = append(c.For, diagnose.Shows(pings)...)
			out = append(out, c)
		}
	}
	return out
}

// wellItself reports whether a node reaches its own pods, without a result that shows missing forwarding.
func wellItself(f diagnose.Findings) bool {
	own := diagnose.Keep(f.Of(pod.PodPing.ID), func(r diagnose.Finding) bool {
		return diagnose.NodeOf(r) == f.Node &&
			r.Status == probe.OK
	})
	for _, id := range []string{firewall.NodeFirewall.ID, link.NodeSysctl.ID, pod.PodGateway.ID, route.RouteRules.ID,
		route.XFRMPolicies.ID, route.Untracked.ID, route.RouteSpecial.ID} {
		if len(f.Bad(id)) > 0 {
			return false
		}
	}
	return len(own) > 0
}

// tunnelled reports whether packets for a pod leave through another interface than those for its node.
func tunnelled(f diagnose.Findings, pod diagnose.Finding) bool {
	way, ok := diagnose.Answer(f, route.RouteCanReach.ID, pod.Target)
	return !ok || !slices.ContainsFunc(f.Of(route.RouteCanReach.ID), func(r diagnose.Finding) bool {
		return diagnose.NodeOf(r) == diagnose.NodeOf(pod) && strings.HasPrefix(r.Target, diagnose.NodeOf(pod)+" ") &&
			diagnose.FamilyOf(r) == diagnose.FamilyOf(pod) &&
			r.Facts.Str(probe.FactInterface) == way.Facts.Str(probe.FactInterface)
	})
}
