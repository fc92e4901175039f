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
func conntrackFull(f diagnose.Findings) []diagnose.Case {
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
}

// forwardingOff is a node whose kernel forwards nothing.
func forwardingOff(f diagnose.Findings) []diagnose.Case {
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
}

// neighboursFull is the kernel's table of who is on the link.
func neighboursFull(f diagnose.Findings) []diagnose.Case {
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
}

// rpFilterLoose is what old Felixes end for.
func rpFilterLoose(f diagnose.Findings) []diagnose.Case {
	loose := diagnose.Keep(f.Bad(link.NodeSysctl.ID), diagnose.About(link.TargetRPFilter))
	if len(loose) == 0 {
		return nil
	}
	refused := evidence.OfLiveness(f, "refused")
	return []diagnose.Case{{Says: "the kernel of {node} checks the way back of packets loosely (rp_filter): " + loose[0].Saw, For: append(diagnose.Hints(loose), diagnose.Suggests(refused)...),
		Covers: append(diagnose.Covers(link.NodeSysctl.ID), evidence.FelixIll...)}}
}
