package cause

import (
	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/probe"
)

// conntrackIdle is a node that forgets idle connections.
var conntrackIdle = &diagnose.Rule{
	ID: "conntrack-timeout-short", Layer: diagnose.LayerKernel, Title: "conntrack forgets idle TCP connections too soon",
	Doc: `The kernel forgets a connection that is idle for nf_conntrack_tcp_timeout_established (5 days by default, one day where kube-proxy sets it). A hardening profile or a profile against floods sets seconds. Then a connection of a pod to a Service or from outside to a pod that was idle for longer has no entry: its next packet is not translated, or is invalid and dropped where nf_conntrack_tcp_loose is 0. With 1, the kernel's default, it makes a new entry: a connection without NAT goes on, one to a Service may reach another backend, which resets it. New connections work, and those that are used all the time. On-call sees database pools, watches and keep-alive connections that hang or are reset after a pause.
Told from a full table by its entries, and from a lossy network by new connections, which work.`,
	Fix: probe.Fix{
		Says: "Set the timeout back to a day, and change what sets it: a file of sysctl, or kube-proxy, which sets conntrack.tcpEstablishedTimeout (--conntrack-tcp-timeout-established) at each start unless that is 0.",
		Manifest: []string{"ssh {node} 'grep -rn nf_conntrack_tcp /etc/sysctl.conf /etc/sysctl.d /usr/lib/sysctl.d /run/sysctl.d'",
			"kubectl -n kube-system get configmap kube-proxy -o yaml | grep -n tcpEstablishedTimeout",
			"ssh {node} sudo sysctl -w net.netfilter.nf_conntrack_tcp_timeout_established=86400"},
		Radius: "this node only; entries of connections that are open get the new time with their next packet",
	},
	Match: func(f diagnose.Findings) []diagnose.Case {
		for _, r := range f.Bad(firewall.NodeConntrack.ID) {
			if r.Target == firewall.TargetIdle {
				weight := diagnose.Strong
				if r.Facts[firewall.FactLoose] == false {
					weight = diagnose.Proof
				}
				return []diagnose.Case{{Says: "on {node} " + r.Saw, For: diagnose.Clues(weight, []diagnose.Finding{r}),
					Covers: []diagnose.Cover{{Check: r.Check, About: r.Target}}}}
			}
		}
		return nil
	},
}
