package diagnose

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/internal/subject/start"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// serviceless is what a node shows on which services do not work.
var serviceless = Covers(
	service.ServiceClusterIP.ID, service.ServiceNodePort.ID, dns.DNSCluster.ID, dns.DNSExternal.ID,
	datastore.DatastoreLatency.ID,
	service.KubeProxyHealth.ID, start.InitStall.ID,
)

// brokenPath are the findings that a service's address does not answer while a server
// behind it does, in its family and by its transport; the first of answering is behind
// the first of broken.
func brokenPath(f Findings) (broken, answering []Finding) {
	for _, id := range []string{datastore.DatastoreLatency.ID, dns.DNSCluster.ID} {
		for _, service := range toService(f.Failed(id)) {
			behind := keep(toServers(f.Of(id)), func(r Finding) bool {
				good := r.Status == probe.OK || r.Status == probe.Warn && id == datastore.DatastoreLatency.ID
				return good && familyOf(r) == familyOf(service) &&
					r.Facts.Str(probe.FactTransport) == service.Facts.Str(probe.FactTransport)
			})
			if len(behind) == 0 {
				continue
			}
			broken = append(broken, service)
			if !slices.ContainsFunc(answering, func(r Finding) bool { return questionOf(r) == questionOf(behind[0]) }) {
				answering = append(answering, behind[0])
			}
		}
	}
	return broken, answering
}

// kubeProxyRadius is what a restart of kube-proxy touches.
const kubeProxyRadius = "this node only; the rules that are there stay while it starts, and open connections go on"

// kubeProxyFix restarts kube-proxy on this node where the API did not say whether it is a pod.
var kubeProxyFix = probe.Fix{
	Says:     "Restart kube-proxy on this node: it writes all its rules again.",
	Manifest: []string{"kubectl -n kube-system get pods -l k8s-app=kube-proxy --field-selector spec.nodeName={node}"},
	OnlyIf: []probe.Conditional{{
		If:       "that lists a pod",
		Manifest: []string{"kubectl -n kube-system delete pod -l k8s-app=kube-proxy --field-selector spec.nodeName={node}"},
	}},
	Radius: kubeProxyRadius,
}

// restartKubeProxy is the fix of a case, by the kube-proxy pods that the API has of this node.
func restartKubeProxy(f Findings, c Case) Case {
	for _, r := range f.Of(facts.CheckNodeReady) {
		if _, known := r.Facts[facts.KubeProxy]; !known {
			continue
		}
		if pods := listOf(r, facts.KubeProxy); len(pods) > 0 {
			c.Fix = &probe.Fix{
				Says: kubeProxyFix.Says, Radius: kubeProxyRadius,
				Manifest: []string{"kubectl -n kube-system delete pod {proxy}"},
			}
			c.Args = map[string]Arg{"proxy": podArg(pods[0])}
			return c
		}
		c.Fix = &probe.Fix{
			Says: "No kube-proxy pod runs on this node: find what translates its services (a program of the host, " +
				"the distribution's kubelet, eBPF), and restart that.",
			Manifest: []string{
				"ssh {node} \"pgrep -a kube-proxy; systemctl list-units --no-pager --type=service | grep -iE 'kube|k3s|rke2|k0s'\"",
				"kubectl get pods -A -o wide --field-selector spec.nodeName={node}",
			},
			Radius: onlyReads,
		}
		return c
	}
	return c
}

