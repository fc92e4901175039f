package diff

import (
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/internal/subject/felix"
	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/internal/subject/kubelet"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/nodestate"
	"github.com/calico-probe/calico-probe/internal/subject/overlay"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/internal/subject/runtime"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/internal/subject/start"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// Ranks of differences.
const (
	Breaks   = 1 // alone breaks the checks that it concerns
	mayBreak = 2
	Hardly   = 3 // healthy nodes differ in it too
)

// The checks that a difference in an area can break.
var (
	touchesPaths = []string{link.NodePing.ID, pod.PodPing.ID, pod.PodTCP.ID, pod.PodMTU.ID,
		service.ServiceClusterIP.ID, service.ServiceNodePort.ID, dns.DNSCluster.ID, dns.DNSExternal.ID,
		bgp.BGPPort.ID, bgp.BGPSession.ID, datastore.DatastoreLatency.ID, datastore.TyphaReach.ID, link.NeighbourReach.ID,
		overlay.EncapProof.ID, "pod-uplink", route.RoutePods.ID, route.RouteBlocks.ID, route.RouteCanReach.ID,
		overlay.OverlayTunnels.ID, link.NodeNeighbours.ID, link.NodeUplink.ID}
	touchesCalico = []string{facts.CheckCalicoPod, facts.CheckCalicoBudget, felix.FelixLive.ID, felix.FelixReady.ID,
		bgp.BirdSocket.ID, bgp.BirdConfig.ID, bgp.BGPPort.ID, bgp.BGPSession.ID, bgp.BGPExpected.ID,
		logs.CalicoLog.ID, start.InitStall.ID, start.StartupBudget.ID, firewall.NodeFirewall.ID, link.IPAutodetect.ID,
		overlay.OverlayTunnels.ID, route.RouteBlocks.ID, route.RoutePods.ID, datastore.TyphaReach.ID,
		datastore.DatastoreLatency.ID,
		facts.CheckNodeReady, facts.CheckNodeTaints, facts.CheckIPRegistered}
	touchesRuntime = []string{runtime.CRIHealth.ID, runtime.ContainerdHealth.ID, runtime.DockerHealth.ID,
		runtime.RuntimeGhosts.ID,
		cni.CNIConfig.ID, cni.CNINodename.ID, cni.CNIToken.ID, kubelet.KubeletHealth.ID, logs.DaemonLog.ID,
		facts.CheckPodsStart, facts.CheckNodeReady, facts.CheckNodeTaints, facts.CheckNodeLease, facts.CheckCalicoPod,
		probe.CheckPlaced}
	touchesNames = []string{dns.DNSCluster.ID, dns.DNSExternal.ID, facts.CheckPodsStart}
	touchesProxy = []string{service.ServiceClusterIP.ID, service.ServiceNodePort.ID, dns.DNSCluster.ID,
		dns.DNSExternal.ID,
		pod.PodTCP.ID, service.KubeProxyHealth.ID}
)

// matter ranks items of an area. The first matter that fits an item applies.
type matter struct {
	area  string
	name  *regexp.Regexp // matches "NAME = HERE | THERE"; nil = all other items of the area
	rank  int
	of    []string // the checks that it can break
	alone bool     // only if the item exists on this node alone
}

func pattern(text string) *regexp.Regexp { return regexp.MustCompile(`(?i)` + text) }

var (
	startsToo = append(append([]string{}, touchesCalico...), touchesRuntime...)
	// Checks of calico-node that need the network. Checks of BIRD's process do not.
	pathsToo = append([]string{facts.CheckCalicoPod, facts.CheckCalicoBudget, felix.FelixLive.ID, felix.FelixReady.ID,
		logs.CalicoLog.ID, start.InitStall.ID, start.StartupBudget.ID, facts.CheckNodeReady,
		facts.CheckNodeTaints}, touchesPaths...)
)

var knownItems = []matter{
	{nodestate.AreaSysctls, pattern(`conf/cali\*/(proxy_arp|proxy_ndp|forwarding|disable_ipv6|arp_ignore|arp_filter|rp_filter|disable_policy)`),
		Breaks, touchesPaths, false},
	{nodestate.AreaSysctls, pattern(`ip_forward|conf/(all|<uplink>)/(forwarding|disable_ipv6|arp_ignore|arp_filter|disable_xfrm)|` +
		`icmp_echo_ignore_all|echo_ignore_all|bridge-nf-call-ip`), Breaks, touchesPaths, false},
	{nodestate.AreaSysctls, pattern(`rp_filter|accept_local|route_localnet|arp_announce|proxy_arp|proxy_ndp|src_valid_mark|nonlocal_bind|` +
		`tcp_be_liberal|ip_no_pmtu_disc|tcp_mtu_probing|ip_local_|tcp_tw_reuse|tcp_timestamps|conntrack_checksum|accept_ra `), mayBreak,
		touchesPaths, false},
	{nodestate.AreaSysctls, pattern(`ip_default_ttl = (\d|[12]\d) \|`), Breaks, touchesPaths, false},
	// The kernel derives these from the size of the machine.
	{nodestate.AreaSysctls, pattern(`/(tcp_mem|udp_mem|tcp_max_orphans|tcp_max_tw_buckets|tcp_max_syn_backlog|tcp_[rw]mem|.*_thresh|` +
		`nf_conntrack_(max|buckets|expect_max)|max_size|min_adv_mss|netdev_.*|[rw]mem_.*|optmem_max|inet_peer_.*|.*mc_.*) `), Hardly, nil, false},
	{nodestate.AreaSysctls, pattern(`net/ipv4/(tcp_(ecn|syn_retries|synack_retries|abort_on_overflow|window_scaling|sack|fwmark_accept|` +
		`retries2|syncookies|base_mss|min_snd_mss)|fwmark_reflect|icmp_ratelimit|ip_default_ttl|ip_unprivileged_port_start)|` +
		`net/core/somaxconn|nf_conntrack_.*timeout`), mayBreak, touchesPaths, false},
	{nodestate.AreaSysctls, pattern(`inotify|pid_max|threads-max|max_user_namespaces|max_net_namespaces|modules_disabled|maxkeys|nr_open`),
		mayBreak, startsToo, false},
	{nodestate.AreaRoutes, pattern(`^(blackhole|unreachable|prohibit|throw)`), Breaks, pathsToo, true},
	{nodestate.AreaNeighbours, nil, Breaks, pathsToo, true},
	{nodestate.AreaIPsec, nil, Breaks, pathsToo, false},
	{nodestate.AreaFirewall, pattern(`saddr [^|]*(masquerade|\bs?nat\b)`), mayBreak, pathsToo, true}, // perhaps of a bridge's own range
	{nodestate.AreaFirewall, pattern(`notrack|drop|reject|queue|tproxy|dnat|redirect|masquerade|snat|: .*\bnat\b|` +
		`rewrite (ttl|.addr|header|link header|.port)|synproxy|\bdup\b|flow offload`), Breaks, pathsToo, true},
	{nodestate.AreaFirewall, pattern(`set mark`), mayBreak, pathsToo, true},
	{nodestate.AreaFirewall, pattern(`policy drop`), Breaks, pathsToo, false},
	{nodestate.AreaQueues, pattern(` filter | XDP |netem|tbf|htb|ingress`), Breaks, pathsToo, true},
	{nodestate.AreaQueues, pattern(`netem|tbf`), Breaks, pathsToo, false},
	{nodestate.AreaRules, nil, Breaks, pathsToo, true},
	{nodestate.AreaRoutes, pattern(`^default`), mayBreak, pathsToo, false},
	{nodestate.AreaRoutes, nil, Breaks, pathsToo, true},
	{nodestate.AreaInterfaces, pattern(`^(<uplink>|cali\*|vxlan.calico|tunl0|wireguard.cali) `), mayBreak, touchesPaths, false},
	{nodestate.AreaKubelet, pattern(`^(--cluster-dns|clusterDNS|--cluster-domain|clusterDomain|--resolv-conf|resolvConf) `), Breaks,
		touchesNames, false},
	{nodestate.AreaKubelet, pattern(`^(--pod-max-pids|podPidsLimit|--cgroup-driver|cgroupDriver|--cgroup-root|cgroupRoot|` +
		`--max-pods|maxPods|podsPerCore|maxOpenFiles|--root-dir)`), Breaks, startsToo, false},
	{nodestate.AreaKubelet, pattern(`^(staticPodPath|evictionHard|--eviction-hard|featureGates|seccompDefault|protectKernelDefaults|` +
		`cpuManagerPolicy|topologyManagerPolicy|enforceNodeAllocatable|allowedUnsafeSysctls|reservedMemory)`), mayBreak, startsToo,
		false},
	{nodestate.AreaRuntime, pattern(`confDir|binDir|sandbox|cgroup|snapshotter|runtimeType|disabled|lastCNILoadStatus|maxConfNum`), Breaks,
		startsToo, false},
	{nodestate.AreaContainerd, pattern(`conf_dir|bin_dir|sandbox|cgroup|snapshotter|runtime_type|disabled_plugins|required_plugins|` +
		`max_conf_num|^root|^state|address|config_path`), Breaks, startsToo, false},
	{nodestate.AreaProxy, pattern(`masqueradeAll|clusterCIDR|cluster-cidr|masquerade-all|mode|nodePortAddresses|strictARP|excludeCIDRs|` +
		`bindAddress|detectLocal|proxy-mode|featureGates|localhostNodePorts`), Breaks, touchesProxy, false},
	{nodestate.AreaLimits, pattern(`open files|pids.max`), Breaks, startsToo, false},
	{nodestate.AreaPaths, pattern(`^/(opt/cni/bin|etc/cni/net.d|run/xtables.lock|var/lib/calico|var/run/calico|var/lib/cni|lib/modules|` +
		`sys/fs/bpf|var/lib/kubelet|run/containerd/containerd.sock) = (missing|special|` +
		`folder[^|]*\| file|file[^|]*\| folder|[^|]* (ro|noexec)( |$))`),
		Breaks, startsToo, false},
	{nodestate.AreaPaths, pattern(`^/opt/cni/bin/(calico|calico-ipam|loopback|portmap|bandwidth|tuning|flannel|host-local) `), mayBreak,
		touchesRuntime, false},
	{nodestate.AreaPaths, pattern(`^/etc/cni/net.d/`), mayBreak, touchesRuntime, false},
	{nodestate.AreaProcesses, pattern(`^(auditd|irqbalance|tuned|conntrackd|systemd-resolve|node-cache|dhclient|dhcpcd|haproxy) `), Hardly,
		nil, false},
	{nodestate.AreaProcesses, nil, mayBreak, pathsToo, true},
	{nodestate.AreaCalico, pattern(`^(GOMAXPROCS|GOMEMLIMIT|NODENAME|FELIXHOSTNAME) `), Hardly, nil, false},
	{nodestate.AreaCalico, nil, Breaks, append(append([]string{}, startsToo...), touchesPaths...), false},
	{nodestate.AreaResolver, nil, mayBreak, touchesNames, false},
	{nodestate.AreaSystem, pattern(`blacklisted|boot option`), mayBreak, pathsToo, false},
}

// Matters returns the rank of a difference, the checks that it can break, and its place within that rank.
func Matters(d Difference) (rank int, concerned []string, order int) {
	text := d.Name + " = " + d.Here + " | " + d.There
	for i, m := range knownItems {
		if m.area != d.Area || m.name != nil && !m.name.MatchString(text) || m.alone && d.InOther && !d.In {
			continue
		}
		if d.Area == nodestate.AreaLimits && !isTight(d.Here, d.There) {
			break
		}
		return m.rank, m.of, i
	}
	return Hardly, nil, len(knownItems)
}

// ampleLimit is a limit that no daemon of a node reaches: with a few hundred pods, daemons have some thousand open
// files.
const ampleLimit = 20_000

// isTight reports whether a limit is lower than on the other node, and low enough to be reached.
func isTight(here, there string) bool {
	first := func(s string) int {
		word, _, _ := strings.Cut(s, " ")
		n, err := strconv.Atoi(word)
		if err != nil { // "unlimited", "infinity", "max"
			return math.MaxInt
		}
		return n
	}
	return first(here) < min(first(there), ampleLimit)
}
