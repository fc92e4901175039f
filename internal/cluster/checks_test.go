package cluster

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/probe"
)

var now = time.Date(2026, 11, 21, 3, 50, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

// node has an InternalIP and, unless empty, a registered Calico address.
func node(name, internal, registered string) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}}}
	if registered != "" {
		n.Annotations[AnnotationIPv4] = registered
	}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: internal}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue,
		LastTransitionTime: ago(time.Hour)}}
	return n
}

func snapshot(nodes ...corev1.Node) *Snapshot {
	return &Snapshot{Now: now, Node: &nodes[0], Survey: Survey{Nodes: nodes, CalicoIn: Namespaces("")}}
}

func calico(done int) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "calico-node-x",
		CreationTimestamp: ago(time.Hour)}}
	for i, name := range []string{"upgrade-ipam", "install-cni", "ebpf-bootstrap"} {
		p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: name})
		st := corev1.ContainerStatus{Name: name,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}}
		if i < done {
			st.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
		}
		p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, st)
	}
	p.Spec.Containers = []corev1.Container{{Name: CalicoContainer, LivenessProbe: &corev1.Probe{
		InitialDelaySeconds: 10, PeriodSeconds: 10, FailureThreshold: 6, TimeoutSeconds: 10,
	}}}
	main := corev1.ContainerStatus{Name: CalicoContainer,
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}}
	if done == 3 {
		main.Ready = true
		main.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: ago(time.Hour)}}
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{main}
	return p
}

func TestPeersAreReadyFirstAndSpread(t *testing.T) {
	nodes := []corev1.Node{node("me", "10.0.0.1", "")}
	for i := range 100 {
		n := node(fmt.Sprintf("n%03d", i), "10.0.0.2", "")
		if i%2 == 0 {
			n.Status.Conditions[0].Status = corev1.ConditionUnknown
		}
		nodes = append(nodes, n)
	}
	s := snapshot(nodes...)
	got := peers(s, 8)
	if len(got) != 8 || got[0].Name != "n001" || got[7].Name < "n080" {
		t.Errorf("first %s, last %s of %d", got[0].Name, got[len(got)-1].Name, len(got))
	}
	if got := peers(s, 60); len(got) != 60 || got[49].Name != "n099" || got[50].Name != "n000" {
		t.Errorf("when the ready ones do not suffice: %d", len(got))
	}
	if got := peers(snapshot(nodes[0]), 8); len(got) != 0 {
		t.Errorf("a node alone has peers: %v", got)
	}
}

func TestTargets(t *testing.T) {
	s := snapshot(node("a", "10.1.0.1", "10.1.0.1/24"), node("b", "10.1.0.2", "172.18.0.1/16"))
	s.Calico.Value = calico(3)
	s.Calico.Value.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "FELIX_HEALTHPORT", Value: "9199"}}
	s.Felix.Value = map[string]any{"healthHost": "127.0.0.1", "healthPort": int64(1)}
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "w"}}
	pod.Spec.NodeName, pod.Status.PodIPs = "b", []corev1.PodIP{{IP: "10.244.1.2"}, {IP: "fd00::2"}}
	s.pods.Value, s.Backend.Value = []corev1.Pod{pod}, "vxlan"
	s.Peering.Configs.Value = Specs{"default": {"listenPort": int64(1799)},
		"node.a": {"listenPort": int64(1790)}, "node.b": {"listenPort": int64(1)}}
	s.Calico.Value.Spec.Containers[0].Image = "docker.io/calico/node:v3.32.1-amd64"
	s.Node.Status.NodeInfo.ContainerRuntimeVersion = "containerd://2.4.2"
	var got []string
	s.pods.Err = errors.New("the server was too slow")
	targets, gaps := Targets(s)
	if len(gaps) != 1 || gaps[probe.KindPod] != "the server was too slow" {
		t.Errorf("gaps %v", gaps)
	}
	for _, t := range targets {
		got = append(got, fmt.Sprintf("%s/%s/%s:%d", t.Kind, t, t.Host, t.Port))
	}
	want := "felix/felix/127.0.0.1:9199 self/a 10.1.0.1/:0 backend/vxlan/:1790 calico/v3.32.1/:0 runtime/containerd://2.4.2/:0 node/b 10.1.0.2/:0 peer/b 172.18.0.1/:0 pod/default/w 10.244.1.2/:0 pod/default/w fd00::2/:0"
	if strings.Join(got, " ") != want {
		t.Errorf("got  %v\nwant %s", got, want)
	}
}

