package cluster

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// startWaits is a calico-node pod that is made for a node and not bound to it.
func startWaits(says, cpu string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "calico-node-x",
		CreationTimestamp: ago(time.Minute),
		OwnerReferences:   []metav1.OwnerReference{{Kind: "DaemonSet", Name: "calico-node", Controller: new(true)}}}}
	if says != "" {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
			Reason: "Unschedulable", Message: says}}
	}
	p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}}
	return p
}

// TestStartUnplaced wants the scheduler's reason about this node, and what is more than the node has.
func TestStartUnplaced(t *testing.T) {
	for name, c := range map[string]struct{ says, cpu, want string }{
		"recorded": {"0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't satisfy plugin(s) [NodeAffinity]. no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
			"64", "has not been scheduled for 60s: Insufficient cpu: it asks for cpu 64, and the node has 2 for pods"},
		"a port": {"0/3 nodes are available: 1 node(s) didn't have free ports for the requested pod ports, 2 node(s) didn't match Pod's node affinity/selector. preemption: not eligible",
			"1", "has not been scheduled for 60s: didn't have free ports for the requested pod ports"},
		"nobody":       {"", "1", "for 60s: no scheduler has looked at it"},
		"another form": {"no nodes available to schedule pods", "1", "Unschedulable: no nodes available"},
	} {
		s := snapshot(node("a", "10.0.0.1", ""))
		var set calicoSet
		set.Name, set.Namespace = "calico-node", "kube-system"
		s.sets.Value = []calicoSet{set}
		s.Node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
		s.startup.Value.unplaced.Value = startWaits(c.says, c.cpu)
		got := ask(t, s, facts.CheckCalicoPod)
		t.Run(name, func(t *testing.T) { wantFirst(t, got, probe.Fail, c.want) })
		if why := got[0].Facts.Str(facts.Skips); why != facts.SkipsUnscheduled {
			t.Errorf("%s: %q", name, why)
		}
	}
}

// TestStartTold wants the kubelet's words about a calico-node pod of which nothing runs, or whose probe fails.
func TestStartTold(t *testing.T) {
	s := snapshot(node("a", "10.0.0.1", ""))
	s.Calico.Value = calico(0)
	s.Calico.Value.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "upgrade-ipam",
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}}}
	s.Calico.Value.Status.ContainerStatuses = nil
	s.startup.Value.waits = &corev1.Event{Reason: eventMount,
		Message: `MountVolume.SetUp failed for volume "xtables-lock" : hostPath type check failed: /run/xtables.lock is not a file`}
	got := ask(t, s, facts.CheckCalicoPod)
	if len(got) == 0 || !strings.Contains(got[0].Saw, "the kubelet reported: MountVolume.SetUp failed") ||
		got[0].Facts.Str(facts.Starts) != facts.StartsVolume {
		t.Errorf("%v", got)
	}
	s.startup.Value.waits = &corev1.Event{Reason: eventCgroup, Message: "unable to ensure pod container exists: failed to create container for [kubepods burstable podX] : dbus: connection closed by user"}
	if got := ask(t, s, facts.CheckCalicoPod); got[0].Facts.Str(facts.Starts) != facts.StartsSandbox ||
		!strings.Contains(got[0].Saw, "dbus: connection closed") {
		t.Errorf("%v", got)
	}
	s.startup.Value.told = told{limit: facts.LimitProcesses,
		probes: probe.Statement{Text: "Liveness probe failed: fork/exec /usr/bin/sv: resource temporarily unavailable"}}
	if got := ask(t, s, facts.CheckCalicoPod); got[0].Facts.Str(facts.Limit) != facts.LimitProcesses {
		t.Errorf("%v", got)
	}
	s = snapshot(node("a", "10.0.0.1", "")) // near: it is well, whatever was said before
	s.Calico.Value = calico(3)
	s.startup.Value.told = told{probes: probe.Statement{Text: "Readiness probe failed"}, limit: facts.LimitFiles}
	if got := ask(t, s, facts.CheckCalicoPod); got[0].Facts.Str(facts.ProbeSays) != "" {
		t.Errorf("%v", got)
	}
	for text, want := range map[string]string{
		"fork/exec /usr/bin/sv: resource temporarily unavailable":                 facts.LimitProcesses,
		"runtime: failed to create new OS thread (have 9 already; errno=11)":      facts.LimitProcesses,
		"open /proc/1/stat: too many open files":                                  facts.LimitFiles,
		"dial unix /var/run/calico/bird.ctl: connect: connection refused":         "",
		"dial unix /run/bird.ctl: connect: resource temporarily unavailable, why": "",
	} {
		if got := limitIn(text); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// TestStartTypha wants a Typha that is configured and not there.
func TestStartTypha(t *testing.T) {
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "services"}, "calico-typha")
	svc := func(port string) *corev1.Service {
		return &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: port, Port: 5473}}}}
	}
	one := []probe.Target{{Kind: probe.KindTypha, Name: "endpoint", Addr: netip.MustParseAddr("10.0.0.9"), Port: 5473}}
	for name, c := range map[string]struct {
		of     string
		err    error
		svc    *corev1.Service
		typha  []probe.Target
		status probe.Status
		saw    string
	}{
		"recorded: no such Service": {"kube-system/calico-typha", gone, nil, nil, probe.Fail,
			"there is no such Service"},
		"no pods": {"kube-system/calico-typha", errNoTypha, svc(typhaPort), nil, probe.Fail,
			"it has no ready endpoint"},
		"near: not read": {"kube-system/calico-typha", apierrors.NewServiceUnavailable("x"), svc(typhaPort), nil,
			probe.Unknown, ""},
		"another port": {"kube-system/calico-typha", nil, svc("typha"), one, probe.Fail,
			"no port named calico-typha"},
		"near: it is there":    {"kube-system/calico-typha", nil, svc(typhaPort), one, probe.OK, "1 endpoint"},
		"near: none is wanted": {"", nil, nil, nil, probe.Skip, "not configured"},
	} {
		s := snapshot(node("a", "10.0.0.1", ""))
		s.typha = Read[typha]{typha{name: c.of, service: c.svc, targets: c.typha}, c.err}
		t.Run(name, func(t *testing.T) { wantFirst(t, ask(t, s, facts.CheckTyphaService), c.status, c.saw) })
	}
}

