package diagnose

import (
	"fmt"
	"strings"

	"github.com/calico-probe/calico-probe/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checks"
)

func loadRules() []*Rule {
	return []*Rule{ForwardingOff, ConntrackFull, NeighboursFull, ClockWrong, RPFilterLoose, NodeOverloaded}
}

// starved are checks that had not even begun to answer when their time was over; none
// where they are so few that what they ask about may be what hangs.
func starved(f Findings) []Finding {
	const many = 8
	var out []Finding
	for _, r := range f.All {
		if r.Node == f.Node && r.Status == probe.Unknown && r.Facts.Str(probe.FactReason) == "blocked" {
			out = append(out, r)
		}
	}
	if len(names(out)) < many {
		return nil
	}
	return out
}

// NodeOverloaded is load that has hurt nothing of Calico's yet.
var NodeOverloaded = &Rule{
	ID: "node-overloaded", Title: "the node has far more work than its CPUs or disks can do",
	Doc: `With ten and more tasks for each CPU everything on the node is late: probes, DNS, starts of pods. calico-node lives so far; its next start may outlast its liveness budget. A load whose tasks wait for a disk or a network file system, with idle CPUs, is one of that device.
Told from a start that is killed for it by calico-budget, which is fine here; a single daemon that is frozen as well is not to be told from one that is late.`,
	Fix: probe.Fix{
		Says:     "Find what makes the load, and give it a limit or move it.",
		Manifest: []string{"kubectl cordon {node}", "ssh {node} top -b -n1 -o %CPU | head -20"},
		Radius:   "cordoning keeps new pods off this node",
	},
	Explains: []string{"felix-stuck", "kube-proxy-stuck", "api-cut-off", "dns-down", "typha-unreachable"},
	Match: func(f Findings) []Case {
		load := loads(f.Failed(checks.NodeLoad.ID))
		if late := starved(f); len(load) == 0 && len(late) > 0 && !f.Answered(checks.NodeLoad.ID) {
			return []Case{{
				Says: fmt.Sprintf("the probe itself got no time on {node}: %d of its checks had no answer within their limits", len(late)),
				For:  clues(strong, late[:1]), Covers: Covers(names(late)...),
			}}
		}
		if len(load) == 0 {
			return nil
		}
		c := Case{Says: "the node is overloaded: " + load[0].Saw, For: clues(strong, load), Covers: Covers(checks.NodeLoad.ID, checks.StartupBudget.ID)}
		for _, id := range []string{checks.KubeletHealth.ID, checks.FelixLive.ID, checks.FelixReady.ID} {
			if len(f.With(id, probe.FactReason, "timeout")) > 0 {
				c.Covers = append(c.Covers, Cover{Check: id})
			}
		}
		if p, ok := load[0].Facts.Num(checks.FactCPUPressure); ok && p < 50 {
			if n, _ := load[0].Facts.Num(checks.FactStuck); n > 0 {
				c.Says = "processes wait for a device or a file system, and the CPUs are idle: " + load[0].Saw
			}
		}
		return []Case{c}
	},
}

// ClockWrong is a node that lives in another time.
var ClockWrong = &Rule{
	ID: "clock-wrong", Title: "the node's clock is wrong",
	Doc: `Tokens and certificates hold between two dates. With a clock that is minutes off, the API server's are not valid yet or no more for this node, and this node's leases look old: "x509: certificate has expired or is not yet valid", "Unauthorized". The clock of a virtual machine that was suspended, or without NTP, is off so.
Told from a token nobody renewed by the clocks, which are compared.`,
	Fix: probe.Fix{
		Says:     "Set the clock by NTP, and see that something keeps it.",
		Manifest: []string{"ssh {node} timedatectl", "ssh {node} sudo systemctl restart chronyd || ssh {node} sudo systemctl restart systemd-timesyncd"},
		Radius:   "this node only; a clock that jumps back by much may confuse programs on it, so look first whether etcd runs there",
	},
	Explains: []string{"cni-token-expired"},
	Match: func(f Findings) []Case {
		off := f.Failed(checks.NodeClock.ID)
		if len(off) == 0 {
			return nil
		}
		c := Case{
			Says: "the clock of {node} is wrong: " + off[0].Saw, For: clues(proof, off),
			Covers: Covers(checks.CNIToken.ID, checks.DatastoreLatency.ID, cluster.CheckNodeLease, checks.NodeClock.ID),
		}
		if late := starved(f); len(late) > 0 { // what the question took to get there counts as skew
			c.Against = clues(strong, late[:1])
		}
		return []Case{c}
	},
}

