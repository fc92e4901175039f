package injector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/calico-probe/calico-probe/probe/facts"
)

var options = Options{
	Node: "worker-3.example.com", Namespace: "kube-system", Image: "probe:1", Run: "7f3a09c1", Who: "me@here",
	Reason: "ticket 7",
	Checks: []string{"felix-live", "node-swap"}, Start: time.Second, Whole: 2 * time.Minute, Needed: []string{"NET_RAW"},
}

// TestPod checks the properties that an administrator who approves a privileged tool relies on.
func TestPod(t *testing.T) {
	p := podFor(options, nil)
	c := p.Spec.Containers[0]
	if p.Spec.NodeName != options.Node || !p.Spec.HostNetwork || !p.Spec.HostPID || *p.Spec.AutomountServiceAccountToken {
		t.Errorf("%+v", p.Spec)
	}
	if *p.Spec.ActiveDeadlineSeconds != 130 || p.Spec.RestartPolicy != corev1.RestartPolicyNever || !c.StdinOnce {
		t.Errorf("it does not end by itself: %+v", p.Spec)
	}
	s := c.SecurityContext
	if s.Privileged != nil || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) ||
		!slices.Equal(s.Capabilities.Add, []corev1.Capability{"NET_RAW"}) || *s.AllowPrivilegeEscalation {
		t.Errorf("more than the least: %+v", s)
	}
	if len(c.VolumeMounts) != 1 || !c.VolumeMounts[0].ReadOnly || !*s.ReadOnlyRootFilesystem {
		t.Errorf("the node can be written to: %+v", c.VolumeMounts)
	}
	if p.Labels[labelRun] != "7f3a09c1" || p.Annotations[annotationWho] != "me@here" ||
		p.Annotations[annotationReason] != "ticket 7" || p.Annotations[annotationChecks] != "felix-live,node-swap" {
		t.Errorf("%v %v", p.Labels, p.Annotations)
	}
	if p.Annotations[annotationLife] != "2m10s" || p.Annotations[annotationExpires] != "" {
		t.Errorf("%v", p.Annotations)
	}
	asks := c.Resources.Requests
	if p.Spec.PriorityClassName != "" || len(asks) != 2 || !asks.Cpu().IsZero() || !asks.Memory().IsZero() ||
		c.Resources.Limits.Memory().IsZero() {
		t.Errorf("somebody may have to make room for it: %q, %v", p.Spec.PriorityClassName, c.Resources)
	}
	o := options
	o.Needed = []string{"NET_RAW", "SYS_ADMIN", "SYS_PTRACE"}
	if s := podFor(o, nil).Spec.Containers[0].SecurityContext; len(s.Capabilities.Add) != 3 ||
		s.AllowPrivilegeEscalation != nil {
		t.Errorf("to enter pods: %+v", s) // the API refuses SYS_ADMIN without escalation
	}
	o.Namespace, o.Privileged, o.PullSecret = "tools", true, "registry"
	p = podFor(o, &metav1.OwnerReference{Name: "job"})
	if !*p.Spec.Containers[0].SecurityContext.Privileged || p.Spec.ImagePullSecrets[0].Name != "registry" ||
		p.OwnerReferences[0].Name != "job" {
		t.Errorf("%+v", p)
	}
	j := janitorFor(options)
	if *j.Spec.Parallelism != 0 || *j.Spec.TTLSecondsAfterFinished != 0 || *j.Spec.ActiveDeadlineSeconds != 40 ||
		j.Labels[labelRun] != "7f3a09c1" {
		t.Errorf("%+v", j)
	}
}

// TestShellPod requires an annotation for auditors on a shell's pod, and no change in other pods.
func TestShellPod(t *testing.T) {
	o := options
	o.Shell = true
	p := podFor(o, nil)
	c := p.Spec.Containers[0]
	if !*c.SecurityContext.Privileged || c.VolumeMounts[0].ReadOnly || !p.Spec.HostPID ||
		*p.Spec.ActiveDeadlineSeconds != 130 {
		t.Errorf("%+v", p.Spec)
	}
	if !strings.Contains(p.Annotations[annotationShell], "writable") || !slices.Contains(c.Args, "shell") {
		t.Errorf("an auditor does not see it: %v %v", p.Annotations, c.Args)
	}
	p = podFor(options, nil)
	if c := p.Spec.Containers[0]; p.Annotations[annotationShell] != "" || slices.Contains(c.Args, "shell") ||
		!c.VolumeMounts[0].ReadOnly {
		t.Errorf("%+v", p)
	}
}

