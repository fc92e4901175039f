package examine

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// world is a cluster while it is put together: three nodes, of which the first is asked about, a DNS, a
// service with a pod on each node, kube-proxy, and then Calico as some installer leaves it.
type world struct {
	nodes     []corev1.Node
	pods      []corev1.Pod
	services  []served
	maps      []corev1.ConfigMap
	policies  []any
	events    []corev1.Event
	hooks     []admissionv1.ValidatingWebhookConfiguration
	resources map[string]map[string]map[string]any // Calico's: kind, name, spec
	group     string                               // path of the group that has them
	calico    calicoNode
	lease     time.Duration // how old that of the first node is
	etcd      bool          // Calico's resources are in a separate etcd
}

// served is a service and what stands behind it.
type served struct {
	corev1.Service
	behind []endpoint
}

type endpoint struct{ addr, node string }

// calicoNode returns the calico-node pods that an installer creates.
type calicoNode struct {
	namespace, daemonSet, app string
	version                   string
	account                   string
	env                       map[string]string
	from                      []corev1.EnvFromSource
	containers                []string // beside calico-node
	init                      []string
	operator                  bool
	notOn                     []string
}

// began is when things in these clusters began, ago.
func began(ago time.Duration) metav1.Time {
	return metav1.NewTime(time.Now().Add(-ago).Truncate(time.Second))
}

const longAgo = 40 * 24 * time.Hour

// plainWorld is a cluster of kubeadm without any network plugin.
func plainWorld() *world {
	w := &world{resources: map[string]map[string]map[string]any{}, group: apiCalico}
	for i, name := range []string{"alder", "birch", "cedar"} {
		w.node(name, fmt.Sprintf("10.20.0.%d", 11+i))
	}
	w.nodes[0].Labels["node-role.kubernetes.io/control-plane"] = ""
	w.service("default", "kubernetes", nil, 443, "10.96.0.1", endpoint{"10.20.0.11", ""})
	w.service("kube-system", "kube-dns", map[string]string{"k8s-app": "kube-dns"}, 53, "10.96.0.10",
		endpoint{"10.244.1.3", "birch"}, endpoint{"10.244.2.3", "cedar"})
	w.service("shop", "web", nil, 8080, "10.96.7.7", endpoint{"10.244.0.5", "alder"},
		endpoint{"10.244.1.5", "birch"}).Spec.Ports[0].NodePort = 30080
	for i, n := range w.nodes {
		w.hostPod("kube-system", "kube-proxy-"+n.Name, n.Name, map[string]string{"k8s-app": "kube-proxy"}, "DaemonSet")
		w.pod("shop", "web-"+n.Name, n.Name, fmt.Sprintf("10.244.%d.5", i))
		w.pod("kube-system", "coredns-"+n.Name, n.Name, fmt.Sprintf("10.244.%d.3", i))
	}
	return w
}

func (w *world) node(name, ip string) *corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: began(longAgo),
		Labels: map[string]string{corev1.LabelOSStable: "linux", corev1.LabelHostname: name,
			corev1.LabelArchStable: "amd64"},
		Annotations: map[string]string{}}}
	n.Spec.PodCIDRs = []string{fmt.Sprintf("10.244.%d.0/24", len(w.nodes))}
	n.Spec.PodCIDR = n.Spec.PodCIDRs[0]
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip},
		{Type: corev1.NodeHostName, Address: name}}
	n.Status.NodeInfo = corev1.NodeSystemInfo{KubeletVersion: "v1.34.2", KernelVersion: "6.8.0-48-generic",
		OperatingSystem: "linux", Architecture: "amd64", ContainerRuntimeVersion: "containerd://2.1.4"}
	n.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse, Reason: "CalicoIsUp"},
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse},
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: began(longAgo)}}
	w.nodes = append(w.nodes, n)
	return &w.nodes[len(w.nodes)-1]
}

func (w *world) pod(namespace, name, node string, ips ...string) *corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "-" + name),
		CreationTimestamp: began(longAgo), Labels: map[string]string{"app": strings.Split(name, "-")[0]}}}
	p.Spec.NodeName = node
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "registry.example/main:1",
		Ports: []corev1.ContainerPort{{ContainerPort: 8080}}}}
	p.Status.Phase = corev1.PodRunning
	for _, ip := range ips {
		p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: ip})
		p.Status.PodIP = p.Status.PodIPs[0].IP
	}
	running(&p, "main")
	w.pods = append(w.pods, p)
	return &w.pods[len(w.pods)-1]
}

// running makes a pod one whose containers run and are ready.
func running(p *corev1.Pod, containers ...string) {
	since := metav1.NewTime(p.CreationTimestamp.Add(time.Minute))
	p.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: p.CreationTimestamp},
		{Type: corev1.ContainersReady, Status: corev1.ConditionTrue, LastTransitionTime: since},
		{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: since}}
	p.Status.ContainerStatuses = nil
	for _, name := range containers {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: name, Ready: true,
			Started: new(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: since}}})
	}
}

// hostPod is one in the node's network, of a controller.
func (w *world) hostPod(namespace, name, node string, labels map[string]string, owner string) {
	p := w.pod(namespace, name, node, w.internal(node))
	p.Labels, p.Spec.HostNetwork = labels, true
	api := map[string]string{"DaemonSet": appsv1.SchemeGroupVersion.String(), "Node": "v1"}[owner]
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: api, Kind: owner, Controller: new(true), UID: "o",
		Name: strings.TrimSuffix(name, "-"+node)}}
}

