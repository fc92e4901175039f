package examine

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// busy is a healthy cluster in which something goes on.
type busy struct {
	says   string
	change func(*world)
	mild   []string // checks of other nodes, which may be warn or unknown
}

// waiting is a pod that does not start, for a reason of the kubelet's.
func (w *world) waiting(name, node string, ago time.Duration, reason, says string) *corev1.Pod {
	p := w.pod("shop", name, node)
	p.CreationTimestamp = began(ago)
	p.Status.Phase = corev1.PodPending
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue,
		LastTransitionTime: began(ago)}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main",
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: says}}}}
	return p
}

func (w *world) event(of *corev1.Pod, reason, says string) {
	w.events = append(w.events, corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: of.Namespace, Name: of.Name + ".1"},
		InvolvedObject: corev1.ObjectReference{UID: of.UID}, Reason: reason, Message: says,
		Source:        corev1.EventSource{Component: "kubelet", Host: of.Spec.NodeName},
		LastTimestamp: began(time.Second)})
}

func (w *world) notReady(i int, status corev1.ConditionStatus) {
	conditions := w.nodes[i].Status.Conditions
	conditions[len(conditions)-1].Status = status
	conditions[len(conditions)-1].Reason = "NodeStatusUnknown"
}

func (w *world) allows(namespace, name string) {
	w.policies = append(w.policies, networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{}},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}}})
}

func busyClusters() []busy {
	return append(busyPods(), busyAround()...)
}

