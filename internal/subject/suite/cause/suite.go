// Package cause joins the causes of all subjects in the order in which they are weighed. The client alone links it.
package cause

import (
	"slices"
	"sync"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	bgpcause "github.com/calico-probe/calico-probe/internal/subject/bgp/cause"
	cnicause "github.com/calico-probe/calico-probe/internal/subject/cni/cause"
	datastorecause "github.com/calico-probe/calico-probe/internal/subject/datastore/cause"
	dnscause "github.com/calico-probe/calico-probe/internal/subject/dns/cause"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	felixcause "github.com/calico-probe/calico-probe/internal/subject/felix/cause"
	firewallcause "github.com/calico-probe/calico-probe/internal/subject/firewall/cause"
	hostcause "github.com/calico-probe/calico-probe/internal/subject/host/cause"
	kubeletcause "github.com/calico-probe/calico-probe/internal/subject/kubelet/cause"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	linkcause "github.com/calico-probe/calico-probe/internal/subject/link/cause"
	nodestatecause "github.com/calico-probe/calico-probe/internal/subject/nodestate/cause"
	overlaycause "github.com/calico-probe/calico-probe/internal/subject/overlay/cause"
	placementcause "github.com/calico-probe/calico-probe/internal/subject/placement/cause"
	podcause "github.com/calico-probe/calico-probe/internal/subject/pod/cause"
	routecause "github.com/calico-probe/calico-probe/internal/subject/route/cause"
	runtimecause "github.com/calico-probe/calico-probe/internal/subject/runtime/cause"
	servicecause "github.com/calico-probe/calico-probe/internal/subject/service/cause"
	startcause "github.com/calico-probe/calico-probe/internal/subject/start/cause"
)

