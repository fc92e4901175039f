package api

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/calico-probe/calico-probe/internal/apicheck"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// NodeReady reports the node's condition Ready, and each other condition with a problem.
func NodeReady(s *cluster.Snapshot, report func(probe.Result)) {
	c := cluster.Readiness(s.Node)
	since := probe.Age(s.Now.Sub(c.LastTransitionTime.Time))
	info := s.Node.Status.NodeInfo
	send := func(r probe.Result) {
		if r.Status == probe.OK && cluster.KubeletSilent(s) { // the node controller reacts later
			r.Status, r.Saw = probe.Unknown, "the kubelet is silent (see node-lease); last reported: "+r.Saw
		}
		kind, _, _ := strings.Cut(info.ContainerRuntimeVersion, "://")
		_, server := s.Node.Labels["node-role.kubernetes.io/control-plane"]
		r = r.With(facts.Kubelet, info.KubeletVersion).With(facts.Runtime, kind).With(facts.ControlPlane, server)
		if s.Local.Value.KubeProxy != nil {
			r = r.With(facts.KubeProxy, s.Local.Value.KubeProxy)
		}
		report(r)
	}
	switch c.Status {
	case corev1.ConditionTrue:
		send(probe.Found(probe.OK, "Ready for %s, kubelet %s, %s, kernel %s",
			since, info.KubeletVersion, info.ContainerRuntimeVersion, info.KernelVersion))
	case corev1.ConditionFalse:
		send(probe.Found(probe.Fail, "has not been Ready for %s: %s: %s", since, c.Reason,
			apicheck.Message(c.Message)).With(facts.APIReason,
			c.Reason).With(facts.Unready, unreadyReasons(c.Message)))
	default:
		send(probe.Found(probe.Fail, "Ready has been Unknown for %s: %s: %s", since, c.Reason,
			apicheck.Message(c.Message)).With(facts.APIReason, c.Reason))
	}
	if r, ok := kubeletStarts(s); ok {
		report(r)
	}
	for _, c := range s.Node.Status.Conditions {
		// All other conditions of Kubernetes are bad if True. Unknown adds nothing to Ready.
		if c.Type == corev1.NodeReady || c.Type == ownCondition || c.Status != corev1.ConditionTrue {
			continue
		}
		status := probe.Warn // other tools define the meaning of their conditions
		switch c.Type {
		case corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeNetworkUnavailable:
			status = probe.Fail
		}
		r := probe.Found(status, "%s for %s: %s: %s", c.Type, probe.Age(s.Now.Sub(c.LastTransitionTime.Time)), c.Reason,
			apicheck.Message(c.Message)).
			On(string(c.Type)).With(facts.APIReason, c.Reason)
		if name := writerOf(s.Node, c.Type); name != "" {
			r = r.With(facts.Writer, name)
		}
		report(r)
	}
}

// ownCondition is the condition that 'calico-probe conditions' writes. It repeats the conclusion of an earlier run,
// and True is good.
const ownCondition corev1.NodeConditionType = facts.ConditionHealthy

// writerOf returns the client that last wrote a condition of a node, by its field manager, or "" if unknown.
func writerOf(n *corev1.Node, of corev1.NodeConditionType) string {
	name, at := "", time.Time{}
	for _, m := range n.ManagedFields {
		if m.FieldsV1 == nil || m.Time == nil || m.Time.Time.Before(at) ||
			!strings.Contains(m.FieldsV1.GetRawString(), fmt.Sprintf(`k:{\"type\":\"%s\"}`, of)) {
			continue
		}
		name, at = probe.Quoted(m.Manager), m.Time.Time
	}
	return name
}

// unreadyReasons translates the kubelet's reasons into the words of the fact Unready (pkg/kubelet: runtime.go, and the
// network messages of containerd, CRI-O and docker).
func unreadyReasons(message string) []string {
	var out []string
	for _, has := range [][2]string{
		{"container runtime is down", facts.UnreadyRuntime}, {"container runtime status check may not have completed",
			facts.UnreadyRuntime},
		{"PLEG is not healthy", facts.UnreadyPLEG},
		{"network plugin is not ready", facts.UnreadyNetwork}, {"NetworkPluginNotReady", facts.UnreadyNetwork},
	} {
		if strings.Contains(message, has[0]) && !slices.Contains(out, has[1]) {
			out = append(out, has[1])
		}
	}
	return out
}

