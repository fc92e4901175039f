package bundle

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/probe"
)

// maxNodes is the maximum number of nodes whose objects are in a bundle.
const maxNodes = 20

// Nodes returns the nodes whose objects are in a bundle: first the examined nodes, worst first, then other nodes that
// answered. It also returns a description of what was omitted.
func Nodes(all []report.Saved) (nodes, gaps []string) {
	var runs []report.Run
	for _, saved := range all {
		runs = append(runs, saved.Runs...)
	}
	slices.SortStableFunc(runs, func(a, b report.Run) int { return cmp.Compare(badness(b), badness(a)) })
	odd := 0
	add := func(name string) {
		switch {
		case name == "" || slices.Contains(nodes, name):
		case len(validation.IsDNS1123Subdomain(name)) > 0: // the name is used in a request
			odd++
		default:
			nodes = append(nodes, name)
		}
	}
	for _, run := range runs {
		add(run.Node)
	}
	for _, run := range runs {
		for _, ev := range run.Events {
			add(ev.Node)
		}
	}
	if odd > 0 {
		gaps = append(gaps, "objects of nodes with invalid names in a saved run")
	}
	if n := len(nodes) - maxNodes; n > 0 {
		nodes = nodes[:maxNodes]
		gaps = append(gaps, fmt.Sprintf("objects of %d more nodes: only those of the %d worst are included", n, maxNodes))
	}
	return nodes, gaps
}

// badness orders runs by their verdicts.
func badness(run report.Run) int {
	if run.Verdict == nil {
		return slices.Index(report.Verdicts(), report.WordIncomplete)
	}
	return slices.Index(report.Verdicts(), run.Verdict.Word)
}

// Elsewhere returns a run's cluster if it differs from the cluster at the given address, otherwise "".
func Elsewhere(all []report.Saved, server string) string {
	for _, saved := range all {
		for _, begun := range begins(saved) {
			if begun.Cluster != nil && begun.Cluster.Server != server {
				return begun.Cluster.String()
			}
		}
	}
	return ""
}

// begins returns the start events that a run's client wrote.
func begins(saved report.Saved) []probe.Start {
	var out []probe.Start
	if saved.Fleet != nil {
		out = append(out, *saved.Fleet)
	}
	for _, run := range saved.Runs {
		for _, ev := range run.Events {
			if ev.Type == probe.EventRun && ev.Start != nil {
				out = append(out, *ev.Start)
			}
		}
	}
	return out
}
