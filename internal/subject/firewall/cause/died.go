package cause

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/probe"
)

// place describes where packets are dropped, and for how many targets.
func place(died []diagnose.Finding) string {
	text := died[0].Facts.Str(firewall.FactPlace)
	if in := died[0].Facts.Str(probe.FactPlaceIn); in != probe.InNode {
		text = "in " + in + ": " + text
	}
	return text
}

// bySamePlace groups drops by their place.
func bySamePlace(died []diagnose.Finding) [][]diagnose.Finding {
	var out [][]diagnose.Finding
	for _, r := range died {
		i := slices.IndexFunc(out, func(of []diagnose.Finding) bool { return place(of) == place([]diagnose.Finding{r}) })
		if i < 0 {
			out = append(out, []diagnose.Finding{r})
			continue
		}
		out[i] = append(out[i], r)
	}
	return out
}

// diedCase returns the case of one place.
func diedCase(f diagnose.Findings, died []diagnose.Finding, weight int, says string) diagnose.Case {
	c := diagnose.Case{About: wordOf(died[0]), Family: diagnose.FamilyOf(died[0]), Says: says,
		For: diagnose.Clues(weight, died)}
	for _, r := range died {
		c.Covers = append(c.Covers, diagnose.Cover{Check: firewall.PacketDrops.ID, About: r.Target})
		if node := diagnose.NodeOf(r); node != "" && node != f.Node {
			c.Covers = append(c.Covers, evidence.PathFollows(f, diagnose.FamilyOf(r), node)...)
		}
		for _, lost := range evidence.BadPaths(f, diagnose.FamilyOf(r), evidence.AllPaths) {
			if lost.Target == r.Target {
				c.Covers = append(c.Covers, diagnose.Cover{Check: lost.Check, About: lost.Target})
			}
			if lost.Target == r.Target && lost.From == r.From {
				c.For = append(c.For, diagnose.Shows([]diagnose.Finding{lost})...)
			}
		}
	}
	return c
}

// wordOf distinguishes the cases of one rule: by the chain that drops, or the target.
func wordOf(r diagnose.Finding) string {
	if chain := r.Facts.Str(firewall.FactRuleChain); chain != "" {
		return strings.TrimSpace(r.Facts.Str(firewall.FactRuleTable) + " " + chain)
	}
	return r.Target
}

// ruleDrops is projectcalico/calico#1923: "which rule dropped it?"
func ruleDrops(f diagnose.Findings) []diagnose.Case {
	died := slices.DeleteFunc(evidence.DiedAs(f, firewall.PlaceRule, firewall.PlaceCalico), evidence.AtReversePath)
	died = append(died, diagnose.Keep(evidence.DiedAs(f, firewall.PlaceChainPolicy),
		func(r diagnose.Finding) bool { return !inForward(r) })...)
	var out []diagnose.Case
	for _, of := range bySamePlace(died) {
		says := fmt.Sprintf("a firewall rule on {node} drops packets to %s: %s", targetsOf(of), place(of))
		c := diedCase(f, of, diagnose.Proof, says)
		chain := of[0].Facts.Str(firewall.FactRuleChain)
		c.Args = map[string]diagnose.Arg{"chain": diagnose.CheckedArg(chain, diagnose.IsWord(chain), "CHAIN")}
		out = append(out, inPod(c, of))
	}
	return out
}

// inPod selects the fix for a pod, if the packets are dropped inside one.
func inPod(c diagnose.Case, died []diagnose.Finding) diagnose.Case {
	in := died[0].Facts.Str(probe.FactPlaceIn)
	if in == probe.InNode {
		return c
	}
	namespace, pod, _ := strings.Cut(in, "/")
	args := map[string]diagnose.Arg{"itsnamespace": diagnose.NamespaceArg(namespace), "itspod": diagnose.PodArg(pod)}
	maps.Copy(args, c.Args)
	c.FixName, c.Args = "in-pod", args
	return c
}

// inForward reports whether a rule sees forwarded packets.
func inForward(r diagnose.Finding) bool { return r.Facts.Str(firewall.FactRuleHook) == "forward" }

// targetsOf lists the targets of the packets.
func targetsOf(died []diagnose.Finding) string {
	var out []string
	for _, r := range died {
		if !slices.Contains(out, r.Target) {
			out = append(out, r.Target)
		}
	}
	return strings.Join(out, ", ")
}

// sourceUnexpected matches drops by the kernel's reverse-path check.
func sourceUnexpected(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	for _, of := range bySamePlace(evidence.DiedAs(f, firewall.PlaceRPFilter)) {
		says := fmt.Sprintf("the kernel of {node} drops packets to %s or their answers: %s", targetsOf(of), place(of))
		c := diedCase(f, of, diagnose.Proof, says)
		_, address, _ := strings.Cut(of[0].Target, " ")
		c.Args = map[string]diagnose.Arg{"address": diagnose.AddressArg(address)}
		out = append(out, inPod(c, of))
	}
	for _, of := range bySamePlace(diagnose.Keep(evidence.DiedAs(f, firewall.PlaceCalico), evidence.AtReversePath)) {
		says := fmt.Sprintf("Calico's reverse-path check on {node} drops packets from %s to %s: the kernel does not send to that source by the interface they came in by",
			cmp.Or(of[0].From, "a pod"), targetsOf(of))
		c := diedCase(f, of, diagnose.Strong, says) // which route or routing rule is wrong was not seen
		c.FixName = "route-of-source"
		out = append(out, c)
	}
	return out
}

// vague has the kinds of place whose drops may be caused by another node, or behind the place.
var vague = []string{firewall.PlaceNeighbour, firewall.PlaceLink, firewall.PlaceInterface, firewall.PlaceOther,
	firewall.PlaceFirewall, firewall.PlaceMAC}

// droppedHere matches drops at all other places.
func droppedHere(f diagnose.Findings) []diagnose.Case {
	known := []string{"", firewall.PlacePolicy, firewall.PlaceRule, firewall.PlaceCalico, firewall.PlaceRPFilter,
		firewall.PlaceConntrack, firewall.PlaceChainPolicy}
	died := diagnose.Keep(f.Of(firewall.PacketDrops.ID), func(r diagnose.Finding) bool {
		kind := r.Facts.Str(firewall.FactPlaceKind)
		return r.Node == f.Node && diagnose.IsBad(r.Status) && !slices.Contains(known, kind) && !evidence.SourceTaken(f, r)
	})
	var out []diagnose.Case
	for _, of := range bySamePlace(died) {
		weight := diagnose.Proof
		if slices.Contains(vague, of[0].Facts.Str(firewall.FactPlaceKind)) {
			weight = diagnose.Hint
		}
		says := fmt.Sprintf("{node} drops packets to %s: %s", targetsOf(of), place(of))
		out = append(out, inPod(diedCase(f, of, weight, says), of))
	}
	return out
}