func TestBlocks(t *testing.T) {
	spec := func(kv ...any) map[string]any {
		m := map[string]any{"cidr": "10.244.1.0/26", "node": "b", "state": "confirmed", "deleted": "false", "type": "host"}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i].(string)] = kv[i+1]
		}
		return m
	}
	for name, c := range map[string]struct {
		obj  map[string]any
		want bool
	}{
		"v1": {spec(), true}, "v3": {spec("deleted", false), true}, "old": {spec("type", nil, "deleted", nil), true},
		"pending": {spec("state", "pending"), false}, "deleted v1": {spec("deleted", "true"), false},
		"deleted v3": {spec("deleted", true), false},
		"virtual":    {spec("type", "virtual"), false}, "rubbish": {spec("cidr", "x"), false},
		"nobody's": {spec("node", ""), false}, "empty": {nil, false},
	} {
		if _, ok := confirmed(c.obj); ok != c.want {
			t.Errorf("%s: %v", name, ok)
		}
	}
	s := snapshot(node("a", "10.1.0.1", "10.1.0.1/24"), node("b", "10.1.0.2", "10.1.0.2/24"))
	s.Blocks.Value.Owned = []Block{{netip.MustParsePrefix("10.244.1.0/26"), "b"},
		{netip.MustParsePrefix("10.244.2.0/26"), "a"},
		{netip.MustParsePrefix("10.244.3.0/26"), "gone"}, {netip.MustParsePrefix("fd00::/122"), "b"}}
	got := blockTargets(s)
	if len(got) != 2 || got[0].Addr.String() != "10.1.0.2" || got[0].Attrs != nil ||
		got[1].Attrs[probe.AttrOwn] != "true" {
		t.Errorf("%+v", got)
	}
	s.Nodes[1].Status.Conditions[0].Status = corev1.ConditionFalse
	if got := blockTargets(s); got[0].Attrs[probe.AttrNode] != "NotReady" {
		t.Errorf("of a node that is not ready: %+v", got[0])
	}
}

// TestBackend requires a gap for a backend that could not be read, and Calico's default only if the backend is not set.
func TestBackend(t *testing.T) {
	s := snapshot(node("a", "10.1.0.1", ""))
	s.Calico.Value = calico(3)
	if got, err := readBackend(s.Calico.Value, s.environment()); got != "bird" || err != nil {
		t.Errorf("nothing set: %q, %v", got, err)
	}
	env := &s.Calico.Value.Spec.Containers[0].Env
	*env = []corev1.EnvVar{{Name: "CALICO_NETWORKING_BACKEND", Value: "vxlan"}}
	if got, err := readBackend(s.Calico.Value, s.environment()); got != "vxlan" || err != nil {
		t.Errorf("a literal: %q, %v", got, err)
	}
	*env = []corev1.EnvVar{{Name: "CALICO_NETWORKING_BACKEND",
		ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{}}}}
	if s.Backend.Value, s.Backend.Err = readBackend(s.Calico.Value, s.environment()); s.Backend.Err == nil {
		t.Error("from a secret: no error")
	}
	if _, gaps := Targets(s); gaps[probe.KindBackend] == "" {
		t.Errorf("gaps %v", gaps)
	}
}

func TestFelixEnabled(t *testing.T) {
	for name, c := range map[string]struct {
		env   []corev1.EnvVar
		felix map[string]any
		want  string
	}{
		"by environment": {[]corev1.EnvVar{{Name: "FELIX_HEALTHENABLED", Value: "true"}},
			map[string]any{"healthEnabled": false}, "true"},
		"off by environment": {[]corev1.EnvVar{{Name: "FELIX_HEALTHENABLED", Value: "false"}},
			map[string]any{"healthEnabled": true}, "false"},
		"by resource":    {nil, map[string]any{"healthEnabled": true}, "true"},
		"off by default": {nil, nil, "false"},
	} {
		s := snapshot(node("a", "10.1.0.1", ""))
		s.Calico.Value, s.Felix.Value = calico(3), c.felix
		s.Calico.Value.Spec.Containers[0].Env = c.env
		if got := FelixTarget(s).Attrs[probe.AttrEnabled]; got != c.want {
			t.Errorf("%s: enabled %q, want %q", name, got, c.want)
		}
	}
	s := snapshot(node("a", "10.1.0.1", ""))
	if got := FelixTarget(s); got.Attrs != nil {
		t.Errorf("without a pod it is not known: %v", got)
	}
}

func TestUnknownNodeNamesTheNearest(t *testing.T) {
	err := &UnknownNodeError{Name: "node-b2", Have: alike([]corev1.Node{node("alpha", "10.0.0.1", ""),
		node("node-b", "10.0.0.2", "")}, "node-b2")}
	if got := err.Error(); got != `no node "node-b2" in this cluster, did you mean node-b?; it has alpha, node-b` {
		t.Error(got)
	}
}
