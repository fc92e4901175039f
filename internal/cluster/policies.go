package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/calico-probe/calico-probe/internal/cluster/selector"
	"github.com/calico-probe/calico-probe/probe"
)

// policy is something that may forbid packets from or to the pods it selects.
type policy struct {
	name      string                       // with its kind
	namespace string                       // "" = every
	selects   func(map[string]string) bool // by Kubernetes' selector; nil for Calico's
	text      string                       // Calico's selector
	ruling
}

// policies are those of Kubernetes and of Calico. What they allow is worked out as far as one
// denies everything: a pod that none selects is the better one to test with.
type policies struct {
	all   Read[[]policy] // in the order in which they are asked
	tiers specs
	other error // why nothing is surely denied: kinds that are not worked out, or not read
	// what selectors may mean beside pods, and the labels of namespaces, nil where they are not known
	sets   Read[[]networkSet]
	names  map[string]map[string]string
	parsed *parsedSelectors
}

func (c *Client) readPolicies(ctx context.Context) policies {
	p := policies{parsed: &parsedSelectors{by: map[string]parsedSelector{}}}
	list, err := c.kube.NetworkingV1().NetworkPolicies(metav1.NamespaceAll).List(ctx, cached)
	if err != nil {
		p.all.Err = fmt.Errorf("listing NetworkPolicies: %w", err)
	} else {
		for _, np := range list.Items {
			s, err := metav1.LabelSelectorAsSelector(&np.Spec.PodSelector)
			if err != nil {
				s = labels.Everything() // the API admits no such selector
			}
			p.all.Value = append(p.all.Value, policy{name: "NetworkPolicy " + np.Namespace + "/" + np.Name,
				namespace: np.Namespace, ruling: kubernetesRuling(&np),
				selects: func(l map[string]string) bool { return s.Matches(labels.Set(l)) }})
		}
	}
	for _, kind := range []struct{ resource, kind string }{{"networkpolicies", "Calico's NetworkPolicy"},
		{"globalnetworkpolicies", "GlobalNetworkPolicy"}} {
		specs, err := c.listSpecs(ctx, kind.resource, 0)
		p.all.Err = errors.Join(p.all.Err, err)
		for _, name := range slices.Sorted(maps.Keys(specs)) {
			p.all.Value = append(p.all.Value, calicos(kind.kind, name, specs[name]))
		}
	}
	p.tiers, err = c.listSpecs(ctx, "tiers", 0)
	p.other = errors.Join(err, c.notWorkedOut(ctx))
	if len(p.all.Value) > 0 {
		p.sets.read(ctx, c.readNetworkSets)
		p.names = c.readNamespaces(ctx)
	}
	p.sort()
	return p
}

// calicos is a policy of Calico's. Where its selector cannot be read, it may select every pod.
func calicos(kind, name string, spec map[string]any) policy {
	namespace, _, _ := strings.Cut(name, "/")
	if !strings.Contains(name, "/") {
		namespace = ""
	}
	text, _ := spec["selector"].(string)
	text = cmp.Or(text, everyNamespace)
	_, err := selector.Parse(text)
	return policy{name: kind + " " + name, namespace: namespace, text: text,
		ruling: calicoRuling(namespace, spec, err != nil)}
}

// on says what may forbid packets of a pod with these labels, as attributes of a
// target; none when nothing does.
func (p policies) on(namespace string, of map[string]string) map[string]string {
	with := withCalicos(namespace, of)
	if name, directions := p.denies(namespace, with); len(directions) > 0 {
		return map[string]string{probe.AttrPolicy: name, probe.AttrDenies: strings.Join(directions, ",")}
	}
	if by := p.strictest(namespace, with); by != "" {
		return map[string]string{probe.AttrPolicy: by}
	}
	if p.all.Err != nil {
		return map[string]string{probe.AttrUnread: strings.Join(strings.Fields(p.all.Err.Error()), " ")}
	}
	return nil
}

// withCalicos are a pod's labels with those that Calico adds (libcalico-go, k8s/conversion).
func withCalicos(namespace string, of map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, of)
	out[labelNamespace], out[labelOrchestrator] = namespace, "k8s"
	return out
}

// labelsOf are all labels that Calico knows a pod by, without those of its namespace and of its account.
func labelsOf(p *corev1.Pod) map[string]string {
	out := withCalicos(p.Namespace, p.Labels)
	out[labelAccount] = p.Spec.ServiceAccountName
	return out
}

// strictest is the policy that holds for a pod and lets nothing pass in a direction, or else the first that holds for
// it; "" where none does.
func (p policies) strictest(namespace string, with map[string]string) string {
	first := ""
	for i := range p.all.Value {
		one := &p.all.Value[i]
		if !p.mayHold(one, namespace, with) {
			continue
		}
		for _, d := range directions {
			if rules, about := one.rules[d.is]; about && len(rules) == 0 {
				return one.name
			}
		}
		first = cmp.Or(first, one.name)
	}
	return first
}

// free is 0 for what no policy selects, 1 for the rest: the order of preference.
func (p policies) free(namespace string, of map[string]string) int {
	return min(1, len(p.on(namespace, of)))
}

// knowsSenders reports whether a rule knows senders by their addresses, so that pods with the same labels differ.
func (p policies) knowsSenders() bool {
	return len(p.sets.Value) > 0 || slices.ContainsFunc(p.all.Value, func(one policy) bool {
		return slices.ContainsFunc(one.rules[probe.DeniesIngress], func(r rule) bool {
			return len(r.src.nets)+len(r.src.notNets) > 0
		})
	})
}

// byLabels is a policy that admits pods by their labels, "" where there is none.
func (p policies) byLabels() string {
	for _, one := range p.all.Value {
		if slices.ContainsFunc(one.rules[probe.DeniesIngress], func(r rule) bool { return r.pods && r.action == "Allow" }) {
			return one.name
		}
	}
	return ""
}
