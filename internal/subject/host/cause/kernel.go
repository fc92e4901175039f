package cause

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/felix"
	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/internal/subject/kubelet"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// conntrackFull is a node that takes no new connection.
var conntrackFull = &diagnose.Rule{
	ID: "conntrack-full", Layer: diagnose.LayerKernel, Title: "the conntrack table is full, so new connections are dropped",
	Doc: `Each connection that kube-proxy or Calico sees has an entry. A full table drops what is new and keeps what is old ("nf_conntrack: table full, dropping packet"): sessions that stand go on while connects and DNS questions fail, now and then, in both directions. It looks like a lossy link.
Told from a lossy link by pings between nodes that have an entry, and by the kernel's count.`,
	Fix: probe.Fix{
		Says: "Make the table larger now, then find what opens so many connections.",
		Manifest: []string{"ssh {node} sudo sysctl -w net.netfilter.nf_conntrack_max={max}",
			"kubectl -n kube-system get cm kube-proxy -o yaml | grep -A4 conntrack  # maxPerCore sets it at every start"},
		Radius: "this node only; an entry takes about 300 bytes of the kernel's memory",
	},
	Explains: []string{"dns-down", "service-path-broken", "api-cut-off", "typha-unreachable", "felix-stuck",
		"loopback-dropped"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		full := append(f.Failed(firewall.NodeConntrack.ID), evidence.DiedAs(f, firewall.PlaceConntrack)...)
		if len(full) == 0 {
			return wasFull(f, logs.KernelConntrack, "the connection tracking table")
		}
		return []diagnose.Case{{
			Says: "new connections are dropped on {node}: " + full[0].Saw,
			For:  append(diagnose.Proves(full), diagnose.Shows(evidence.KernelSays(f, logs.KernelConntrack))...),
			Args: map[string]diagnose.Arg{"max": diagnose.NumberArg(max(262144, 4*diagnose.Num(full, probe.FactMax)))},
			Covers: diagnose.Covers(link.NodePing.ID, pod.PodPing.ID, pod.PodTCP.ID, service.ServiceClusterIP.ID,
				service.ServiceNodePort.ID, dns.DNSCluster.ID, dns.DNSExternal.ID,
				datastore.DatastoreLatency.ID, bgp.BGPPort.ID, datastore.TyphaReach.ID, felix.FelixLive.ID, felix.FelixReady.ID,
				kubelet.KubeletHealth.ID, service.KubeProxyHealth.ID, firewall.PacketDrops.ID, firewall.NodeConntrack.ID),
		}}
	},
}

// forwardingOff is a node whose kernel forwards nothing.
var forwardingOff = &diagnose.Rule{
	ID: "forwarding-off", Layer: diagnose.LayerKernel, Title: "IP forwarding is off in the kernel",
	Doc: `net.ipv4.ip_forward is 0: the node itself reaches everything, and its pods nothing beyond it; pods elsewhere do not reach its pods. Felix switches it on when it starts; a file in sysctl.d, applied later by "sysctl --system" or a hardening tool, switches it off.
Told from policy and from tunnels by the node's own packets to pods elsewhere, which pass.`,
	Fix: probe.Fix{
		Says: "Switch it on, and take away what switches it off.",
		Manifest: []string{
			"ssh {node} sudo sysctl -w {sysctl}=1",
			"ssh {node} grep -rn forward /etc/sysctl.conf /etc/sysctl.d /run/sysctl.d /usr/lib/sysctl.d",
		},
		Radius: "this node only, at once",
	},
	Explains: []string{"dns-down", "dns-no-upstream", "service-path-broken"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		off := slices.DeleteFunc(f.Failed(link.NodeSysctl.ID), diagnose.About(link.TargetRPFilter))
		if len(off) == 0 {
			return nil
		}
		name := strings.ReplaceAll(off[0].Target, "/", ".")
		return []diagnose.Case{{
			Says: fmt.Sprintf("%s is 0 on {node}, so its pods reach nothing beyond it", name),
			Args: map[string]diagnose.Arg{"sysctl": diagnose.SysctlArg(name)},
			For:  diagnose.Proves(off), Covers: diagnose.Covers(link.NodeSysctl.ID, pod.PodPing.ID, pod.PodTCP.ID, pod.PodMTU.ID,
				service.ServiceClusterIP.ID, service.ServiceNodePort.ID, dns.DNSCluster.ID, dns.DNSExternal.ID,
				firewall.PacketDrops.ID),
		}}
	},
}