// kubeProxyRulesLost is a flush behind kube-proxy's back.
var kubeProxyRulesLost = &Rule{
	ID: "kube-proxy-rules-lost", Layer: LayerDatastore,
	Title: "kube-proxy's rules are missing or stale in the kernel, and it has not noticed",
	Doc: `A restart of nftables or firewalld, or a flush by hand, takes kube-proxy's rules away; another program that loads a table of the same name, or a frozen kube-proxy, leaves rules for pods that are gone. In the mode iptables kube-proxy looks for its rules every half a minute, in the others perhaps not before a service changes. It calls itself healthy all the while, and services do not work from this node, the API server's among them: calico-node's start and the CNI plugin wait with "10.96.0.1:443: i/o timeout".
Told from a dead kube-proxy by its answer, from an API server that is down by its endpoints, which answer directly; from rules of another program by the kernel's entry for a connection of the probe, which no other rule explains.`,
	Fix: kubeProxyFix, RuledOut: []string{link.NodeUplink.ID, link.NodePing.ID},
	Explains: []string{"service-path-broken", "start-outlasts-budget", "felix-waits", "felix-down", "dns-down"},
	Match: func(f Findings) []Case {
		broken, direct := brokenPath(f)
		says, weight, lost := "", proof, keep(f.Failed(service.KubeProxyHealth.ID), about(service.TargetServices))
		switch {
		case len(lost) > 0:
			says = lost[0].Saw
		case len(broken) > 0 && f.Fine(service.KubeProxyHealth.ID):
			if lost = wrongRules(f); len(lost) < 2 { // one service's endpoints may just have changed
				return nil
			}
			says, weight = "kube-proxy on {node} reports healthy, and its rules in the kernel are not those of the Services: "+
				lost[0].Saw+"; "+lost[1].Saw, strong
		default:
			return nil
		}
		return []Case{restartKubeProxy(f, Case{
			Says: says, For: slices.Concat(clues(weight, lost), Shows(broken), Shows(direct)),
			Covers: append(serviceless, calicoDown...),
		})}
	},
}

// wrongRules returns a finding of each service whose connections kube-proxy's rules do not lead to an endpoint.
func wrongRules(f Findings) []Finding {
	var out []Finding
	for _, reason := range []string{service.ReasonUntranslated, service.ReasonNoEndpoint} {
		for _, r := range f.With(service.ServiceDestination.ID, probe.FactReason, reason) {
			same := func(o Finding) bool {
				return o.Facts.Str(service.FactService) == r.Facts.Str(service.FactService)
			}
			if !slices.ContainsFunc(out, same) {
				out = append(out, r)
			}
		}
	}
	return out
}

// proxyNotUp is the fix of a kube-proxy that hangs in its start.
var proxyNotUp = probe.Fix{
	Says: "See what it waits for: the API server it is told (its kubeconfig, --master), its certificate or token, or its Node by name (--hostname-override).",
	Manifest: []string{"kubectl -n kube-system logs -l k8s-app=kube-proxy --prefix --tail=20  # where it is a pod",
		"ssh {node} 'sudo journalctl -u kube-proxy -n 20 --no-pager; ps -o args= -C kube-proxy'  # where it is a service",
		"kubectl -n kube-system get configmap kube-proxy -o yaml | grep -n -e server -e hostnameOverride"},
	Radius: onlyReads,
}

// kubeProxyStuck is a kube-proxy that is alive and does not work.
var kubeProxyStuck = &Rule{
	ID: "kube-proxy-stuck", Layer: LayerDatastore, Title: "kube-proxy is stuck and no longer writes its rules",
	Doc: `503 on 10256: it wanted to write rules and has not succeeded for a while (no way to the API server, a lock, too many rules). No answer: it is frozen. What is in the kernel goes on as it was, so services work until their pods change.
Told from one that has died by its port, which takes connections; from rules that were flushed by the kernel, which has them. One that listens nowhere 20 s after its start does not get through it: it has not reached the API server yet, and changes nothing until it does.`,
	Fix: kubeProxyFix, Explains: []string{"service-path-broken"},
	Match: func(f Findings) []Case {
		var stuck []Finding
		for _, r := range f.Failed(service.KubeProxyHealth.ID) {
			if code, _ := r.Facts.Num(probe.FactCode); r.Target == "" && (code >= 500 || reasonOf(r) == "timeout") {
				stuck = append(stuck, r)
			}
		}
		if starts := f.With(service.KubeProxyHealth.ID, probe.FactReason, service.ReasonNotUp); len(starts) > 0 {
			broken, _ := brokenPath(f)
			listens := keep(f.Elsewhere(service.KubeProxyHealth.ID), func(r Finding) bool { return r.Status == probe.OK })
			return []Case{{Says: "kube-proxy on {node} has not come up: " + starts[0].Saw, Fix: &proxyNotUp,
				For:    slices.Concat(Suggests(starts), Shows(broken), Hints(listens[:min(1, len(listens))])),
				Covers: serviceless}}
		}
		if len(stuck) == 0 {
			return nil
		}
		broken, _ := brokenPath(f)
		c := Case{Says: "kube-proxy does not keep its rules up to date: " + stuck[0].Saw,
			For: append(Proves(stuck), Shows(broken)...), Covers: serviceless}
		if reasonOf(stuck[0]) == "timeout" { // so are a loopback that is cut off, and a node short of CPU
			c.For[0].Weight = strong
			if kubelet := kubeletAnswers(f); len(kubelet) > 0 { // on the same loopback, and in time
				c.For = append(c.For, Hints(kubelet)...)
			} else if load := loads(f.Failed(host.NodeLoad.ID)); len(load) > 0 {
				c.Against = Hints(load)
			}
		}
		return []Case{restartKubeProxy(f, c)}
	},
}