func TestNames(t *testing.T) {
	for _, node := range []string{"a", "worker-3.example.com", strings.Repeat("long.", 50) + "x", "NODE-Upper"} {
		name := nameFor(node, "7f3a09c1")
		if errs := validation.IsDNS1123Label(name); len(errs) > 0 {
			t.Errorf("%s: %v", name, errs)
		}
		if !strings.HasSuffix(name, "-7f3a09c1") {
			t.Errorf("%s does not end with its run", name)
		}
	}
	long := strings.Repeat("x", 60)
	for _, pair := range [][2]string{{"a.b", "a-b"}, {long + ".1", long + "-1"}, {long + "1", long + "2"}} {
		if nameFor(pair[0], "7f3a09c1") == nameFor(pair[1], "7f3a09c1") {
			t.Errorf("two nodes of a wave have one name: %v", pair)
		}
	}
}

func volume(name, path string, kind corev1.HostPathType) corev1.Volume {
	return corev1.Volume{
		Name: name, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &kind}},
	}
}

func TestEphemeral(t *testing.T) {
	o := options
	o.Calico = &corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{
		volume("lib-modules", "/lib/modules", ""), volume("run", "/var/run/calico", corev1.HostPathDirectoryOrCreate),
		volume("xtables-lock", "/run/xtables.lock", corev1.HostPathFileOrCreate), volume("cni", "/etc/cni/net.d", ""),
		{Name: "token"},
	}}}
	c := ephemeralFor(o)
	args := strings.Join(c.Args, " ")
	if !strings.Contains(args, "--root /host ") || !strings.Contains(args, "--only /run/calico,/etc/cni/net.d ") || !strings.Contains(args, "--proc /proc --not-after ") {
		t.Errorf("before v3.31: %s", args)
	}
	if len(c.VolumeMounts) != 2 || c.VolumeMounts[0].MountPath != "/host/run/calico" || !c.VolumeMounts[0].ReadOnly {
		t.Errorf("%+v", c.VolumeMounts)
	}
	o.Calico.Spec.Volumes = append(o.Calico.Spec.Volumes, volume("nodeproc", "/proc", ""))
	c = ephemeralFor(o)
	if args := strings.Join(c.Args, " "); !strings.Contains(args, "--root /nodeproc/1/root ") ||
		strings.Contains(args, "--only") {
		t.Errorf("from v3.31: %s", args)
	}
	if !*c.SecurityContext.Privileged || !c.Stdin || !c.StdinOnce || c.Name != "calico-probe-7f3a09c1" ||
		c.TargetContainerName != "" {
		t.Errorf("%+v", c)
	}
	o.Calico, o.CalicoErr = nil, errors.New("the server was too slow")
	var pe *PlacementError
	if _, err := byEphemeral(&Client{})(t.Context(), o); !errors.As(err, &pe) || pe.Reason != facts.ReasonAPI ||
		!strings.Contains(pe.Text, "too slow") {
		t.Errorf("nobody could look: %v", err)
	}
	noRight := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no"))
	o.CalicoErr = noRight
	if _, err := byEphemeral(&Client{})(t.Context(), o); !errors.As(err, &pe) || pe.Reason != facts.ReasonRBAC {
		t.Errorf("nobody may look: %v", err)
	}
	o.CalicoErr = NoCalico(errors.New("2 DaemonSets claim it"))
	if _, err := byEphemeral(&Client{})(t.Context(), o); !errors.As(err, &pe) || pe.Reason != facts.ReasonNoCalico ||
		pe.Text != "2 DaemonSets claim it" {
		t.Errorf("none is verified: %v", err)
	}
	o.Running = func(context.Context) ([]corev1.Pod, error) { return nil, fmt.Errorf("listing pods: %w", noRight) }
	if _, err := byExec(&Client{})(t.Context(), o); !errors.As(err, &pe) || pe.Reason != facts.ReasonRBAC {
		t.Errorf("nobody may look for a container: %v", err)
	}
	o.CalicoErr = nil
	if _, err := byEphemeral(&Client{})(t.Context(), o); !errors.As(err, &pe) || pe.Reason != facts.ReasonNoCalico {
		t.Errorf("nothing to join: %v", err)
	}
	o.Calico = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "x"}}
	if _, err := byEphemeral(&Client{})(t.Context(), o); !errors.As(err, &pe) || pe.Reason != facts.ReasonNoCalico ||
		pe.Text != "pod tenant/x is not in the host network, so it is not a calico-node pod: check --calico-namespace tenant" {
		t.Errorf("a pod that is not the node's: %v", err)
	}
}

