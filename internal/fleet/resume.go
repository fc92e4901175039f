package fleet

import (
	"slices"
	"time"

	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
	corev1 "k8s.io/api/core/v1"
)

// longAgo is the maximum age of a run to resume. There is a limit because nodes change.
const longAgo = 6 * time.Hour

// fits rejects a run to resume if it is from another cluster, had other checks, or is too old. Otherwise its results
// would be mistaken for results of this run.
func (r *Run) fits(own probe.Start) error {
	if r.opts.Resume == nil {
		return nil
	}
	was, server := r.opts.Resume.Fleet, func(c *probe.Cluster) string {
		if c == nil {
			return "no cluster"
		}
		return c.Server
	}
	age := own.Time.Sub(was.Time)
	switch {
	case server(was.Cluster) != server(own.Cluster):
		return ui.BadUsage("--resume: the saved run checked %s, but this run would check %s", server(was.Cluster), server(own.Cluster))
	case !slices.Equal(was.Checks, own.Checks):
		return ui.BadUsage("--resume: the saved run selected other checks: use the same --via, --profile, --checks and --skip")
	case age.Abs() > longAgo:
		return ui.BadUsage("--resume: the saved run began %v ago: after %v, start a new run", age.Round(time.Minute), longAgo)
	}
	return nil
}

// resumed returns the complete runs of nodes that were judged before, and the remaining nodes. Nodes that did not
// answer before are part of the remaining nodes.
func (r *Run) resumed(nodes []*corev1.Node) (before []report.Run, left []*corev1.Node) {
	if r.opts.Resume == nil {
		return nil, nodes
	}
	judged := map[string]report.Run{}
	for _, run := range r.opts.Resume.Runs {
		if run.Verdict != nil && run.Verdict.Word != report.WordIncomplete && run.Lacks == "" {
			judged[run.Node] = run
		}
	}
	for _, n := range nodes {
		if run, is := judged[n.Name]; is {
			before = append(before, run)
		} else {
			left = append(left, n)
		}
	}
	return before, left
}
