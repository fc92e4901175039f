package cluster

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// readUnplaced finds the calico-node pod that its DaemonSet has made for the node and that no scheduler has
// bound to it, nil = there is none.
func (c *Client) readUnplaced(ctx context.Context, node string) (*corev1.Pod, error) {
	list, err := c.kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		LabelSelector: CalicoPods, FieldSelector: "spec.nodeName=,status.phase=Pending",
	})
	if err != nil {
		return nil, fmt.Errorf("listing pods without a node: %w", err)
	}
	for i := range list.Items {
		p := &list.Items[i]
		owner := metav1.GetControllerOf(p)
		if owner == nil || owner.Kind != "DaemonSet" || p.Spec.NodeName != "" || !slices.Contains(c.calicoIn,
			p.Namespace) {
			continue
		}
		a := p.Spec.Affinity
		if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
			continue
		}
		terms := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		if slices.ContainsFunc(terms, func(t corev1.NodeSelectorTerm) bool { return isFor(t, node) }) {
			return p, nil
		}
	}
	return nil, nil
}

// isFor tells whether a term of an affinity is the one by which the DaemonSet controller binds a pod to a node.
func isFor(t corev1.NodeSelectorTerm, node string) bool {
	return slices.ContainsFunc(t.MatchFields, func(e corev1.NodeSelectorRequirement) bool {
		return e.Key == metav1.ObjectNameField && e.Operator == corev1.NodeSelectorOpIn &&
			slices.Contains(e.Values, node)
	})
}

// unscheduled adds to the result that there is no calico-node here why the pod that is made for the node is
// not bound to it.
func (s *Snapshot) unscheduled(r probe.Result) probe.Result {
	p := s.startup.Value.unplaced.Value
	why := tooMuch(p, s.Node)
	if says := unfit(p); says != "" && why != "" {
		why = says + ": " + why
	} else if why == "" {
		why = says
	}
	if why == "" {
		why = "no scheduler has looked at it"
	}
	owner := metav1.GetControllerOf(p).Name
	r.Saw += fmt.Sprintf("; pod %s is made for this node and has not been scheduled for %s: %s", nameOf(p),
		probe.Age(s.Now.Sub(p.CreationTimestamp.Time)), why)
	return r.With(facts.Skips, facts.SkipsUnscheduled).With(facts.SkippedFor, why).With(facts.Owner,
		probe.OneLine(owner)).
		With(facts.Pod, nameOf(p))
}

// What the scheduler counts: "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match ...". The
// pod of a DaemonSet fits one node by its affinity, so what is said of that is of the others.
var (
	availability = regexp.MustCompile(`^\d+/\d+ nodes are available: (.*?)\.?(?: preemption: .*| no new claims .*)?$`)
	countOf      = regexp.MustCompile(`^\d+ (?:node\(s\) )?`)
	ofOthers     = regexp.MustCompile(`didn't satisfy plugin|didn't match Pod's node affinity|node affinity/selector`)
)

// unfit is what the scheduler says of a pod, without what it says of other nodes; "" = nothing.
func unfit(p *corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type != corev1.PodScheduled || c.Status != corev1.ConditionFalse {
			continue
		}
		text := c.Message[:min(len(c.Message), longestEvent)]
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

// tooMuch says what a pod asks for beyond all that the node has, "" = nothing.
func tooMuch(p *corev1.Pod, n *corev1.Node) string {
	var out []string
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory,
		corev1.ResourceEphemeralStorage} {
		have, known := n.Status.Allocatable[name]
		var asks resource.Quantity
		for _, c := range p.Spec.Containers {
			asks.Add(c.Resources.Requests[name])
		}
		for _, c := range p.Spec.InitContainers {
			if first := c.Resources.Requests[name]; first.Cmp(asks) > 0 {
				asks = first
			}
		}
		if known && asks.Cmp(have) > 0 {
			out = append(out, fmt.Sprintf("it asks for %s %s, and the node has %s for pods", name,
				asks.String(), have.String()))
		}
	}
	return strings.Join(out, "; ")
}