// TestStartWebhooks wants webhooks told that nobody answers for and that stop a node, and none that does not.
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
		hook   deadHook
		silent bool
		status probe.Status
		saw    string
	}{
		"recorded: leases": {deadHook{rules: leases}, true, probe.Fail, "blocks writes of leases"},
		"not yet":          {deadHook{rules: leases}, false, probe.Warn, "blocks writes of leases"},
		"all": {deadHook{rules: rule("*", "*/*", admissionv1.OperationAll)}, true,
			probe.Fail, "writes of leases, nodes/status, nodes, pods, workload pods, calico"},
		"pods": {deadHook{rules: rule("", "pods", admissionv1.Create)}, false, probe.Fail,
			"writes of pods, workload pods"},
		"kyverno's: without system's": {deadHook{rules: rule("", "pods", admissionv1.Create),
			namespaces: named(corev1.LabelMetadataName, metav1.LabelSelectorOpNotIn, "kube-system",
				"calico-system")}, false, probe.Fail, "writes of workload pods"},
		"calico-node's alone": {deadHook{rules: rule("", "pods", admissionv1.Create),
			namespaces: named(corev1.LabelMetadataName, metav1.LabelSelectorOpIn, "kube-system",
				"calico-system")}, false, probe.Fail, "writes of pods"},
		"near: conditions": {deadHook{rules: leases, conditions: true}, true, probe.Info,
			"where its conditions hold"},
		"near: deletions": {deadHook{rules: rule("*", "*", admissionv1.Delete)}, true, probe.OK, "none blocks"},
		"near: one namespace": {deadHook{rules: rule("", "pods", admissionv1.Create),
			namespaces: named("team", metav1.LabelSelectorOpExists)}, false, probe.OK, "none blocks"},
		"near: without system's and default": {deadHook{rules: rule("", "pods", admissionv1.Create),
			namespaces: named(corev1.LabelMetadataName, metav1.LabelSelectorOpNotIn, "kube-system",
				"calico-system", "default")}, false, probe.OK, "none blocks"},
		"near: other objects": {deadHook{rules: rule("", "pods", admissionv1.Create), objects: named("app",
			metav1.LabelSelectorOpIn, "shop")}, false, probe.OK, "none blocks"},
	} {
		s := snapshot(node("a", "10.0.0.1", ""))
		age := 2 * time.Second
		if c.silent {
			age = time.Minute
		}
		s.lease.Value = &coordinationv1.Lease{}
		s.lease.Value.Spec.RenewTime = new(metav1.NewMicroTime(now.Add(-age)))
		c.hook.name, c.hook.config, c.hook.why = "freeze.example.com", "validatingwebhookconfiguration/freeze",
			"there is no Service a/b"
		s.webhooks.Value.dead = []deadHook{c.hook}
		t.Run(name, func(t *testing.T) { wantFirst(t, ask(t, s, facts.CheckWebhooks), c.status, c.saw) })
	}
}

