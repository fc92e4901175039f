package cause

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/nodestate"
	"github.com/calico-probe/calico-probe/internal/subject/nodestate/diff"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
)

// peerWalled matches a foreign firewall rule on the other node.
func peerWalled(f diagnose.Findings) []diagnose.Case {
	found := diff.Differences(f)
	var out []diagnose.Case
	for _, node := range f.Others() {
		lost := evidence.LostTowards(f, node)
		rules := slices.DeleteFunc(slices.Clone(found), func(d diff.Difference) bool {
			return d.Other != node || d.Area != nodestate.AreaFirewall || d.In || !d.InOther ||
				!evidence.Refusing.MatchString(d.Name)
		})
		if len(lost) == 0 || len(rules) == 0 {
			continue
		}
		out = append(out, walledThere(f, node, rules, lost))
	}
	return out
}

// walledThere returns the case of the rules of one other node.
func walledThere(f diagnose.Findings, node string, rules []diff.Difference, lost []diagnose.Finding) diagnose.Case {
	m := evidence.Refusing.FindStringSubmatch(rules[0].Name)
	weight := diagnose.Strong
	for _, d := range rules {
		of := evidence.Refusing.FindStringSubmatch(d.Name)
		if of[1] != m[1] || of[2] != m[2] || strings.Contains(of[4], "saddr") {
			weight = diagnose.Hint
		}
	}
	var texts []string
	var shows []diagnose.Finding
	for _, d := range rules[:min(len(rules), evidence.MostNamed)] {
		texts = append(texts, d.Name)
		shows = append(shows, evidence.StateSays(d.With, d.Text(f.Node)))
	}
	what := "packets"
	if !slices.ContainsFunc(lost, func(r diagnose.Finding) bool { return r.Check != pod.PodMTU.ID }) {
		what = "large packets" // small ones arrive
	}
	c := diagnose.Case{About: node, Peer: node,
		Says: fmt.Sprintf("%s from {node} to %s or its pods are lost, and %s has a firewall rule that {node} does not have: %s",
			what, node, node, strings.Join(texts, "; ")),
		For: append(diagnose.Clues(weight, lost), diagnose.Shows(shows)...),
		Args: map[string]diagnose.Arg{"other": diagnose.NodeArg(node),
			"table": diagnose.CheckedArg(m[2], diagnose.IsWord(m[2]), "TABLE")}}
	for _, r := range lost {
		c.Covers = append(c.Covers, diagnose.Cover{Check: r.Check, About: r.Target})
	}
	c.Covers = append(c.Covers, evidence.PathFollows(f, 0, node)...)
	return c
}
