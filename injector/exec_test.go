package injector

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/calico-probe/calico-probe/probe/facts"
)

// running returns a pod in the host network with one running container.
func running(pod, container string, privileged bool, volumes ...string) corev1.Pod {
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: pod, UID: types.UID(pod),
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "set", Controller: new(true)},
			}},
		Spec: corev1.PodSpec{HostNetwork: true, Containers: []corev1.Container{{
			Name: container, SecurityContext: &corev1.SecurityContext{Privileged: &privileged},
		}}},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name: container, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		}}},
	}
	for i, v := range volumes {
		from, to, _ := strings.Cut(v, ":")
		name := fmt.Sprint(i)
		p.Spec.Volumes = append(p.Spec.Volumes, volume(name, from, ""))
		p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts,
			corev1.VolumeMount{Name: name, MountPath: to})
	}
	return p
}

func TestExecTargets(t *testing.T) {
	t.Parallel()
	ended, elsewhere, ours := running("ended", "x", true), running("workload", "x", true), running("probe", "probe", true)
	ended.Status.ContainerStatuses[0].State = corev1.ContainerState{}
	elsewhere.Spec.HostNetwork = false // not in the host network
	ours.Labels = map[string]string{labelManaged: managedBy}
	pods := []corev1.Pod{
		running("b", "agent", false), running("a", "agent", true), ended, elsewhere, ours,
		running("kube-proxy-1", "kube-proxy", true), running("namesake", "calico-node", true),
		running("canal-1", "calico-node", true),
	}
	pods[7].Namespace = "calico-system"
	for calico, want := range map[*corev1.Pod]string{
		&pods[7]: "[canal-1 kube-proxy-1 a namesake b]",
		nil:      "[kube-proxy-1 a namesake b]", // all other namespaces are unknown
	} {
		var got []string
		for _, d := range execTargets(pods, calico) {
			got = append(got, d.pod.Name)
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%v, want %s", got, want)
		}
	}
}

// TestWhoseContainers requires that exec enters only system containers: tenants can choose any name, label and
// privilege.
func TestWhoseContainers(t *testing.T) {
	t.Parallel()
	calico := running("calico-node-1", "calico-node", true)
	calico.Namespace = "calico-system"
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		enter  bool
	}{
		"of a DaemonSet":         {func(*corev1.Pod) {}, true},
		"beside calico-node":     {func(p *corev1.Pod) { p.Namespace = "calico-system" }, true},
		"of a tenant":            {func(p *corev1.Pod) { p.Namespace = "tenant" }, false},
		"of nobody":              {func(p *corev1.Pod) { p.OwnerReferences = nil }, false},
		"of a Deployment":        {func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "ReplicaSet" }, false},
		"of no controller":       {func(p *corev1.Pod) { p.OwnerReferences[0].Controller = nil }, false},
		"of another's DaemonSet": {func(p *corev1.Pod) { p.OwnerReferences[0].APIVersion = "example.com/v1" }, false},
		"static": {func(p *corev1.Pod) {
			p.Spec.NodeName, p.Annotations = "n", map[string]string{corev1.MirrorPodAnnotationKey: "x"}
			p.OwnerReferences[0] = metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "n", Controller: new(true)}
		}, true},
		"static, of another node": {func(p *corev1.Pod) {
			p.Spec.NodeName, p.Annotations = "n", map[string]string{corev1.MirrorPodAnnotationKey: "x"}
			p.OwnerReferences[0] = metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "m", Controller: new(true)}
		}, false},
		"static, but no copy": {func(p *corev1.Pod) {
			p.Spec.NodeName = "n"
			p.OwnerReferences[0] = metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "n", Controller: new(true)}
		}, false},
	} {
		for _, container := range []string{"calico-node", "kube-proxy", "agent"} {
			p := running("p", container, true)
			c.change(&p)
			if got := len(execTargets([]corev1.Pod{p}, &calico)) == 1; got != c.enter {
				t.Errorf("%s: %s is entered: %v", name, container, got)
			}
		}
	}
	tenants := running("kube-proxy", "kube-proxy", true)
	tenants.Namespace = "tenant"
	o := options
	o.Running = func(context.Context) ([]corev1.Pod, error) { return []corev1.Pod{tenants}, nil }
	if _, err := byExec(nil)(t.Context(), o); err == nil || !strings.Contains(err.Error(), "in namespace kube-system") {
		t.Errorf("%v, want it said where containers are looked for", err)
	}
}

