package cluster

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// claimant is a pod with the label of calico-node, as NAMESPACE/NAME, of that DaemonSet.
func claimant(name, set string, made time.Duration) corev1.Pod {
	namespace, pod, _ := strings.Cut(name, "/")
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pod, CreationTimestamp: ago(made)}}
	p.Labels = map[string]string{"k8s-app": "calico-node"}
	p.Spec.NodeName = "a"
	if set != "" {
		p.OwnerReferences = []metav1.OwnerReference{
			{APIVersion: "apps/v1", Kind: "DaemonSet", Name: set, Controller: new(true)},
		}
	}
	return p
}

// tenants returns a tenant's pod that poses as calico-node: healthy, and newer than all other pods.
func tenants(node string, at time.Time) *corev1.Pod {
	p := claimant("tenant/calico-node", "", 0)
	p.CreationTimestamp, p.Spec.NodeName = metav1.NewTime(at), node
	p.Spec.Containers = []corev1.Container{{Name: CalicoContainer, Env: []corev1.EnvVar{
		{Name: "ETCD_ENDPOINTS", Value: "https://tenant.example:2379"},
		{Name: "FELIX_TYPHAK8SSERVICENAME", Value: "tenants"}, {Name: "FELIX_TYPHAK8SNAMESPACE", Value: "tenant"},
	}}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: CalicoContainer, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	}}
	return &p
}

func TestClaims(t *testing.T) {
	t.Parallel()
	gone := func(p corev1.Pod) corev1.Pod { p.DeletionTimestamp = new(ago(time.Second)); return p }
	owned := func(change func(*metav1.OwnerReference)) []corev1.Pod {
		p := claimant("kube-system/x", "calico-node", 0)
		change(&p.OwnerReferences[0])
		return []corev1.Pod{p}
	}
	decoy, ours := *tenants("a", now), claimant("kube-system/real", "calico-node", time.Hour)
	newer, operators := claimant("kube-system/newer", "calico-node", time.Minute), claimant("calico-system/op",
		"calico-node", 0)
	tenantsSet, orphan := claimant("tenant/x", "calico-node", 0), claimant("kube-system/orphan", "", 0)
	for name, c := range map[string]struct {
		named   string // by --calico-namespace
		pods    []corev1.Pod
		pod     string
		err     string
		ignored string
	}{
		"none":                 {},
		"by manifest":          {pods: []corev1.Pod{ours}, pod: "real"},
		"by operator":          {pods: []corev1.Pod{operators}, pod: "op"},
		"canal":                {pods: []corev1.Pod{claimant("kube-system/rke2", "rke2-canal", 1)}, pod: "rke2"},
		"named":                {named: "ours", pods: []corev1.Pod{claimant("ours/own", "calico-node", 1)}, pod: "own"},
		"a newer decoy":        {pods: []corev1.Pod{decoy, ours}, pod: "real", ignored: "tenant/calico-node"},
		"a decoy alone":        {pods: []corev1.Pod{decoy}, ignored: "tenant/calico-node"},
		"a tenant's DaemonSet": {pods: []corev1.Pod{tenantsSet, ours}, pod: "real", ignored: "tenant/x"},
		"only another namespace": {
			pods: []corev1.Pod{tenantsSet}, ignored: "tenant/x",
			err: "no calico-node pod in namespace kube-system or calico-system, but one of DaemonSet tenant/calico-node: " +
				"if that is Calico, name its namespace with --calico-namespace",
		},
		"named, and elsewhere": {
			named: "ours", pods: []corev1.Pod{ours}, ignored: "kube-system/real",
			err: "no calico-node pod in namespace ours, which --calico-namespace names, but DaemonSet kube-system/calico-node has one here: " +
				"omit the flag, or set --calico-namespace kube-system",
		},
		"named, and a stranger's": {
			named: "kube-system", pods: []corev1.Pod{tenantsSet}, ignored: "tenant/x",
			err: "but DaemonSet tenant/calico-node has one here: if that is Calico, set --calico-namespace tenant",
		},
		"an update":            {pods: []corev1.Pod{gone(newer), ours}, pod: "real"},
		"an update, both stay": {pods: []corev1.Pod{newer, ours}, pod: "newer"},
		"an update, both go":   {pods: []corev1.Pod{gone(ours), gone(newer)}, pod: "newer"},
		"two namespaces": {
			pods: []corev1.Pod{ours, operators},
			err: "2 DaemonSets claim to be calico-node on this node (calico-system/calico-node, kube-system/calico-node): " +
				"name the namespace of the right one with --calico-namespace",
		},
		"two, one named": {named: "kube-system", pods: []corev1.Pod{ours, operators}, pod: "real",
			ignored: "calico-system/op"},
		"two, one is going": {pods: []corev1.Pod{gone(ours), operators}, err: "2 DaemonSets claim"},
		"two in one namespace": {
			pods: []corev1.Pod{ours, claimant("kube-system/c", "canal", 0)},
			err: "(kube-system/calico-node, kube-system/canal): both are in namespace kube-system, so --calico-namespace cannot " +
				"distinguish them: find out who created each ('kubectl -n kube-system get daemonsets'); until only one has pods here, calico-node is not checked",
		},
		"two in one namespace, one in another": {
			pods: []corev1.Pod{ours, operators, claimant("kube-system/c", "canal", 0)},
			err: "name the namespace of the right one with --calico-namespace; where it is one of several, they are in namespace kube-system, " +
				"so --calico-namespace cannot distinguish them",
		},
		"of nobody": {
			pods: []corev1.Pod{orphan}, ignored: "kube-system/orphan",
			err: "pod kube-system/orphan has the label of calico-node, but no DaemonSet controls it",
		},
		"of nobody, and real": {pods: []corev1.Pod{orphan, ours}, pod: "real", ignored: "kube-system/orphan"},
		"not its controller": {
			pods: owned(func(o *metav1.OwnerReference) { o.Controller = nil }),
			err:  "no DaemonSet controls it", ignored: "kube-system/x",
		},
		"of a ReplicaSet": {
			pods: owned(func(o *metav1.OwnerReference) { o.Kind = "ReplicaSet" }),
			err:  "no DaemonSet controls it", ignored: "kube-system/x",
		},
		"of another kind of DaemonSet": {
			pods: owned(func(o *metav1.OwnerReference) { o.APIVersion = "apps.example.com/v1" }),
			err:  "no DaemonSet controls it", ignored: "kube-system/x",
		},
		"a name that steers": {
			pods: []corev1.Pod{claimant("tenant/x", "\x1b[31mcalico\nnode", 0)},
			err:  "DaemonSet tenant/?[31mcalico node:", ignored: "tenant/x",
		},
	} {
		for range 2 { // the order of the list must not matter
			slices.Reverse(c.pods)
			calico, others := claimsOf(c.pods, Namespaces(c.named))
			var pod string
			var ignored []string
			if calico.Value != nil {
				pod = calico.Value.Name
			}
			for _, p := range others {
				ignored = append(ignored, p.Namespace+"/"+p.Name)
			}
			if pod != c.pod || strings.Join(ignored, " ") != c.ignored {
				t.Errorf("%s: %q is believed, %v are ignored", name, pod, ignored)
			}
			text := ""
			if calico.Err != nil {
				text = calico.Err.Error()
			}
			if (text == "") != (c.err == "") || !strings.Contains(text, c.err) || strings.ContainsAny(text, "\x1b\n") {
				t.Errorf("%s: error %q, want %q", name, text, c.err)
			}
			if calico.Err != nil && !errors.As(calico.Err, new(*UnverifiedError)) {
				t.Errorf("%s: %T", name, calico.Err)
			}
		}
	}
}

