package drops

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe/kernel"
)

// ofRule describes a firewall rule as a place. Only rules on the node can belong to Calico: a pod that may
// change its own network can give a chain any name.
func ofRule(where string, r kernel.Refusal, count int, onNode bool) Death {
	d := Death{Where: where, Kind: KindRule, Count: count, By: byCounter, Rule: &r,
		Reason: fmt.Sprintf("the counter of chain %s", r.Chain)}
	rule := fmt.Sprintf("rule %d", r.At)
	if r.At == 0 {
		d.Kind, rule = KindChainPolicy, "its policy"
	}
	text := r.Text
	if r.At == 0 {
		text = r.Does
	}
	d.Place = fmt.Sprintf("%s, table %s %s, chain %s, %s: %s", r.Wall, r.Family, r.Table, r.Chain, rule, text)
	if chain, is := calicoChain(r); is && onNode {
		d.Kind = KindCalico
		d.Policy, d.Place = describeCalico(chain, r, d.Place)
		if d.Policy != "" {
			d.Kind = KindPolicy
		}
	} else if len(r.Comments) > 0 {
		d.Place += fmt.Sprintf(" (%q)", strings.Join(r.Comments, "; "))
	}
	return d
}

// calicoChain returns the name that a Calico chain has in iptables. In Calico's nftables tables, a chain's name
// starts with the name of the corresponding iptables table (felix/nftables).
func calicoChain(r kernel.Refusal) (string, bool) {
	name := r.Chain
	if r.Wall == kernel.WallNative {
		if r.Table != "calico" {
			return "", false
		}
		_, name, _ = strings.Cut(name, "-")
	}
	return name, strings.HasPrefix(name, "cali-")
}

// The meaning of the part of a chain's name after "cali-" (felix/rules/rule_defs.go, v3.32), with
// longer prefixes first.
var calicoChains = []struct{ begins, is string }{
	{"thfw-", "forwarded traffic to the host endpoint %s"}, {"fhfw-", "forwarded traffic from the host endpoint %s"},
	{"tw-", "ingress of the pod at %s"}, {"fw-", "egress of the pod at %s"},
	{"th-", "egress of the host endpoint %s"}, {"fh-", "ingress of the host endpoint %s"},
	{"pri-", "profile %s, ingress"}, {"pro-", "profile %s, egress"},
	{"pi-", "policy %s, ingress"}, {"po-", "policy %s, egress"},
	{"gi-", "a group of policies (%s), ingress"}, {"go-", "a group of policies (%s), egress"},
}

// describeCalico returns the policy that a Calico rule belongs to (or "") and a description of the place. A rule in a
// policy's chain drops packets because of that policy. A rule at the end of an endpoint's chain drops packets because
// no policy accepted them.
func describeCalico(chain string, r kernel.Refusal, place string) (policy, says string) {
	comment := strings.Join(r.Comments, "; ")
	about := ""
	for _, c := range calicoChains {
		if name, is := strings.CutPrefix(chain, "cali-"+c.begins); is {
			about = fmt.Sprintf(c.is, name)
			if slices.Contains([]string{"pi-", "po-", "pri-", "pro-"}, c.begins) {
				policy = about
			}
			break
		}
	}
	tier := tierAtEnd(comment)
	switch {
	case r.For != "": // Felix writes the full name here; the chain's name may be truncated and end in a hash
		policy = r.For
		return policy, fmt.Sprintf("Calico's %s drops them: %s", r.For, place)
	case policy != "":
		return policy, fmt.Sprintf("Calico's %s drops them: %s", policy, place)
	case tier != "":
		if len(r.Policies) > 0 {
			about += ", after " + strings.Join(r.Policies, ", ")
		}
		return "tier " + tier, fmt.Sprintf("no policy in Calico's tier %s accepts them (%s): %s", tier, about, place)
	case strings.Contains(comment, "if no profiles matched"):
		return "no profile", fmt.Sprintf("no Calico policy or profile accepts them (%s): %s", about, place)
	case strings.Contains(r.Text, "ct state invalid") || strings.Contains(r.Text, "match conntrack"):
		return "", fmt.Sprintf("Calico drops packets of no connection (invalid; %s): %s", about, place)
	case comment != "":
		return "", fmt.Sprintf("a Calico rule drops them (%q): %s", comment, place)
	}
	return "", fmt.Sprintf("a Calico rule drops them: %s", place)
}

// tierAtEnd returns the tier that ends at a rule, and "" for other rules: "End of tier default. Drop if no policies
// passed packet" (felix/rules/endpoints.go). In older versions, only some policies had tiers. These versions omit the
// first sentence.
func tierAtEnd(comment string) string {
	const end, says = "End of tier ", "if no policies passed packet"
	if !strings.Contains(comment, says) {
		return ""
	}
	_, rest, named := strings.Cut(comment, end)
	if !named {
		return "default"
	}
	tier, _, _ := strings.Cut(rest, ". ")
	return tier
}