// TestRefusals classifies real errors of API servers.
func TestRefusals(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	forbidden := func(text string) error { return apierrors.NewForbidden(pods, "p", errors.New(text)) }
	for text, c := range map[string]struct {
		err  error
		want facts.Reason
	}{
		"rbac": {forbidden(`User "x" cannot create resource "pods" in API group "" in the namespace "kube-system"`), facts.ReasonRBAC},
		"psa":  {forbidden(`violates PodSecurity "restricted:latest": host namespaces (hostNetwork=true)`), facts.ReasonAdmission},
		// Errors of Kubernetes 1.36 in TestQuotas (e2e).
		"pods":       {forbidden("exceeded quota: e2e, requested: pods=1, used: pods=0, limited: pods=0"), facts.ReasonQuota},
		"limits":     {forbidden("exceeded quota: e2e, requested: limits.memory=512Mi, used: limits.memory=0, limited: limits.memory=100Mi"), facts.ReasonQuota},
		"must":       {forbidden("failed quota: e2e: must specify limits.cpu for: probe"), facts.ReasonQuota},
		"new quota":  {forbidden("status unknown for quota: e2e, resources: pods"), facts.ReasonQuota},
		"minimum":    {forbidden("minimum cpu usage per Container is 100m, but request is 0"), facts.ReasonQuota},
		"maximum":    {forbidden("maximum memory usage per Container is 64Mi, but limit is 512Mi"), facts.ReasonQuota},
		"of the pod": {forbidden("maximum cpu usage per Pod is 1.  No limit is specified"), facts.ReasonQuota},
		"ratio":      {forbidden("memory max limit to request ratio per Container is 2, but no request is specified or request is 0"), facts.ReasonQuota},
		// From the source: needs a quota in the API server's configuration.
		"no scope":   {apierrors.NewInternalError(errors.New("insufficient quota to match these scopes: [{PriorityClass In [system-node-critical]}]")), facts.ReasonQuota},
		"no dry run": {apierrors.NewBadRequest(`admission webhook "policy" does not support dry run`), facts.ReasonSupport},
		"no account": {forbidden(`error looking up service account x/default: serviceaccount "default" not found`), facts.ReasonNamespace},
		"ending":     {forbidden("unable to create new content in namespace x because it is being terminated"), facts.ReasonNamespace},
		"namespace":  {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "x"), facts.ReasonNamespace},
		"webhook":    {apierrors.NewInternalError(errors.New(`failed calling webhook "policy": admission webhook "policy" denied the request`)), facts.ReasonAdmission},
		"it is down": {apierrors.NewInternalError(errors.New(`failed calling webhook "policy": failed to call webhook: Post "https://x.svc:443/": context deadline exceeded`)), facts.ReasonAdmission},
		"down":       {errors.New("connection refused"), facts.ReasonAPI},
		"timeout":    {apierrors.NewTimeoutError("etcd", 1), facts.ReasonAPI},
		"busy":       {apierrors.NewTooManyRequestsError("later"), facts.ReasonAPI},
		"logged out": {apierrors.NewUnauthorized("expired"), facts.ReasonAPI},
		"odd":        {apierrors.NewBadRequest("no such field"), facts.ReasonSupport},
	} {
		pe := refusedCreate("a pod", c.err)
		if pe.Reason != c.want || !errors.Is(pe, c.err) || strings.Contains(pe.Text, "\n") {
			t.Errorf("%s: %s, want %s: %v", text, pe.Reason, c.want, pe)
		}
	}
}

// statusOf returns a pod with one container in a state.
func statusOf(s corev1.ContainerState) *corev1.Pod {
	return &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
		{Name: "probe", Image: "probe:1", State: s},
	}}}
}

func waitingFor(reason, message string) *corev1.Pod {
	return statusOf(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}})
}

func TestStanding(t *testing.T) {
	rejected := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfcpu", Message: "Node didn't have enough resource"}}
	sandbox := []corev1.Event{{Reason: "FailedCreatePodSandBox", Message: "context deadline\nexceeded"}}
	for name, c := range map[string]struct {
		pod     *corev1.Pod
		events  []corev1.Event
		running bool
		refusal facts.Reason
		says    string
		lacks   string // of the runtime's
	}{
		"running":    {pod: statusOf(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}), running: true},
		"new":        {pod: &corev1.Pod{}, says: "not reported"},
		"no sandbox": {pod: waitingFor("ContainerCreating", ""), events: sandbox, says: "FailedCreatePodSandBox: context deadline exceeded"},
		"rejected":   {pod: rejected, refusal: facts.ReasonRejected, says: "OutOfcpu"},
		"pull":       {pod: waitingFor("ErrImagePull", "not found"), refusal: facts.ReasonImage, says: "--image"},
		"back-off":   {pod: waitingFor("ImagePullBackOff", "Back-off"), refusal: facts.ReasonImage, says: "probe:1"},
		"runtime": {
			pod: waitingFor("CreateContainerError", "context deadline exceeded"), refusal: facts.ReasonRuntime, says: "refuses",
		},
		"wrong image": {
			pod: statusOf(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				Reason: "StartError", ExitCode: 128, Message: "exec: no such file",
			}}),
			refusal: facts.ReasonImage, says: "exit code 128",
		},
		"no runc": {
			pod:     waitingFor("RunContainerError", `OCI runtime create failed: unable to retrieve OCI runtime error (x): exec: "runc": executable file not found in $PATH`),
			refusal: facts.ReasonRuntime, says: "refuses", lacks: facts.ObstacleOCI,
		},
		"a damaged store": {
			pod:     waitingFor("ErrImagePull", "failed to get reader from content store: content digest sha256:1: not found"),
			refusal: facts.ReasonImage, says: "--image", lacks: facts.ObstacleStore,
		},
		"oom": {
			pod: statusOf(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				Reason: "OOMKilled", ExitCode: 137,
			}}),
			refusal: facts.ReasonRuntime, says: "OOMKilled",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := containerStateOf(c.pod, "probe", c.events)
			text, lacks := s.text, ""
			if s.refusal != nil {
				text = s.refusal.Text
				if s.refusal.Sandbox != nil {
					lacks = s.refusal.Sandbox.Obstacle
				}
			}
			if s.running != c.running || (s.refusal != nil) != (c.refusal != "") ||
				s.refusal != nil && s.refusal.Reason != c.refusal || !strings.Contains(text, c.says) || lacks != c.lacks {
				t.Errorf("%+v %v", s, s.refusal)
			}
		})
	}
}