func busyPods() []busy {
	return []busy{
		{says: "pods wait for an image that does not exist", change: func(w *world) {
			for i := range 3 {
				w.waiting(fmt.Sprintf("typo-%d", i), "alder", time.Hour, "ImagePullBackOff",
					`Back-off pulling image "registry.example/nome:1": ErrImagePull: manifest unknown`)
			}
		}},
		{says: "a pod references a missing ConfigMap", change: func(w *world) {
			w.waiting("config", "alder", time.Hour, "CreateContainerConfigError", `configmap "app" not found`)
		}},
		{says: "a pod waits for a Secret to mount", change: func(w *world) {
			p := w.waiting("secret", "alder", time.Hour, "ContainerCreating", "")
			w.event(p, "FailedMount", `MountVolume.SetUp failed for volume "tls" : secret "web-tls" not found`)
		}},
		{says: "a pod's program keeps exiting", change: func(w *world) {
			w.waiting("crashes", "alder", 24*time.Hour, "CrashLoopBackOff", "back-off 5m0s restarting failed container=main")
		}},
		{says: "a pod's image name is invalid", change: func(w *world) {
			w.waiting("name", "alder", time.Hour, "InvalidImageName", `Failed to apply default image tag "Shop:1"`)
		}},
		{says: "one registry does not answer", change: func(w *world) {
			w.waiting("away", "alder", time.Hour, "ErrImagePull", `failed to do request: Head "https://registry.example/v2/main": dial tcp 192.0.2.9:443: i/o timeout`)
		}},
		{says: "a large image is being pulled", change: func(w *world) {
			p := w.waiting("large", "alder", 4*time.Minute, "ContainerCreating", "")
			w.event(p, "Pulling", `Pulling image "registry.example/model:70b"`)
		}},
		{says: "pods were bound to the node seconds ago", change: func(w *world) {
			for i := range 20 {
				w.waiting(fmt.Sprintf("new-%d", i), "alder", 5*time.Second, "ContainerCreating", "")
			}
		}},
		{says: "a rollout of another workload is half done", change: func(w *world) {
			w.waiting("web-new", "birch", time.Hour, "ImagePullBackOff", "manifest unknown")
			w.services[2].behind = w.services[2].behind[:1]
		}},
		{says: "some Jobs have completed, and some have failed", change: func(w *world) {
			for i, phase := range []corev1.PodPhase{corev1.PodSucceeded, corev1.PodSucceeded, corev1.PodFailed} {
				p := w.pod("shop", fmt.Sprintf("report-%d", i), "alder", fmt.Sprintf("10.244.0.%d", 40+i))
				p.Status.Phase, p.Status.Conditions = phase, p.Status.Conditions[:1]
				p.Status.ContainerStatuses[0].State = corev1.ContainerState{
					Terminated: &corev1.ContainerStateTerminated{ExitCode: int32(i / 2)}}
			}
		}},
		{says: "evicted pods remain", change: func(w *world) {
			p := w.pod("shop", "evicted", "alder")
			p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted",
				Message: "The node was low on resource: memory."}
		}},
		{says: "pods are being deleted, slowly", change: func(w *world) {
			p := w.pod("shop", "goes", "alder", "10.244.0.50")
			p.DeletionTimestamp, p.Finalizers = new(began(10*time.Minute)), []string{"example.com/backup"}
			p.Status.Conditions = p.Status.Conditions[:1]
		}},
		{says: "a namespace with pods is being deleted", change: func(w *world) {
			p := w.waiting("rest", "alder", time.Hour, "ContainerCreating", "")
			p.Namespace, p.DeletionTimestamp, p.Finalizers = "going", new(began(time.Hour)), []string{"example.com/x"}
		}},
		{says: "a pod's init container runs for hours", change: func(w *world) {
			p := w.waiting("migrate", "alder", 3*time.Hour, "PodInitializing", "")
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "init",
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: began(3 * time.Hour)}}}}
		}},
		{says: "workload pods run but are not ready", change: func(w *world) {
			p := w.pod("shop", "warms", "alder", "10.244.0.51")
			p.Status.Conditions[2].Status, p.Status.ContainerStatuses[0].Ready = corev1.ConditionFalse, false
		}},
		{says: "static pods and host-network pods run on the node", change: func(w *world) {
			for _, name := range []string{"etcd", "kube-apiserver", "kube-scheduler"} {
				w.hostPod("kube-system", name+"-alder", "alder", map[string]string{"component": name}, "Node")
			}
			w.hostPod("monitoring", "node-exporter-alder", "alder", map[string]string{"app": "node-exporter"}, "DaemonSet")
		}},
		{says: "another team's DaemonSet is in CrashLoopBackOff on every node", change: func(w *world) {
			for _, n := range w.nodes {
				p := w.waiting("agent-"+n.Name, n.Name, time.Hour, "CrashLoopBackOff", "back-off restarting")
				p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent",
					Controller: new(true)}}
			}
		}},
		{says: "a tenant's pods claim to be calico-node", change: func(w *world) {
			p := w.pod("shop", "calico-node-mine", "alder", "10.244.0.52")
			p.Labels = map[string]string{"k8s-app": "calico-node"}
		}},
	}
}

