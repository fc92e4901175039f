package cause

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/internal/subject/nodestate"
	"github.com/calico-probe/calico-probe/internal/subject/nodestate/diff"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// evictionThreshold matches a kubelet that reports pressure although memory or disk is plentiful. It returns one case
// for each condition. The sentence names thresholds that are too high, if node-state has them.
func evictionThreshold(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	for condition, roomy := range map[string]func(diagnose.Findings) []diagnose.Finding{
		"MemoryPressure": plentyOfMemory, "DiskPressure": plentyOfDisk,
	} {
		pressure, room := diagnose.Keep(f.Failed(facts.CheckNodeReady), diagnose.About(condition)), roomy(f)
		if len(pressure) == 0 || len(room) == 0 {
			continue
		}
		c := diagnose.Case{
			About: condition, For: append(diagnose.Shows(pressure), diagnose.Hints(room[:1])...),
			Covers: diagnose.Covers(facts.CheckNodeTaints, facts.CheckPodsStart),
			Says:   "the kubelet of {node} reports " + condition + " although there is room: " + room[0].Saw,
		}
		if set, of := thresholds(f, condition, room); len(set) > 0 {
			c.Says += "; its threshold is higher than that: " + strings.Join(set, ", ")
			c.For = append(c.For, diagnose.Clue{Finding: evidence.StateSays(of, strings.Join(set, ", ")),
				Weight: diagnose.Strong})
		} else {
			c.Says += "; the condition stays for five minutes after the pressure ends"
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b diagnose.Case) int { return strings.Compare(a.About, b.About) })
	return out
}

// plenty is the percentage of free space above which a resource is certainly not short: the kubelet's own defaults are
// 10 % (nodefs), 15 % (imagefs), and 5 % (inodes).
const plenty = 20

// plentyOfMemory returns the findings that show plenty of free memory.
func plentyOfMemory(f diagnose.Findings) []diagnose.Finding {
	return diagnose.Keep(f.Of(host.NodeMemory.ID), func(r diagnose.Finding) bool {
		free, known := r.Facts.Num(host.FactAvailable)
		total, _ := r.Facts.Num(host.FactTotal)
		return r.Target == "" && !diagnose.IsBad(r.Status) && known && total > 0 && 100*free > plenty*total
	})
}

// plentyOfDisk returns the findings about file systems if each has plenty of room, otherwise nil.
func plentyOfDisk(f diagnose.Findings) []diagnose.Finding {
	roomy := func(r diagnose.Finding) bool {
		free, known := r.Facts.Num(host.FactFree)
		inodes, counted := r.Facts.Num(host.FactFreeInodes)
		return known && counted && free > plenty && inodes > plenty
	}
	all := diagnose.Keep(f.Of(host.NodeDisk.ID), func(r diagnose.Finding) bool {
		_,
			server := r.Facts[host.FactMounts]
		return !server
	})
	if slices.ContainsFunc(all, func(r diagnose.Finding) bool { return !roomy(r) }) {
		return nil
	}
	return all
}

// thresholds returns the kubelet's thresholds that exceed the free amount, and so explain the condition, with their
// node-state finding.
func thresholds(f diagnose.Findings, condition string, room []diagnose.Finding) (set []string, of diagnose.Finding) {
	at := diff.StateOf(f)[nodestate.AreaKubelet]
	if at == nil {
		return nil, diagnose.Finding{}
	}
	for _, name := range slices.Sorted(maps.Keys(at.Values)) {
		_, signal, isThreshold := strings.Cut(name, "eviction")
		value := at.Values[name]
		more := func(r diagnose.Finding) bool { return above(condition, signal, value, r) }
		if isThreshold && len(set) < evidence.MostNamed && slices.ContainsFunc(room, more) {
			set, of = append(set, diff.BrieflyTo(name)+" "+diff.BrieflyTo(value)), at.Of[name]
		}
	}
	return set, of
}

// bytesOf parses a quantity of the kubelet's configuration: 100Mi, 1G, 1000000.
func bytesOf(text string) (float64, bool) {
	units := map[string]float64{"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
		"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}
	digits := strings.TrimRight(text, "kMGTKi")
	n, err := strconv.ParseFloat(digits, 64)
	unit, known := units[text[len(digits):]]
	return n * unit, known && err == nil
}

// above reports whether the threshold of a signal ("98%", "100Mi") is higher than the free amount in a finding.
func above(condition, signal, threshold string, r diagnose.Finding) bool {
	free, _ := r.Facts.Num(host.FactFree)
	switch {
	case condition == "MemoryPressure" && strings.HasSuffix(signal, ".memory.available"):
		available, _ := r.Facts.Num(host.FactAvailable)
		total, _ := r.Facts.Num(host.FactTotal)
		if wanted, known := bytesOf(threshold); known {
			return wanted > available
		}
		free = 100 * available / total
	case condition == "DiskPressure" && strings.HasSuffix(signal, "fs.available"):
	case condition == "DiskPressure" && strings.HasSuffix(signal, "fs.inodesFree"):
		free, _ = r.Facts.Num(host.FactFreeInodes)
	default:
		return false
	}
	percent, isPercent := strings.CutSuffix(threshold, "%")
	wanted, err := strconv.ParseFloat(percent, 64)
	return isPercent && err == nil && wanted > free
}