// order has the ID of every rule. Where two causes are equal in all that diagnose.Explain sorts by, the earlier one in
// this list comes first. The comment of each group gives the reason for its place.
var order = []string{
	// Objects of the API that block the node itself: read without a probe, and they cut off the kubelet too.
	"hostendpoint-blocks", "hostendpoint-isolates", "service-takes-port",
	// The kubelet and the way to it: while it is down or unreachable, nearly everything below fails as well.
	"swap-on", "kubelet-certificate", "kubelet-dead", "kubelet-frozen", "kubelet-renamed", "kubelet-authority",
	"kubelet-cut-off", "mtu-node-small", "family-cut-off", "main-rule-missing", "node-unreachable",
	"kubelet-serving-certificate", "internal-address-shared", "node-turns-away", "kubelet-on-loopback",
	"kubelet-port-blocked",
	"kubelet-rejects-api-server",
	// The last log lines of a kubelet or runtime that exited: after the rules above, which know the reason.
	"kubelet-kernel-settings", "kubelet-ends", "kubelet-state-differs", "runtime-ends",
	// Container runtimes: two daemons that disagree before one that fails.
	"docker-lost-containerd", "containerd-hangs", "containerd-dead", "containerd-without-cri", "docker-hangs",
	"runtime-hangs", "shim-hangs", "container-ghosts", "runtime-stuck",
	// The pod of calico-node before its main container, and the CNI files that its init containers write.
	"upgrade-ipam-pod-cidr", "upgrade-ipam-locked", "upgrade-ipam-no-api", "upgrade-ipam-stuck", "install-cni-fails",
	"calico-image", "calico-pod-missing", "cni-config-unread", "cni-config-missing", "cni-config-shadowed",
	"cni-plugin-missing", "cni-noexec", "nodename-wrong",
	// Disks and memory: they fail what is above, which then has a message of its own. The clock is with the load.
	"disk-read-only", "disk-full", "eviction-threshold", "memory-short",
	// The kernel's own log: after disk and memory, which it often reports too.
	"nic-queue-hung", "calico-process-killed", "component-oom-killed", "cgroup-frozen", "kernel-stuck",
	// The rest about the kubelet: silent for no known reason, at risk at its next start, out of room for pods.
	"kubelet-restarts", "kubelet-silent", "swap-returns", "node-full", "node-cordoned",
	// What keeps the probe off a healthy node: after every reason that lies in the node.
	"probe-image", "probe-policy", "probe-quota", "probe-rights", "probe-namespace", "probe-rejected",
	// What keeps a node or calico-node from starting while the node is fine: scheduler, volumes, webhooks, taints.
	"webhook-dead", "kubelet-refused", "node-uninitialized", "calico-pod-waits", "calico-limit", "typha-missing",
	// Messages of the kubelet, calico-node and its init containers: before what fails because of them.
	"container-not-started", "probe-broken", "setting-refused", "calico-forbidden", "calico-resource-missing",
	"next-start-refused", "calico-ends",
	// Pods that are bound to the node and do not start: limits and CNI before the runtime's general failures.
	"limit-reached", "cni-config-elsewhere", "snapshotter-missing", "ipam-family-missing", "ipam-exhausted",
	"ipam-lock-held", "runtime-proxy", "pod-address-held", "cni-plugin-forbidden", "cni-kubeconfig-wrong",
	"cni-plugin-fails", "pause-image-missing", "cgroup-drivers-differ", "cgroups-exhausted", "systemd-unanswering",
	"resolv-conf-missing", "image-store-broken", "keyring-quota", "overlay-missing", "oci-runtime-broken",
	"sandbox-fails", "volume-not-mounted", "node-dns-down", "registry-refuses", "pods-do-not-end",
	// What two nodes must not share, or must: address, router ID, tunnel settings.
	"address-unanswered", "bgp-router-id", "tunnel-settings",
	// The start of calico-node: before Felix and the datastore, which such a start leaves unready.
	"start-under-load", "start-far-datastore", "calico-no-token", "calico-unprivileged", "calico-out-of-memory",
	"calico-cpu-limit", "start-outlasts-budget", "calico-starting",
	// What calico-node logs repeatedly while it runs.
	"kernel-lacks", "tables-unreadable", "bpf-refused", "typha-certificate", "typha-stale", "cni-token-unrenewed",
	"controllers-end",
	// The datastore, the API and Typha: without them Felix and kube-proxy do not work either.
	"datastore-not-ready", "api-address-wrong", "api-cut-off", "api-endpoint-dead", "stray-endpoints",
	"api-unhealthy", "api-slow", "etcd-certificate", "typha-unreachable", "account-gone", "cni-token-expired",
	// The health port of Felix: causes of an odd answer before the answer itself.
	"loopback-dropped", "localhost-foreign", "localhost-missing", "felix-elsewhere", "felix-health-off",
	"felix-waits", "felix-dataplane-late", "felix-stuck", "felix-down", "breaks-at-next-start",
	// Services: kube-proxy's reasons, then that it is down, then a Service that fails without one.
	"kube-proxy-forbidden", "kube-proxy-cut-off", "kube-proxy-sync-fails", "kube-proxy-other-node",
	"masquerade-hides-pods", "kube-proxy-ends", "coredns-ends", "coredns-cut-off", "kube-proxy-rules-lost",
	"kube-proxy-stuck", "kube-proxy-dead", "service-path-broken",
	// Who serves cluster DNS, and what pods are configured with.
	"coredns-forbidden", "dns-unserved", "cluster-dns-wrong", "cluster-domain-wrong",
	// DNS that fails: after the reasons in CoreDNS and kube-proxy.
	"dns-zone-shadowed", "dns-down", "dns-no-upstream",
	// The machine at work: routing settings, kernel tables, clock, load. Load is last because it fits almost anything.
	"default-route-missing", "forwarding-off", "source-ports-gone", "conntrack-full", "conntrack-timeout-short",
	"neighbours-full", "neighbour-wrong", "interface-overlaps-nodes", "address-twice", "clock-wrong",
	"rpf-check-loose", "network-storage-dead", "node-overloaded",
	// What the kernel of this node does with packets: read here, so no guess from what does not work.
	"pod-interface-setting", "route-drops", "ipsec-policy", "untracked-rule", "service-hijacked", "port-refused-here",
	// Where packets were counted as dropped (packet-drops): only where no rule above has the place.
	"rule-drops", "source-unexpected", "dropped-here",
	// What others left on this node: a cause here, before anything that blames a peer.
	"duplicate-address", "foreign-ip-rule", "foreign-tunnel", "firewall-rejects",
	// The node's address: while it is wrong, BGP and tunnels go wrong with it.
	"address-taken", "address-gone", "address-bridge", "address-second-nic", "peer-address", "address-will-change",
	"detection-finds-none",
	// BIRD itself: before its sessions.
	"bird-config-rejected", "bird-unfed", "bird-port-taken", "bird-old-port", "bird-socket-gone", "bird-dead",
	"bird-probe", "bgp-restart-hold", "bgp-peers-missing",
	// BGP sessions by what the peer answered, then the peer that fails as a whole.
	"bgp-rejected", "bgp-filtered", "bgp-wrong-as", "bgp-password", "peer-bird-dead", "bgp-unknown-peer",
	"bgp-one-way", "bgp-waits", "bgp-peer-silent", "bgp-no-peers",
	"bgp-routes-filtered", "packets-lost", "peer-down", "node-cut-off",
	"pods-filtered", "peer-pods", "nodes-apart", "peer-firewall", "peer-differs", "peer-fault",
	// Routes: after the sessions that bring them.
	"network-condition-foreign", "block-owned-twice", "interface-overlaps-pods", "route-swallowed", "route-elsewhere",
	"route-not-in-kernel", "pod-route-missing", "pod-network-broken", "fragments-dropped", "route-makers-clash",
	"route-not-made",
	// Tunnels: the device, its peers, what filters it, then packet sizes.
	"port-taken", "tunnel-device", "tunnel-peers", "tunnel-source-unknown", "tunnel-refused", "tunnel-filtered",
	"vxlan-offload", "mtu-too-big", "mtu-path-small",
	// Firewalls and policies: the uplink and foreign rules before policies, which may well be intended.
	"uplink-down", "firewall-rewritten", "firewall-twice", "firewall-unhooked", "firewall-forward-drop",
	"foreign-masquerade", "policy-without-api", "dns-closed-by-policy", "policy-without-dns", "policy-forbids",
	// Settings of pools and Felix that hold for every node, and NodePorts of peers: after what only this node has.
	"host-action-drops", "pods-not-masqueraded", "pool-not-exported", "pool-overlaps", "peer-nodeports",
	// Last: a difference to a healthy node, which fits where nothing else does.
	"node-differs",
}

// rules are those of all subjects, in the order above. They are read once, and shared.
var rules = sync.OnceValue(func() []*diagnose.Rule {
	return sorted(slices.Concat(
		bgpcause.Rules(), cnicause.Rules(), datastorecause.Rules(), dnscause.Rules(), felixcause.Rules(),
		firewallcause.Rules(), hostcause.Rules(), kubeletcause.Rules(), linkcause.Rules(), nodestatecause.Rules(),
		overlaycause.Rules(), placementcause.Rules(), podcause.Rules(), routecause.Rules(), runtimecause.Rules(),
		servicecause.Rules(), startcause.Rules(),
	))
})

func sorted(all []*diagnose.Rule) []*diagnose.Rule {
	place := map[string]int{}
	for i, id := range order {
		place[id] = i
	}
	slices.SortFunc(all, func(a, b *diagnose.Rule) int { return place[a.ID] - place[b.ID] })
	return all
}

// All returns all rules in their order, and what the engine has to know of the subjects.
func All() diagnose.Suite {
	return diagnose.Suite{Rules: rules(), Lost: evidence.LostTowards, Paths: evidence.PathChecks,
		Whole: link.NodeUplink.ID, Implies: evidence.Closes}
}
