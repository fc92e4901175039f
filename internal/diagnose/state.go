package diagnose

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/subject/nodestate"
)

// difference is one item of the node's state that is another on a baseline node.
type difference struct {
	area, name   string
	here, there  string // values, "" where the item is not there or has none
	in, inOther  bool   // whether the item is there
	other        string // the baseline node
	order        int    // among those of a rank
	rank         int    // how likely it matters: 1 breaks things by itself, 3 hardly ever
	concerns     []string
	result, with Finding // the results that say so
}

// nodeItems are the items of a node's areas, each with the result that has it. An area that was not read is not there.
type nodeItems map[string]*areaItems

type areaItems struct {
	values map[string]string
	of     map[string]Finding
	first  Finding
	cut    bool
}

// stateOf reads what node-state said on the node in question.
func stateOf(f Findings) nodeItems {
	out := nodeItems{}
	for _, r := range f.Of(nodestate.NodeState.ID) {
		all, known := r.Facts[nodestate.FactItems].(map[string]any)
		name := r.Facts.Str(nodestate.FactArea)
		if _, is := areaWords[name]; !known || !is {
			continue
		}
		if out[name] == nil {
			out[name] = &areaItems{values: map[string]string{}, of: map[string]Finding{}, first: r}
		}
		at := out[name]
		if left, _ := r.Facts.Num(nodestate.FactLeftOut); left > 0 || r.Cut {
			at.cut = true
		}
		for _, item := range slices.Sorted(maps.Keys(all)) {
			if len(at.values) >= mostItems { // a node may say anything
				at.cut = true
				break
			}
			text, _ := all[item].(string)
			at.values[item], at.of[item] = text, r
		}
	}
	return out
}

// mostItems is how many items of an area are compared; node-state gives fewer.
const mostItems = 500

// differences are those between the node and every baseline node that was asked too, those that matter most
// first. What is as here on one of these is none.
func differences(f Findings) []difference {
	mine := stateOf(f)
	var out []difference
	compared := 0
	for _, node := range f.Others() {
		theirs := stateOf(f.At(node))
		if len(mine) == 0 || len(theirs) == 0 {
			continue
		}
		found := between(mine, theirs, node)
		if compared++; compared == 1 {
			out = found
			continue
		}
		again := map[[2]string]bool{}
		for _, d := range found {
			again[[2]string{d.area, d.name}] = true
		}
		out = slices.DeleteFunc(out, func(d difference) bool {
			return theirs[d.area] != nil && !again[[2]string{d.area, d.name}]
		})
	}
	out = saidOnce(out)
	slices.SortStableFunc(out, func(a, b difference) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.order, b.order), cmp.Compare(a.area, b.area),
			cmp.Compare(a.name, b.name))
	})
	return out
}

func between(mine, theirs nodeItems, node string) []difference {
	var out []difference
	for area, here := range mine {
		there := theirs[area]
		if there == nil {
			continue
		}
		names := map[string]bool{}
		for name := range here.values {
			names[name] = true
		}
		for name := range there.values {
			names[name] = true
		}
		for name := range names {
			d := difference{area: area, name: name, other: node, result: here.first, with: there.first}
			d.here, d.in = here.values[name]
			d.there, d.inOther = there.values[name]
			if d.in && d.inOther && d.here == d.there || !isComparable(d, here, there) {
				continue
			}
			if d.in {
				d.result = here.of[name]
			}
			if d.inOther {
				d.with = there.of[name]
			}
			d.rank, d.concerns, d.order = matters(d)
			out = append(out, d)
		}
	}
	return out
}

// onBoth are the areas of which an item says something only where both nodes have it: another kernel has other
// settings, and a process that is not seen has no limits.
var onBoth = []string{nodestate.AreaSystem, nodestate.AreaSysctls, nodestate.AreaLimits, nodestate.AreaResolver}

// isComparable tells whether that an item is on one node alone says something: not where the other node's area was cut,
// nor where nothing like it was read there.
func isComparable(d difference, here, there *areaItems) bool {
	if d.in && d.inOther {
		return true
	}
	without := there
	if !d.in {
		without = here
	}
	switch {
	case without.cut, slices.Contains(onBoth, d.area):
		return false
	case d.area == nodestate.AreaKubelet, d.area == nodestate.AreaProxy:
		return hasKind(without.values, strings.HasPrefix(d.name, "--"))
	case d.area == nodestate.AreaPaths:
		file, _, isSetting := strings.Cut(d.name, " ")
		if isSetting { // of a file that is on both, which says more than that it is on one alone
			_, known := without.values[file]
			return known
		}
		folder := d.name[:max(strings.LastIndex(d.name, "/"), 0)]
		state, known := without.values[folder]
		return known && state != "missing" && (folder == pluginFolder || folder == networkFolder)
	}
	return true
}

