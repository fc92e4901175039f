package cause

import (
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// ownAddresses returns this node's addresses, from its own results and the API.
func ownAddresses(f diagnose.Findings) []string {
	var out []string
	for _, r := range f.Of(facts.CheckIPRegistered) {
		if diagnose.NodeOf(r) == "" {
			out = append(out, r.Facts.Str(facts.Internal), r.Facts.Str(facts.Registered))
		}
	}
	for _, check := range []string{route.RouteCanReach.ID, bgp.BGPSession.ID, bgp.BGPPort.ID} {
		for _, r := range f.Of(check) {
			if r.From == "" {
				out = append(out, r.Facts.Str(probe.FactSource))
			}
		}
	}
	return slices.DeleteFunc(out, func(a string) bool { return a == "" })
}

// refusedHere returns the results of packets from or to pods that this node rejected with ICMP. A policy, including
// Calico's, may do so on purpose.
func refusedHere(f diagnose.Findings) []diagnose.Finding {
	own := ownAddresses(f)
	var out []diagnose.Finding
	for _, check := range []string{pod.PodTCP.ID, pod.PodPing.ID} {
		out = append(out, diagnose.Keep(f.Failed(check), func(r diagnose.Finding) bool {
			return slices.Contains(own, r.Facts.Str(probe.FactICMPFrom)) && r.Facts.Str(probe.FactPolicy) == ""
		})...)
	}
	return out
}

// firewallRejects matches a foreign rule that rejects pods' packets.
func firewallRejects(f diagnose.Findings) []diagnose.Case {
	var named []diagnose.Finding
	var chains []string
	for _, r := range f.Of(firewall.NodeFirewall.ID) {
		if of := diagnose.ListOf(r, firewall.FactRefuses); len(of) > 0 {
			named = append(named, r)
			chains = append(chains, of...)
		}
	}
	slices.Sort(chains)
	chains = slices.Compact(chains)
	rejected := refusedHere(f)
	if len(named) == 0 { // so the kernel itself answers where the next machine does not
		rejected = diagnose.Keep(rejected,
			func(r diagnose.Finding) bool { return diagnose.ReasonOf(r) != "host-unreachable" })
	}
	c := diagnose.Case{}
	switch held := heldPods(f); {
	case len(rejected) > 0:
		c.For = append(diagnose.Suggests(rejected), diagnose.Hints(named)...)
		c.Says = "{node} itself rejects packets from or to pods: " + rejected[0].Saw
	case len(held) > 0 && len(named) > 0:
		c.For = append(diagnose.Hints(named), diagnose.Hints(held)...)
		c.Says = "{node} reaches pods but its own pods do not, and a foreign rule may drop their packets"
	default:
		return nil
	}
	if len(chains) > 0 {
		c.Says += "; chains with a rule that drops or rejects: " + strings.Join(chains[:min(len(chains), 3)], ", ")
	}
	c.Covers = forwarded(f)
	return []diagnose.Case{c}
}

// heldPods returns results that failed inside pods but are good on the node, except results that a policy may explain.
func heldPods(f diagnose.Findings) []diagnose.Finding {
	var out []diagnose.Finding
	for _, check := range []string{pod.PodTCP.ID, pod.PodPing.ID} {
		out = append(out, diagnose.Keep(f.Failed(check), func(r diagnose.Finding) bool {
			own, ok := diagnose.Answer(f, check, r.Target)
			return r.From != "" && r.Facts.Str(probe.FactPolicy) == "" && ok && own.Status == probe.OK
		})...)
	}
	return out
}

// forwarded returns the bad results of packets that this node forwards: for its pods and for NodePorts.
func forwarded(f diagnose.Findings) []diagnose.Cover {
	var out []diagnose.Cover
	for _, check := range evidence.PathChecks {
		for _, r := range f.Bad(check) {
			if r.From != "" || check == service.ServiceNodePort.ID || strings.Contains(r.Target, " from ") {
				out = append(out, diagnose.Cover{Check: check, About: r.Target})
			}
		}
	}
	return out
}
