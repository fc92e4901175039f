package cause

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// noPort is EADDRNOTAVAIL in the words of Go's programs, such as the kubelet and Felix.
const noPort = "connect: cannot assign requested address"

// wordsOfNode are the checks that quote the kubelet and Calico on the node.
var wordsOfNode = []string{probe.CheckPlaced, facts.CheckCalicoPod, facts.CheckDNSService, logs.CalicoLog.ID,
	logs.DaemonLog.ID, logs.KubeLog.ID}

// noPortsLeft is a node whose kernel has no source port for its own connections.
var noPortsLeft = &diagnose.Rule{
	ID: "source-ports-gone", Layer: diagnose.LayerKernel, Title: "the node has no free source ports for new connections",
	Doc: `Each connection of the node takes a port of net.ipv4.ip_local_port_range, without those of net.ipv4.ip_local_reserved_ports. Where the reserved ports cover the whole range, as with 30000-65535 to protect node ports, or a program holds tens of thousands of connections to one address, connect fails with "cannot assign requested address", also to 127.0.0.1. The kubelet's probes fail then, calico-node is killed by its liveness probe, and exec and attach fail; pods have network namespaces of their own with ports of their own and go on.
Told from a start that is slow, and from Felix that is down, by those words of the kubelet.`,
	Fix: probe.Fix{
		Says: "Compare the reserved ports with the range, and count the connections. Reserve only what listens, such as 30000-32767.",
		Manifest: []string{"ssh {node} sysctl net.ipv4.ip_local_port_range net.ipv4.ip_local_reserved_ports",
			"ssh {node} 'ss -s; ss -tanH | awk \"{print \\$5}\" | sort | uniq -c | sort -rn | head -5'",
			"ssh {node} grep -rn ip_local_ /etc/sysctl.conf /etc/sysctl.d /usr/lib/sysctl.d /run/sysctl.d"},
		OnlyIf: []probe.Conditional{{If: "the reserved ports cover the range",
			Manifest: []string{"ssh {node} sudo sysctl -w net.ipv4.ip_local_reserved_ports=30000-32767"}}},
		Radius: "this node only; connections that are open go on",
	},
	Explains: []string{"start-outlasts-budget", "felix-down", "felix-stuck", "kubelet-port-blocked", "dns-unserved",
		"runtime-stuck"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		said := f.Where(func(r diagnose.Finding) bool {
			return slices.Contains(wordsOfNode, r.Check) && strings.Contains(r.Saw, noPort) && r.Status != probe.OK
		})
		if len(said) == 0 {
			return nil
		}
		return []diagnose.Case{{
			Says: fmt.Sprintf("{node} cannot open connections of its own, not even to itself: %s", said[0].Saw),
			For:  diagnose.Suggests(said),
			Covers: slices.Concat(diagnose.Covers(probe.CheckPlaced, probe.CheckAnswered, facts.CheckCalicoBudget,
				facts.CheckDNSService),
				evidence.CalicoDown),
		}}
	},
}
