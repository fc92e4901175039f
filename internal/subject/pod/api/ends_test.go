package api

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/cluster/clustertest"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestPodsEnd reports pods that are stuck terminating, by the reason that the kubelet gives, and fails only if more
// than one tenant is affected.
func TestPodsEnd(t *testing.T) {
	const (
		saidDel  = `error killing pod: failed to "KillPodSandbox" for "11d141ef-59c9-49c8-99a7-0a42c6328d91" with KillPodSandboxError: "rpc error: code = Unknown desc = failed to destroy network for sandbox \"ab12\": plugin type=\"calico\" failed (delete): stat /var/lib/calico/nodename: no such file or directory"`
		saidKill = `error killing pod: failed to "KillContainer" for "c" with KillContainerError: "rpc error: code = DeadlineExceeded desc = context deadline exceeded"`
	)
	as := func(*corev1.Pod) {}
	held := func(p *corev1.Pod) { p.Finalizers = []string{"example.com/wait"} }
	ended := func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	}
	ours := func(p *corev1.Pod) { p.Labels = map[string]string{cluster.LabelOfProbes: cluster.NameOfProbes} }
	for name, c := range map[string]struct {
		event  string // the kubelet's message
		pods   []corev1.Pod
		silent bool
		status probe.Status
		word   string
		lacks  string
	}{
		"none":                {"", nil, false, probe.OK, "", ""},
		"within its minute":   {"", []corev1.Pod{clustertest.Doomed("a", 50*time.Second, as)}, false, probe.OK, "", ""},
		"grace is not over":   {"", []corev1.Pod{clustertest.Doomed("a", -time.Hour, as)}, false, probe.OK, "", ""},
		"a finalizer":         {"", []corev1.Pod{clustertest.Doomed("a", time.Hour, held)}, false, probe.OK, "", ""},
		"a probe's":           {"", []corev1.Pod{clustertest.Doomed("a", time.Hour, ours)}, false, probe.OK, "", ""},
		"the kubelet is dead": {"", []corev1.Pod{clustertest.Doomed("a", time.Hour, as)}, true, probe.Unknown, "", ""},
		"no reported reason": {"", []corev1.Pod{clustertest.Doomed("a", time.Hour, as)}, false, probe.Warn,
			facts.EndsNotUnreported, ""},
		"a volume in use": {"", []corev1.Pod{clustertest.Doomed("a", time.Hour, ended)}, false, probe.Warn,
			facts.EndsNotClean, ""},
		"the network": {saidDel, []corev1.Pod{clustertest.Doomed("a", time.Hour, ended)}, false, probe.Warn,
			facts.EndsNotCNI, facts.EndLacksNodename},
		"the network of many": {saidDel, []corev1.Pod{clustertest.Doomed("a", time.Hour, ended),
			clustertest.Doomed("b", time.Hour, ended)},
			false, probe.Fail, facts.EndsNotCNI, facts.EndLacksNodename},
		"the network, lately": {saidDel, []corev1.Pod{clustertest.Doomed("kube-system", 90*time.Second, ended)}, false,
			probe.Warn, facts.EndsNotCNI, facts.EndLacksNodename},
		"the runtime": {saidKill, []corev1.Pod{clustertest.Doomed("kube-system", time.Hour, as)}, false, probe.Fail,
			facts.EndsNotRuntime, ""},
		"the runtime, of many": {saidKill, []corev1.Pod{clustertest.Doomed("a", time.Hour, as),
			clustertest.Doomed("b", time.Hour, as)},
			false, probe.Fail, facts.EndsNotRuntime, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := clustertest.Snapshot(clustertest.Node("node-a", "10.0.0.1", "10.0.0.1/24"))
			if c.silent {
				renewed := metav1.NewMicroTime(s.Now.Add(-time.Hour))
				s.Lease.Value = &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}}
			}
			s.Placed.Ending.Value = cluster.Endings(c.pods)
			for i := range s.Placed.Ending.Value {
				if c.event != "" {
					s.Placed.Ending.Value[i].Last = cluster.KillWord([]corev1.Event{
						{Reason: facts.EventKill, Message: c.event, Source: corev1.EventSource{Component: "kubelet"}},
						{Reason: facts.EventKill, Message: "mine", Source: corev1.EventSource{Component: "me"}},
					}, "node-a")
				}
			}
			got := ask(t, s, facts.CheckPodsEnd)
			clustertest.WantFirst(t, got, c.status, "")
			if f := got[0].Facts; len(got) != 1 || f.Str(facts.EndsNot) != c.word || f.Str(facts.EndLacks) != c.lacks {
				t.Errorf("%v", got)
			}
		})
	}
}