// kubeProxyDead is a kube-proxy that ended and left its rules.
var kubeProxyDead = &Rule{
	ID: "kube-proxy-dead", Layer: LayerDatastore, Symptom: true,
	Title: "kube-proxy is not running on this node; its rules are stale or gone",
	Doc: `The rules of a kube-proxy that has ended stay in the kernel: services work as long as their pods stay where they are, and break one by one as pods move, so it looks like a fault of single applications.
Told from a cluster without kube-proxy (eBPF, k3s, another replacement) by its rules, which are there; one that was removed on purpose leaves such rules too until the next reboot, so this alone is no proof. Where it cleaned up as it ended, or never came up, nothing is there: then it is told by Services that do not answer while their servers do.`,
	Fix: probe.Fix{
		Says:     "Start kube-proxy again; its log ends with the reason. Where it was removed on purpose, remove its old rules ('kube-proxy --cleanup', or a reboot).",
		Manifest: []string{"kubectl -n kube-system get pods -l k8s-app=kube-proxy -o wide --field-selector spec.nodeName={node}", "kubectl -n kube-system logs -l k8s-app=kube-proxy --prefix --tail=20"},
		Radius:   "this node only",
	},
	Explains: []string{"service-path-broken", "start-outlasts-budget", "felix-waits"},
	Match: func(f Findings) []Case {
		if c, ok := leftNothing(f); ok {
			return []Case{c}
		}
		var dead []Finding
		for _, r := range f.Bad(service.KubeProxyHealth.ID) {
			if n, _ := r.Facts.Num(service.FactPublished); n > 0 && r.Status == probe.Warn &&
				reasonOf(r) != service.ReasonNotUp {
				dead = append(dead, r)
			}
		}
		if len(dead) == 0 {
			return nil
		}
		broken, direct := brokenPath(f)
		c := Case{Says: "kube-proxy does not run: " + dead[0].Saw, For: append(Suggests(dead), Hints(broken)...),
			Covers: serviceless}
		c.For = append(c.For, Shows(direct)...)
		for _, r := range f.Of(facts.CheckNodeReady) {
			if _, known := r.Facts[facts.KubeProxy]; known && len(listOf(r, facts.KubeProxy)) == 0 {
				c.Fix = &noProxyPod
			}
		}
		for _, r := range f.Elsewhere(service.KubeProxyHealth.ID) {
			if r.Status == probe.OK { // so this cluster has kube-proxy
				c.For = append(c.For, Clue{Finding: r, Weight: hint})
				break
			}
		}
		return []Case{c}
	},
}

// leftNothing is a node whose services do not work, where neither kube-proxy is to be seen nor anything that it
// has written.
func leftNothing(f Findings) (Case, bool) {
	here := func(r Finding) bool { return r.Target == "" && r.Facts.Str(probe.FactAddress) != "" }
	none := keep(f.Of(service.KubeProxyHealth.ID), func(r Finding) bool {
		n, known := r.Facts.Num(service.FactPublished)
		return here(r) && r.Status == probe.Skip && known && n == 0
	})
	broken, direct := brokenPath(f)
	if len(none) == 0 || len(broken) == 0 {
		return Case{}, false
	}
	there := keep(f.Elsewhere(service.KubeProxyHealth.ID), func(r Finding) bool { return here(r) && r.Status == probe.OK })
	return Case{Says: "no Service works from {node}: " + none[0].Saw, Fix: &noProxyPod,
		For: slices.Concat(Suggests(none), Hints(there[:min(1, len(there))]), Hints(broken),
			Shows(direct)),
		Covers: slices.Concat(serviceless, calicoDown)}, true
}

