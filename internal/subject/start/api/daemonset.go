package api

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// withSkipReason adds the reason why the node has no pod to the result, if the DaemonSets show it.
func withSkipReason(s *cluster.Snapshot, r probe.Result) probe.Result {
	switch {
	case s.Sets.Err != nil:
		r.Saw += fmt.Sprintf("; reason unknown: %s", probe.OneLine(s.Sets.Err.Error()))
		return r
	case s.Sets.Value == nil: // not read
		return r
	case len(s.Sets.Value) == 0:
		r.Saw += "; no calico-node DaemonSet exists either"
		return r.With(facts.Skips, facts.SkipsNoSet)
	}
	for i := range s.Sets.Value {
		set := &s.Sets.Value[i]
		reason, text, by := skipReason(&set.DaemonSet, s.Node)
		if reason == "" {
			continue
		}
		name := set.Namespace + "/" + set.Name
		r.Saw += fmt.Sprintf("; DaemonSet %s skips the node: %s", name, text)
		if by != "" {
			r = r.With(facts.SkippedBy, by)
		}
		return r.With(facts.Skips, reason).With(facts.SkippedFor, text).With(facts.Owner, set.Name)
	}
	if s.Startup.Value.Unplaced.Value != nil {
		return withScheduling(s, r)
	}
	for i := range s.Sets.Value {
		if why := s.Sets.Value[i].Refused; why.Text != "" && why.Current(s.Now.Add(-cluster.RefusalLife)) {
			set := &s.Sets.Value[i]
			r.Saw = fmt.Sprintf("no calico-node pod on this node; DaemonSet %s/%s cannot create its pod: %s", set.Namespace,
				set.Name, why.Aged(s.Now))
			return r.With(facts.Skips, facts.SkipsRefused).With(facts.SkippedFor, why.Text).With(facts.Owner, set.Name)
		}
	}
	if err := s.Startup.Value.Unplaced.Err; err != nil {
		r.Saw += fmt.Sprintf("; reason unknown: %s", probe.OneLine(err.Error()))
		return r
	}
	set := s.Sets.Value[0]
	r.Saw += fmt.Sprintf("; DaemonSet %s/%s selects the node but has no pod on it", set.Namespace, set.Name)
	return r.With(facts.Skips, facts.SkipsUnexplained).With(facts.Owner, set.Name)
}

// skipReason returns why a DaemonSet creates no pod for a node: a word of the fact Skips, a sentence, and the label or
// taint to change ("" for an affinity).
func skipReason(set *appsv1.DaemonSet, n *corev1.Node) (reason, text, by string) {
	spec := &set.Spec.Template.Spec
	for _, key := range slices.Sorted(maps.Keys(spec.NodeSelector)) {
		want := spec.NodeSelector[key]
		if have, ok := n.Labels[key]; !ok {
			return facts.SkipsSelector, fmt.Sprintf("its nodeSelector requires %s=%s, but the node lacks this label", key, want),
				key + "=" + want
		} else if have != want {
			return facts.SkipsSelector, fmt.Sprintf("its nodeSelector requires %s=%s, but the node has %q", key, want, have),
				key + "=" + want
		}
	}
	// An affinity that cannot be parsed matches no node. The controller treats it the same way, so the error is ignored.
	if fits, _ := nodeaffinity.NewRequiredNodeAffinity(nil, spec.Affinity).Match(n); !fits {
		required := spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		return facts.SkipsAffinity, "its required node affinity is " + affinityText(required.NodeSelectorTerms), ""
	}
	taint, skip := scheduling.FindMatchingUntoleratedTaint(klog.Background(), n.Spec.Taints, spec.Tolerations,
		func(t *corev1.Taint) bool {
			return t.Effect != corev1.TaintEffectPreferNoSchedule && !isToleratedByController(*t)
		},
		false) // comparison operators in tolerations are an alpha feature
	if skip {
		return facts.SkipsTaint, "it does not tolerate the node's taint " + taint.ToString(), taint.ToString()
	}
	return "", "", ""
}

// isToleratedByController reports whether the DaemonSet controller adds a toleration for a taint to all pods in the
// host network, such as calico-node (pkg/controller/daemon/util).
func isToleratedByController(t corev1.Taint) bool {
	return slices.Contains([]string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeUnschedulable,
		corev1.TaintNodeMemoryPressure, corev1.TaintNodeDiskPressure, corev1.TaintNodePIDPressure,
		corev1.TaintNodeNetworkUnavailable}, t.Key)
}

// affinityText shortens an affinity's requirements to one line.
func affinityText(terms []corev1.NodeSelectorTerm) string {
	var out []string
	for _, t := range terms {
		var all []string
		for _, e := range slices.Concat(t.MatchExpressions, t.MatchFields) {
			all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s %s", e.Key, e.Operator, strings.Join(e.Values, ","))))
		}
		out = append(out, strings.Join(all, " and "))
	}
	const few = 3
	if len(out) > few {
		out = append(out[:few], fmt.Sprintf("%d more", len(out)-few))
	}
	return probe.Quoted(strings.Join(out, ", or "))
}
