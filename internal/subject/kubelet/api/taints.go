package api

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// startTaintGrace is how long a new node may have a taint of a controller or agent that sets it up. Afterwards the
// check reports the taint.
const startTaintGrace = 2 * time.Minute

// agentGrace is how long a new node may lack its agents' pods. DaemonSets create them within seconds.
const agentGrace = 30 * time.Second

// taintsWithoutAgent returns the taints that stay because the agent that removes them has no pod on the node. The
// domain in the key names the agent: ebs.csi.aws.com/agent-not-ready, node.cilium.io/agent-not-ready.
func taintsWithoutAgent(s *cluster.Snapshot, taints []corev1.Taint) (out []string) {
	if s.Placed.Pods.Err != nil || len(s.Placed.Pods.Value) == 0 || s.Now.Sub(s.Node.CreationTimestamp.Time) < agentGrace {
		return nil
	}
	for _, t := range taints {
		domain, _, _ := strings.Cut(t.Key, "/")
		if !strings.HasSuffix(t.Key, "agent-not-ready") {
			continue
		}
		words := slices.DeleteFunc(strings.Split(domain, "."), func(w string) bool {
			return slices.Contains([]string{"node", "csi", "io", "com", "aws", "net", "org", "dev", "k8s", "sigs"}, w)
		})
		of := func(p corev1.Pod) bool {
			return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(p.Namespace+"/"+p.Name, w) })
		}
		if len(words) > 0 && !slices.ContainsFunc(s.Placed.Pods.Value, of) {
			out = append(out, t.ToString())
		}
	}
	return out
}

// withStartTaints adds the taints that a controller has not removed yet, and the pods that wait for the removal.
func withStartTaints(s *cluster.Snapshot, r probe.Result) probe.Result {
	taints := cluster.StartTaints(s.Node)
	absent := taintsWithoutAgent(s, taints)
	var texts, names []string
	for _, t := range taints {
		texts = append(texts, t.ToString())
	}
	for i := range s.Startup.Value.Kept.Value {
		if p := &s.Startup.Value.Kept.Value[i]; isKeptBy(p, s.Node, taints, taintMessage) {
			names = append(names, cluster.NameOf(p))
		}
	}
	age := s.Now.Sub(s.Node.CreationTimestamp.Time)
	starts := age < agentGrace || age < startTaintGrace && len(names) == 0 // else pods already wait for it
	if len(taints) == 0 || starts && len(absent) == 0 {
		return r
	}
	r.Status = probe.Warn
	r.Saw += fmt.Sprintf("; the node is %s old, and no controller has removed %s",
		probe.Age(age), strings.Join(texts, ", "))
	if len(absent) > 0 { // these taints stay
		r.Status = probe.Fail
		r.Saw += fmt.Sprintf("; the agent that removes %s has no pod on the node", strings.Join(absent, ", "))
		r = r.With(facts.WithoutAgent, absent)
	}
	r = r.With(facts.Unstarted, texts)
	if len(names) > 0 {
		r.Saw += fmt.Sprintf("; %s for a node but cannot run here: %s", waitFor(len(names)), cluster.Few(names))
		r = r.With(facts.WaitingFor, names[:min(len(names), cluster.Sampled)])
	}
	return r
}

// withCordon adds the cordon, and the pods that wait until the node is uncordoned.
func withCordon(s *cluster.Snapshot, r probe.Result) probe.Result {
	if !s.Node.Spec.Unschedulable {
		return r
	}
	r.Saw += "; the node is cordoned"
	cordon := []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}
	others := slices.DeleteFunc(slices.Clone(s.Node.Spec.Taints), func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeUnschedulable || t.Effect == corev1.TaintEffectPreferNoSchedule
	})
	var names []string
	for i := range s.Startup.Value.Kept.Value {
		p := &s.Startup.Value.Kept.Value[i]
		// The scheduler checks a cordon first, so its message does not show other obstacles of the pod on the node.
		if isKeptBy(p, s.Node, cordon, cordonMessage) && !isKeptBy(p, s.Node, others, cordonMessage) &&
			cluster.TooMuch(p, s.Node) == "" {
			names = append(names, cluster.NameOf(p))
		}
	}
	if len(names) == 0 {
		return r
	}
	if r.Status != probe.Fail {
		r.Status = probe.Warn
	}
	r.Saw += fmt.Sprintf("; %s for a node but cannot run here: %s", waitFor(len(names)), cluster.Few(names))
	return r.With(facts.Cordoned, names[:min(len(names), cluster.Sampled)])
}

func waitFor(n int) string {
	if n == 1 {
		return "1 pod waits"
	}
	return fmt.Sprintf("%d pods wait", n)
}

// Words in the scheduler's messages about pods that wait because of taints or a cordon (kube-scheduler's plugins
// tainttoleration and nodeunschedulable).
const (
	taintMessage  = "taint"
	cordonMessage = "unschedulable"
)

// isKeptBy reports whether taints keep a waiting pod off this node: the scheduler's message contains the word, the pod
// does not tolerate a taint, and its own selectors match the node.
func isKeptBy(p *corev1.Pod, n *corev1.Node, taints []corev1.Taint, word string) bool {
	if p.Spec.NodeName != "" || !strings.Contains(schedulerMessage(p), word) {
		return false
	}
	if fits, _ := nodeaffinity.GetRequiredNodeAffinity(p).Match(n); !fits { // also if the affinity cannot be parsed
		return false
	}
	_, kept := scheduling.FindMatchingUntoleratedTaint(klog.Background(), taints, p.Spec.Tolerations, nil, false)
	return kept
}

// schedulerMessage is the scheduler's message about an unschedulable pod, or "".
func schedulerMessage(p *corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Message[:min(len(c.Message), cluster.LongestEvent)]
		}
	}
	return ""
}
