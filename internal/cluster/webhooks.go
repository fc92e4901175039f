package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// maxWebhooks is the maximum number of unanswered webhooks to report, and of Services to read.
const maxWebhooks = 50

// webhooks holds the webhooks whose requests are rejected because they have no endpoint.
type webhooks struct {
	Dead []DeadHook
	Of   int // number of webhooks whose requests are rejected if they do not answer
	Dark int // number of these webhooks whose state is unknown
}

// A DeadHook is a webhook whose Service has no ready endpoint.
type DeadHook struct {
	Config, Name string
	Why          string // the Service, and the reason why it has no ready endpoint
	Rules        []admissionv1.RuleWithOperations
	Namespaces   *metav1.LabelSelector
	Objects      *metav1.LabelSelector
	Conditions   bool // the webhook has match conditions, which are not evaluated
}

// ReadWebhooks lists the webhooks with failurePolicy Fail, and keeps those whose Service has no ready endpoint.
func (c *Client) ReadWebhooks(ctx context.Context) (out webhooks, err error) {
	api := c.kube.AdmissionregistrationV1()
	validating, err := api.ValidatingWebhookConfigurations().List(ctx, cached)
	if err != nil {
		return out, fmt.Errorf("listing webhooks: %w", err)
	}
	mutating, err := api.MutatingWebhookConfigurations().List(ctx, cached)
	if err != nil {
		return out, fmt.Errorf("listing webhooks: %w", err)
	}
	seen := map[string]struct {
		why   string
		known bool
	}{}
	add := func(config string, policy *admissionv1.FailurePolicyType, client admissionv1.WebhookClientConfig,
		h DeadHook) {
		if policy != nil && *policy != admissionv1.Fail || client.Service == nil {
			return
		}
		out.Of++
		at := client.Service.Namespace + "/" + client.Service.Name
		a, known := seen[at]
		if !known && len(seen) < maxWebhooks {
			a.why, a.known = c.unanswered(ctx, client.Service.Namespace, client.Service.Name)
			seen[at] = a
		}
		if !a.known {
			out.Dark++
		}
		if why := a.why; why != "" && len(out.Dead) < maxWebhooks {
			h.Config, h.Why = config, why
			out.Dead = append(out.Dead, h)
		}
	}
	for _, of := range validating.Items {
		for _, h := range of.Webhooks {
			add("validatingwebhookconfiguration/"+of.Name, h.FailurePolicy, h.ClientConfig,
				DeadHook{Name: h.Name, Rules: h.Rules,
					Namespaces: h.NamespaceSelector, Objects: h.ObjectSelector, Conditions: len(h.MatchConditions) > 0})
		}
	}
	for _, of := range mutating.Items {
		for _, h := range of.Webhooks {
			add("mutatingwebhookconfiguration/"+of.Name, h.FailurePolicy, h.ClientConfig, DeadHook{Name: h.Name,
				Rules:      h.Rules,
				Namespaces: h.NamespaceSelector, Objects: h.ObjectSelector, Conditions: len(h.MatchConditions) > 0})
		}
	}
	return out, nil
}

// unanswered returns why a Service has no ready endpoint, or "" if it has one. It returns false if the Service could
// not be read.
func (c *Client) unanswered(ctx context.Context, namespace, name string) (why string, known bool) {
	at := probe.OneLine(namespace + "/" + name)
	parts, err := c.kube.DiscoveryV1().EndpointSlices(namespace).List(ctx,
		metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + name})
	if err != nil {
		return "", false
	}
	for _, part := range parts.Items {
		for _, e := range part.Endpoints {
			if ready := e.Conditions.Ready; ready == nil || *ready {
				return "", true
			}
		}
	}
	svc, err := c.kube.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "there is no Service " + at, true
	case err != nil:
		return "", false
	case svc.Spec.Type == corev1.ServiceTypeExternalName: // the Service points outside the cluster
		return "", true
	}
	return "Service " + at + " has no ready endpoint", true
}

// needed lists the objects that a node, Calico and new pods must write. Namespace default represents workload
// namespaces, and is assumed to have only its name label.
var needed = []struct {
	what, group, resource string
	operations            []admissionv1.OperationType
}{
	{facts.KeepsLeases, "coordination.k8s.io", "leases", []admissionv1.OperationType{admissionv1.Update}},
	{facts.KeepsStatus, "", "nodes/status", []admissionv1.OperationType{admissionv1.Update}},
	{facts.KeepsNodes, "", "nodes", []admissionv1.OperationType{admissionv1.Create, admissionv1.Update}},
	{facts.KeepsPods, "", "pods", []admissionv1.OperationType{admissionv1.Create}},
	{facts.KeepsOthers, "", "pods", []admissionv1.OperationType{admissionv1.Create}},
	{facts.KeepsCalico, "crd.projectcalico.org", "ipamblocks", []admissionv1.OperationType{admissionv1.Create,
		admissionv1.Update}},
	{facts.KeepsCalico, "crd.projectcalico.org", "clusterinformations",
		[]admissionv1.OperationType{admissionv1.Update}},
}

// KeepsFrom lists the needed objects that a webhook blocks.
func (h DeadHook) KeepsFrom(calicoIn []string) []string {
	var out []string
	for _, need := range needed {
		in := map[string][]string{facts.KeepsLeases: {corev1.NamespaceNodeLease}, facts.KeepsPods: calicoIn,
			facts.KeepsOthers: {corev1.NamespaceDefault}}[need.what]
		if !slices.Contains(out, need.what) && h.selects(in, need.what == facts.KeepsPods) &&
			slices.ContainsFunc(h.Rules, func(r admissionv1.RuleWithOperations) bool {
				return matches(r, need.group, need.resource, need.operations)
			}) {
			out = append(out, need.what)
		}
	}
	return out
}

// selects reports whether a webhook's selectors certainly match an object in one of these namespaces. If there are no
// namespaces, the object is cluster-scoped. It uses only known labels: every namespace's name label, and the label of
// calico-node's pods.
func (h DeadHook) selects(namespaces []string, pod bool) bool {
	set := labels.Set{}
	if pod {
		set["k8s-app"] = "calico-node"
	}
	if !surely(h.Objects, set) {
		return false
	}
	return len(namespaces) == 0 || slices.ContainsFunc(namespaces, func(name string) bool {
		return surely(h.Namespaces, labels.Set{corev1.LabelMetadataName: name})
	})
}

func surely(s *metav1.LabelSelector, of labels.Set) bool {
	if s == nil {
		return true
	}
	selects, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && selects.Matches(of)
}

// matches reports whether a rule covers a resource and one of the operations.
func matches(r admissionv1.RuleWithOperations, group, resource string, operations []admissionv1.OperationType) bool {
	name, sub, _ := strings.Cut(resource, "/")
	resources := []string{"*/*", resource, name + "/*"}
	if sub == "" {
		resources = []string{"*", "*/*", name, name + "/*"}
	} else {
		resources = append(resources, "*/"+sub)
	}
	has := func(have []string, want ...string) bool {
		return slices.ContainsFunc(have, func(s string) bool { return slices.Contains(want, s) })
	}
	return has(r.APIGroups, "*", group) && has(r.Resources, resources...) &&
		slices.ContainsFunc(r.Operations, func(o admissionv1.OperationType) bool {
			return o == admissionv1.OperationAll || slices.Contains(operations, o)
		})
}
