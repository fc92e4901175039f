package examine

import "slices"

// installation is a kind of installation of Calico: how it comes about, and a cluster of it.
type installation struct {
	name, says string
	build      func() *world
	node       string // the examined node, "" = the first
	namespace  string // what --calico-namespace says
}

// installations are the kinds that are known, each as its installer leaves a cluster (Calico's manifests
// and Helm charts, the operator, and the distributions' own).
func installations() []installation {
	return slices.Concat(ownInstallations(), dataPlanes(), otherNetworks(), distributions(), mixedClusters())
}

func ownInstallations() []installation {
	return []installation{
		{name: "Manifest, BGP and IPIP", says: "Unmodified `calico.yaml`.", build: standard},
		{name: "Manifest, VXLAN", says: "`calico-vxlan.yaml`: BIRD does not run.", build: func() *world {
			return plainWorld().by("vxlan").pool("10.244.0.0/16", "Never", "Always").registered(4)
		}},
		{name: "Manifest with Typha", says: "`calico-typha.yaml`, for many nodes.", build: func() *world {
			w := standard()
			w.typha("kube-system")
			return w
		}},
		{name: "Operator, VXLAN between subnets", says: "The operator's default: namespace calico-system, BGP on, `encapsulation: VXLANCrossSubnet`.",
			build: func() *world {
				return plainWorld().operated("bird").pool("10.244.0.0/16", "Never", "CrossSubnet").registered(4)
			}},
		{name: "Operator, BGP off", says: "`bgp: Disabled`: only VXLAN, no BIRD.", build: func() *world {
			return plainWorld().operated("vxlan").pool("10.244.0.0/16", "Never", "Always").registered(4)
		}},
		{name: "Route reflectors", says: "No tunnels, node mesh off; one node is the route reflector for the other nodes.",
			build: func() *world {
				w := plainWorld().by("bird").pool("10.244.0.0/16", "Never", "Never").registered(4)
				w.nodes[2].Annotations["projectcalico.org/RouteReflectorClusterID"] = "244.0.0.1"
				w.nodes[2].Labels["route-reflector"] = "true"
				w.set("bgpconfigurations", "default", map[string]any{"nodeToNodeMeshEnabled": false, "asNumber": 64512})
				w.set("bgppeers", "to-reflectors", map[string]any{"nodeSelector": "all()",
					"peerSelector": "route-reflector == 'true'"})
				return w
			}},
		{name: "BGP with switches", says: "No tunnels, node mesh off; each node peers with its rack's switch, with a password.",
			build: func() *world {
				w := plainWorld().by("bird").pool("10.244.0.0/16", "Never", "Never").registered(4)
				w.set("bgpconfigurations", "default", map[string]any{"nodeToNodeMeshEnabled": false, "asNumber": 65010})
				w.set("bgppeers", "rack", map[string]any{"peerIP": "10.20.0.1", "asNumber": 65001,
					"password": map[string]any{"secretKeyRef": map[string]any{"name": "bgp", "key": "rack"}}})
				return w
			}},
		{name: "etcd datastore", says: "`calico-etcd.yaml`: Calico keeps its resources in a separate etcd.", build: func() *world {
			return plainWorld().by("bird").etcdIn()
		}},
		{name: "Native v3 resources", says: "`calico-v3-crds.yaml` (v3.32): resources of projectcalico.org/v3, without the group crd.projectcalico.org.",
			build: func() *world {
				w := plainWorld()
				w.group = apiCalicoNative
				return w.by("bird").pool("10.244.0.0/16", "Always", "Never").registered(4)
			}},
		{name: "Calico v3.33, IPIP", says: "By default, Felix sets the routes of IPIP pools, and BIRD sets the routes of other pools.",
			build: func() *world {
				w := standard()
				w.calico.version = "v3.33.0"
				return w
			}},
		{name: "Another namespace", says: "Calico's DaemonSet is in a dedicated namespace, set with `--calico-namespace`.",
			namespace: "net-system", build: func() *world {
				w := standard()
				w.calico.namespace, w.pods[len(w.pods)-1].Namespace = "net-system", "net-system"
				return w
			}},
	}
}

