package examine

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// by is Calico as its manifests leave it: what each of them sets in calico-node's environment, and the
// resources that calico-node makes when it starts.
func (w *world) by(backend string) *world {
	w.calico = calicoNode{namespace: "kube-system", daemonSet: "calico-node", app: "calico-node", version: "v3.32.1",
		account: "calico-node", init: []string{"upgrade-ipam", "install-cni", "ebpf-bootstrap"},
		env: map[string]string{"DATASTORE_TYPE": "kubernetes", "CALICO_NETWORKING_BACKEND": backend, "IP": "autodetect",
			"FELIX_HEALTHENABLED": "true", "CLUSTER_TYPE": "k8s,bgp"}}
	if backend == "none" {
		w.calico.env["CLUSTER_TYPE"] = "k8s"
		delete(w.calico.env, "IP")
	}
	w.set("clusterinformations", "default", map[string]any{"datastoreReady": true, "calicoVersion": "v3.32.1",
		"clusterType": "k8s,bgp"})
	w.set("felixconfigurations", "default", map[string]any{"logSeverityScreen": "Info"})
	w.controllers("kube-system")
	return w
}

// operated is Calico as the operator leaves it, with Typha.
func (w *world) operated(backend string) *world {
	w.by(backend)
	w.pods = slices.DeleteFunc(w.pods, func(p corev1.Pod) bool { return strings.Contains(p.Name, "controllers") })
	w.controllers("calico-system")
	w.calico.namespace, w.calico.operator = "calico-system", true
	w.calico.init = []string{"flexvol-driver", "ebpf-bootstrap", "install-cni"}
	w.calico.env["CLUSTER_TYPE"] = "k8s,operator,bgp"
	w.typha("calico-system")
	return w
}

func (w *world) controllers(namespace string) {
	p := w.pod(namespace, "calico-kube-controllers-x", "birch", "10.244.1.9")
	p.Labels = map[string]string{"k8s-app": "calico-kube-controllers"}
}

func (w *world) typha(namespace string) {
	w.calico.env["FELIX_TYPHAK8SSERVICENAME"] = "calico-typha"
	w.calico.env["FELIX_TYPHAK8SNAMESPACE"] = namespace
	w.service(namespace, "calico-typha", nil, 5473, "10.96.3.3", endpoint{w.internal("birch"), "birch"}).
		Spec.Ports[0].Name = "calico-typha"
}

// pool is an IP pool, and a block of it on each node, with the addresses of its pods.
func (w *world) pool(cidr, ipip, vxlan string) *world {
	w.set("ippools", "pool-"+strings.NewReplacer(".", "-", ":", "-", "/", "-").Replace(cidr),
		map[string]any{"cidr": cidr, "ipipMode": ipip, "vxlanMode": vxlan, "natOutgoing": true, "nodeSelector": "all()"})
	v6 := strings.Contains(cidr, ":")
	for i := range w.nodes {
		n := &w.nodes[i]
		block, tunnel := fmt.Sprintf("10.244.%d.0/26", i), fmt.Sprintf("10.244.%d.0", i)
		if v6 {
			block, tunnel = fmt.Sprintf("fd20:244:%x::/122", i), fmt.Sprintf("fd20:244:%x::1", i)
		}
		w.block(n.Name, block)
		switch {
		case ipip != "Never":
			n.Annotations["projectcalico.org/IPv4IPIPTunnelAddr"] = tunnel
		case vxlan != "Never" && v6:
			n.Annotations["projectcalico.org/IPv6VXLANTunnelAddr"] = tunnel
			n.Annotations["projectcalico.org/VXLANTunnelMACAddrV6"] = fmt.Sprintf("66:20:00:00:06:%02x", i)
		case vxlan != "Never":
			n.Annotations["projectcalico.org/IPv4VXLANTunnelAddr"] = tunnel
			n.Annotations["projectcalico.org/VXLANTunnelMACAddr"] = fmt.Sprintf("66:20:00:00:04:%02x", i)
		}
	}
	return w
}

func (w *world) block(node, cidr string) {
	name := strings.NewReplacer(".", "-", ":", "-", "/", "-").Replace(cidr)
	deleted := any("false")
	if w.group == apiCalicoNative {
		deleted = false
	}
	w.set("blockaffinities", node+"-"+name, map[string]any{"cidr": cidr, "node": node, "state": "confirmed",
		"type": "host", "deleted": deleted})
	free := []any{}
	for i := range 50 {
		free = append(free, i+14)
	}
	w.set("ipamblocks", name, map[string]any{"cidr": cidr, "affinity": "host:" + node, "strictAffinity": false,
		"allocations": make([]any, 64), "attributes": []any{}, "unallocated": free})
}