// RuntimeDown reports whether the kubelet's status shows that the container runtime does not answer. The status shows
// this half a minute after the runtime's last answer.
func RuntimeDown(s *cluster.Snapshot) bool {
	c := cluster.Readiness(s.Node)
	return c.Status == corev1.ConditionFalse && slices.Contains(unreadyReasons(c.Message), facts.UnreadyRuntime)
}

// NodeLease reports how old the node's lease is.
func NodeLease(s *cluster.Snapshot, report func(probe.Result)) {
	registered := s.Now.Sub(s.Node.CreationTimestamp.Time)
	switch {
	case apierrors.IsNotFound(s.Lease.Err) && registered < s.LeaseOver():
		report(probe.Found(probe.Info, "the node registered %s ago and has no lease yet", probe.Age(registered)))
		return
	case apierrors.IsNotFound(s.Lease.Err):
		report(probe.Found(probe.Fail, "the node has no lease: its kubelet never renewed one, or the lease was deleted"))
		return
	case s.Lease.Err != nil:
		report(apicheck.Unread(s.Lease.Err))
		return
	case s.Lease.Value.Spec.RenewTime == nil:
		report(probe.Found(probe.Unknown, "the node's lease has no renew time"))
		return
	}
	age := max(0, s.Now.Sub(s.Lease.Value.Spec.RenewTime.Time))
	status := probe.OK
	switch {
	case age > s.LeaseOver():
		status = probe.Fail
	case age > s.LeaseOver()/2:
		status = probe.Warn
	}
	r := probe.Found(status, "lease renewed %s ago", probe.Age(age))
	if status == probe.Fail {
		r.Saw = "the lease has expired: last renewed " + probe.Age(age) + " ago"
		if now := currentName(s); now != "" {
			r.Saw += "; the same machine now reports as node " + now
			r = r.With(facts.RenamedTo, now)
		}
	}
	report(r.With(facts.Age, int(age.Seconds())))
}

// currentName returns the name under which this node's machine now registers, or "". Clones may have the same machine
// ID and UUID, but hardly the same address. Nodes in containers share the boot ID.
func currentName(s *cluster.Snapshot) string {
	mine := s.Node.Status.NodeInfo
	for i := range s.Nodes {
		other := &s.Nodes[i]
		theirs := other.Status.NodeInfo
		same := mine.MachineID != "" && theirs.MachineID == mine.MachineID && theirs.SystemUUID == mine.SystemUUID &&
			slices.ContainsFunc(cluster.InternalIPs(other),
				func(a netip.Addr) bool { return slices.Contains(cluster.InternalIPs(s.Node), a) })
		if other.Name != s.Node.Name && cluster.ReadyNow(other) && same {
			return other.Name
		}
	}
	return ""
}

func nodeTaints(s *cluster.Snapshot, report func(probe.Result)) {
	if err := s.Startup.Value.Kept.Err; err != nil {
		defer func() { report(apicheck.SkipDenied(err).On("waiting pods")) }()
	}
	status, texts := probe.OK, []string{}
	for _, t := range s.Node.Spec.Taints {
		texts = append(texts, t.ToString())
		switch {
		case t.Key == corev1.TaintNodeUnschedulable, !strings.HasPrefix(t.Key, "node.kubernetes.io/"):
			if status == probe.OK {
				status = probe.Info
			}
		default:
			status = probe.Warn
		}
	}
	if len(texts) == 0 {
		report(withCordon(s, probe.Found(probe.OK, "no taints")))
		return
	}
	r := probe.Found(status, "%s", strings.Join(texts, ", ")).With(facts.Taints, texts)
	report(withCordon(s, withStartTaints(s, r)))
}
