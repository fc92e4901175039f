package cause

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// uplinkDown matches a node without a link.
func uplinkDown(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	for _, r := range f.Failed(link.NodeUplink.ID) {
		if wrongAddress(f, diagnose.FamilyOf(r)) { // then this is the interface of that, a bridge without members perhaps
			continue
		}
		device := r.Facts.Str(probe.FactInterface)
		if i := slices.IndexFunc(out, func(c diagnose.Case) bool { return c.About == device }); i >= 0 { // its other family
			out[i].For = append(out[i].For, diagnose.Clue{Finding: r})
			continue
		}
		out = append(out, diagnose.Case{
			About: device, Says: "the link of {node} is down: " + r.Saw,
			Args: map[string]diagnose.Arg{"device": diagnose.DeviceArg(device)},
			For:  diagnose.Proves([]diagnose.Finding{r}), Covers: append(evidence.PathFollows(f, 0, ""),
				diagnose.Covers(datastore.DatastoreLatency.ID, datastore.TyphaReach.ID)...),
		})
	}
	return out
}

// wrongAddress reports whether Calico registered an address of a family that is not one of the node's addresses.
func wrongAddress(f diagnose.Findings, family int) bool {
	return slices.ContainsFunc(f.Bad(facts.CheckIPRegistered),
		func(r diagnose.Finding) bool { return diagnose.FamilyOf(r) == family })
}

// firewallForwardDrop matches a FORWARD chain that drops by policy.
func firewallForwardDrop(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	for _, r := range f.Of(firewall.NodeFirewall.ID) {
		drops := diagnose.ListOf(r, firewall.FactDrops)
		family := diagnose.FamilyOf(r)
		var held, lost []diagnose.Finding // evidence: pods are unreachable, but the node itself is reachable
		for _, check := range []string{pod.PodPing.ID, pod.PodTCP.ID} {
			for _, from := range diagnose.Keep(f.Failed(check), func(p diagnose.Finding) bool {
				return p.From != "" &&
					diagnose.FamilyOf(p) == family
			}) {
				if own, ok := diagnose.Answer(f, check, from.Target); ok && own.Status == probe.OK {
					held = append(held, from)
				} else if !ok {
					lost = append(lost, from)
				}
			}
		}
		died := diagnose.Keep(evidence.DiedAs(f, firewall.PlaceChainPolicy), func(d diagnose.Finding) bool {
			return inForward(d) && diagnose.FamilyOf(d) == family
		})
		if len(drops) == 0 || len(held)+len(died) == 0 && !diagnose.IsBad(r.Status) {
			continue
		}
		c := diagnose.Case{
			// the node's rules, and their effect on a pod
			About: diagnose.FamilyName(family), Family: family, For: append(diagnose.Suggests([]diagnose.Finding{r}),
				diagnose.Hints(held)...),
			Says: fmt.Sprintf("on {node} the policy of chain %s drops pods' packets: the node itself reaches other pods, but its pods do not",
				strings.Join(drops, ", ")),
		}
		fix := letForward(drops, family)
		c.Fix = &fix
		if len(died) > 0 { // its own counter says so
			c.For = append(diagnose.Proves(died), c.For...)
			c.Says = fmt.Sprintf("on {node} the policy of a chain drops pods' packets: %s", place(died))
		} else if len(held) == 0 { // rules beside the policy may let pods through
			c.For = append(diagnose.Hints([]diagnose.Finding{r}), diagnose.Hints(lost)...)
			c.Says = fmt.Sprintf("on {node} the policy of chain %s drops packets that no rule there accepts, perhaps those of the node's pods", strings.Join(drops, ", "))
		}
		for _, check := range evidence.PathChecks {
			for _, one := range f.Bad(check) {
				felt := one.From != "" || check == firewall.PacketDrops.ID || check == service.ServiceNodePort.ID
				if felt && diagnose.FamilyOf(one) == family && len(held)+len(lost)+len(died) > 0 {
					c.Covers = append(c.Covers, diagnose.Cover{Check: check, About: one.Target})
				}
			}
		}
		out = append(out, c)
	}
	return out
}

