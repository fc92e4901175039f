package api

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/internal/cluster/clustertest"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestStartTaints expects a warning about a taint that its controller has not removed, with the pods that wait for
// that.
func TestStartTaints(t *testing.T) {
	const key = "node.cloudprovider.kubernetes.io/uninitialized"
	waits := clustertest.StartWaits("0/1 nodes are available: 1 node(s) had untolerated taint(s).", "1")
	for name, c := range map[string]struct {
		key    string
		age    time.Duration
		pods   []corev1.Pod
		status probe.Status
		saw    string
	}{
		"recorded": {key, time.Hour, []corev1.Pod{*waits}, probe.Warn,
			"1 pod waits for a node but cannot run here: kube-system/calico-node-x"},
		"no pod waits":                 {key, time.Hour, nil, probe.Warn, "no controller has removed"},
		"a CSI driver's":               {"ebs.csi.aws.com/agent-not-ready", time.Hour, nil, probe.Warn, "no controller has removed"},
		"an agent without a pod":       {"node.cilium.io/agent-not-ready", time.Hour, nil, probe.Fail, "has no pod on the node"},
		"the same, young":              {"node.cilium.io/agent-not-ready", time.Minute, nil, probe.Fail, "has no pod on the node"},
		"near: just born, of an agent": {"node.cilium.io/agent-not-ready", 20 * time.Second, nil, probe.Info, "cilium"},
		"near: its agent starts":       {"ebs.csi.aws.com/agent-not-ready", time.Minute, nil, probe.Info, "ebs"},
		"near: just born":              {key, time.Minute, nil, probe.Info, key},
		"near: an administrator's":     {"dedicated", time.Hour, nil, probe.Info, "dedicated"},
		"near: a team's":               {"team.example.com/startup-team-only-not", time.Hour, nil, probe.Info, "team"},
	} {
		s := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""))
		s.Node.CreationTimestamp = clustertest.Ago(c.age)
		agent := corev1.Pod{}
		agent.Namespace, agent.Name = "kube-system", "ebs-csi-node-x"
		s.Placed.Pods.Value = []corev1.Pod{agent}
		s.Node.Spec.Taints = []corev1.Taint{{Key: c.key, Effect: corev1.TaintEffectNoSchedule}}
		s.Startup.Value.Kept.Value = c.pods
		t.Run(name, func(t *testing.T) { clustertest.WantFirst(t, ask(t, s, facts.CheckNodeTaints), c.status, c.saw) })
	}
}