func busyAround() []busy {
	return []busy{
		{says: "names are unusual: long, with dots, or only digits", change: func(w *world) {
			p := w.pod("0", "1-2-3."+fmt.Sprint(time.Hour), "alder", "10.244.0.53")
			p.Name, p.UID = "ip-10-244-0-53.eu-central-1.compute.internal", types.UID("odd")
			w.node("ip-10-20-0-77.eu-central-1.compute.internal", "10.20.0.77").
				Annotations["projectcalico.org/IPv4Address"] = "10.20.0.77/24"
		}},
		{says: "two hundred policies allow the tested traffic", change: func(w *world) {
			for i := range 200 {
				w.allows([]string{"shop", "kube-system"}[i%2], fmt.Sprintf("allow-%d", i))
			}
		}},
		{says: "Calico policies in custom tiers allow and pass", change: func(w *world) {
			w.set("tiers", "platform", map[string]any{"order": 100})
			w.set("globalnetworkpolicies", "platform.pass", map[string]any{"tier": "platform", "selector": "all()",
				"types": []any{"Ingress"}, "ingress": []any{map[string]any{"action": "Pass"}}})
			w.set("networkpolicies", "shop/default.web", map[string]any{"selector": "app == 'web'", "types": []any{"Ingress"},
				"ingress": []any{map[string]any{"action": "Allow"}}})
		}},
		{says: "the node is cordoned", change: func(w *world) {
			w.nodes[0].Spec.Unschedulable = true
			w.nodes[0].Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}
		}},
		{says: "the node has custom taints and labels", change: func(w *world) {
			w.nodes[0].Spec.Taints = []corev1.Taint{{Key: "gpu.example.com/only", Value: "yes",
				Effect: corev1.TaintEffectNoExecute}}
			w.nodes[0].Labels["team"] = "vision"
		}},
		{says: "another node is cordoned and drained", change: func(w *world) {
			w.nodes[1].Spec.Unschedulable = true
			w.nodes[1].Spec.Taints = []corev1.Taint{{Key: "maintenance", Effect: corev1.TaintEffectNoExecute}}
		}},
		{says: "another node is NotReady because its machine is off", change: func(w *world) { w.notReady(2, corev1.ConditionUnknown) }},
		{says: "another node has just joined, and has no address and no calico-node yet", change: func(w *world) {
			n := w.node("dogwood", "10.20.0.14")
			n.CreationTimestamp = began(20 * time.Second)
			w.notReady(3, corev1.ConditionFalse)
			w.calico.notOn = []string{"dogwood"}
		}},
		{says: "the Node of a removed machine remains", change: func(w *world) {
			n := w.node("elm", "10.20.0.15")
			n.Annotations["projectcalico.org/IPv4Address"] = "10.20.0.15/24"
			w.notReady(3, corev1.ConditionUnknown)
			w.block("elm", "10.244.4.0/26")
			w.calico.notOn = []string{"elm"}
		}},
		{says: "blocks of a deleted node remain", change: func(w *world) { w.block("fir", "10.244.5.0/26") }},
		{says: "a dual-stack Service has pods of one IP family", change: func(w *world) {
			s := &w.services[2]
			s.Spec.ClusterIPs = append(s.Spec.ClusterIPs, "fd20:96::7")
		}},
		{says: "services have no endpoints, or no selector, or no address", change: func(w *world) {
			w.service("shop", "empty", nil, 80, "10.96.8.1")
			w.service("shop", "outside", nil, 80, "10.96.8.2").Spec.Selector = nil
			w.service("shop", "headless", nil, 80, corev1.ClusterIPNone, endpoint{"10.244.0.5", "alder"})
		}},
		{says: "calico-kube-controllers restarts on another node", change: func(w *world) {
			for i := range w.pods {
				if p := &w.pods[i]; controllersPod(*p) {
					p.Status.ContainerStatuses[0].RestartCount = 4
					p.Status.ContainerStatuses[0].State.Running.StartedAt = began(time.Minute)
				}
			}
		}},
		{says: "a second IP pool is disabled, and a third IP pool is for other nodes", change: func(w *world) {
			w.set("ippools", "old", map[string]any{"cidr": "10.99.0.0/16", "ipipMode": "Always", "vxlanMode": "Never",
				"disabled": true})
			w.set("ippools", "edge", map[string]any{"cidr": "10.98.0.0/16", "ipipMode": "Never", "vxlanMode": "Never",
				"nodeSelector": "zone == 'edge'"})
		}},
		{says: "FelixConfigurations and BGPConfigurations of other nodes differ", change: func(w *world) {
			w.set("felixconfigurations", "node.birch", map[string]any{"healthPort": 9999, "bpfEnabled": true})
			w.set("bgpconfigurations", "node.birch", map[string]any{"listenPort": 1179})
		}},
	}
}

// TestBusyButHealthy requires no fault and no cause on a busy, healthy node.
func TestBusyButHealthy(t *testing.T) {
	onLinux(t)
	all := busyClusters()
	if len(all) < 30 {
		t.Errorf("only %d clusters", len(all))
	}
	for _, c := range all {
		t.Run(c.says, func(t *testing.T) {
			t.Parallel()
			w := standard()
			c.change(w)
			lookAt(t, w, "", "").healthy(t, c.mild...)
		})
	}
}
