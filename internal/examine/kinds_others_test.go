package examine

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

func canal() *world {
	w := plainWorld().by("none")
	w.calico.daemonSet, w.calico.app, w.calico.account = "canal", "canal", "canal"
	w.calico.init, w.calico.containers = []string{"install-cni", "ebpf-bootstrap"}, []string{"kube-flannel"}
	w.calico.env["CLUSTER_TYPE"], w.calico.env["USE_POD_CIDR"], w.calico.env["IP"] = "k8s,canal", "true", ""
	for i := range w.nodes { // as flannel writes them
		w.nodes[i].Annotations["flannel.alpha.coreos.com/backend-type"] = "vxlan"
		w.nodes[i].Annotations["flannel.alpha.coreos.com/public-ip"] = w.nodes[i].Status.Addresses[0].Address
	}
	return w
}

func policyAlone() *world {
	w := plainWorld().by("none")
	w.calico.init = []string{"install-cni", "ebpf-bootstrap"}
	w.calico.env["USE_POD_CIDR"] = "true"
	w.typha("kube-system")
	return w
}

func controllersPod(p corev1.Pod) bool { return strings.HasPrefix(p.Name, "calico-kube-controllers") }

func windowsBeside() *world {
	return plainWorld().operated("vxlan").pool("10.244.0.0/16", "Never", "Always").registered(4).windows()
}

// migration is a cluster of which two of three nodes are Calico's already.
func migration() *world {
	w := plainWorld().by("vxlan").pool("10.244.0.0/16", "Never", "Always").registered(4).
		felix(map[string]any{"vxlanPort": 8472, "vxlanVNI": 1})
	for i := range w.nodes {
		w.nodes[i].Labels["projectcalico.org/node-network-during-migration"] = "calico"
	}
	n := &w.nodes[2]
	n.Labels["projectcalico.org/node-network-during-migration"] = "flannel"
	for _, left := range []string{"IPv4Address", "IPv4VXLANTunnelAddr", "VXLANTunnelMACAddr"} {
		delete(n.Annotations, "projectcalico.org/"+left)
	}
	delete(w.resources["blockaffinities"], "cedar-10-244-2-0-26")
	w.calico.notOn = []string{"cedar"}
	w.hostPod("kube-system", "kube-flannel-ds-cedar", "cedar", map[string]string{"app": "flannel"}, "DaemonSet")
	return w
}

func distributions() []installation {
	crossed := func() *world {
		return plainWorld().operated("bird").pool("10.244.0.0/16", "Never", "CrossSubnet").registered(4)
	}
	return []installation{
		{name: "k3s", says: "The operator on k3s, which runs the kubelet, the runtime and kube-proxy in one process.", build: func() *world {
			return crossed().noKubeProxy().kubelets("v1.34.2+k3s1", "containerd://2.1.5-k3s1")
		}},
		{name: "RKE2 with Calico", says: "`cni: calico`: the operator, kube-proxy as static pods.", build: func() *world {
			w := plainWorld().operated("vxlan").pool("10.244.0.0/16", "Never", "Always").registered(4).noKubeProxy().
				kubelets("v1.34.2+rke2r1", "containerd://2.1.5-k3s1")
			for _, n := range w.nodes {
				w.hostPod("kube-system", "kube-proxy-"+n.Name, n.Name, map[string]string{"component": "kube-proxy"}, "Node")
			}
			return w
		}},
		{name: "RKE2 with Canal", says: "RKE2's default: the DaemonSet rke2-canal.", build: func() *world {
			w := canal().noKubeProxy().kubelets("v1.34.2+rke2r1", "containerd://2.1.5-k3s1")
			w.calico.daemonSet = "rke2-canal"
			return w
		}},
		{name: "MicroK8s", says: "The distribution's manifest: VXLAN, namespace kube-system, files below /var/snap.", build: func() *world {
			w := plainWorld().by("vxlan").pool("10.244.0.0/16", "Never", "Always").registered(4).noKubeProxy().
				kubelets("v1.34.2", "containerd://1.7.27")
			w.calico.version = "v3.29.3"
			return w
		}},
		{name: "kind", says: "Calico's manifest on Kubernetes in Docker.", build: func() *world {
			return standard().kubelets("v1.34.0", "containerd://2.1.3")
		}},
		{name: "kubespray", says: "The distribution's manifest, which sets the address through a variable: `can-reach=$(NODEIP)`.", build: func() *world {
			w := standard()
			w.calico.env["A_NODEIP"] = "10.20.0.11" // sorted before the variable that refers to it
			w.calico.env["IP_AUTODETECTION_METHOD"] = "can-reach=$(A_NODEIP)"
			w.calico.init = []string{"upgrade-ipam", "install-cni", "flexvol-driver"}
			w.calico.version = "v3.30.5"
			return w
		}},
		{name: "OpenShift", says: "The operator with CRI-O and Multus; cluster DNS is openshift-dns.", build: func() *world {
			w := crossed().noKubeProxy().kubelets("v1.33.5", "cri-o://1.33.5-2.rhaos4.20")
			for i := range w.services {
				if s := &w.services[i]; s.Name == "kube-dns" {
					s.Namespace, s.Name = "openshift-dns", "dns-default"
					s.Labels = map[string]string{"dns.operator.openshift.io/owning-dns": "default"}
				}
			}
			return w
		}},
		{name: "cri-dockerd", says: "Docker as the container runtime, through cri-dockerd.", build: func() *world {
			return standard().kubelets("v1.32.9", "docker://28.5.1")
		}},
	}
}