// registered writes what calico-node writes on its Node: its address in each family it has.
func (w *world) registered(families ...int) *world {
	for i := range w.nodes {
		n := &w.nodes[i]
		for _, a := range n.Status.Addresses {
			ip, err := netip.ParseAddr(a.Address)
			if err != nil || a.Type != corev1.NodeInternalIP || n.Labels[corev1.LabelOSStable] == "none" {
				continue
			}
			if ip.Is4() && slices.Contains(families, 4) {
				n.Annotations["projectcalico.org/IPv4Address"] = a.Address + "/24"
			}
			if ip.Is6() && slices.Contains(families, 6) {
				n.Annotations["projectcalico.org/IPv6Address"] = a.Address + "/64"
			}
		}
	}
	return w
}

// standard is calico.yaml as it comes: BIRD, and IPIP between all nodes.
func standard() *world {
	return plainWorld().by("bird").pool("10.244.0.0/16", "Always", "Never").registered(4)
}

// felix adds settings to FelixConfiguration default.
func (w *world) felix(settings map[string]any) *world {
	maps.Copy(w.resources["felixconfigurations"]["default"], settings)
	return w
}

// noKubeProxy takes kube-proxy's pods away.
func (w *world) noKubeProxy() *world {
	w.pods = slices.DeleteFunc(w.pods, func(p corev1.Pod) bool { return strings.HasPrefix(p.Name, "kube-proxy") })
	return w
}

// endpointOfAPI is the ConfigMap with the API server's address for calico-node.
func (w *world) endpointOfAPI() *world {
	const name = "kubernetes-services-endpoint"
	w.maps = append(w.maps, corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.calico.namespace, Name: name},
		Data: map[string]string{"KUBERNETES_SERVICE_HOST": "api.cluster.example", "KUBERNETES_SERVICE_PORT": "6443"}})
	w.calico.from = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: name}, Optional: new(true)}}}
	return w
}

// etcdIn moves Calico's resources out of the API.
func (w *world) etcdIn() *world {
	w.etcd, w.resources = true, nil
	w.calico.init = []string{"install-cni", "ebpf-bootstrap"}
	delete(w.calico.env, "DATASTORE_TYPE")
	w.calico.env["ETCD_ENDPOINTS"] = "https://10.20.0.11:2379"
	return w
}

// dualStack gives nodes, pods and services IPv6 beside, or in the place of IPv4.
func (w *world) dualStack(only bool) *world {
	six := func(v4 string) string {
		return strings.NewReplacer("10.20.0.", "fd20::", "10.244.", "fd20:244:", "10.96.", "fd20:96:").Replace(v4)
	}
	fixed := func(v4 string) string { // fd20:244:1.5 is none yet
		out := six(v4)
		if head, last, ok := strings.Cut(out, "."); ok {
			out = head + "::" + strings.ReplaceAll(last, ".", ":")
		}
		return out
	}
	for i := range w.nodes {
		n := &w.nodes[i]
		v6 := corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: fixed(n.Status.Addresses[0].Address)}
		if only {
			n.Status.Addresses[0] = v6
		} else {
			n.Status.Addresses = append(n.Status.Addresses, v6)
		}
	}
	for i := range w.pods {
		p := &w.pods[i]
		v6 := corev1.PodIP{IP: fixed(p.Status.PodIP)}
		if only {
			p.Status.PodIPs, p.Status.PodIP = []corev1.PodIP{v6}, v6.IP
		} else {
			p.Status.PodIPs = append(p.Status.PodIPs, v6)
		}
	}
	for i := range w.services {
		s := &w.services[i]
		if v6 := fixed(s.Spec.ClusterIP); only {
			s.Spec.ClusterIP, s.Spec.ClusterIPs = v6, []string{v6}
			for j := range s.behind {
				s.behind[j].addr = fixed(s.behind[j].addr)
			}
		} else if s.Name == "web" { // whose pods have both; Kubernetes and DNS stay as they were
			s.Spec.ClusterIPs = append(s.Spec.ClusterIPs, v6)
		}
	}
	return w
}

// kubelets sets the version and the runtime that all kubelets report.
func (w *world) kubelets(version, runtime string) *world {
	for i := range w.nodes {
		w.nodes[i].Status.NodeInfo.KubeletVersion = version
		if runtime != "" {
			w.nodes[i].Status.NodeInfo.ContainerRuntimeVersion = runtime
		}
	}
	return w
}

// windows adds a node with Windows, and what Calico for Windows has there.
func (w *world) windows() *world {
	n := w.node("pane", "10.20.0.19")
	n.Labels[corev1.LabelOSStable] = "windows"
	n.Status.NodeInfo.OperatingSystem, n.Status.NodeInfo.KernelVersion = "windows", "10.0.20348.2700"
	n.Annotations["projectcalico.org/IPv4Address"] = "10.20.0.19/24"
	n.Annotations["projectcalico.org/IPv4VXLANTunnelAddr"] = "10.244.3.1"
	n.Annotations["projectcalico.org/VXLANTunnelMACAddr"] = "00:15:5d:00:00:01"
	w.block("pane", "10.244.3.0/26")
	w.calico.notOn = append(w.calico.notOn, "pane")
	w.hostPod(w.calico.namespace, "calico-node-windows-pane", "pane", map[string]string{"k8s-app": "calico-node-windows"},
		"DaemonSet")
	return w
}