// noProxyPod is what to do where no pod of kube-proxy runs on the node: it may have none, or be a program
// of the host.
var noProxyPod = probe.Fix{
	Says: "No kube-proxy pod runs on this node: see whether its DaemonSet skips the node, or a program of the host ended.",
	Manifest: []string{
		"kubectl -n kube-system get daemonsets,pods -o wide | grep -e kube-proxy -e NAME",
		"ssh {node} \"pgrep -a kube-proxy; systemctl list-units --all --no-pager --type=service | grep -iE 'kube|k3s|rke2|k0s'\"",
	},
	Radius: onlyReads,
}

// servicePathBroken is what is known when kube-proxy itself says nothing.
var servicePathBroken = &Rule{
	ID: "service-path-broken", Layer: LayerDatastore, Symptom: true,
	Title: "a Service's address does not answer on this node, although its endpoints do",
	Doc: `Behind the service's address stand servers that answer this node directly, so the translation on this very node is what is broken: kube-proxy, or what stands in for it, or a firewall rule before it. calico-node, the CNI plugin and pods go by the service's address.
Told from an API server or DNS server that is down by those servers' answers.`,
	Fix:   kubeProxyFix,
	Wants: []string{service.KubeProxyHealth.ID}, Explains: []string{"start-outlasts-budget", "felix-waits"},
	Match: func(f Findings) []Case {
		broken, direct := brokenPath(f)
		if len(broken) == 0 {
			return nil
		}
		return []Case{restartKubeProxy(f, Case{
			Says: fmt.Sprintf("services do not work on {node}: %s does not answer (%s), and the server behind it does (%s)",
				broken[0].Target, broken[0].Saw, direct[0].Target),
			For: append(Suggests(broken), Shows(direct)...), Covers: append(serviceless, calicoDown...),
		})}
	},
}

// dnsDown are the servers behind the cluster's DNS that do not answer.
var dnsDown = &Rule{
	ID: "dns-down", Layer: LayerServices, Symptom: true, Title: "the cluster DNS servers do not answer",
	Doc: `Neither the DNS service nor the servers behind it answer this node. Refused: CoreDNS does not run where the API says it does, or the Service has no ready endpoint, as when its Deployment is scaled to 0 replicas. SERVFAIL: it runs and cannot read the API. No answer from servers on other nodes, when pods there do not answer either, is a broken pod network, and not DNS.
Told from broken services by the servers, which are asked directly, from a broken pod network by pod-tcp, and from a firewall that knows DNS as UDP alone by the TCP answers.`,
	Fix: probe.Fix{
		Says: "See whether CoreDNS runs and what it says.",
		Manifest: []string{"kubectl -n kube-system get deployments,pods -l k8s-app=kube-dns -o wide",
			"kubectl -n kube-system logs -l k8s-app=kube-dns --tail=30"},
		OnlyIf: []probe.Conditional{
			{If: "its Deployment has 0 replicas, and nobody wants that",
				Manifest: []string{"kubectl -n kube-system scale deployment -l k8s-app=kube-dns --replicas=2"}},
			{If: "it runs, and does not say what it lacks",
				Manifest: []string{"kubectl -n kube-system rollout restart deploy/coredns"}},
		},
		Radius: "a restart of CoreDNS goes pod by pod; with one replica names do not resolve for some seconds, in the whole cluster",
	},
	RuledOut: []string{pod.PodTCP.ID, service.KubeProxyHealth.ID, datastore.DatastoreLatency.ID},
	Match: func(f Findings) []Case {
		all := toServers(f.Of(dns.DNSCluster.ID))
		dead := toServers(f.Failed(dns.DNSCluster.ID))
		if len(all) == 0 {
			dead = nil
			for _, r := range toService(f.Failed(dns.DNSCluster.ID)) { // without a server: none is ready
				if reason := reasonOf(r); reason == "refused" || reason == "rejected" || r.Facts.Str(dns.FactUnserved) != "" {
					dead = append(dead, r)
				}
			}
		}
		if len(dead) == 0 || len(dead) < len(all) || len(keep(dead, unknownName)) == len(dead) { // they do answer
			return nil
		}
		says := cmp.Or(dead[0].Facts.Str(dns.FactUnserved), dead[0].Saw)
		c := Case{
			Says: "the cluster's DNS is down: " + says,
			For:  Suggests(dead), Covers: Covers(dns.DNSCluster.ID, dns.DNSExternal.ID, facts.CheckDNSService),
		}
		if lost := f.Failed(facts.CheckNodeLease); len(all) == 0 && len(lost) > 0 {
			// The pods of a node that is not heard of count as not ready, whatever they do.
			c.For = append(Hints(dead[:1]), Shows(dead[1:], lost)...)
		} else if f.Fine(pod.PodTCP.ID) { // so pods can be reached
			c.For = append(c.For, Hints(podBeside(f, dead))...)
		} else if pods := f.Failed(pod.PodTCP.ID); len(pods) > 0 {
			c.Against = Hints(pods)
		}
		if late := starved(f); len(late) > 0 { // the client itself is slow
			c.Against = append(c.Against, Suggests(late[:1])...)
		}
		return []Case{c}
	},
}

