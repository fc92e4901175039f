package cause

import (
	"testing"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/kubelet"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// found makes findings of results of node a.
func found(results ...probe.Result) diagnose.Findings {
	f := diagnose.Findings{Node: "a"}
	for _, r := range results {
		f.All = append(f.All, diagnose.Finding{Node: "a", Result: r})
	}
	return f
}

// of gives a result the check and the target that it is of.
func of(check, target string, r probe.Result) probe.Result {
	r.Check, r.Target = check, target
	return r
}

// TestKubeletRenamed wants a second Node of the machine, or the API server's refusal, to be the cause of a lease
// that has run out, and nothing where the lease is fresh.
func TestKubeletRenamed(t *testing.T) {
	t.Parallel()
	over := of(facts.CheckNodeLease, "", probe.Found(probe.Fail, "the lease has expired").With(facts.Age, 300))
	refused := of(logs.DaemonLog.ID, logs.ServiceKubelet, probe.Found(probe.Warn, `running, and logs: node "a" is not allowed to modify node "m01"`).
		With(logs.FactEnded, false).With(logs.FactSignature, logs.FaultRenamed))
	well := of(kubelet.KubeletHealth.ID, "healthz", probe.Found(probe.OK, "ok"))
	for name, c := range map[string]struct {
		of   diagnose.Findings
		want string
	}{
		"a second Node":   {found(over.With(facts.RenamedTo, "m01"), well), "kubelet-renamed high"},
		"it is refused":   {found(over, refused, well), "kubelet-renamed high"},
		"by a syslog":     {found(over, refused.With(logs.FactByTag, true), well), "kubelet-renamed medium"},
		"neither of them": {found(over, well), "kubelet-cut-off medium"},
		"a fresh lease":   {found(refused, well), ""},
	} {
		if got := causesOf(c.of); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestOtherServer requires the kubeconfig's server as the cause only if the cluster's API servers answer the node.
func TestOtherServer(t *testing.T) {
	t.Parallel()
	over := of(facts.CheckNodeLease, "", probe.Found(probe.Fail, "the lease has expired").With(facts.Age, 300))
	well := of(kubelet.KubeletHealth.ID, "healthz", probe.Found(probe.OK, "ok"))
	old := of(kubelet.KubeletHealth.ID, kubelet.TargetAuthority, probe.Found(probe.Info, "cannot be reached").
		With(probe.FactAddress, "10.0.0.9:6443").With(probe.FactFile, "/etc/kubernetes/kubelet.conf"))
	for status, want := range map[probe.Status]string{probe.OK: "other-server", probe.Fail: ""} {
		api := of(datastore.DatastoreLatency.ID, "endpoint 10.0.0.1:6443", probe.Found(status, "").
			With(probe.FactAddress, "10.0.0.1:6443").With(probe.FactRole, probe.RoleEndpoint))
		cases := All().Rule("kubelet-cut-off").Match(found(over, well, old, api))
		if len(cases) != 1 || cases[0].FixName != want {
			t.Errorf("API servers %s: %+v", status, cases)
		}
	}
	if got := causesOf(found(well, old)); got != "" {
		t.Errorf("the kubelet reports: %s", got)
	}
	answers := of(datastore.DatastoreLatency.ID, "endpoint 10.0.0.1:6443", probe.Found(probe.OK, "").
		With(probe.FactAddress, "10.0.0.1:6443").With(probe.FactRole, probe.RoleEndpoint))
	for _, own := range []string{"127.0.0.1:6443", "10.0.0.1:6443", "10.0.0.7:6443"} {
		registered := of(facts.CheckIPRegistered, "IPv4", probe.Found(probe.OK, "").With(facts.Internal, "10.0.0.7"))
		cases := All().Rule("kubelet-cut-off").Match(found(over, well, old.With(probe.FactAddress, own), answers, registered))
		if len(cases) != 1 || cases[0].FixName != "" {
			t.Errorf("API server %s: %+v", own, cases)
		}
	}
}

// TestDeadConnection wants a restart first only where the API server answers on the node.
func TestDeadConnection(t *testing.T) {
	t.Parallel()
	over := of(facts.CheckNodeLease, "", probe.Found(probe.Fail, "the lease has expired").With(facts.Age, 300))
	well := of(kubelet.KubeletHealth.ID, "healthz", probe.Found(probe.OK, "ok"))
	dead := of(logs.DaemonLog.ID, logs.ServiceKubelet, probe.Found(probe.Warn, "running, and logs: use of closed network connection").
		With(logs.FactEnded, false).With(logs.FactSignature, logs.FaultDeadConn))
	for status, want := range map[probe.Status]bool{probe.OK: true, probe.Fail: false} {
		api := of(datastore.DatastoreLatency.ID, "10.0.0.9:6443", probe.Found(status, "asked"))
		cases := All().Rule("kubelet-cut-off").Match(found(over, well, dead, api))
		if len(cases) != 1 || (cases[0].FixName == "dead-connection") != want {
			t.Errorf("%s: %+v", status, cases)
		}
	}
}

// TestInternalShared wants what follows from one InternalIP of two nodes told as that.
func TestInternalShared(t *testing.T) {
	t.Parallel()
	shared := of(facts.CheckIPRegistered, "InternalIP 10.0.2.15", probe.Found(probe.Warn, "of two").
		With(probe.FactReason, facts.ReasonShared).With(probe.FactNode, "b").With(facts.Internal, "10.0.2.15"))
	attach := of(probe.CheckPlaced, "exec", probe.Found(probe.Unknown, "NotFound: the server could not find the requested resource").
		With(probe.FactReason, string(facts.ReasonAttach)).With(facts.Answered, true))
	taken := of(facts.CheckIPRegistered, "IPv4", probe.Found(probe.Fail, "10.0.2.15 is registered for this node and for b").
		With(probe.FactReason, facts.ReasonTaken).With(probe.FactNode, "b").With(facts.Registered, "10.0.2.15").
		With(facts.Internal, "10.0.2.15"))
	for name, c := range map[string]struct {
		of   diagnose.Findings
		sure probe.Confidence
	}{
		"alone": {found(shared), probe.Medium}, "and no way in": {found(shared, attach), probe.High},
		"and Calico took it": {found(shared, taken), probe.High},
	} {
		d := diagnose.Explain(c.of, All())
		if len(d.Causes) != 1 || d.Causes[0].ID != "internal-address-shared" || d.Causes[0].Confidence != c.sure {
			t.Errorf("%s: %+v", name, d.Causes)
		}
	}
}
