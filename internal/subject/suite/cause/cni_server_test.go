package cause

import (
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestKubeconfigWrong wants a wrong kubeconfig of the CNI plugin to be sure only where it is used, and nothing else
// explains its server's answer.
func TestKubeconfigWrong(t *testing.T) {
	t.Parallel()
	reached := of(datastore.DatastoreLatency.ID, "service 10.96.0.1:443", probe.Found(probe.OK, "answers").
		With(probe.FactAddress, "10.96.0.1:443").With(probe.FactRole, probe.RoleService))
	failing := func(role string) probe.Result {
		return of(datastore.DatastoreLatency.ID, role+" 10.88.0.250:6443", probe.Found(probe.Fail, "no answer").
			With(probe.FactAddress, "10.88.0.250:6443").With(probe.FactRole, role))
	}
	waiting := of(facts.CheckPodsStart, "cni", probe.Found(probe.Warn, "1 pod waits").With(facts.Starts, facts.StartsCNI))
	clock := of(host.NodeClock.ID, "", probe.Found(probe.Fail, "an hour behind"))
	server := func(reason string, active bool) probe.Result {
		r := probe.Found(probe.Fail, "bad").With(probe.FactReason, reason).
			With(cni.FactServer, "https://10.88.0.250:6443").With(probe.FactFile, "/etc/cni/net.d/calico-kubeconfig")
		if active {
			r = r.With(cni.FactActive, true)
		}
		return of(cni.CNIServer.ID, "", r)
	}
	const cut = "cannot reach"
	type seen = []probe.Result
	for name, c := range map[string]struct {
		seen seen
		sure probe.Confidence // "" = no cause
		says string
	}{
		"nothing shows its use": {seen{server("refused", false), reached}, probe.Medium, cut},
		"used":                  {seen{server("refused", true), reached}, probe.High, cut},
		"pods wait":             {seen{server("refused", false), reached, waiting}, probe.High, cut},
		"other authority":       {seen{server(cni.ReasonAuthority, true), reached}, probe.High, "does not trust"},
		"not TLS":               {seen{server(cni.ReasonNotTLS, true), reached}, probe.High, "does not speak TLS"},
		"other name":            {seen{server(cni.ReasonName, true), reached}, probe.Medium, "certificate lacks"},
		"invalid":               {seen{server(cni.ReasonInvalid, true), reached}, probe.Medium, "is invalid"},
		"expired":               {seen{server(cni.ReasonExpired, true), reached}, "", ""},
		"no such name":          {seen{server(cni.ReasonNoName, true), reached}, "", ""},
		"no resolver":           {seen{server(cni.ReasonNoResolver, true), reached}, "", ""},
		"a wrong clock":         {seen{server(cni.ReasonInvalid, true), reached, clock}, "", ""},
		"none answers":          {seen{server("refused", true)}, "", ""},
		"the configured server": {seen{server("refused", true), reached, failing(datastore.RoleConfigured)}, "", ""},
		"a known server":        {seen{server("refused", true), reached, failing("endpoint")}, probe.Medium, cut},
	} {
		var sure probe.Confidence
		says := ""
		for _, cause := range diagnose.Explain(found(c.seen...),
			diagnose.Suite{Rules: []*diagnose.Rule{All().Rule("cni-kubeconfig-wrong")}}).Causes {
			sure, says = cause.Confidence, cause.Says
		}
		if sure != c.sure || !strings.Contains(says, c.says) {
			t.Errorf("%s: %q %q", name, sure, says)
		}
	}
}

// TestKubeconfigWrongOfOperator wants the ConfigMap of the API server's endpoint where the operator reads it.
func TestKubeconfigWrongOfOperator(t *testing.T) {
	t.Parallel()
	const endpoint = "get configmap kubernetes-services-endpoint"
	for operator, namespace := range map[bool]string{true: "tigera-operator", false: "kube-system"} {
		seen := found(
			of(cni.CNIServer.ID, "", probe.Found(probe.Fail, "refused").With(probe.FactReason, "refused").
				With(probe.FactFile, "/etc/cni/net.d/calico-kubeconfig")),
			of(datastore.DatastoreLatency.ID, "service", probe.Found(probe.OK, "answers")),
			of(facts.CheckCalicoPod, "", probe.Found(probe.OK, "ready").With(facts.Operator, operator).
				With(facts.Pod, map[bool]string{true: "calico-system", false: "kube-system"}[operator]+"/calico-node-x")))
		causes := diagnose.Explain(seen, diagnose.Suite{Rules: []*diagnose.Rule{All().Rule("cni-kubeconfig-wrong")}}).Causes
		if len(causes) != 1 {
			t.Fatalf("%+v", causes)
		}
		commands := strings.Join(commandsOf(causes[0].Fix), "\n")
		if !strings.Contains(commands, "kubectl -n "+namespace+" "+endpoint) || strings.Count(commands, endpoint) != 1 {
			t.Errorf("operator %t: %s", operator, commands)
		}
	}
}