// ConntrackFull is a node that takes no new connection.
var ConntrackFull = &Rule{
	ID: "conntrack-full", Title: "the connection tracking table is full, so new connections are dropped",
	Doc: `Each connection that kube-proxy or Calico sees has an entry. A full table drops what is new and keeps what is old ("nf_conntrack: table full, dropping packet"): sessions that stand go on while connects and DNS questions fail, now and then, in both directions. It looks like a lossy link.
Told from one by ping between nodes that have an entry, and by the kernel's count.`,
	Fix: probe.Fix{
		Says:     "Make the table larger now, then find what opens so many connections.",
		Manifest: []string{"ssh {node} sudo sysctl -w net.netfilter.nf_conntrack_max={max}", "kubectl -n kube-system get cm kube-proxy -o yaml | grep -A4 conntrack  # maxPerCore sets it at every start"},
		Radius:   "this node only; an entry takes about 300 bytes of the kernel's memory",
	},
	Explains: []string{"dns-down", "service-path-broken", "api-cut-off", "typha-unreachable", "felix-stuck", "loopback-dropped"},
	Match: func(f Findings) []Case {
		full := f.Failed(checks.NodeConntrack.ID)
		if len(full) == 0 {
			return nil
		}
		return []Case{{
			Says: "new connections are dropped on {node}: " + full[0].Saw, For: clues(proof, full),
			Args: map[string]string{"max": fmt.Sprintf("%.0f", max(262144, 4*num(full, checks.FactMax)))},
			Covers: Covers(checks.NodePing.ID, checks.PodPing.ID, checks.PodTCP.ID, checks.ServiceClusterIP.ID, checks.ServiceNodePort.ID, checks.DNSCluster.ID, checks.DNSExternal.ID,
				checks.DatastoreLatency.ID, checks.BGPPort.ID, checks.TyphaReach.ID, checks.FelixLive.ID, checks.FelixReady.ID, checks.KubeletHealth.ID, checks.KubeProxyHealth.ID),
		}}
	},
}

// ForwardingOff is a node whose kernel forwards nothing.
var ForwardingOff = &Rule{
	ID: "forwarding-off", Title: "the kernel does not forward packets",
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
	Match: func(f Findings) []Case {
		off := About(f.Failed(checks.NodeSysctl.ID), "forward")
		if len(off) == 0 {
			return nil
		}
		name := strings.ReplaceAll(off[0].Target, "/", ".")
		return []Case{{
			Says: fmt.Sprintf("%s is 0 on {node}, so its pods reach nothing beyond it", name), Args: map[string]string{"sysctl": name},
			For: clues(proof, off), Covers: Covers(checks.NodeSysctl.ID, checks.PodPing.ID, checks.PodTCP.ID, checks.PodMTU.ID, checks.ServiceClusterIP.ID, checks.ServiceNodePort.ID, checks.DNSCluster.ID, checks.DNSExternal.ID),
		}}
	},
}

// NeighboursFull is the kernel's table of who is on the link.
var NeighboursFull = &Rule{
	ID: "neighbours-full", Title: "the kernel's table of neighbours is full",
	Doc: `Every address on the link that the node talks to has an entry, and so has every pod on it; beyond gc_thresh3 the kernel drops packets to those it has no entry for ("neighbour: arp_cache: neighbor table overflow!"), at random. Large flat networks and nodes with many pods meet the default of 1024.
Told from a lossy link by the count.`,
	Fix: probe.Fix{
		Says:     "Raise the thresholds.",
		Manifest: []string{"ssh {node} sudo sysctl -w net.ipv4.neigh.default.gc_thresh1=8192 net.ipv4.neigh.default.gc_thresh2=32768 net.ipv4.neigh.default.gc_thresh3=65536  # net.ipv6 likewise"},
		Radius:   "this node only, at once",
	},
	Match: func(f Findings) []Case {
		var full []Finding
		for _, r := range f.Failed(checks.NodeNeighbours.ID) {
			if n, ok := r.Facts.Num(checks.FactMax); ok && n > 0 {
				full = append(full, r)
			}
		}
		if len(full) == 0 {
			return nil
		}
		return []Case{{
			Says: fmt.Sprintf("packets get lost on {node} at random: the %s has %s", full[0].Target, full[0].Saw), For: clues(proof, full),
			Covers: Covers(checks.NodePing.ID, checks.PodPing.ID, checks.PodTCP.ID, checks.NodeNeighbours.ID, checks.DNSCluster.ID, checks.ServiceClusterIP.ID),
		}}
	},
}

// RPFilterLoose is what old Felixes end for.
var RPFilterLoose = &Rule{
	ID: "rpf-check-loose", Title: "Felix of this old version ends, because the kernel's RPF check is loose",
	Doc: `Felix up to v3.11 ends with "Kernel's RPF check is set to 'loose'" when net.ipv4.conf.all.rp_filter is 2, as systemd sets it on some distributions, for it relies on the strict check against spoofing. Later versions check by themselves.
Told from other reasons why Felix does not run by the version and the setting.`,
	Fix: probe.Fix{
		Says:     "Make the check strict, tell Felix not to mind, or take a newer Calico.",
		Manifest: []string{"ssh {node} sudo sysctl -w net.ipv4.conf.all.rp_filter=1", "kubectl -n {namespace} set env ds/calico-node -c calico-node FELIX_IGNORELOOSERPF=true  # instead: every node, one after the other"},
		Radius:   "the setting: this node, at once; packets that come in by another way than answers leave are dropped then",
	},
	Explains: []string{"felix-down", "start-outlasts-budget"},
	Match: func(f Findings) []Case {
		loose := About(f.Bad(checks.NodeSysctl.ID), "rp_filter")
		if len(loose) == 0 {
			return nil
		}
		refused := ofLiveness(f, "refused")
		return []Case{{Says: loose[0].Saw, For: append(clues(hint, loose), clues(strong, refused)...), Covers: append(Covers(checks.NodeSysctl.ID), felixIll...)}}
	},
}
