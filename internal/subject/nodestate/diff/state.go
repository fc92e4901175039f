package diff

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/nodestate"
)

// Difference is one item of a node's state that differs on a baseline node.
type Difference struct {
	Area, Name   string
	Here, There  string           // the values on both nodes, "" = none
	In, InOther  bool             // whether the item exists on this node, and on the other
	Other        string           // the baseline node
	order        int              // place within the rank
	Rank         int              // Breaks, mayBreak or Hardly
	Concerns     []string         // the checks that it can break
	Result, With diagnose.Finding // the results with the values of this node, and of the other
}

// nodeItems maps each area that was read on a node to its items.
type nodeItems map[string]*areaItems

type areaItems struct {
	Values map[string]string           // by item
	Of     map[string]diagnose.Finding // the result with the item
	first  diagnose.Finding
	cut    bool // some items are missing
}

// StateOf reads the results of node-state about the node in question.
func StateOf(f diagnose.Findings) nodeItems {
	out := nodeItems{}
	for _, r := range f.Of(nodestate.NodeState.ID) {
		all, known := r.Facts[nodestate.FactItems].(map[string]any)
		name := r.Facts.Str(nodestate.FactArea)
		if _, is := areaWords[name]; !known || !is {
			continue
		}
		if out[name] == nil {
			out[name] = &areaItems{Values: map[string]string{}, Of: map[string]diagnose.Finding{}, first: r}
		}
		at := out[name]
		if left, _ := r.Facts.Num(nodestate.FactLeftOut); left > 0 || r.Cut {
			at.cut = true
		}
		for _, item := range slices.Sorted(maps.Keys(all)) {
			if len(at.Values) >= maxItems { // a hostile node may send more
				at.cut = true
				break
			}
			text, _ := all[item].(string)
			at.Values[item], at.Of[item] = text, r
		}
	}
	return out
}

// maxItems bounds the items of an area. An honest probe sends fewer.
const maxItems = 500

// Differences returns the differences between the node and all its baseline nodes, the most important first. A value
// that one baseline node shares with this node is not a difference.
func Differences(f diagnose.Findings) []Difference {
	mine := StateOf(f)
	var out []Difference
	compared := 0
	for _, node := range f.Others() {
		theirs := StateOf(f.At(node))
		if len(mine) == 0 || len(theirs) == 0 {
			continue
		}
		found := compareItems(mine, theirs, node)
		if compared++; compared == 1 {
			out = found
			continue
		}
		again := map[[2]string]bool{}
		for _, d := range found {
			again[[2]string{d.Area, d.Name}] = true
		}
		out = slices.DeleteFunc(out, func(d Difference) bool {
			return theirs[d.Area] != nil && !again[[2]string{d.Area, d.Name}]
		})
	}
	out = withoutDuplicates(out)
	slices.SortStableFunc(out, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.order, b.order), cmp.Compare(a.Area, b.Area),
			cmp.Compare(a.Name, b.Name))
	})
	return out
}

func compareItems(mine, theirs nodeItems, node string) []Difference {
	var out []Difference
	for area, here := range mine {
		there := theirs[area]
		if there == nil {
			continue
		}
		names := map[string]bool{}
		for name := range here.Values {
			names[name] = true
		}
		for name := range there.Values {
			names[name] = true
		}
		for name := range names {
			d := Difference{Area: area, Name: name, Other: node, Result: here.first, With: there.first}
			d.Here, d.In = here.Values[name]
			d.There, d.InOther = there.Values[name]
			if d.In && d.InOther && d.Here == d.There || !isComparable(d, here, there) {
				continue
			}
			if d.In {
				d.Result = here.Of[name]
			}
			if d.InOther {
				d.With = there.Of[name]
			}
			d.Rank, d.Concerns, d.order = Matters(d)
			out = append(out, d)
		}
	}
	return out
}

// areasOfBoth are areas in which an item counts only if both nodes have it: kernels have different settings, and an
// invisible process has no limits.
var areasOfBoth = []string{nodestate.AreaSystem, nodestate.AreaSysctls, nodestate.AreaLimits, nodestate.AreaResolver}

// isComparable reports whether a missing item is really missing on the other node: the area was not cut there, and
// similar items were read.
func isComparable(d Difference, here, there *areaItems) bool {
	if d.In && d.InOther {
		return true
	}
	without := there
	if !d.In {
		without = here
	}
	switch {
	case without.cut, slices.Contains(areasOfBoth, d.Area):
		return false
	case d.Area == nodestate.AreaKubelet, d.Area == nodestate.AreaProxy:
		return hasKind(without.Values, strings.HasPrefix(d.Name, "--"))
	case d.Area == nodestate.AreaPaths:
		file, _, isSetting := strings.Cut(d.Name, " ")
		if isSetting { // counts only if both nodes have the file: otherwise the missing file is the difference
			_, known := without.Values[file]
			return known
		}
		folder := d.Name[:max(strings.LastIndex(d.Name, "/"), 0)]
		state, known := without.Values[folder]
		return known && state != "missing" && (folder == pluginFolder || folder == networkFolder)
	}
	return true
}