// TestVerified requires that only a pod is trusted that a DaemonSet controls in one of Calico's namespaces.
func TestVerified(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pod   corev1.Pod
		named string // by --calico-namespace
		want  bool
	}{
		"by manifest":               {pod: claimant("kube-system/x", "calico-node", 0), want: true},
		"by operator":               {pod: claimant("calico-system/x", "calico-node", 0), want: true},
		"of no DaemonSet":           {pod: claimant("kube-system/x", "", 0)},
		"a tenant's DaemonSet":      {pod: claimant("tenant/x", "calico-node", 0)},
		"in the namespace named":    {pod: claimant("ours/x", "calico-node", 0), named: "ours", want: true},
		"outside of the one named":  {pod: claimant("kube-system/x", "calico-node", 0), named: "ours"},
		"of no DaemonSet, in ours":  {pod: claimant("ours/x", "", 0), named: "ours"},
		"a tenant's, without owner": {pod: *tenants("a", now)},
	} {
		if got := Verified(&c.pod, Namespaces(c.named)); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestManyDecoys requires that a hundred decoys are reported in a few lines.
func TestManyDecoys(t *testing.T) {
	t.Parallel()
	s := snapshot(node("a", "10.0.0.1", ""))
	for i := range 100 {
		s.ignored = append(s.ignored, claimant(fmt.Sprintf("tenant/decoy-%d", i), "", 0))
	}
	got := s.Ignored()
	s.CalicoIn = Namespaces("kube-system")
	if saw := s.Ignored()[0].Saw; saw != "has the label of calico-node and is outside namespace kube-system: ignored" {
		t.Error(saw)
	}
	if len(got) != maxNamed+1 || !strings.HasPrefix(got[maxNamed].Saw, "97 pods more") {
		t.Errorf("%v", got)
	}
}

// TestReadCalicoPodDenied requires that a missing right is distinguished from a cluster without Calico.
func TestReadCalicoPodDenied(t *testing.T) {
	t.Parallel()
	var f fleet
	f.add("a", nil)
	pod, _, err := f.client(t, "/pods").readCalicoPod(t.Context(), "a")
	if pod != nil || !Denied(err) || errors.As(err, new(*UnverifiedError)) {
		t.Errorf("%v, %v", pod, err)
	}
}

// TestControllersOfATenant requires that calico-kube-controllers is read only in Calico's namespaces.
func TestControllersOfATenant(t *testing.T) {
	t.Parallel()
	var f fleet
	f.add("a", nil)
	decoy := f.pods[0].DeepCopy()
	decoy.Namespace = "tenant"
	f.pods = append(f.pods, *decoy)
	got, err := f.client(t).readControllers(t.Context())
	if err != nil || len(got) != 1 || got[0].Namespace != "kube-system" {
		t.Errorf("%v, %v", got, err)
	}
}