// hasKind tells whether a configuration has any flag, or anything that is none.
func hasKind(values map[string]string, flag bool) bool {
	for name := range values {
		if strings.HasPrefix(name, "--") == flag {
			return true
		}
	}
	return false
}

// Folders whose files node-state lists.
const (
	pluginFolder  = "/opt/cni/bin"
	networkFolder = "/etc/cni/net.d"
)

// saidOnce leaves out what the runtime says of itself where its file says it too, and a chain of which a rule is said.
func saidOnce(all []difference) []difference {
	last := func(d difference) string {
		name := d.name[strings.LastIndex(d.name, ".")+1:]
		return strings.TrimSuffix(strings.ToLower(strings.ReplaceAll(name, "_", "")), "s")
	}
	chains, inFile := map[string]bool{}, map[string]bool{}
	for _, d := range all {
		switch chain, _, isRule := strings.Cut(d.name, ": "); {
		case d.area == nodestate.AreaFirewall && isRule:
			chains[chain] = true
		case d.area == nodestate.AreaContainerd:
			inFile[last(d)] = true
		}
	}
	return slices.DeleteFunc(all, func(d difference) bool {
		switch d.area {
		case nodestate.AreaFirewall:
			return chains[d.name] && !strings.Contains(d.here+d.there, "policy drop")
		case nodestate.AreaRuntime:
			return inFile[last(d)]
		}
		return false
	})
}

// touches tells whether the difference can touch one of some checks.
func (d difference) touches(ids []string) bool {
	return slices.ContainsFunc(d.concerns, func(id string) bool { return slices.Contains(ids, id) })
}

// areaWords is how an area is called before the name of an item.
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

// text says the difference in one line, as the node in question is called.
func (d difference) text(node string) string {
	what := strings.TrimSpace(areaWords[d.area] + " " + brieflyTo(d.name))
	value := func(v string) string { return brieflyTo(cmp.Or(v, `""`)) }
	with := func(v string) string {
		if v == "" || v == "runs" || v == "there" {
			return what
		}
		return what + ": " + value(v)
	}
	switch {
	case d.in && d.inOther:
		return fmt.Sprintf("%s: %s here, %s on %s", what, value(d.here), value(d.there), d.other)
	case d.in:
		return fmt.Sprintf("only on %s: %s", node, with(d.here))
	default:
		return fmt.Sprintf("only on %s: %s", d.other, with(d.there))
	}
}

// widthItem is how much of a name or a value of an item is shown.
const widthItem = 80

func brieflyTo(text string) string {
	text = withoutBraces(text)
	if short := []rune(text); len(short) > widthItem {
		return string(short[:widthItem]) + "…"
	}
	return text
}

// withoutBraces is a text that has no name of an argument.
func withoutBraces(text string) string { return strings.NewReplacer("{", "(", "}", ")").Replace(text) }

// mostDifferences is how many of them a comparison shows.
const mostDifferences = 5

// stateLines are the differences as a comparison shows them, where something is bad: those that may matter, and
// that the systems are not the same, once.
func stateLines(f Findings) []string {
	if len(f.where(func(r Finding) bool { return bad(r.Status) })) == 0 {
		return nil
	}
	var lines, system []string
	rest, works := 0, worksThere(f)
	all := differences(f)
	slices.SortStableFunc(all, func(a, b difference) int { return last(!a.touches(works), !b.touches(works)) })
	for _, d := range all {
		switch {
		case d.area == nodestate.AreaSystem && (d.name == "kernel" || d.name == "os"):
			system = append(system, fmt.Sprintf("%s here, %s on %s", d.here, d.there, d.other))
		case len(lines) < mostDifferences && d.rank < hardly:
			lines = append(lines, "differs: "+d.text(f.Node))
		default:
			rest++
		}
	}
	if len(system) > 0 {
		lines = append(lines, "differs: system "+strings.Join(system, "; "))
	}
	if rest > 0 {
		lines = append(lines, fmt.Sprintf("%d more differences are in node-state with -o json", rest))
	}
	return lines
}
