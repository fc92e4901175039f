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
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/internal/subject/kubelet"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// conntrackFull matches a node that drops new connections because its conntrack table is full, or did so recently.
func conntrackFull(f diagnose.Findings) []diagnose.Case {
	full := append(f.Failed(firewall.NodeConntrack.ID), evidence.DiedAs(f, firewall.PlaceConntrack)...)
	lines := evidence.KernelSays(f, logs.KernelConntrack)
	has := full // it has the size of the table
	c := diagnose.Case{For: append(diagnose.Proves(full), diagnose.Shows(lines)...)}
	switch {
	case len(full) > 0:
		c.Says = "new connections are dropped on {node}: " + full[0].Saw
		c.Covers = diagnose.Covers(link.NodePing.ID, pod.PodPing.ID, pod.PodTCP.ID, service.ServiceClusterIP.ID,
			service.ServiceNodePort.ID, dns.DNSCluster.ID, dns.DNSExternal.ID, datastore.DatastoreLatency.ID,
			bgp.BGPPort.ID, datastore.TyphaReach.ID, felix.FelixLive.ID, felix.FelixReady.ID, kubelet.KubeletHealth.ID,
			service.KubeProxyHealth.ID, firewall.PacketDrops.ID, firewall.NodeConntrack.ID)
	case len(lines) > 0:
		c.Says = "{node} dropped packets because its connection tracking table was full: " + lines[0].Saw
		c.For, has = diagnose.Suggests(lines), f.Of(firewall.NodeConntrack.ID)
	default:
		return nil
	}
	c.Args = map[string]diagnose.Arg{"max": diagnose.NumberArg(max(262144, 4*diagnose.Num(has, probe.FactMax)))}
	return []diagnose.Case{c}
}

// forwardingOff matches a node whose kernel does not forward packets.
func forwardingOff(f diagnose.Findings) []diagnose.Case {
	off := slices.DeleteFunc(f.Failed(link.NodeSysctl.ID), diagnose.About(link.TargetRPFilter))
	if len(off) == 0 {
		return nil
	}
	name := strings.ReplaceAll(off[0].Target, "/", ".")
	return []diagnose.Case{{
		Says: fmt.Sprintf("%s is 0 on {node}, so its pods cannot reach anything beyond it", name),
		Args: map[string]diagnose.Arg{"sysctl": diagnose.SysctlArg(name)},
		For:  diagnose.Proves(off), Covers: diagnose.Covers(link.NodeSysctl.ID, pod.PodPing.ID, pod.PodTCP.ID, pod.PodMTU.ID,
			service.ServiceClusterIP.ID, service.ServiceNodePort.ID, dns.DNSCluster.ID, dns.DNSExternal.ID,
			firewall.PacketDrops.ID),
	}}
}

// killShows is the longest time, in seconds, from the kill of a process until calico-node is reported as not ready:
// three readiness probes 10 s apart must fail, each within 10 s (Calico's manifest).
const killShows = 60

// calicoKilled matches a process of calico-node that the kernel killed. A kill before calico-node was last ready is
// history and does not count.
func calicoKilled(f diagnose.Findings) []diagnose.Case {
	since, known := notReadyFor(f)
	var names []string
	lines := diagnose.Keep(evidence.KernelSays(f, logs.KernelKilled), func(r diagnose.Finding) bool {
		ago, _ := r.Facts.Num(host.FactAgo)
		name := r.Facts.Str(probe.FactKernelOf)
		if known && ago > since+killShows || !slices.Contains([]string{"calico-node", "bird", "bird6", "confd"}, name) {
			return false
		}
		names = append(names, name)
		return true
	})
	if len(lines) == 0 {
		return nil
	}
	return []diagnose.Case{{
		Says: fmt.Sprintf("the kernel OOM-killed %s on {node}: %s", strings.Join(names, ", "), lines[0].Saw),
		For:  append(diagnose.Suggests(lines), diagnose.Hints(f.Failed(host.NodeMemory.ID))...),
	}}
}

// notReadyFor returns for how many seconds calico-node has not been ready, or false if it is ready or its state is
// unknown.
func notReadyFor(f diagnose.Findings) (float64, bool) {
	for _, r := range f.Bad(facts.CheckCalicoPod) {
		if n, known := r.Facts.Num(facts.NotReady); known {
			return n, true
		}
	}
	return 0, false
}
