package api

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// withScheduling adds to the result about a missing calico-node why the pod for this node is not scheduled.
func withScheduling(s *cluster.Snapshot, r probe.Result) probe.Result {
	p := s.Startup.Value.Unplaced.Value
	why := cluster.TooMuch(p, s.Node)
	if reason := schedulerReason(p); reason != "" && why != "" {
		why = reason + ": " + why
	} else if why == "" {
		why = reason
	}
	if why == "" {
		why = "no scheduler has processed it"
	}
	owner := metav1.GetControllerOf(p).Name
	r.Saw += fmt.Sprintf("; pod %s was created for this node but has not been scheduled for %s: %s", cluster.NameOf(p),
		probe.Age(s.Now.Sub(p.CreationTimestamp.Time)), why)
	return r.With(facts.Skips, facts.SkipsUnscheduled).With(facts.SkippedFor, why).With(facts.Owner,
		probe.OneLine(owner)).
		With(facts.Pod, cluster.NameOf(p))
}

// The scheduler's counts: "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match ...". A DaemonSet's pod
// fits one node by its affinity, so mismatches of the affinity are about the other nodes.
var (
	availability = regexp.MustCompile(`^\d+/\d+ nodes are available: (.*?)\.?(?: preemption: .*| no new claims .*)?$`)
	countOf      = regexp.MustCompile(`^\d+ (?:node\(s\) )?`)
	ofOthers     = regexp.MustCompile(`didn't satisfy plugin|didn't match Pod's node affinity|node affinity/selector`)
)

// schedulerReason is the scheduler's message about a pod, without the parts about other nodes, "" = none.
func schedulerReason(p *corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type != corev1.PodScheduled || c.Status != corev1.ConditionFalse {
			continue
		}
		text := c.Message[:min(len(c.Message), cluster.LongestEvent)]
		m := availability.FindStringSubmatch(text)
		if m == nil {
			return probe.Quoted(strings.TrimPrefix(c.Reason+": "+text, ": "))
		}
		var own []string
		for part := range strings.SplitSeq(m[1], ", ") {
			if !ofOthers.MatchString(part) {
				own = append(own, countOf.ReplaceAllString(part, ""))
			}
		}
		if len(own) == 0 {
			return probe.Quoted(text)
		}
		return probe.Quoted(strings.Join(own, ", "))
	}
	return ""
}
