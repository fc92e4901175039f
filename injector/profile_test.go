package injector

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubectl/pkg/cmd/debug"

	"github.com/calico-probe/calico-probe/probe/must"
)

// profiled returns the debug profile of that name.
func profiled(t *testing.T, name string) *DebugProfile {
	t.Helper()
	p := must.Get(NewDebugProfile(name))(t)
	return p
}

// TestProfilesOfKubectl compares the profiles with kubectl's own pods and ephemeral containers.
func TestProfilesOfKubectl(t *testing.T) {
	t.Parallel()
	for _, name := range Profiles {
		own, joined := underKubectl(t, name)
		want := &DebugProfile{
			Name: name, pod: imposed(own.Containers[0].SecurityContext),
			ephemeral:  imposed(joined.EphemeralContainers[0].SecurityContext),
			mountsRoot: len(own.Containers[0].VolumeMounts) > 0,
		}
		if got := profiled(t, name); !own.HostNetwork || !own.HostPID || !reflect.DeepEqual(got, want) {
			t.Errorf("kubectl has %+v %+v, not %+v", own, joined, got)
		}
	}
}

// underKubectl returns kubectl's changes to a pod on a node, and to a pod with an ephemeral container.
func underKubectl(t *testing.T, name string) (own, joined corev1.PodSpec) {
	t.Helper()
	kubectl, err := debug.NewProfileApplier(name, debug.KeepFlags{}) // about copies of pods
	if err != nil {
		t.Fatal(err)
	}
	alone := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: containerName}}}}
	beside := &corev1.Pod{Spec: corev1.PodSpec{EphemeralContainers: []corev1.EphemeralContainer{
		{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: containerName}},
	}}}
	err = errors.Join(kubectl.Apply(alone, containerName, &corev1.Node{}), kubectl.Apply(beside, containerName, beside))
	if err != nil {
		t.Fatal(err)
	}
	return alone.Spec, beside.Spec
}

// TestProfiles requires the probe to have exactly the rights of kubectl's profile, plus user root and a read-only root
// file system. Nothing else may change.
func TestProfiles(t *testing.T) {
	t.Parallel()
	adds := func(caps ...corev1.Capability) *corev1.SecurityContext {
		return &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: caps}}
	}
	all := &corev1.SecurityContext{Privileged: new(true)}
	for name, c := range map[string]struct {
		pod, ephemeral *corev1.SecurityContext // kubectl's
		writes         bool                    // a root shell can write to the node
		note           string
	}{
		debug.ProfileGeneral:  {&corev1.SecurityContext{}, adds("SYS_PTRACE"), true, "root shell: debug profile general, the node's files are writable"},
		debug.ProfileSysadmin: {all, all, true, "root shell: debug profile sysadmin, the node's files are writable"},
		debug.ProfileNetadmin: {adds("NET_ADMIN", "NET_RAW"), adds("NET_ADMIN", "NET_RAW"), false, "root shell: debug profile netadmin, the node's files are not mounted"},
	} {
		for _, sc := range []*corev1.SecurityContext{c.pod, c.ephemeral} {
			sc.RunAsUser, sc.ReadOnlyRootFilesystem = new(int64(0)), new(true)
		}
		for _, shell := range []bool{false, true} {
			o := options
			o.Needed, o.Shell = []string{"NET_RAW", "SYS_ADMIN", "SYS_PTRACE"}, shell
			o.Calico = &corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{volume("nodeproc", "/proc", "")}}}
			plain, joined := podFor(o, nil), ephemeralFor(o)
			o.DebugProfile = profiled(t, name)
			pod, ephemeral := podFor(o, nil), ephemeralFor(o)
			if pod.Spec.HostIPC || !pod.Spec.HostNetwork || !pod.Spec.HostPID {
				t.Errorf("%s: host namespaces of %+v", name, pod.Spec)
			}
			if got := pod.Spec.Containers[0].SecurityContext; !reflect.DeepEqual(got, c.pod) {
				t.Errorf("%s: the pod has %+v, want %+v", name, got, c.pod)
			}
			if got := ephemeral.SecurityContext; !reflect.DeepEqual(got, c.ephemeral) {
				t.Errorf("%s: the ephemeral container has %+v, want %+v", name, got, c.ephemeral)
			}
			if m := pod.Spec.Containers[0].VolumeMounts; len(m) != 1 || m[0].ReadOnly == (shell && c.writes) {
				t.Errorf("%s, shell %v: mounts %+v", name, shell, m)
			}
			if note := pod.Annotations[annotationShell]; shell && note != c.note || !shell && note != "" {
				t.Errorf("%s: an auditor reads %q", name, note)
			}
			pod.Spec.Containers[0].SecurityContext = plain.Spec.Containers[0].SecurityContext
			pod.Spec.Containers[0].VolumeMounts = plain.Spec.Containers[0].VolumeMounts
			ephemeral.SecurityContext, ephemeral.Args = joined.SecurityContext, joined.Args // which have a time
			if !reflect.DeepEqual(pod.Spec, plain.Spec) || !reflect.DeepEqual(ephemeral, joined) {
				t.Errorf("%s changes more than the rights:\n%+v\n%+v", name, pod.Spec, ephemeral)
			}
		}
	}
}

// TestProfileAltered requires that a policy's removed or added rights are detected.
func TestProfileAltered(t *testing.T) {
	t.Parallel()
	o := options
	o.DebugProfile = profiled(t, debug.ProfileNetadmin)
	asked := podFor(o, nil)
	got := asked.DeepCopy()
	if what := alteredPod(asked, got); what != "" {
		t.Error(what)
	}
	got.Spec.Containers[0].SecurityContext.Capabilities.Add = nil
	if what := alteredPod(asked, got); !strings.Contains(what, "capabilities.add") {
		t.Errorf("%q", what)
	}
	if asked = podFor(o, nil); len(asked.Spec.Containers[0].SecurityContext.Capabilities.Add) != 2 {
		t.Error("a pod has changed the profile of the next one")
	}
}

// TestProfilesRefused requires that kubectl's profiles without host namespaces are rejected, with that reason.
func TestProfilesRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{debug.ProfileBaseline, debug.ProfileRestricted} {
		own, _ := underKubectl(t, name)
		p, err := NewDebugProfile(name)
		if own.HostNetwork || err == nil || !strings.Contains(err.Error(), name+" has no host namespaces") {
			t.Errorf("%s: %v %v", name, p, err)
		}
	}
}
