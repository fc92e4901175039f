package cause

import (
	"fmt"
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/felix"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/internal/subject/kubelet"
	"github.com/calico-probe/calico-probe/internal/subject/start"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// freeDisks is what to do about processes that wait in the kernel.
var freeDisks = probe.Fix{
	Says: "Find the disk or file server that the processes wait for, and restore it. A restart of the processes does not help: they wait in the kernel.",
	Manifest: []string{"kubectl cordon {node}", "ssh {node} \"ps -eLo pid,stat,wchan:32,comm | awk '\\$2 ~ /^D/'\"",
		"ssh {node} \"sudo dmesg -T | grep -i -e 'I/O error' -e 'not responding' -e 'blocked for more' | tail\""},
	Radius: "cordoning keeps new pods off this node",
}

// nodeOverloaded is load that has hurt nothing of Calico's yet.
func nodeOverloaded(f diagnose.Findings) []diagnose.Case {
	load := evidence.Loads(f.Failed(host.NodeLoad.ID))
	if late := evidence.Starved(f); len(load) == 0 && len(late) > 0 && !f.Answered(host.NodeLoad.ID) {
		return []diagnose.Case{{
			Says: fmt.Sprintf("the probe itself got no time on {node}: %d of its checks had no answer within their limits",
				len(late)),
			For: diagnose.Suggests(late[:1]), Covers: diagnose.Covers(diagnose.ChecksOf(late)...),
		}}
	}
	if len(load) == 0 {
		return nil
	}
	c := diagnose.Case{Says: "the node is overloaded: " + load[0].Saw, For: diagnose.Suggests(load),
		Covers: diagnose.Covers(host.NodeLoad.ID, start.StartupBudget.ID, facts.CheckPodsStart)}
	for _, id := range []string{kubelet.KubeletHealth.ID, felix.FelixLive.ID, felix.FelixReady.ID} {
		if len(f.With(id, probe.FactReason, "timeout")) > 0 {
			c.Covers = append(c.Covers, diagnose.Cover{Check: id})
		}
	}
	refused := func(r diagnose.Finding) bool { return diagnose.ReasonOf(r) != "timeout" }
	if !slices.ContainsFunc(f.Failed(dns.DNSCluster.ID), refused) { // a load makes answers late, and refuses none
		c.Covers = append(c.Covers, diagnose.Cover{Check: dns.DNSCluster.ID})
	}
	if n, _ := load[0].Facts.Num(host.FactStuck); n > 0 && evidence.OfDisks(load[0]) {
		c.Says, c.Fix = "processes wait for a device or a file system, and the CPUs are idle: "+load[0].Saw, &freeDisks
	}
	return []diagnose.Case{c}
}
