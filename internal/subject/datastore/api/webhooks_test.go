package api

import (
	"net/http"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/cluster/clustertest"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestStartWebhooks checks that only dead webhooks that block a node are reported.
func TestStartWebhooks(t *testing.T) {
	rule := func(group, resource string, ops ...admissionv1.OperationType) []admissionv1.RuleWithOperations {
		return []admissionv1.RuleWithOperations{{Operations: ops, Rule: admissionv1.Rule{APIGroups: []string{group},
			APIVersions: []string{"*"}, Resources: []string{resource}}}}
	}
	named := func(key string, op metav1.LabelSelectorOperator, values ...string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key,
			Operator: op, Values: values}}}
	}
	leases := rule("coordination.k8s.io", "leases", admissionv1.Create, admissionv1.Update)
	for name, c := range map[string]struct {
		hook   cluster.DeadHook
		silent bool
		status probe.Status
		saw    string
	}{
		"recorded: leases": {cluster.DeadHook{Rules: leases}, true, probe.Fail, "blocks writes of leases"},
		"not yet":          {cluster.DeadHook{Rules: leases}, false, probe.Warn, "blocks writes of leases"},
		"all": {cluster.DeadHook{Rules: rule("*", "*/*", admissionv1.OperationAll)}, true,
			probe.Fail, "writes of leases, nodes/status, nodes, pods, workload pods, calico"},
		"pods": {cluster.DeadHook{Rules: rule("", "pods", admissionv1.Create)}, false, probe.Fail,
			"writes of pods, workload pods"},
		"kyverno's: without system's": {cluster.DeadHook{Rules: rule("", "pods", admissionv1.Create),
			Namespaces: named(corev1.LabelMetadataName, metav1.LabelSelectorOpNotIn, "kube-system",
				"calico-system")}, false, probe.Fail, "writes of workload pods"},
		"calico-node's alone": {cluster.DeadHook{Rules: rule("", "pods", admissionv1.Create),
			Namespaces: named(corev1.LabelMetadataName, metav1.LabelSelectorOpIn, "kube-system",
				"calico-system")}, false, probe.Fail, "writes of pods"},
		"near: conditions": {cluster.DeadHook{Rules: leases, Conditions: true}, true, probe.Info,
			"where its conditions match"},
		"near: deletions": {cluster.DeadHook{Rules: rule("*", "*", admissionv1.Delete)}, true, probe.OK, "not blocked"},
		"near: one namespace": {cluster.DeadHook{Rules: rule("", "pods", admissionv1.Create),
			Namespaces: named("team", metav1.LabelSelectorOpExists)}, false, probe.OK, "not blocked"},
		"near: without system's and default": {cluster.DeadHook{Rules: rule("", "pods", admissionv1.Create),
			Namespaces: named(corev1.LabelMetadataName, metav1.LabelSelectorOpNotIn, "kube-system",
				"calico-system", "default")}, false, probe.OK, "not blocked"},
		"near: other objects": {cluster.DeadHook{Rules: rule("", "pods", admissionv1.Create), Objects: named("app",
			metav1.LabelSelectorOpIn, "shop")}, false, probe.OK, "not blocked"},
	} {
		s := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""))
		age := 2 * time.Second
		if c.silent {
			age = time.Minute
		}
		s.Lease.Value = &coordinationv1.Lease{}
		s.Lease.Value.Spec.RenewTime = new(metav1.NewMicroTime(clustertest.Now.Add(-age)))
		c.hook.Name, c.hook.Config, c.hook.Why = "freeze.example.com", "validatingwebhookconfiguration/freeze",
			"there is no Service a/b"
		s.Webhooks.Value.Dead = []cluster.DeadHook{c.hook}
		t.Run(name, func(t *testing.T) { clustertest.WantFirst(t, ask(t, s, facts.CheckWebhooks), c.status, c.saw) })
	}
}

// TestWebhooksUnread checks that a webhook with an unreadable Service is unknown: an unreadable Service is not a
// missing one.
func TestWebhooksUnread(t *testing.T) {
	hook := `{"items":[{"metadata":{"name":"v"},"webhooks":[{"name":"a","failurePolicy":"Fail","rules":[{"operations":["*"],` +
		`"apiGroups":["*"],"apiVersions":["*"],"resources":["*/*"]}],"clientConfig":{"service":{"namespace":"x","name":"y"}}}]}]}`
	broken := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }
	client := clustertest.ServerOf(t, map[string]string{
		"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations": hook,
		"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations":   `{"items":[]}`,
		"/apis/discovery.k8s.io/v1/namespaces/x/endpointslices":                 `{"items":[]}`,
	}, map[string]http.HandlerFunc{"/api/v1/namespaces/x/services/y": broken})
	s := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""))
	s.Webhooks.Value, s.Webhooks.Err = client.ReadWebhooks(t.Context())
	clustertest.WantFirst(t, ask(t, s, facts.CheckWebhooks), probe.Unknown, "state of 1 unknown")
}