func dataPlanes() []installation {
	return []installation{
		{name: "eBPF, no kube-proxy", says: "`linuxDataplane: BPF`: the API server's address is in the ConfigMap kubernetes-services-endpoint.",
			build: func() *world {
				w := plainWorld().operated("bird").pool("10.244.0.0/16", "Never", "CrossSubnet").registered(4)
				return w.noKubeProxy().endpointOfAPI().felix(map[string]any{"bpfEnabled": true})
			}},
		{name: "eBPF beside kube-proxy", says: "`calico-bpf.yaml`, or bpfEnabled in FelixConfiguration, with kube-proxy left running.",
			build: func() *world { return standard().felix(map[string]any{"bpfEnabled": true}) }},
		{name: "Native nftables", says: "`nftablesMode: Enabled`: Felix writes separate nftables tables.", build: func() *world {
			return plainWorld().operated("bird").pool("10.244.0.0/16", "Never", "CrossSubnet").registered(4).
				felix(map[string]any{"nftablesMode": "Enabled"})
		}},
		{name: "WireGuard", says: "`wireguardEnabled: true`: pod traffic to other nodes is encrypted.", build: func() *world {
			w := plainWorld().by("bird").pool("10.244.0.0/16", "Never", "Never").registered(4).
				felix(map[string]any{"wireguardEnabled": true})
			for i := range w.nodes {
				w.nodes[i].Annotations["projectcalico.org/IPv4WireguardInterfaceAddr"] = "10.244." + string(rune('0'+i)) + ".60"
				w.nodes[i].Annotations["projectcalico.org/WireguardPublicKey"] = "key-of-" + w.nodes[i].Name
			}
			return w
		}},
		{name: "Dual stack", says: "Pods, nodes and some services have IPv4 and IPv6.", build: func() *world {
			w := plainWorld().by("bird").dualStack(false).pool("10.244.0.0/16", "Never", "CrossSubnet").
				pool("fd20:244::/48", "Never", "CrossSubnet").registered(4, 6)
			w.calico.env["IP6"], w.calico.env["FELIX_IPV6SUPPORT"] = "autodetect", "true"
			return w
		}},
		{name: "IPv6 only", says: "Nodes, pods and services have only IPv6; CALICO_ROUTER_ID is hash.", build: func() *world {
			w := plainWorld().by("bird").dualStack(true).pool("fd20:244::/48", "Never", "Never").registered(6)
			w.calico.env["IP"], w.calico.env["IP6"], w.calico.env["CALICO_ROUTER_ID"] = "none", "autodetect", "hash"
			return w
		}},
	}
}

func otherNetworks() []installation {
	return []installation{
		{name: "Canal", says: "`canal.yaml`: flannel's network, Calico's policy.", build: canal},
		{name: "Canal with etcd", says: "`canal-etcd.yaml`.", build: func() *world {
			w := canal().etcdIn()
			w.calico.daemonSet, w.calico.app, w.calico.account = "canal-node", "canal-node", "canal-node"
			return w
		}},
		{name: "host-local IPAM", says: "Calico's network with addresses from each node's podCIDR (`ipam: host-local`).",
			build: func() *world {
				w := plainWorld().by("bird").registered(4)
				w.set("ippools", "default-ipv4-ippool", map[string]any{"cidr": "10.244.0.0/16",
					"ipipMode": "Never", "vxlanMode": "Never"})
				w.calico.env["USE_POD_CIDR"] = "true"
				return w
			}},
		{name: "Policy alone", says: "`calico-policy-only.yaml`: another plugin creates the pod network.", build: policyAlone},
		{name: "EKS with the VPC plugin", says: "The operator with `cni: AmazonVPC`: pods have VPC addresses and interfaces eni*.",
			build: func() *world {
				w := plainWorld().operated("none").kubelets("v1.34.2-eks-113cf36", "containerd://1.7.29")
				w.calico.init = []string{"flexvol-driver"}
				return w.felix(map[string]any{"routeTableRange": nil, "ipv6Support": false})
			}},
		{name: "AKS with Azure CNI", says: "AKS with its built-in Calico: the operator with `cni: AzureVNET`, interfaces azv*.", build: func() *world {
			w := plainWorld().operated("none").kubelets("v1.33.5", "containerd://1.7.29-1")
			w.calico.init = []string{"flexvol-driver"}
			return w
		}},
		{name: "GKE network policy", says: "GKE with its built-in Calico in kube-system: interfaces gke*, no kube-controllers.", build: func() *world {
			w := policyAlone().kubelets("v1.34.1-gke.3355000", "containerd://2.0.7")
			w.calico.version = "v3.29.4-gke.6"
			w.pods = slices.DeleteFunc(w.pods, controllersPod)
			return w
		}},
		{name: "Migration from flannel, node done", says: "The flannel-migration controller has moved this node to Calico, but not all other nodes.",
			build: migration},
		{name: "Migration from flannel, node to come", says: "The same migration, on a node that still uses flannel.", node: "cedar",
			build: migration},
	}
}

func mixedClusters() []installation {
	return []installation{
		{name: "Windows nodes beside", says: "The tested node runs Linux, other nodes run Windows.", build: windowsBeside},
		{name: "A node with Windows", says: "The tested node runs Windows.", node: "pane", build: windowsBeside},
		{name: "A virtual node", says: "Virtual kubelets and Fargate: the node has no machine.", node: "cloud", build: func() *world {
			w := standard()
			n := w.node("cloud", "10.20.0.99")
			n.Labels["type"], n.Status.NodeInfo.KernelVersion = "virtual-kubelet", ""
			w.calico.notOn = []string{"cloud"}
			return w
		}},
	}
}
