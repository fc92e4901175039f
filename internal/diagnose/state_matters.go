package diagnose

import (
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checks"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// How likely a difference matters.
const (
	breaks  = 1 // it breaks what it touches by itself
	perhaps = 2
	hardly  = 3 // nodes that work differ in it
)

// What differences of an area can touch.
var (
	touchesPaths = []string{checks.NodePing.ID, checks.PodPing.ID, checks.PodTCP.ID, checks.PodMTU.ID,
		checks.ServiceClusterIP.ID, checks.ServiceNodePort.ID, checks.DNSCluster.ID, checks.DNSExternal.ID,
		checks.BGPPort.ID, checks.BGPSession.ID, checks.DatastoreLatency.ID, checks.TyphaReach.ID, checks.NeighbourReach.ID,
		checks.EncapProof.ID, "pod-uplink", checks.RoutePods.ID, checks.RouteBlocks.ID, checks.RouteCanReach.ID,
		checks.OverlayTunnels.ID, checks.NodeNeighbours.ID, checks.NodeUplink.ID}
	touchesCalico = []string{facts.CheckCalicoPod, facts.CheckCalicoBudget, checks.FelixLive.ID, checks.FelixReady.ID,
		checks.BirdSocket.ID, checks.BirdConfig.ID, checks.BGPPort.ID, checks.BGPSession.ID, checks.BGPExpected.ID,
		checks.CalicoLog.ID, checks.InitStall.ID, checks.StartupBudget.ID, checks.NodeFirewall.ID, checks.IPAutodetect.ID,
		checks.OverlayTunnels.ID, checks.RouteBlocks.ID, checks.RoutePods.ID, checks.TyphaReach.ID,
		checks.DatastoreLatency.ID,
		facts.CheckNodeReady, facts.CheckNodeTaints, facts.CheckIPRegistered}
	touchesRuntime = []string{checks.CRIHealth.ID, checks.ContainerdHealth.ID, checks.DockerHealth.ID,
		checks.RuntimeGhosts.ID,
		checks.CNIConfig.ID, checks.CNINodename.ID, checks.CNIToken.ID, checks.KubeletHealth.ID, checks.DaemonLog.ID,
		facts.CheckPodsStart, facts.CheckNodeReady, facts.CheckNodeTaints, facts.CheckNodeLease, facts.CheckCalicoPod,
		probe.CheckPlaced}
	touchesNames = []string{checks.DNSCluster.ID, checks.DNSExternal.ID, facts.CheckPodsStart}
	touchesProxy = []string{checks.ServiceClusterIP.ID, checks.ServiceNodePort.ID, checks.DNSCluster.ID,
		checks.DNSExternal.ID,
		checks.PodTCP.ID, checks.KubeProxyHealth.ID}
)

// matter is what is known of items of an area: the first that fits holds.
type matter struct {
	area  string
	name  *regexp.Regexp // of "NAME = HERE | THERE"; nil = all others of the area
	rank  int
	of    []string
	alone bool // only where the item is on this node alone
}

func worded(text string) *regexp.Regexp { return regexp.MustCompile(`(?i)` + text) }

var (
	startsToo = append(append([]string{}, touchesCalico...), touchesRuntime...)
	// What calico-node does over the network, and not whether BIRD's process lives.
	pathsToo = append([]string{facts.CheckCalicoPod, facts.CheckCalicoBudget, checks.FelixLive.ID, checks.FelixReady.ID,
		checks.CalicoLog.ID, checks.InitStall.ID, checks.StartupBudget.ID, facts.CheckNodeReady,
		facts.CheckNodeTaints}, touchesPaths...)
)

var knownItems = []matter{
	{checks.AreaSysctls, worded(`conf/cali\*/(proxy_arp|proxy_ndp|forwarding|disable_ipv6|arp_ignore|arp_filter|rp_filter|disable_policy)`),
		breaks, touchesPaths, false},
	{checks.AreaSysctls, worded(`ip_forward|conf/(all|<uplink>)/(forwarding|disable_ipv6|arp_ignore|arp_filter|disable_xfrm)|` +
		`icmp_echo_ignore_all|echo_ignore_all|bridge-nf-call-ip`), breaks, touchesPaths, false},
	{checks.AreaSysctls, worded(`rp_filter|accept_local|route_localnet|arp_announce|proxy_arp|proxy_ndp|src_valid_mark|nonlocal_bind|` +
		`tcp_be_liberal|ip_no_pmtu_disc|tcp_mtu_probing|ip_local_|tcp_tw_reuse|tcp_timestamps|conntrack_checksum|accept_ra `), perhaps,
		touchesPaths, false},
	{checks.AreaSysctls, worded(`ip_default_ttl = (\d|[12]\d) \|`), breaks, touchesPaths, false},
	// The kernel chooses these by the size of the machine.
	{checks.AreaSysctls, worded(`/(tcp_mem|udp_mem|tcp_max_orphans|tcp_max_tw_buckets|tcp_max_syn_backlog|tcp_[rw]mem|.*_thresh|` +
		`nf_conntrack_(max|buckets|expect_max)|max_size|min_adv_mss|netdev_.*|[rw]mem_.*|optmem_max|inet_peer_.*|.*mc_.*) `), hardly, nil, false},
	{checks.AreaSysctls, worded(`net/ipv4/(tcp_(ecn|syn_retries|synack_retries|abort_on_overflow|window_scaling|sack|fwmark_accept|` +
		`retries2|syncookies|base_mss|min_snd_mss)|fwmark_reflect|icmp_ratelimit|ip_default_ttl|ip_unprivileged_port_start)|` +
		`net/core/somaxconn|nf_conntrack_.*timeout`), perhaps, touchesPaths, false},
	{checks.AreaSysctls, worded(`inotify|pid_max|threads-max|max_user_namespaces|max_net_namespaces|modules_disabled|maxkeys|nr_open`),
		perhaps, startsToo, false},
	{checks.AreaRoutes, worded(`^(blackhole|unreachable|prohibit|throw)`), breaks, pathsToo, true},
	{checks.AreaNeighbours, nil, breaks, pathsToo, true},
	{checks.AreaIPsec, nil, breaks, pathsToo, false},
	{checks.AreaFirewall, worded(`saddr [^|]*(masquerade|\bs?nat\b)`), perhaps, pathsToo, true}, // of a bridge's own range
	{checks.AreaFirewall, worded(`notrack|drop|reject|queue|tproxy|dnat|redirect|masquerade|snat|: .*\bnat\b|` +
		`rewrite (ttl|.addr|header|link header|.port)|synproxy|\bdup\b|flow offload`), breaks, pathsToo, true},
	{checks.AreaFirewall, worded(`set mark`), perhaps, pathsToo, true},
	{checks.AreaFirewall, worded(`policy drop`), breaks, pathsToo, false},
	{checks.AreaQueues, worded(` filter | XDP |netem|tbf|htb|ingress`), breaks, pathsToo, true},
	{checks.AreaQueues, worded(`netem|tbf`), breaks, pathsToo, false},
	{checks.AreaRules, nil, breaks, pathsToo, true},
	{checks.AreaRoutes, worded(`^default`), perhaps, pathsToo, false},
	{checks.AreaRoutes, nil, breaks, pathsToo, true},
	{checks.AreaInterfaces, worded(`^(<uplink>|cali\*|vxlan.calico|tunl0|wireguard.cali) `), perhaps, touchesPaths, false},
	{checks.AreaKubelet, worded(`^(--cluster-dns|clusterDNS|--cluster-domain|clusterDomain|--resolv-conf|resolvConf) `), breaks,
		touchesNames, false},
	{checks.AreaKubelet, worded(`^(--pod-max-pids|podPidsLimit|--cgroup-driver|cgroupDriver|--cgroup-root|cgroupRoot|` +
		`--max-pods|maxPods|podsPerCore|maxOpenFiles|--root-dir)`), breaks, startsToo, false},
	{checks.AreaKubelet, worded(`^(staticPodPath|evictionHard|--eviction-hard|featureGates|seccompDefault|protectKernelDefaults|` +
		`cpuManagerPolicy|topologyManagerPolicy|enforceNodeAllocatable|allowedUnsafeSysctls|reservedMemory)`), perhaps, startsToo,
		false},
	{checks.AreaRuntime, worded(`confDir|binDir|sandbox|cgroup|snapshotter|runtimeType|disabled|lastCNILoadStatus|maxConfNum`), breaks,
		startsToo, false},
	{checks.AreaContainerd, worded(`conf_dir|bin_dir|sandbox|cgroup|snapshotter|runtime_type|disabled_plugins|required_plugins|` +
		`max_conf_num|^root|^state|address|config_path`), breaks, startsToo, false},
	{checks.AreaProxy, worded(`masqueradeAll|clusterCIDR|cluster-cidr|masquerade-all|mode|nodePortAddresses|strictARP|excludeCIDRs|` +
		`bindAddress|detectLocal|proxy-mode|featureGates|localhostNodePorts`), breaks, touchesProxy, false},
	{checks.AreaLimits, worded(`open files|pids.max`), breaks, startsToo, false},
	{checks.AreaPaths, worded(`^/(opt/cni/bin|etc/cni/net.d|run/xtables.lock|var/lib/calico|var/run/calico|var/lib/cni|lib/modules|` +
		`sys/fs/bpf|var/lib/kubelet|run/containerd/containerd.sock) = (missing|special|` +
		`folder[^|]*\| file|file[^|]*\| folder|[^|]* (ro|noexec)( |$))`),
		breaks, startsToo, false},
	{checks.AreaPaths, worded(`^/opt/cni/bin/(calico|calico-ipam|loopback|portmap|bandwidth|tuning|flannel|host-local) `), perhaps,
		touchesRuntime, false},
	{checks.AreaPaths, worded(`^/etc/cni/net.d/`), perhaps, touchesRuntime, false},
	{checks.AreaProcesses, worded(`^(auditd|irqbalance|tuned|conntrackd|systemd-resolve|node-cache|dhclient|dhcpcd|haproxy) `), hardly,
		nil, false},
	{checks.AreaProcesses, nil, perhaps, pathsToo, true},
	{checks.AreaCalico, worded(`^(GOMAXPROCS|GOMEMLIMIT|NODENAME|FELIXHOSTNAME) `), hardly, nil, false},
	{checks.AreaCalico, nil, breaks, append(append([]string{}, startsToo...), touchesPaths...), false},
	{checks.AreaResolver, nil, perhaps, touchesNames, false},
	{checks.AreaSystem, worded(`blacklisted|boot option`), perhaps, pathsToo, false},
}

// matters says how likely a difference matters, which checks it can touch, and where in the order of such it stands.
func matters(d difference) (rank int, concerned []string, order int) {
	text := d.name + " = " + d.here + " | " + d.there
	for i, m := range knownItems {
		if m.area != d.area || m.name != nil && !m.name.MatchString(text) || m.alone && d.inOther && !d.in {
			continue
		}
		if d.area == checks.AreaLimits && !tight(d.here, d.there) {
			break
		}
		return m.rank, m.of, i
	}
	return hardly, nil, len(knownItems)
}

// roomy is a limit that no daemon of a node comes to: with a few hundred pods they have some thousand files open.
const roomy = 20_000

// tight tells whether a limit is lower here than there, and low.
func tight(here, there string) bool {
	first := func(s string) int {
		word, _, _ := strings.Cut(s, " ")
		n, err := strconv.Atoi(word)
		if err != nil { // "unlimited", "infinity", "max"
			return math.MaxInt
		}
		return n
	}
	return first(here) < min(first(there), roomy)
}