func (w *world) internal(node string) string {
	for _, n := range w.nodes {
		if n.Name == node {
			return n.Status.Addresses[0].Address
		}
	}
	return ""
}

func (w *world) service(namespace, name string, labels map[string]string, port int32, ip string,
	behind ...endpoint,
) *served {
	s := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels,
		CreationTimestamp: began(longAgo)}}
	s.Spec = corev1.ServiceSpec{ClusterIP: ip, ClusterIPs: []string{ip}, Ports: []corev1.ServicePort{{Port: port}}}
	if name != "kubernetes" {
		s.Spec.Selector = map[string]string{"app": name}
	}
	w.services = append(w.services, served{s, behind})
	return &w.services[len(w.services)-1]
}

// set makes one of Calico's resources.
func (w *world) set(kind, name string, spec map[string]any) {
	if w.resources[kind] == nil {
		w.resources[kind] = map[string]map[string]any{}
	}
	w.resources[kind][name] = spec
}

// server is an API server of this world.
func (w *world) server() *apiServer {
	s := &apiServer{objects: map[string][]*unstructured.Unstructured{}, calico: map[string][]string{w.group: calicoKinds}}
	if w.etcd {
		s.calico = nil
	}
	for i := range w.nodes {
		s.add(apiCore+"/nodes", w.nodes[i])
		lease := coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease,
			Name: w.nodes[i].Name}}
		lease.Spec.RenewTime = new(metav1.NowMicro())
		if i == 0 {
			lease.Spec.RenewTime = new(metav1.NewMicroTime(time.Now().Add(-w.lease)))
		}
		s.add(apiLeases+"/leases", lease)
		if w.calico.daemonSet != "" && !slices.Contains(w.calico.notOn, w.nodes[i].Name) {
			s.add(apiCore+"/pods", w.calicoPod(w.nodes[i].Name))
		}
	}
	for _, p := range w.pods {
		s.add(apiCore+"/pods", p)
	}
	for _, m := range w.maps {
		s.add(apiCore+"/configmaps", m)
	}
	for _, p := range w.policies {
		s.add(apiPolicies+"/networkpolicies", p)
	}
	for _, e := range w.events {
		s.add(apiCore+"/events", e)
	}
	for _, h := range w.hooks {
		s.add(apiAdmission+"/validatingwebhookconfigurations", h)
	}
	for _, svc := range w.services {
		s.add(apiCore+"/services", svc.Service)
		s.add(apiEndpoints+"/endpointslices", svc.slice())
	}
	for kind, all := range w.resources {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			namespace, of, in := strings.Cut(name, "/")
			if !in {
				namespace, of = "", name
			}
			s.add(w.group+"/"+kind, map[string]any{"metadata": map[string]any{"namespace": namespace, "name": of},
				"spec": all[name]})
		}
	}
	return s
}

func (s served) slice() discoveryv1.EndpointSlice {
	out := discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name + "-x",
		Labels: map[string]string{discoveryv1.LabelServiceName: s.Name}}}
	for _, p := range s.Spec.Ports {
		port := p.Port
		if s.Name == "kubernetes" {
			port = 6443
		}
		out.Ports = append(out.Ports, discoveryv1.EndpointPort{Port: new(port)})
	}
	for _, e := range s.behind {
		one := discoveryv1.Endpoint{Addresses: []string{e.addr}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}
		if e.node != "" {
			one.NodeName = new(e.node)
		}
		out.Endpoints = append(out.Endpoints, one)
	}
	return out
}

// calicoPod is the pod of calico-node on a node.
func (w *world) calicoPod(node string) corev1.Pod {
	c := w.calico
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: c.daemonSet + "-" + node,
		UID: types.UID("calico-" + node), CreationTimestamp: began(longAgo), Labels: map[string]string{"k8s-app": c.app}}}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: c.daemonSet,
		Controller: new(true), UID: "ds"}}
	if c.operator {
		p.Annotations = map[string]string{"hash.operator.tigera.io/cni-config": "1"}
	}
	p.Spec.NodeName, p.Spec.HostNetwork, p.Spec.ServiceAccountName = node, true, c.account
	main := corev1.Container{Name: "calico-node", Image: "quay.io/calico/node:" + c.version, EnvFrom: c.from,
		LivenessProbe: &corev1.Probe{InitialDelaySeconds: 10, PeriodSeconds: 10, FailureThreshold: 6, TimeoutSeconds: 10}}
	for _, name := range slices.Sorted(maps.Keys(c.env)) {
		main.Env = append(main.Env, corev1.EnvVar{Name: name, Value: c.env[name]})
	}
	p.Spec.Containers = []corev1.Container{main}
	running(&p, append([]string{"calico-node"}, c.containers...)...)
	for _, name := range c.containers {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: name})
	}
	for _, name := range c.init {
		p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: name})
		p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, corev1.ContainerStatus{Name: name,
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}})
	}
	p.Status.Phase, p.Status.HostIP, p.Status.PodIP = corev1.PodRunning, w.internal(node), w.internal(node)
	return p
}
