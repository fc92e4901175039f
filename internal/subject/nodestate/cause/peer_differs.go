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
	"github.com/calico-probe/calico-probe/probe"
)

// peerDiffers is node-differs for the other end of the path. It returns one case for each node to which packets are
// lost, if only that node has a setting that loses packets.
func peerDiffers(f diagnose.Findings) []diagnose.Case {
	found := diff.Differences(f)
	var out []diagnose.Case
	for _, node := range f.Others() {
		lost := evidence.LostTowards(f, node)
		theirs := theirOwn(found, node)
		if len(lost) == 0 || len(theirs) == 0 {
			continue
		}
		out = append(out, setThere(f, node, theirs, lost))
	}
	return out
}

// theirOwn returns the differences that only the other node has and that can lose packets on their own. It omits
// firewall rules that drop or reject: they belong to peer-firewall.
func theirOwn(all []diff.Difference, node string) []diff.Difference {
	var out []diff.Difference
	for _, d := range all {
		if d.Other != node || d.In || !d.InOther || d.Area == nodestate.AreaFirewall &&
			evidence.Refusing.MatchString(d.Name) {
			continue
		}
		swapped := d
		swapped.In, swapped.InOther, swapped.Here, swapped.There = true, false, d.There, ""
		if rank, concerned, _ := diff.Matters(swapped); rank == diff.Breaks && slices.Contains(concerned, pod.PodTCP.ID) {
			out = append(out, d)
		}
	}
	return out
}

// setThere builds the case for the settings of one other node.
func setThere(f diagnose.Findings, node string, theirs []diff.Difference, lost []diagnose.Finding) diagnose.Case {
	weight := diagnose.Hint
	if changes(theirs) <= diff.MostTelling {
		weight = diagnose.Strong
	}
	var texts []string
	var shows []diagnose.Finding
	for _, d := range theirs[:min(len(theirs), evidence.MostNamed)] {
		texts = append(texts, strings.TrimPrefix(d.Text(f.Node), "only on "+node+": "))
		shows = append(shows, evidence.StateSays(d.With, d.Text(f.Node)))
	}
	if more := len(theirs) - evidence.MostNamed; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	c := diagnose.Case{About: node, Peer: node,
		Says: fmt.Sprintf("packets from {node} to %s or its pods are lost, and %s has settings that {node} lacks: %s", node, node,
			strings.Join(texts, "; ")),
		For:  append(diagnose.Clues(weight, lost), diagnose.Shows(shows)...),
		Args: map[string]diagnose.Arg{"other": diagnose.NodeArg(node)}}
	c.Fix = putBackThere(theirs)
	for _, r := range lost {
		c.Covers = append(c.Covers, diagnose.Cover{Check: r.Check, About: r.Target})
	}
	c.Covers = append(c.Covers, evidence.PathFollows(f, 0, node)...)
	return c
}

// putBackThere is putBack for the other node.
func putBackThere(theirs []diff.Difference) *probe.Fix {
	fix := putBack(theirs)
	swap := strings.NewReplacer("{node}", "{other}", "{other}", "{node}")
	fix.Says = "Find out what created the setting on {other}, and remove it there if it is unintended."
	fix.Radius = "the check commands only read; a restored setting touches {other} only"
	for i := range fix.OnlyIf {
		fix.OnlyIf[i].If = swap.Replace(fix.OnlyIf[i].If)
		for j, command := range fix.OnlyIf[i].Manifest {
			fix.OnlyIf[i].Manifest[j] = swap.Replace(command)
		}
	}
	return fix
}