func TestViewFromAContainer(t *testing.T) {
	t.Parallel()
	hostPID := running("p", "c", true)
	hostPID.Spec.HostPID = true
	part := running("p", "c", true, "/opt/x:/host/x")
	part.Spec.Containers[0].VolumeMounts[0].SubPath = "y"
	for name, c := range map[string]struct {
		pod  corev1.Pod
		want string
	}{
		"calico-node since v3.31":  {running("p", "c", true, "/proc:/nodeproc", "/var/run/calico:/var/run/calico"), "/nodeproc/1/root /nodeproc [] false"},
		"calico-node before":       {running("p", "c", true, "/var/run/calico/:/var/run/calico", "/lib/modules:/lib/modules", "/opt/cni/bin:/host/opt/cni/bin", "/var/lib/calico:/var/lib/calico"), "/ /proc [/run/calico /var/lib/calico] true"},
		"the node's processes":     {hostPID, "/proc/1/root /proc [] false"},
		"a log collector":          {running("p", "c", false, "/:/host"), "/host /proc [] false"},
		"may not follow process 1": {running("p", "c", false, "/proc:/nodeproc"), "/ /proc [] true"},
		"nothing":                  {running("p", "c", true), "/ /proc [] true"},
		"a part of a volume":       {part, "/ /proc [] true"},
	} {
		v := execTargets([]corev1.Pod{c.pod}, nil)[0].view()
		if got := fmt.Sprintf("%s %s %v %v", v.root, v.proc, v.only, v.only != nil); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestExecRefusals classifies errors of API servers and kubelets.
func TestExecRefusals(t *testing.T) {
	t.Parallel()
	p := running("p", "c", true)
	for text, want := range map[string]facts.Reason{
		`pods "p" is forbidden: User "x" cannot create resource "pods/exec" in API group "" in the namespace "ns"`:                                                                      facts.ReasonRBAC,
		"error dialing backend: dial tcp 10.0.0.7:10250: connect: connection refused":                                                                                                   facts.ReasonAttach,
		`Internal error occurred: OCI runtime exec failed: exec: "sh": executable file not found in $PATH`:                                                                              facts.ReasonShell,
		`unable to upgrade connection: container not found ("c")`:                                                                                                                       facts.ReasonShell,
		"unable to upgrade connection: Authorization error (user=kube-apiserver-kubelet-client, verb=create, resource=nodes, subresource=proxy)":                                        facts.ReasonNoAuthorizer,
		"unable to upgrade connection: Unauthorized":                                                                                                                                    facts.ReasonAPI,
		`unable to upgrade connection: admission webhook "x" denied the request`:                                                                                                        facts.ReasonAdmission,
		`rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: dial unix /run/containerd/containerd.sock: connect: no such file or directory"`: facts.ReasonRuntime,
	} {
		if pe := execFailed(execTargets([]corev1.Pod{p}, nil)[0], &uploadError{errors.New(text), ""}); pe.Reason != want {
			t.Errorf("%s: %s", text, pe.Reason)
		}
	}
	at := execTargets([]corev1.Pod{p}, nil)[0]
	// Any of them may hang, so this proves nothing about one of them.
	if pe := execFailed(at, &uploadError{errStalled, ""}); pe.Reason != facts.ReasonSilent || !pe.Waited {
		t.Errorf("%+v", pe)
	}
	if pe := execFailed(at, &uploadError{
		&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, "",
	}); pe.Reason != facts.ReasonAPI {
		t.Errorf("%+v", pe)
	}
}

// TestEndsExec requires no third container after two hang, and no second one in a second attempt: a node with a hung
// runtime costs that time.
func TestEndsExec(t *testing.T) {
	t.Parallel()
	hangs := &PlacementError{Reason: facts.ReasonSilent, Waited: true}
	for name, c := range map[string]struct {
		pe     *PlacementError
		silent int
		again  bool
		want   bool
	}{
		"one hangs": {hangs, 1, false, false}, "two hang": {hangs, 2, false, true}, "one hangs again": {hangs, 1, true, true},
		"no shell":      {refuse(facts.ReasonShell, "no shell"), 0, true, false},
		"the API fails": {refuse(facts.ReasonAPI, "x"), 0, false, true},
	} {
		if endsExec(c.pe, c.silent, c.again) != c.want {
			t.Errorf("%s: want %v", name, c.want)
		}
	}
}

// TestTightDoor requires that a container near its memory limit gets no probe, with a message.
func TestTightDoor(t *testing.T) {
	t.Parallel()
	p := running("p", "c", true)
	for limit, tight := range map[string]bool{"0": false, "128Mi": true, "256Mi": false, "1Gi": false} {
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(limit)}
		if got := execTargets([]corev1.Pod{p}, nil)[0].lowMemory(); got != tight {
			t.Errorf("%s: %v", limit, got)
		}
	}
	p.Spec.Containers[0].Resources.Limits[corev1.ResourceMemory] = resource.MustParse("64Mi")
	o := options
	o.Running = func(context.Context) ([]corev1.Pod, error) { return []corev1.Pod{p}, nil }
	if _, err := byExec(nil)(t.Context(), o); err == nil || !strings.Contains(err.Error(), "kube-system/p/c (the probe could exceed its memory limit of 64Mi)") {
		t.Error(err)
	}
}