// hasKind reports whether a configuration has any flag, or (flag false) any other setting.
func hasKind(values map[string]string, flag bool) bool {
	for name := range values {
		if strings.HasPrefix(name, "--") == flag {
			return true
		}
	}
	return false
}

// Folders with files that node-state lists.
const (
	pluginFolder  = "/opt/cni/bin"
	networkFolder = "/etc/cni/net.d"
)

// withoutDuplicates drops a setting that the runtime reports if its file has the same difference, and a chain if one of
// its rules differs.
func withoutDuplicates(all []Difference) []Difference {
	last := func(d Difference) string {
		name := d.Name[strings.LastIndex(d.Name, ".")+1:]
		return strings.TrimSuffix(strings.ToLower(strings.ReplaceAll(name, "_", "")), "s")
	}
	chains, inFile := map[string]bool{}, map[string]bool{}
	for _, d := range all {
		switch chain, _, isRule := strings.Cut(d.Name, ": "); {
		case d.Area == nodestate.AreaFirewall && isRule:
			chains[chain] = true
		case d.Area == nodestate.AreaContainerd:
			inFile[last(d)] = true
		}
	}
	return slices.DeleteFunc(all, func(d Difference) bool {
		switch d.Area {
		case nodestate.AreaFirewall:
			return chains[d.Name] && !strings.Contains(d.Here+d.There, "policy drop")
		case nodestate.AreaRuntime:
			return inFile[last(d)]
		}
		return false
	})
}

// Touches reports whether the difference can break one of the given checks.
func (d Difference) Touches(ids []string) bool {
	return slices.ContainsFunc(d.Concerns, func(id string) bool { return slices.Contains(ids, id) })
}

// areaWords are the words before an item's name, by area.
var areaWords = map[string]string{
	nodestate.AreaSystem: "", nodestate.AreaSysctls: "sysctl", nodestate.AreaInterfaces: "interface",
	nodestate.AreaRoutes:     "route",
	nodestate.AreaNeighbours: "neighbour entry", nodestate.AreaRules: "ip rule", nodestate.AreaIPsec: "xfrm policy",
	nodestate.AreaFirewall: "firewall", nodestate.AreaQueues: "tc", nodestate.AreaKubelet: "kubelet's",
	nodestate.AreaRuntime: "the runtime's", nodestate.AreaContainerd: "containerd's file:",
	nodestate.AreaProxy:  "kube-proxy's",
	nodestate.AreaLimits: "limit:", nodestate.AreaPaths: "", nodestate.AreaProcesses: "process",
	nodestate.AreaCalico: "calico-node's environment:", nodestate.AreaResolver: "resolv.conf",
}

// Text describes the difference in one line. node is the name of the node in question.
func (d Difference) Text(node string) string {
	what := strings.TrimSpace(areaWords[d.Area] + " " + BrieflyTo(d.Name))
	value := func(v string) string { return BrieflyTo(cmp.Or(v, `""`)) }
	with := func(v string) string {
		if v == "" || v == "runs" || v == "there" {
			return what
		}
		return what + ": " + value(v)
	}
	switch {
	case d.In && d.InOther:
		return fmt.Sprintf("%s: %s here, %s on %s", what, value(d.Here), value(d.There), d.Other)
	case d.In:
		return fmt.Sprintf("only on %s: %s", node, with(d.Here))
	default:
		return fmt.Sprintf("only on %s: %s", d.Other, with(d.There))
	}
}

// maxWidth is how many characters of an item's name or value are shown.
const maxWidth = 80

// BrieflyTo shortens a text to maxWidth, and makes it safe as the argument of a cause's sentence.
func BrieflyTo(text string) string {
	text = diagnose.WithoutBraces(text)
	if short := []rune(text); len(short) > maxWidth {
		return string(short[:maxWidth]) + "…"
	}
	return text
}

// maxDifferences is how many differences a comparison shows.
const maxDifferences = 5

// StateLines returns the differences for a comparison of nodes, if any check is bad: those that may matter, and one
// line about the systems.
func StateLines(f diagnose.Findings) []string {
	if len(f.Where(func(r diagnose.Finding) bool { return diagnose.IsBad(r.Status) })) == 0 {
		return nil
	}
	var lines, system []string
	rest, works := 0, WorksThere(f)
	all := Differences(f)
	slices.SortStableFunc(all, func(a, b Difference) int { return diagnose.Last(!a.Touches(works), !b.Touches(works)) })
	for _, d := range all {
		switch {
		case d.Area == nodestate.AreaSystem && (d.Name == "kernel" || d.Name == "os"):
			system = append(system, fmt.Sprintf("%s here, %s on %s", d.Here, d.There, d.Other))
		case len(lines) < maxDifferences && d.Rank < Hardly:
			lines = append(lines, "differs: "+d.Text(f.Node))
		default:
			rest++
		}
	}
	if len(system) > 0 {
		lines = append(lines, "differs: system "+strings.Join(system, "; "))
	}
	if rest > 0 {
		lines = append(lines, fmt.Sprintf("%d more differences: see node-state with -o json", rest))
	}
	return lines
}