// neighboursFull is the kernel's table of who is on the link.
var neighboursFull = &diagnose.Rule{
	ID: "neighbours-full", Layer: diagnose.LayerKernel, Title: "the kernel's neighbour (ARP) table is full",
	Doc: `Every address on the link that the node talks to has an entry, and so has every pod on it; beyond gc_thresh3 the kernel drops packets to those it has no entry for ("neighbour: arp_cache: neighbor table overflow!"), at random. Large flat networks and nodes with many pods meet the default of 1024.
Told from a lossy link by the count.`,
	Fix: probe.Fix{
		Says:     "Raise the thresholds.",
		Manifest: []string{"ssh {node} sudo sysctl -w net.ipv4.neigh.default.gc_thresh1=8192 net.ipv4.neigh.default.gc_thresh2=32768 net.ipv4.neigh.default.gc_thresh3=65536  # the same for net.ipv6"},
		Radius:   "this node only, at once",
	},
	Match: func(f diagnose.Findings) []diagnose.Case {
		var full []diagnose.Finding
		for _, r := range f.Failed(link.NodeNeighbours.ID) {
			if n, ok := r.Facts.Num(probe.FactMax); ok && n > 0 {
				full = append(full, r)
			}
		}
		if len(full) == 0 {
			return wasFull(f, logs.KernelNeighbours, "the table of neighbours")
		}
		return []diagnose.Case{{
			Says: fmt.Sprintf("packets get lost on {node} at random: the %s has %s", full[0].Target, full[0].Saw),
			For:  diagnose.Proves(full),
			Covers: diagnose.Covers(link.NodePing.ID, pod.PodPing.ID, pod.PodTCP.ID, link.NodeNeighbours.ID,
				dns.DNSCluster.ID, service.ServiceClusterIP.ID),
		}}
	},
}

// rpFilterLoose is what old Felixes end for.
var rpFilterLoose = &diagnose.Rule{
	ID: "rpf-check-loose", Layer: diagnose.LayerKernel, Title: "this old Felix exits because rp_filter is loose",
	Doc: `Felix up to v3.11 ends with "Kernel's RPF check is set to 'loose'" when net.ipv4.conf.all.rp_filter is 2, as systemd sets it on some distributions, for it relies on the strict check against spoofing. Later versions check by themselves.
Told from other reasons why Felix does not run by the version and the setting.`,
	Fix: probe.Fix{
		Says:     "Make the check strict, tell Felix not to mind, or take a newer Calico.",
		Manifest: []string{"ssh {node} sudo sysctl -w net.ipv4.conf.all.rp_filter=1"},
		OnlyIf: []probe.Conditional{
			{If: "packets come in by another way than answers leave: instead, on every node",
				Manifest: []string{"kubectl -n {namespace} set env ds/{daemonset} -c calico-node FELIX_IGNORELOOSERPF=true"}},
		},
		Radius: "the setting: this node, at once; packets that come in by another way than answers leave are dropped then",
	},
	Explains: []string{"felix-down", "start-outlasts-budget"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		loose := diagnose.Keep(f.Bad(link.NodeSysctl.ID), diagnose.About(link.TargetRPFilter))
		if len(loose) == 0 {
			return nil
		}
		refused := evidence.OfLiveness(f, "refused")
		return []diagnose.Case{{Says: "the kernel of {node} checks the way back of packets loosely (rp_filter): " + loose[0].Saw, For: append(diagnose.Hints(loose), diagnose.Suggests(refused)...),
			Covers: append(diagnose.Covers(link.NodeSysctl.ID), evidence.FelixIll...)}}
	},
}
