package api

import (
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/cluster/clustertest"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestPodsCreated requires a fault only for the workloads of Kubernetes and Calico, with the object that refuses them.
func TestPodsCreated(t *testing.T) {
	t.Parallel()
	for text, c := range map[string]struct{ namespace, by, name, says string }{
		"exceeded quota: team, requested: pods=1, used: pods=2, limited: pods=2": {"shop", facts.RefuserQuota, "team",
			"Deployment shop/web lacks 1 pod: ResourceQuota shop/team has no room: requested: pods=1, used: pods=2, limited: pods=2, 2m ago"},
		"failed quota: team: must specify limits.cpu for: c; limits.memory for: c": {"shop", facts.RefuserQuota, "team",
			"ResourceQuota shop/team counts what the pods do not set: must specify limits.cpu"},
		"insufficient quota to match these scopes: [{PriorityClass In [system-node-critical]}]":   {"kube-system", facts.RefuserQuota, "", "insufficient quota"},
		"[minimum cpu usage per Container is 100m, but request is 10m]":                           {"shop", facts.RefuserLimits, "", "minimum cpu"},
		`violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false`:             {"calico-system", facts.RefuserSecurity, "", "violates"},
		"ValidatingAdmissionPolicy 'non-root' with binding 'all' denied request: runAsNonRoot":    {"shop", facts.RefuserPolicy, "non-root", "runAsNonRoot"},
		`admission webhook "validate.kyverno.svc-fail" denied the request: no`:                    {"shop", facts.RefuserWebhook, "validate.kyverno.svc-fail", "denied"},
		`Internal error occurred: failed calling webhook "w.example.com": no endpoints available`: {"shop", facts.RefuserDead, "w.example.com", "no endpoints"},
		`error looking up service account shop/web: serviceaccount "web" not found`:               {"shop", facts.RefuserAccount, "web", "not found"},
		"no PriorityClass with name high was found":                                               {"tigera-operator", facts.RefuserPriority, "high", "was found"},
		"pod rejected: RuntimeClass \"kata\" not found":                                           {"shop", facts.RefuserOther, "", "RuntimeClass"},
	} {
		s := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""))
		s.CalicoIn = []string{"calico-system"}
		s.Refused.Value = []cluster.Unmade{{Kind: "Deployment", Namespace: c.namespace, Name: "web", Lacks: 1,
			Said: probe.Statement{Text: text, At: s.Now.Add(-2 * time.Minute)}}}
		got := ask(t, s, facts.CheckPodsCreated)
		want := probe.Fail
		if c.namespace == "shop" {
			want = probe.Warn
		}
		if len(got) != 1 || got[0].Status != want || got[0].Facts.Str(facts.RefusedBy) != c.by ||
			got[0].Facts.Str(facts.Refuser) != c.name || !strings.Contains(got[0].Saw, c.says) {
			t.Errorf("%s: %+v", text, got)
		}
	}
	s := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""))
	clustertest.WantFirst(t, ask(t, s, facts.CheckPodsCreated), probe.OK, "no workload")
	s.Refused.Err = errors.New("busy")
	clustertest.WantFirst(t, ask(t, s, facts.CheckPodsCreated), probe.Unknown, "busy")
	s.Refused.Err = apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", errors.New("no"))
	clustertest.WantFirst(t, ask(t, s, facts.CheckPodsCreated), probe.Skip, "list events")
}