// TestIdle requires that a pod is given up early only if it has had no event at all.
func TestIdle(t *testing.T) {
	t.Parallel()
	taken := waitingFor("ContainerCreating", "")
	taken.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse},
	}
	sandbox := waitingFor("ContainerCreating", "")
	sandbox.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue},
	}
	pulling := []corev1.Event{{Type: corev1.EventTypeNormal, Reason: "Pulling"}}
	for name, c := range map[string]struct {
		pod    *corev1.Pod
		events []corev1.Event
		idle   bool
	}{
		"not started": {pod: &corev1.Pod{}, idle: true},
		"started":     {pod: taken, idle: true},
		"a sandbox":   {pod: sandbox},
		"a pull":      {pod: taken, events: pulling},
		"an answer":   {pod: waitingFor("CreateContainerError", "no space left")},
	} {
		if got := nothingDone(c.pod, "probe", c.events); got != c.idle {
			t.Errorf("%s: %v", name, got)
		}
	}
	started := metav1.Now()
	sandbox.Status.StartTime, taken.Status.StartTime = &started, &started
	for name, c := range map[string]struct {
		pod    *corev1.Pod
		events []corev1.Event
		want   facts.Reason
	}{
		"not started":     {&corev1.Pod{}, nil, facts.ReasonKubelet},
		"no sandbox":      {taken, nil, facts.ReasonRuntime},
		"pulls for ever":  {sandbox, pulling, facts.ReasonImage},
		"pulled, then no": {sandbox, append(pulling, corev1.Event{Reason: "Pulled"}), facts.ReasonRuntime},
	} {
		var pe *PlacementError
		wait := &startup{placement: &placement{options: options}, pod: c.pod, events: c.events}
		err := wait.gaveUp(t.Context(), context.DeadlineExceeded)
		if !errors.As(err, &pe) || pe.Reason != c.want || !pe.Waited {
			t.Errorf("%s: %v", name, err)
		}
	}
	said := []corev1.Event{
		{Reason: facts.EventSandbox, Source: corev1.EventSource{Component: "kubelet"},
			Message: "Failed to create pod sandbox: open /run/x.conf: no such file or directory"},
		{Reason: facts.EventSandbox, Source: corev1.EventSource{Component: "somebody"}, Message: "No IPs available in pools"},
	}
	wait := &startup{placement: &placement{options: options}, pod: taken, events: said}
	pe, _ := errors.AsType[*PlacementError](wait.gaveUp(t.Context(), context.DeadlineExceeded))
	if pe == nil || pe.Sandbox == nil || pe.Sandbox.Obstacle != facts.ObstacleResolvConf {
		t.Errorf("what the kubelet says of the sandbox is lost: %+v", pe)
	}
}

func TestLeftovers(t *testing.T) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "calico-node-x"}, Spec: corev1.PodSpec{NodeName: "n"},
	}
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	p.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{
		{Name: "calico-probe-1", State: running}, {Name: "debugger", State: running}, {Name: "calico-probe-2", State: ended},
	}
	// the last pod waits for its image
	for _, name := range []string{"calico-probe-1", "debugger", "calico-probe-2", "calico-probe-3"} {
		p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers,
			corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: name}})
	}
	if got := fmt.Sprint(unendedContainers(p, time.Time{})); got != "[container kube-system/calico-node-x/calico-probe-1 on node n container kube-system/calico-node-x/calico-probe-3 on node n]" {
		t.Error(got)
	}
	if err := (&Client{}).Remove(t.Context(), unendedContainers(p, time.Time{})[0]); err == nil {
		t.Error("an ephemeral container was removed")
	}
}