// podBeside is a pod that answers this node: if possible on the node of a server that does not, and
// by a port that it declares.
func podBeside(f Findings, dead []Finding) []Finding {
	all := keep(f.Of(pod.PodTCP.ID), func(r Finding) bool {
		return answered(r.Status) && r.Facts.Str(probe.FactRole) != pod.RoleOwnNode
	})
	best := func(r Finding) int {
		score := 0
		if slices.ContainsFunc(dead, func(d Finding) bool { return nodeOf(d) != "" && nodeOf(d) == nodeOf(r) }) {
			score += 2
		}
		if declared, _ := r.Facts[pod.FactDeclared].(bool); declared {
			score++
		}
		return score
	}
	slices.SortStableFunc(all, func(a, b Finding) int { return cmp.Compare(best(b), best(a)) })
	return all[:1]
}

// dnsNoUpstream is a DNS that knows the cluster and nothing else.
var dnsNoUpstream = &Rule{
	ID: "dns-no-upstream", Layer: LayerServices,
	Title: "the cluster DNS cannot resolve external names; the node's own servers can",
	Doc: `CoreDNS forwards what is not the cluster's to the name servers of the node it runs on. When those answer the node and not CoreDNS, its pod's packets do not come back: the pool does not masquerade (natOutgoing), a policy forbids it, or the Corefile names other servers.
Told from a cluster that is cut off on purpose by the node's own servers, which answer.`,
	Fix: probe.Fix{
		Says: "Have CoreDNS forward to servers that answer it: name them in the Corefile, or switch on natOutgoing of the pods' IP pool so that their answers find the way back.",
		Manifest: []string{"kubectl -n kube-system get cm coredns -o jsonpath='{.data.Corefile}' | grep -A3 forward",
			"kubectl get ippools.crd.projectcalico.org -o custom-columns=NAME:.metadata.name,CIDR:.spec.cidr,NAT:.spec.natOutgoing"},
		Radius: onlyReads,
	},
	RuledOut: []string{dns.DNSCluster.ID},
	Match: func(f Findings) []Case {
		var shut []Finding
		for _, r := range toService(f.Bad(dns.DNSExternal.ID)) {
			if r.Facts.Str(dns.FactQuestion) == "." {
				shut = append(shut, r)
			}
		}
		if len(shut) == 0 {
			return nil
		}
		c := Case{Says: "outside names do not resolve in pods: " + shut[0].Saw, For: Suggests(shut),
			Covers: Covers(dns.DNSExternal.ID)}
		lines := kubeSays(f, "coredns", logs.SaysUpstream)
		for _, node := range f.Others() {
			lines = append(lines, kubeSays(f.At(node), "coredns", logs.SaysUpstream)...)
		}
		if len(lines) > 0 {
			c.Says = "outside names do not resolve in pods: " + lines[0].Facts.Str(logs.FactOfServer) +
				", to which CoreDNS forwards, does not answer it (" + shut[0].Saw + ")"
			c.For = append(c.For, Hints(lines)...)
		}
		return []Case{c}
	},
}
