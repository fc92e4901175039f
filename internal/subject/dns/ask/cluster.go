package ask

import (
	"cmp"
	"context"
	"fmt"

	"github.com/miekg/dns"

	dnsfacts "github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/node"
	"github.com/calico-probe/calico-probe/probe/reach"
)

// dnsClusterCheck binds dnsfacts.DNSCluster to the function that runs it.
var dnsClusterCheck = answers.To(dnsfacts.DNSCluster, dnsCluster)

func dnsCluster(ctx context.Context, p *probe.Pass) {
	k, err := node.ReadKubelet(p.Host)
	domain, guessed := node.DomainOf(k, err)
	servers := dnsServers(p, k)
	if len(servers) == 0 {
		p.Report(node.Gap(p, probe.KindDNS, "no DNS Service of the cluster is known"))
		return
	}
	if err == nil && k.GivesNone() {
		p.Report(probe.Found(probe.Fail, "the kubelet's configuration names no clusterDNS: new pods get the node's own name servers").
			On(probe.RoleGiven).With(probe.FactRole, probe.RoleGiven).With(probe.FactReason, dnsfacts.ReasonUnset))
	}
	if err == nil && k.PID != 0 { // k3s may give its kubelet another file, which is not visible
		reportUpstream(p, cmp.Or(k.ResolvConf, hostResolvConf))
	}
	name := "kubernetes.default.svc." + domain + "."
	node.Each(servers, func(t probe.Target) {
		ask := func(network string) probe.Result {
			r := reach.QueryAddress(ctx, network, addrOf(t), name)
			if guessed && r.Facts.Str(probe.FactRcode) == dns.RcodeToString[dns.RcodeNameError] {
				r.Status = probe.Unknown
				r.Saw += " (the kubelet's domain is not visible here)"
			}
			return withOtherZone(ctx, compareService(p, r), network, addrOf(t), name, domain)
		}
		var udp, tcp probe.Result
		node.Each([]func(){func() { udp = ask("udp") }, func() { tcp = ask("tcp") }}, func(f func()) { f() })
		for network, r := range map[string]probe.Result{"udp": judgeTruncated(udp, tcp), "tcp": tcp} {
			if t.Name == probe.RoleGiven {
				r = r.With(dnsfacts.FactGiven, k.ClusterDNS)
			}
			if t.Node != "" {
				r = r.With(probe.FactNode, t.Node)
			}
			p.Report(withEndpoints(node.About(r, t), t).On(fmt.Sprintf("%s %s %s", t.Name, addrOf(t), network)).
				With(dnsfacts.FactQuestion, name).With(probe.FactTransport, network).With(probe.FactFamily, node.Family(t.Addr)).
				With(probe.FactRole, t.Name))
		}
	})
}

// reportUpstream reports a loopback address in the file from which the kubelet copies name servers into pods with
// dnsPolicy Default, as CoreDNS has. Inside such a pod, that address is the pod itself. The file alone is no fault,
// because a Corefile may name other servers.
func reportUpstream(p *probe.Pass, file string) {
	text, err := p.Host.ReadFile(file)
	if err != nil || p.From != "" {
		return
	}
	servers, _ := reach.ResolvConf(text)
	for _, a := range servers {
		if a.IsLoopback() {
			p.Report(probe.Found(probe.Info,
				"the kubelet copies name server %s from %s into pods such as CoreDNS, where it is the pod itself",
				a, probe.OneLine(file)).On(dnsfacts.TargetUpstream).
				With(dnsfacts.FactLoopback, a.String()).With(probe.FactFile, file))
			return
		}
	}
}

// If an answer contains no address, withOtherZone adds that the same server resolves names in another namespace. In
// that case, the server's configuration has a separate zone for this namespace. withOtherZone repeats the first query
// afterwards, because a server that briefly lost the API may now answer it.
func withOtherZone(ctx context.Context, r probe.Result, network, addr, name, domain string) probe.Result {
	if r.Status != probe.Fail || r.Facts.Str(probe.FactRcode) == "" {
		return r
	}
	other := "kube-dns.kube-system.svc." + domain + "."
	if reach.QueryAddress(ctx, network, addr, other).Status != probe.OK {
		return r
	}
	again := reach.QueryAddress(ctx, network, addr, name)
	if again.Status != probe.Fail || again.Facts.Str(probe.FactRcode) == "" {
		return r
	}
	r.Saw = fmt.Sprintf("it answers %s for this name in namespace default, but resolves %s", r.Facts.Str(probe.FactRcode), other)
	return r.With(dnsfacts.FactOtherZone, other)
}

// withEndpoints adds the reason that the API gives to a bad answer from a Service without endpoints.
func withEndpoints(r probe.Result, t probe.Target) probe.Result {
	why := t.Attrs[probe.AttrEmpty]
	if why == "" || r.Status != probe.Fail {
		return r
	}
	r.Saw += "; " + why
	if on := t.Attrs[probe.AttrServersOn]; on != "" {
		r = r.With(probe.FactServersOn, on)
	}
	return r.With(dnsfacts.FactUnserved, why)
}

// judgeTruncated evaluates a truncated UDP answer. Like clients, it repeats the query over TCP.
func judgeTruncated(udp, tcp probe.Result) probe.Result {
	if udp.Facts[node.FactTruncated] != true {
		return udp
	}
	udp.Status = tcp.Status
	udp.Saw = "the UDP answer is truncated; over TCP: " + tcp.Saw
	if reason := tcp.Facts.Str(probe.FactReason); reason != "" {
		udp = udp.With(probe.FactReason, reason)
	}
	return udp
}
