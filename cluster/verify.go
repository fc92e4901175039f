package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/probe"
)

// CalicoPods selects the DaemonSet pods that run Felix: Calico's own, by manifest or
// operator, and Canal's. Anybody who may create a pod can give it such a label, so the
// label alone proves nothing: claimsOf says which pod is believed.
const CalicoPods = "k8s-app in (calico-node, canal)"

// Namespaces are those in which Calico's own pods are looked for: the one that is named,
// else ("") those that its manifests and its operator install into.
func Namespaces(named string) []string {
	if named != "" {
		return []string{named}
	}
	return []string{metav1.NamespaceSystem, "calico-system"}
}

// Verified tells whether a pod with the label of CalicoPods is Calico's own: it is in one
// of the namespaces, and a DaemonSet controls it. That the DaemonSet exists is not asked:
// who can forge the reference can create pods in such a namespace, and so has the nodes
// already; the garbage collector removes a pod whose owner does not exist; and reading
// DaemonSets would be one more right for everybody.
func Verified(p *corev1.Pod, namespaces []string) bool {
	return slices.Contains(namespaces, p.Namespace) && daemonSetOf(p) != ""
}

// daemonSetOf is the DaemonSet that controls a pod, as NAMESPACE/NAME; "" = none does.
func daemonSetOf(p *corev1.Pod) string {
	of := metav1.GetControllerOf(p)
	if of == nil || of.Kind != "DaemonSet" || of.APIVersion != "apps/v1" {
		return ""
	}
	return p.Namespace + "/" + of.Name
}

// UnverifiedError says why no pod on a node is believed to be calico-node's although some
// claim to be.
type UnverifiedError struct{ text string }

func (e *UnverifiedError) Error() string { return e.text }

func unverified(format string, args ...any) error {
	return &UnverifiedError{fmt.Sprintf(format, args...)}
}

// claims is what the pods of one node come to that have the label of CalicoPods.
type claims struct {
	pod     *corev1.Pod  // calico-node's; nil = there is none, or err says why that is not known
	err     error        // an *UnverifiedError
	ignored []corev1.Pod // those that cannot be it, by name
}

// claimsOf sorts the pods of one node that have the label. A second DaemonSet that may be
// Calico's is never decided by age or health: then none is believed. One whose pod is
// being deleted counts too: else a tenant who may make the namespace calico-system, on a
// cluster that has none, would be believed during each update of the real one.
func claimsOf(pods []corev1.Pod, namespaces []string) claims {
	all := slices.Clone(pods)
	slices.SortFunc(all, func(a, b corev1.Pod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	var out claims
	var sets, elsewhere, loose []string
	for _, p := range all {
		set, here := daemonSetOf(&p), slices.Contains(namespaces, p.Namespace)
		if here && set != "" {
			sets = append(sets, set)
			out.pod = replacement(out.pod, &p)
			continue
		}
		out.ignored = append(out.ignored, p)
		switch {
		case here:
			loose = append(loose, p.Namespace+"/"+p.Name)
		case set != "":
			elsewhere = append(elsewhere, set)
		}
	}
	sets, elsewhere = distinct(sets), distinct(elsewhere)
	switch {
	case len(sets) == 1:
	case len(sets) > 1:
		out.pod = nil
		out.err = unverified("%d DaemonSets claim to be calico-node on this node (%s): %s", len(sets), few(sets), choice(sets))
	case len(elsewhere) > 0:
		out.err = unverified("no calico-node pod in namespace %s, but one of DaemonSet %s: if that is Calico, name its namespace "+
			"with --calico-namespace", strings.Join(namespaces, " or "), few(elsewhere))
	case len(loose) > 0:
		out.err = unverified("pod %s has the label of calico-node and no DaemonSet controls it: it is not believed", few(loose))
	}
	return out
}

func distinct(names []string) []string { return slices.Compact(slices.Sorted(slices.Values(names))) }

// replacement is which of two pods of one DaemonSet stands for it: during an update the one
// that is not being deleted, else the newer one.
func replacement(have, next *corev1.Pod) *corev1.Pod {
	if have == nil {
		return next
	}
	stays := func(p *corev1.Pod) int {
		if p.DeletionTimestamp != nil {
			return 0
		}
		return 1
	}
	if cmp.Or(cmp.Compare(stays(have), stays(next)), have.CreationTimestamp.Compare(next.CreationTimestamp.Time)) < 0 {
		return next
	}
	return have
}

// choice says what to do about several DaemonSets, each as NAMESPACE/NAME.
func choice(sets []string) string {
	first, _, _ := strings.Cut(sets[0], "/")
	last, _, _ := strings.Cut(sets[len(sets)-1], "/")
	if first == last {
		return "delete the one that is not Calico's"
	}
	return "name the namespace of the right one with --calico-namespace"
}

// mostNamed is how many pods or DaemonSets are named: a tenant may make a hundred.
const mostNamed = 3

// few names the first of a list. An owner's name is free text to the API.
func few(names []string) string {
	text := oneLine(strings.Join(names[:min(len(names), mostNamed)], ", "))
	if more := len(names) - mostNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Ignored says of the pods on the node that call themselves calico-node without being
// believed that this is so. Nothing else is taken from them.
func (s *Snapshot) Ignored() []probe.Result {
	var out []probe.Result
	for i := range s.ignored[:min(len(s.ignored), mostNamed)] {
		p := &s.ignored[i]
		why := "no DaemonSet controls it"
		if !slices.Contains(s.calicoIn, p.Namespace) {
			why = "Calico's pods are looked for in namespace " + strings.Join(s.calicoIn, " or ")
		}
		r := probe.Found(probe.Info, "calls itself calico-node and is not Calico's: ignored (%s)", why)
		out = append(out, r.On(p.Namespace+"/"+p.Name))
	}
	if more := len(s.ignored) - mostNamed; more > 0 {
		out = append(out, probe.Found(probe.Info, "%s more, each of which calls itself calico-node: ignored", plural(more, "pod")))
	}
	return out
}