// letForward returns the fix for chains that drop forwarded packets, each in node-firewall's form. If only one of the
// two iptables drops, it omits the command for the other.
func letForward(drops []string, family int) probe.Fix {
	program := "iptables"
	if family == 6 {
		program = "ip6tables"
	}
	fix := probe.Fix{
		Says: "Allow pod traffic in FORWARD. Configure Docker's daemon not to change FORWARD, or add a rule that " +
			"accepts the traffic.",
		Radius: "the check commands only read; with ACCEPT, this node forwards all packets that no rule blocks",
	}
	in := func(wall string) bool {
		return len(drops) == 0 || slices.ContainsFunc(drops, func(c string) bool { return strings.HasSuffix(c, " of "+wall) })
	}
	for _, wall := range []struct{ name, backend string }{{"legacy iptables", "legacy"}, {"iptables-nft", "nft"}} {
		if !in(wall.name) {
			continue
		}
		command := "ssh {node} sudo " + program + "-" + wall.backend
		fix.Manifest = append(fix.Manifest, command+" -S FORWARD")
		fix.OnlyIf = append(fix.OnlyIf, probe.Conditional{
			If:       wall.name + " has the policy DROP, until what set it starts again",
			Manifest: []string{command + " -P FORWARD ACCEPT"},
		})
	}
	inNFT := func(c string) bool { return strings.Contains(c, " of nftables") }
	if len(drops) == 0 || slices.ContainsFunc(drops, inNFT) {
		fix.Manifest = append(fix.Manifest, "ssh {node} sudo nft list chains | grep -B1 -A1 'hook forward'")
	}
	return fix
}

// policyForbids matches a network policy that may work as intended.
func policyForbids(f diagnose.Findings) []diagnose.Case {
	forbidden := func(r diagnose.Finding) bool {
		policy := r.Facts.Str(probe.FactPolicy)
		return policy != "" && !shutsHost(f, policy)
	}
	var held, denied []diagnose.Finding
	covers := diagnose.Covers(pod.PodPing.ID, pod.PodTCP.ID)
	for _, check := range []string{pod.PodPing.ID, pod.PodTCP.ID, dns.DNSCluster.ID,
		service.ServiceClusterIP.ID} {
		held = append(held, diagnose.Keep(f.Bad(check), forbidden)...)
	}
	denied = diagnose.Keep(held, func(r diagnose.Finding) bool { return r.Facts.Str(probe.FactDenied) != "" })
	if len(denied) > 0 {
		r := denied[0]
		for _, one := range f.Where(func(r diagnose.Finding) bool { return diagnose.IsBad(r.Status) && forbidden(r) }) {
			covers = append(covers, diagnose.Cover{Check: one.Check, About: one.Target})
		}
		return []diagnose.Case{{
			Says: fmt.Sprintf("%s denies all %s of pods that do not answer", r.Facts.Str(probe.FactPolicy),
				r.Facts.Str(probe.FactDenied)),
			For: diagnose.Proves(denied), Covers: append(covers, diagnose.Covers(dns.DNSExternal.ID)...),
		}}
	}
	if died := notAtHost(f, evidence.DiedAs(f, firewall.PlacePolicy)); len(died) > 0 {
		return countedPolicies(f, died)
	}
	if len(held) == 0 || len(f.Failed(pod.PodPing.ID)) > 0 {
		return nil
	}
	return []diagnose.Case{{
		Says:   fmt.Sprintf("%s selects pods that do not answer, perhaps on purpose", held[0].Facts.Str(probe.FactPolicy)),
		For:    diagnose.Hints(held),
		Covers: append(covers, evidence.NotItsOwn(f, held)...),
	}}
}

// shutsHost reports whether a policy belongs to a HostEndpoint that blocks the node. Another rule reports that.
func shutsHost(f diagnose.Findings, policy string) bool {
	return slices.ContainsFunc(f.Bad(facts.CheckHostEndpoints),
		func(r diagnose.Finding) bool { return r.Facts.Str(facts.ShutBy) == policy })
}

// notAtHost omits drops at a HostEndpoint that hostendpoint-blocks reports.
func notAtHost(f diagnose.Findings, died []diagnose.Finding) []diagnose.Finding {
	for _, r := range f.Bad(facts.CheckHostEndpoints) {
		died = slices.DeleteFunc(died, diedAtHost(r.Facts.Str(facts.OnDevice)))
	}
	return died
}

// countedPolicies returns the cases of policies whose own rule counter shows the drops.
func countedPolicies(f diagnose.Findings, died []diagnose.Finding) []diagnose.Case {
	var out []diagnose.Case
	for _, of := range bySamePlace(died) {
		says := fmt.Sprintf("{node} drops packets to %s: %s", targetsOf(of), place(of))
		out = append(out, diedCase(f, of, diagnose.Proof, says))
	}
	return out
}
