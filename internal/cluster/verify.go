package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// CalicoPods selects the DaemonSet pods that run Felix: Calico's pods, from the manifests or the operator, and Canal's
// pods, with data in Kubernetes or in etcd. Any user with permission to create pods can set such a label, so the label
// alone proves nothing. claimsOf decides which pod to trust.
const CalicoPods = "k8s-app in (calico-node, canal, canal-node)"

// Namespaces returns the namespaces that are trusted to run Calico's pods: the named namespace or, if that is "", the
// namespaces that Calico's manifests and operator use.
func Namespaces(named string) []string {
	if named != "" {
		return []string{named}
	}
	return []string{metav1.NamespaceSystem, "calico-system"}
}

// Verified reports whether a pod with a label of CalicoPods is Calico's: it is in one of the namespaces, and a
// DaemonSet controls it. It does not check whether the DaemonSet exists. A user who can forge the reference can create
// pods in such a namespace, and so already controls the nodes. The garbage collector removes a pod whose owner does not
// exist. Reading DaemonSets would require one more permission from every user.
func Verified(p *corev1.Pod, namespaces []string) bool {
	return slices.Contains(namespaces, p.Namespace) && DaemonSetOf(p) != ""
}

// DaemonSetOf returns the DaemonSet that controls a pod, as NAMESPACE/NAME; "" = none.
func DaemonSetOf(p *corev1.Pod) string {
	of := metav1.GetControllerOf(p)
	if of == nil || of.Kind != "DaemonSet" || of.APIVersion != "apps/v1" {
		return ""
	}
	return p.Namespace + "/" + of.Name
}

// UnverifiedError reports why the node's pods that claim to be calico-node are not trusted.
type UnverifiedError struct{ text string }

func (e *UnverifiedError) Error() string { return e.text }

// SeeCalicoPod shortens err. All checks use it, except the check for calico-node's pod, which explains in full why no
// pod is trusted.
func SeeCalicoPod(err error) error {
	if errors.As(err, new(*UnverifiedError)) {
		return unverified("calico-node's pod is not known: see %s", facts.CheckCalicoPod)
	}
	return err
}

func unverified(format string, args ...any) error {
	return &UnverifiedError{fmt.Sprintf(format, args...)}
}

// claimsOf sorts a node's pods with the label. It returns the calico-node pod. It returns nil if there is none, or if
// an *UnverifiedError reports why that is unknown. It also returns the pods that cannot be calico-node, sorted by name.
// If two DaemonSets may both be Calico's, it does not decide by age or health: it trusts neither. A DaemonSet with a
// terminating pod also counts. Otherwise, on a cluster without namespace calico-system, a tenant with permission to
// create that namespace would be trusted during each update of the real DaemonSet.
func claimsOf(pods []corev1.Pod, namespaces []string) (calico Read[*corev1.Pod], ignored []corev1.Pod) {
	all := slices.Clone(pods)
	slices.SortFunc(all, func(a, b corev1.Pod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	var sets, elsewhere, loose []string
	for _, p := range all {
		set, here := DaemonSetOf(&p), slices.Contains(namespaces, p.Namespace)
		if here && set != "" {
			sets = append(sets, set)
			calico.Value = replacement(calico.Value, &p)
			continue
		}
		ignored = append(ignored, p)
		switch {
		case here:
			loose = append(loose, p.Namespace+"/"+p.Name)
		case set != "":
			elsewhere = append(elsewhere, set)
		}
	}
	sets, elsewhere = Distinct(sets), Distinct(elsewhere)
	switch {
	case len(sets) == 1:
	case len(sets) > 1:
		calico.Value = nil
		calico.Err = unverified("%d DaemonSets claim to be calico-node on this node (%s): %s", len(sets), Few(sets),
			choice(sets))
	case len(elsewhere) > 0:
		calico.Err = unverified("%s", outside(namespaces, elsewhere))
	case len(loose) > 0:
		calico.Err = unverified("pod %s has the label of calico-node, but no DaemonSet controls it: it is not trusted",
			Few(loose))
	}
	return calico, ignored
}

// Distinct sorts names and removes duplicates.
func Distinct(names []string) []string { return slices.Compact(slices.Sorted(slices.Values(names))) }

// replacement chooses between two pods of one DaemonSet: the pod that is not terminating, otherwise the newer pod.
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

// outside returns advice for a node whose DaemonSets are all outside the trusted namespaces.
func outside(namespaces, sets []string) string {
	if len(namespaces) > 1 { // the usual namespaces: the user did not name one
		return fmt.Sprintf("no calico-node pod in namespace %s, but one of DaemonSet %s: if that is Calico, name its namespace "+
			"with --calico-namespace", strings.Join(namespaces, " or "), Few(sets))
	}
	text := fmt.Sprintf("no calico-node pod in namespace %s, which --calico-namespace names, but DaemonSet ",
		namespaces[0])
	for _, set := range sets {
		if namespace := namespaceOf(set); slices.Contains(Namespaces(""), namespace) {
			return text + fmt.Sprintf("%s has one here: omit the flag, or set --calico-namespace %s", Few([]string{set}),
				namespace)
		}
	}
	return text + fmt.Sprintf("%s has one here: if that is Calico, set --calico-namespace %s", Few(sets),
		namespaceOf(sets[0]))
}

// namespaceOf returns the namespace of a DaemonSet given as NAMESPACE/NAME.
func namespaceOf(set string) string {
	namespace, _, _ := strings.Cut(set, "/")
	return namespace
}

// choice returns advice if there are several DaemonSets, given as NAMESPACE/NAME and sorted.
func choice(sets []string) string {
	in := map[string]int{}
	for _, set := range sets {
		in[namespaceOf(set)]++
	}
	crowd := ""
	for _, set := range sets {
		if namespace := namespaceOf(set); in[namespace] > 1 {
			crowd = fmt.Sprintf("in namespace %s, so --calico-namespace cannot distinguish them: find out who created each "+
				"('kubectl -n %s get daemonsets'); until only one has pods here, calico-node is not checked", namespace, namespace)
		}
	}
	const name = "name the namespace of the right one with --calico-namespace"
	switch {
	case crowd == "":
		return name
	case len(in) > 1:
		return name + "; where it is one of several, they are " + crowd
	case len(sets) == 2:
		return "both are " + crowd
	}
	return "all are " + crowd
}

// maxNamed is the maximum number of pods or DaemonSets to name, because a tenant may create a hundred.
const maxNamed = 3

// Ignored reports the node's untrusted pods that claim to be calico-node. No other data of these pods is used.
func (s *Snapshot) Ignored() []probe.Result {
	var out []probe.Result
	named := len(s.CalicoIn) == 1
	for i := range s.ignored[:min(len(s.ignored), maxNamed)] {
		p := &s.ignored[i]
		why := "no DaemonSet controls it"
		if !slices.Contains(s.CalicoIn, p.Namespace) {
			why = "Calico's pods are looked for in namespace " + strings.Join(s.CalicoIn, " or ")
		}
		r := probe.Found(probe.Info, "calls itself calico-node and is not Calico's: ignored (%s)", why)
		if named && p.Namespace != s.CalicoIn[0] {
			r = probe.Found(probe.Info, "has the label of calico-node and is outside namespace %s: ignored", s.CalicoIn[0])
		}
		out = append(out, r.On(p.Namespace+"/"+p.Name))
	}
	if more := len(s.ignored) - maxNamed; more > 0 {
		out = append(out, probe.Found(probe.Info, "%s more with the label of calico-node: ignored", Plural(more, "pod")))
	}
	return out
}
