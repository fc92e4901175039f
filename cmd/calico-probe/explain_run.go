package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/explain"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/suggest"
	"github.com/calico-probe/calico-probe/internal/ui"
)

// explainRun shows why a saved run has or does not have a cause.
func (a *app) explainRun(suite diagnose.Suite, id, file, node string) error {
	rule := suite.Rule(id)
	if rule == nil {
		return ui.BadUsage("unknown cause %q%s; 'calico-probe causes' lists them", id, suggest.DidYouMean(id, idsOf(suite)))
	}
	all, _, err := a.loadRuns([]string{file})
	if err != nil {
		return err
	}
	var runs []report.Run
	for _, run := range all {
		runs = append(runs, run.Run)
	}
	i := slices.IndexFunc(runs, func(run report.Run) bool { return run.Node == cmp.Or(node, runs[0].Node) })
	switch {
	case i < 0:
		return ui.BadUsage("%s has no run of %s, only of %s", source(file), node, nodesOf(runs))
	case node == "" && len(runs) > 1:
		return ui.BadUsage("%s has several nodes: choose one with --node: %s", source(file), nodesOf(runs))
	}
	found := diagnose.Findings{Node: runs[i].Node}
	for _, ev := range runs[i].Events {
		found.Add(ev)
	}
	for _, other := range runs {
		found.All = append(found.All, answersOf(other, runs[i].Node)...)
	}
	why, _ := diagnose.WhyOf(found, suite, id)
	var b strings.Builder
	explain.Run(&b, rule, runs[i].Node, why)
	return ui.Page(a.Out, b.String())
}

func idsOf(suite diagnose.Suite) []string {
	var ids []string
	for _, r := range suite.Rules {
		ids = append(ids, r.ID)
	}
	return ids
}