// TestStartReadsWebhooks wants those that fail closed and whose Service has nobody, from an API server.
func TestStartReadsWebhooks(t *testing.T) {
	t.Parallel()
	hook := func(policy, service string) string {
		return `{"name":"` + service + `.example.com","failurePolicy":"` + policy + `","clientConfig":{"service":{"namespace":"w","name":"` + service + `"}},"rules":[]}`
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/validatingwebhookconfigurations"):
			_, _ = w.Write([]byte(`{"items":[{"metadata":{"name":"v"},"webhooks":[` + hook("Fail",
				"gone") + `,` + hook("Ignore", "gone2") + `,` + hook("Fail", "well") + `]}]}`))
		case strings.HasSuffix(r.URL.Path, "/mutatingwebhookconfigurations"):
			_, _ = w.Write([]byte(`{"items":[{"metadata":{"name":"m"},"webhooks":[` + hook("Fail", "empty") + `]}]}`))
		case strings.HasSuffix(r.URL.Path, "/endpointslices") && strings.Contains(r.URL.RawQuery, "well"):
			_, _ = w.Write([]byte(`{"items":[{"endpoints":[{"addresses":["10.0.0.1"],"conditions":{"ready":true}}]}]}`))
		case strings.HasSuffix(r.URL.Path, "/endpointslices"):
			_, _ = w.Write([]byte(`{"items":[]}`))
		case strings.HasSuffix(r.URL.Path, "/services/empty"):
			_, _ = w.Write([]byte(`{"metadata":{"name":"empty"}}`))
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`))
		}
	}))
	defer server.Close()
	c, err := NewClient(&rest.Config{Host: server.URL}, "")
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.readWebhooks(t.Context())
	if err != nil || got.of != 3 || len(got.dead) != 2 || got.dead[0].why != "there is no Service w/gone" ||
		got.dead[1].why != "Service w/empty has no ready endpoint" {
		t.Errorf("%+v", got)
	}
}

// TestStartTaints wants a taint told that a controller has not taken away, and the pods that wait for that.
func TestStartTaints(t *testing.T) {
	const key = "node.cloudprovider.kubernetes.io/uninitialized"
	waits := startWaits("0/1 nodes are available: 1 node(s) had untolerated taint(s).", "1")
	for name, c := range map[string]struct {
		key    string
		age    time.Duration
		pods   []corev1.Pod
		status probe.Status
		saw    string
	}{
		"recorded": {key, time.Hour, []corev1.Pod{*waits}, probe.Warn,
			"1 pod waits for a node and may not be here: kube-system/calico-node-x"},
		"nobody waits":                 {key, time.Hour, nil, probe.Warn, "has not"},
		"a CSI driver's":               {"ebs.csi.aws.com/agent-not-ready", time.Hour, nil, probe.Warn, "has not"},
		"an agent without a pod":       {"node.cilium.io/agent-not-ready", time.Hour, nil, probe.Fail, "no pod on the node is the agent"},
		"the same, young":              {"node.cilium.io/agent-not-ready", time.Minute, nil, probe.Fail, "no pod on the node is the agent"},
		"near: just born, of an agent": {"node.cilium.io/agent-not-ready", 20 * time.Second, nil, probe.Info, "cilium"},
		"near: its agent starts":       {"ebs.csi.aws.com/agent-not-ready", time.Minute, nil, probe.Info, "ebs"},
		"near: just born":              {key, time.Minute, nil, probe.Info, key},
		"near: somebody's":             {"dedicated", time.Hour, nil, probe.Info, "dedicated"},
		"near: a team's":               {"team.example.com/startup-team-only-not", time.Hour, nil, probe.Info, "team"},
	} {
		s := snapshot(node("a", "10.0.0.1", ""))
		s.Node.CreationTimestamp = ago(c.age)
		agent := corev1.Pod{}
		agent.Namespace, agent.Name = "kube-system", "ebs-csi-node-x"
		s.placed.pods.Value = []corev1.Pod{agent}
		s.Node.Spec.Taints = []corev1.Taint{{Key: c.key, Effect: corev1.TaintEffectNoSchedule}}
		s.startup.Value.kept.Value = c.pods
		t.Run(name, func(t *testing.T) { wantFirst(t, ask(t, s, facts.CheckNodeTaints), c.status, c.saw) })
	}
}

// TestStartTunnels wants the settings told that differ between nodes, and who is the odd one.
func TestStartTunnels(t *testing.T) {
	config := func(name, key string, v any) unstructured.Unstructured {
		return unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name},
			"spec": map[string]any{key: v}}}
	}
	vxlan := specs{"p": {"cidr": "10.244.0.0/16", "vxlanMode": "Always"}}
	for name, c := range map[string]struct {
		configs []unstructured.Unstructured
		pools   specs
		status  probe.Status
		saw     string
	}{
		"recorded": {[]unstructured.Unstructured{config("node.a", "vxlanPort", int64(4799))}, vxlan, probe.Fail,
			"vxlanPort is 4799 on this node (FelixConfiguration node.a) and 4789 on b, c"},
		"another node": {[]unstructured.Unstructured{config("node.b", "vxlanPort", int64(4799))},
			vxlan, probe.Warn, "and 4799 on b"},
		"near: for all": {[]unstructured.Unstructured{config("default", "vxlanPort", int64(4799))},
			vxlan, probe.OK, "the same"},
		"near: the default by name": {[]unstructured.Unstructured{config("node.a", "vxlanPort", int64(4789))},
			vxlan, probe.OK, "the same"},
		"near: no VXLAN": {[]unstructured.Unstructured{config("node.a", "vxlanPort", int64(4799))},
			nil, probe.OK, "the same"},
		"near: its log": {[]unstructured.Unstructured{config("node.a", "logSeverityScreen",
			"Debug")}, vxlan, probe.OK, "the same"},
	} {
		s := snapshot(node("a", "10.0.0.1", ""), node("b", "10.0.0.2", ""), node("c", "10.0.0.3", ""))
		s.felixConfigs.Value, s.pools.Value = c.configs, c.pools
		t.Run(name, func(t *testing.T) { wantFirst(t, ask(t, s, facts.CheckTunnelSettings), c.status, c.saw) })
	}
}

// TestWebhooksUnread wants a webhook of which nobody knows whether it is answered told as that: a Service that could
// not be read is none that is missing.
func TestWebhooksUnread(t *testing.T) {
	hook := `{"items":[{"metadata":{"name":"v"},"webhooks":[{"name":"a","failurePolicy":"Fail","rules":[{"operations":["*"],` +
		`"apiGroups":["*"],"apiVersions":["*"],"resources":["*/*"]}],"clientConfig":{"service":{"namespace":"x","name":"y"}}}]}]}`
	broken := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }
	client := serverOf(t, map[string]string{
		"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations": hook,
		"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations":   `{"items":[]}`,
		"/apis/discovery.k8s.io/v1/namespaces/x/endpointslices":                 `{"items":[]}`,
	}, map[string]http.HandlerFunc{"/api/v1/namespaces/x/services/y": broken})
	s := snapshot(node("a", "10.0.0.1", ""))
	s.webhooks.read(t.Context(), client.readWebhooks)
	wantFirst(t, ask(t, s, facts.CheckWebhooks), probe.Unknown, "state of 1 unknown")
}
