package cause

import (
	"fmt"
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/internal/subject/overlay"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// kernelLacks is a kernel without what Felix or kube-proxy needs.
func kernelLacks(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	for _, r := range evidence.Writes(f, logs.SaysKernelLacks) {
		module := r.Facts.Str(logs.FactModule)
		c := diagnose.Case{About: module,
			Args:   map[string]diagnose.Arg{"module": diagnose.CheckedArg(module, diagnose.IsWord(module), "MODULE")},
			Says:   fmt.Sprintf("the kernel of {node} lacks %s, which Felix needs: %s", module, evidence.QuotedLine(r)),
			For:    evidence.Written(f, []diagnose.Finding{r}),
			Covers: append(diagnose.Covers(logs.CalicoErrors.ID, overlay.OverlayTunnels.ID), evidence.CalicoDown...)}
		if tunnels := f.Failed(overlay.OverlayTunnels.ID); len(tunnels) > 0 &&
			slices.Contains([]string{"vxlan", "ipip"}, module) {
			c.For = append(c.For, diagnose.Hints(tunnels)...)
			c.Covers = append(c.Covers, evidence.OverPods(f)...)
		}
		out = append(out, c)
	}
	return out
}

// tablesUnreadable is a program whose rules keep Felix from its own.
func tablesUnreadable(f diagnose.Findings) []diagnose.Case {
	lines := evidence.Writes(f, logs.SaysTables)
	if len(lines) == 0 {
		return nil
	}
	return []diagnose.Case{{
		Says: "rules on {node} that iptables cannot read keep Felix from writing its own: " + evidence.QuotedLine(lines[0]),
		For:  evidence.Written(f, lines), Covers: append(diagnose.Covers(logs.CalicoErrors.ID), evidence.CalicoDown...),
	}}
}

// bpfRefused is an eBPF data plane that the kernel does not take.
func bpfRefused(f diagnose.Findings) []diagnose.Case {
	off, failed := evidence.Writes(f, logs.SaysBPFOff), evidence.Writes(f, logs.SaysBPFFailed)
	mount, program := evidence.Writes(f, logs.SaysBPFMount), evidence.Writes(f, logs.SaysBPFVerifier)
	c := diagnose.Case{Covers: append(diagnose.Covers(logs.CalicoErrors.ID), evidence.CalicoDown...)}
	switch {
	case len(off) > 0:
		c.Says = "eBPF is configured, and Felix on {node} does without it: " + evidence.QuotedLine(off[0])
		c.For = diagnose.Proves(off)
		c.Covers = diagnose.Covers(logs.CalicoErrors.ID, service.ServiceClusterIP.ID, service.ServiceNodePort.ID,
			service.KubeProxyHealth.ID, dns.DNSCluster.ID)
	case len(failed) > 0:
		c.Says = "eBPF is configured, and Felix on {node} ends over it: " + evidence.QuotedLine(failed[0])
		c.For = append(evidence.Written(f, failed), diagnose.Shows(mount, program)...)
	case len(mount) > 0:
		c.Says = "eBPF is configured, and a file system that it needs is not mounted on {node}: " + evidence.QuotedLine(mount[0])
		c.For = append(evidence.Written(f, mount), diagnose.Shows(program)...)
	case len(program) > 0:
		c.Says = "the kernel of {node} refuses a program of Felix's: " + evidence.QuotedLine(program[0])
		c.For = evidence.Written(f, program)
	default:
		return nil
	}
	return []diagnose.Case{c}
}

// typhaCertificate is a connection to Typha that TLS refuses.
func typhaCertificate(f diagnose.Findings) []diagnose.Case {
	lines, refused := evidence.Writes(f, logs.SaysTyphaCertificate), evidence.Writes(f, logs.SaysTyphaRefuses)
	if len(lines) == 0 && len(refused) > 0 {
		return []diagnose.Case{{Says: "the Typha on {node} and its clients refuse each other's certificates: " + evidence.QuotedLine(refused[0]),
			For: diagnose.Suggests(refused), Covers: diagnose.Covers(logs.CalicoErrors.ID)}}
	}
	if len(lines) == 0 {
		return nil
	}
	who := "calico-node on {node} refuses Typha's certificate"
	switch {
	case lines[0].Facts[logs.FactNoFile] == true:
		who = "calico-node on {node} has no certificate to show Typha"
	case lines[0].Facts[logs.FactRemote] == true:
		who = "Typha refuses the certificate of calico-node on {node}"
	}
	c := diagnose.Case{Says: who + ": " + evidence.QuotedLine(lines[0]),
		For:    append(evidence.Written(f, lines), diagnose.Shows(refused)...),
		Covers: append(diagnose.Covers(logs.CalicoErrors.ID, datastore.TyphaReach.ID), evidence.CalicoDown...)}
	if skew := f.Failed(host.NodeClock.ID); len(skew) > 0 {
		c.Against = diagnose.Suggests(skew[:1])
	}
	return []diagnose.Case{c}
}

// typhaStale is a Typha that answers and does not serve.
func typhaStale(f diagnose.Findings) []diagnose.Case {
	old, drops := evidence.Writes(f, logs.SaysTyphaOld), evidence.Writes(f, logs.SaysTyphaDrops)
	sheds := evidence.Writes(f, logs.SaysTyphaSheds)
	c := diagnose.Case{Covers: append(diagnose.Covers(logs.CalicoErrors.ID), evidence.CalicoDown...)}
	switch {
	case len(old) > 0:
		c.Says, c.For = "Typha is older than what calico-node on {node} needs: "+evidence.QuotedLine(old[0]), diagnose.Proves(old)
	case len(drops) > 0 && len(evidence.Writes(f, logs.SaysTyphaCertificate)) == 0:
		n, _ := drops[0].Facts.Num(probe.FactTimes)
		c.Says = fmt.Sprintf("Typha has ended the connection of calico-node on {node} %.0f times: %s", n, evidence.QuotedLine(drops[0]))
		c.For = diagnose.Suggests(drops)
	case len(sheds) > 0:
		c.Says, c.For = "the Typha on {node} ends connections of clients that are too slow: "+evidence.QuotedLine(sheds[0]), diagnose.Suggests(sheds)
		c.Covers = diagnose.Covers(logs.CalicoErrors.ID)
	default:
		return nil
	}
	return []diagnose.Case{c}
}

// cniTokenUnrenewed is a token that still holds, and that nobody will renew.
func cniTokenUnrenewed(f diagnose.Findings) []diagnose.Case {
	lines := evidence.Writes(f, logs.SaysCNIToken)
	ending := diagnose.Keep(f.Of(cni.CNIToken.ID), func(r diagnose.Finding) bool { return r.Status == probe.Warn })
	if len(f.Failed(cni.CNIToken.ID)) > 0 || len(lines)+len(ending) == 0 {
		return nil
	}
	c := diagnose.Case{Says: "no pod of {node} gets a network once the CNI plugin's token has expired: ",
		For:    slices.Concat(diagnose.Suggests(lines), diagnose.Suggests(ending)),
		Covers: diagnose.Covers(logs.CalicoErrors.ID, cni.CNIToken.ID)}
	if len(lines) > 0 {
		c.Says += evidence.QuotedLine(lines[0])
	} else {
		c.Says += ending[0].Saw
	}
	return []diagnose.Case{c}
}
