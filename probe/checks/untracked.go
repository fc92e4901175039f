package checks

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
)

// Untracked asks for rules by which packets get no connection, and so no address behind a Service
// (kubernetes/kubernetes#98758).
var Untracked = &probe.Check{
	ID: "untracked-rules", Asks: "do firewall rules of others keep packets for Services or pods from being tracked?",
	From: probe.FromNode, In: probe.Standard,
	Tags: []string{tagNetwork}, Access: []string{"host network", "netlink", "NET_ADMIN"}, Run: untracked,
	Doc: `kube-proxy's rules translate a Service's address once for each connection, and Calico's let answers back by the state of the connection. A rule with NOTRACK (iptables' table raw, "notrack" of nftables) keeps packets out of both: what is for the Service's address leaves the node untranslated and is lost, while the pods behind it answer. NodeLocal DNSCache makes such rules for the DNS Service's address, because it listens on that address itself; they stay when it is removed or its interface goes away. Others are made to spare the table of connections.
ok: no rule of others matches. fail: one matches the address and port of a Service, and no interface of the node has that address, or nothing listens there. warn: one matches a pod of the node: what policies let in is not let back out. info: a rule may match, it asks for more than is looked at (an interface, a set, a mark). Calico's own rules (cali-*) are not looked at; neither are the rules of kube-proxy.`,
}

// addressed is where packets go that a rule may match.
type addressed struct {
	text   string
	kind   string
	to     netip.AddrPort
	protos []int
}

func untracked(ctx context.Context, p *probe.Pass) {
	rules, err := kernel.Untracked(p.Host)
	if err != nil {
		p.Report(unseen(err))
		return
	}
	links, err := kernel.Links()
	if err != nil {
		p.Report(unseen(err))
		return
	}
	var local []netip.Addr
	for _, t := range p.Of(probe.KindLocal) {
		local = append(local, t.Addr.Unmap())
	}
	found := untrackedFor(rules, addressedBy(ctx, p, links), local)
	for _, r := range found {
		p.Report(r)
	}
	if len(found) == 0 {
		p.Report(probe.Found(probe.OK, "no rule of others keeps packets for Services or pods from being tracked"))
	}
}

const (
	protoTCP = 6
	protoUDP = 17
)

// addressedBy lists Services and pods, but for addresses that the node has itself and where somebody listens.
func addressedBy(ctx context.Context, p *probe.Pass, links []kernel.Link) []addressed {
	pods := map[netip.Addr]bool{}
	var out []addressed
	add := func(t probe.Target, kind string, protos ...int) {
		if !t.Addr.IsValid() {
			return
		}
		one := addressed{t.String(), kind, netip.AddrPortFrom(t.Addr.Unmap(), uint16(t.Port)), protos}
		if i := slices.IndexFunc(links, func(l kernel.Link) bool { return l.Has(one.to.Addr()) }); i >= 0 {
			if t.Kind != probe.KindDNS || !errors.Is(connect(ctx, one.to).err, syscall.ECONNREFUSED) {
				return
			}
			one.text += fmt.Sprintf(" (which %s of this node has, and where nothing listens)", links[i].Name)
		}
		out = append(out, one)
	}
	for _, t := range p.Of(probe.KindPod, probe.KindLocal) {
		pods[t.Addr] = true
		if t.Kind == probe.KindLocal {
			add(t, "pod", protoTCP)
		}
	}
	for _, t := range p.Of(probe.KindService) {
		add(t, "service", protoTCP)
	}
	for _, t := range p.Of(probe.KindDNS) {
		if t.Name == "service" && !pods[t.Addr] {
			add(t, "service", protoUDP, protoTCP)
		}
	}
	for _, t := range p.Of(probe.KindDatastore) {
		if t.Name == "service" {
			add(t, "service", protoTCP)
		}
	}
	return out
}

// untrackedFor are the rules that match one of these, each once; local are the addresses of pods here.
func untrackedFor(rules []kernel.PacketRule, targets []addressed, local []netip.Addr) []probe.Result {
	var out []probe.Result
	seen := map[string]bool{}
	for _, r := range rules {
		fromPods := !r.From.IsValid() || slices.ContainsFunc(local, r.From.Contains)
		var hits, kinds []string
		for _, t := range targets {
			matches := slices.ContainsFunc(t.protos, func(proto int) bool { return r.Matches(t.to, proto) })
			if matches && fromPods && r.FromPorts == [2]int{} {
				hits = append(hits, t.text)
				if !slices.Contains(kinds, t.kind) {
					kinds = append(kinds, t.kind)
				}
			}
		}
		if len(hits) == 0 || seen[r.String()] {
			continue
		}
		seen[r.String()] = true
		one := probe.Found(probe.Warn, "packets for %s are not tracked: what policies let in is not let back out", some(hits))
		switch {
		case r.Partly:
			one = probe.Found(probe.Info, "packets for %s may be kept from being tracked, under more conditions", some(hits))
		case slices.Contains(kinds, "service"):
			one = probe.Found(probe.Fail, "packets for %s are not tracked, so their address is never translated to a pod's", some(hits))
		}
		out = append(out, one.On(r.String()).With(FactRule, r.String()).With(FactMeant, first(hits)).
			With(FactTowards, kinds).With(FactChain, r.Chain).With(FactRawTable, r.Table))
	}
	return out
}

// Facts of untracked-rules, beside the rule and what it matches.
const (
	FactChain    probe.Fact = "chain"
	FactRawTable probe.Fact = "in_table"
)
