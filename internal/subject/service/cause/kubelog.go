package cause

import (
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// meaning is what a line that ended a component is known to mean, and what to do about it.
type meaning struct {
	signature, means string
	fix              *probe.Fix
}

// endsFor is the case of a component that says why it ends: as it says it, or as a line with a signature
// is known to mean.
func endsFor(lines []diagnose.Finding, what string, known ...meaning) diagnose.Case {
	c := diagnose.Case{Says: what + " ends: " + lines[0].Facts.Str(logs.FactLine), For: diagnose.Suggests(lines)}
	for _, r := range lines {
		i := slices.IndexFunc(known, func(m meaning) bool { return m.signature == r.Facts.Str(logs.FactSignature) })
		if i >= 0 {
			c.Says, c.Fix = what+" ends "+known[i].means+": "+r.Facts.Str(logs.FactLine), known[i].fix
			c.For = diagnose.Proves([]diagnose.Finding{r})
			break
		}
	}
	return c
}

// kubeProxyEnds is a kube-proxy that says why it ends.
func kubeProxyEnds(f diagnose.Findings) []diagnose.Case {
	lines := evidence.KubeEnds(f, "kube-proxy")
	if len(lines) == 0 {
		return nil
	}
	c := endsFor(lines, "kube-proxy on {node}",
		meaning{logs.SaysConntrack, "because it may not set the size of the connection tracking table", &leaveConntrack},
		meaning{logs.SaysMode, "because the kernel or its image lacks what its mode takes", &anotherMode},
		meaning{logs.SaysNodeNotFound, "because it waits for a Node of another name than the node's", &nodesName},
		meaning{logs.SaysBadSetting, "because it does not take its configuration", nil})
	c.For = append(c.For, diagnose.Hints(f.Bad(service.KubeProxyHealth.ID))...)
	c.Covers = slices.Concat(diagnose.Covers(service.KubeProxyHealth.ID, logs.KubeLog.ID), evidence.Serviceless)
	return []diagnose.Case{c}
}

// leaveConntrack is what to do about kubernetes/kubernetes#45419.
var leaveConntrack = probe.Fix{
	Says: "Have kube-proxy leave the size alone (conntrack.maxPerCore 0), or let it write /proc/sys: a privileged container, in a network namespace whose kernel allows that.",
	Manifest: []string{"kubectl -n kube-system get configmap kube-proxy -o yaml | grep -A6 conntrack",
		"ssh {node} sysctl net.netfilter.nf_conntrack_max"},
	OnlyIf: []probe.Conditional{{If: "the ConfigMap has conntrack.maxPerCore 0 now",
		Manifest: []string{"kubectl -n kube-system delete pod -l k8s-app=kube-proxy --field-selector spec.nodeName={node}"}}},
	Radius: "the setting holds for every node's kube-proxy from its next start on; a restart leaves services as they are",
}

// anotherMode is what to do about a mode for which something is missing.
var anotherMode = probe.Fix{
	Says: "Load the modules that the mode takes (ip_vs, ip_vs_rr, nf_conntrack; nf_tables), or set another mode.",
	Manifest: []string{"ssh {node} 'lsmod | grep -e ^ip_vs -e ^nf_tables; uname -r; sudo modprobe -n -v ip_vs'",
		"kubectl -n kube-system get configmap kube-proxy -o yaml | grep -n mode"},
	Radius: "reading changes nothing; another mode holds for every node's kube-proxy from its next start on, and rules of the old mode have to be cleaned up (kube-proxy --cleanup)",
}

// nodesName is what to do about a kube-proxy that has another name for its node.
var nodesName = probe.Fix{
	Says: "Give kube-proxy the name of its Node: take hostnameOverride out of its configuration, or set --hostname-override to it (kubeadm: from spec.nodeName).",
	Manifest: []string{"kubectl get node {node} --show-labels  # the name that it should be",
		"kubectl -n kube-system get configmap kube-proxy -o yaml | grep -n hostnameOverride",
		"kubectl -n kube-system get daemonset kube-proxy -o yaml | grep -n -A6 hostname-override",
		"ssh {node} 'hostname; ps -o args= -C kube-proxy'"},
	OnlyIf: []probe.Conditional{{If: "the name is right now, and it is a pod",
		Manifest: []string{"kubectl -n kube-system delete pod -l k8s-app=kube-proxy --field-selector spec.nodeName={node}"}}},
	Radius: kubeProxyRadius,
}

// dnsEnds is a CoreDNS that says why it ends.
func dnsEnds(f diagnose.Findings) []diagnose.Case {
	lines, where := evidence.KubeEnds(f, "coredns"), "{node}"
	for _, node := range f.Others() {
		if len(lines) == 0 {
			lines, where = evidence.KubeEnds(f.At(node), "coredns"), node
		}
	}
	if len(lines) == 0 {
		return nil
	}
	c := endsFor(lines, "CoreDNS on "+where,
		meaning{logs.SaysLoop, "again and again because it forwards to itself", &noLoop})
	c.For = append(c.For, diagnose.Hints(f.Bad(dns.DNSCluster.ID))...)
	c.Covers = diagnose.Covers(dns.DNSCluster.ID, dns.DNSExternal.ID, logs.KubeLog.ID)
	return []diagnose.Case{c}
}

// noLoop is what to do about coredns/coredns#2391.
var noLoop = probe.Fix{
	Says: "Forward to real DNS servers: name them in the Corefile, or give the kubelet a resolv.conf that names them (systemd-resolved has one).",
	Manifest: []string{"kubectl -n kube-system get configmap coredns -o yaml | grep -n -A2 forward",
		"ssh {node} 'cat /etc/resolv.conf /run/systemd/resolve/resolv.conf; sudo grep -n resolvConf /var/lib/kubelet/config.yaml'"},
	OnlyIf: []probe.Conditional{{If: "the Corefile is right now, or the kubelet was started anew with another resolv.conf",
		Manifest: []string{"kubectl -n kube-system rollout restart deploy/coredns"}}},
	Radius: "reading changes nothing; a restart of CoreDNS goes pod by pod",
}
