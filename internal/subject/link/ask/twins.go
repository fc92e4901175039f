package ask

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/arp"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
)

// maxTwins is the maximum number of addresses to request, because each request is a broadcast.
const maxTwins = 16

// twinsWait is the maximum time that the check waits for answers. Machines on a link answer within milliseconds.
const twinsWait = 600 * time.Millisecond

// twins sends ARP requests for the node's own IPv4 address, and for those of other nodes on the link. It reports
// each address for which several machines answer. The kernel keeps only the first answer to its own requests.
func twins(ctx context.Context, p *probe.Pass) {
	links, err := kernel.Links()
	if err != nil {
		return // node-uplink reports it
	}
	var macs []string
	for _, l := range links {
		macs = append(macs, l.MAC)
	}
	ctx, cancel := context.WithTimeout(ctx, twinsWait)
	defer cancel()
	own := node.SplitByFamily(p.Of(probe.KindSelf))[4]
	for _, self := range own[:min(len(own), 1)] {
		i := slices.IndexFunc(links, func(l kernel.Link) bool { return l.MAC != "" && l.Up && l.Has(self.Addr) })
		if i < 0 {
			continue
		}
		others := beside(links[i], self.Addr, node.SplitByFamily(node.Unique(p.Of(probe.KindNode, probe.KindPeer)))[4])
		var addrs []netip.Addr
		for _, t := range others {
			addrs = append(addrs, t.Addr)
		}
		link, err := net.InterfaceByIndex(links[i].Index)
		if err != nil {
			continue // the interface is gone in the meantime
		}
		heard, err := arp.Who(ctx, link, self.Addr, addrs)
		if err != nil {
			p.Report(probe.Found(probe.Info, "cannot send ARP requests on the link: %v", err).On("answers on " + link.Name))
			continue
		}
		for _, r := range judgeTwins(heard, self, others, macs) {
			p.Report(r.With(probe.FactFamily, 4).With(probe.FactInterface, link.Name))
		}
	}
}

// beside returns the other nodes whose addresses are in the prefix of this node's address.
func beside(l kernel.Link, own netip.Addr, nodes []probe.Target) []probe.Target {
	var out []probe.Target
	for _, t := range nodes {
		near := slices.ContainsFunc(l.Addrs, func(a netip.Prefix) bool { return a.Contains(own) && a.Contains(t.Addr) })
		if near && t.Addr != own && len(out) < maxTwins {
			out = append(out, t)
		}
	}
	return out
}

// withoutProxies removes MACs that answer for more than one address. They belong to a router with proxy ARP, or to
// a cloud's virtual switch, which answers for all machines. A machine with a duplicate address answers only for
// that address.
func withoutProxies(heard map[netip.Addr][]string) map[netip.Addr][]string {
	answers := map[string]int{}
	for _, macs := range heard {
		for _, m := range macs {
			answers[m]++
		}
	}
	out := map[netip.Addr][]string{}
	for a, macs := range heard {
		out[a] = slices.DeleteFunc(slices.Clone(macs), func(m string) bool { return answers[m] > 1 })
	}
	return out
}

// judgeTwins reports the addresses for which too many machines answer. A machine that has two NICs
// on one link may answer with both.
func judgeTwins(heard map[netip.Addr][]string, own probe.Target, others []probe.Target, macs []string) []probe.Result {
	var out []probe.Result
	heard = withoutProxies(heard)
	strange := slices.DeleteFunc(slices.Clone(heard[own.Addr]), func(m string) bool { return slices.Contains(macs, m) })
	if len(strange) > 0 {
		out = append(out, probe.Found(probe.Fail, "another machine answers ARP for the node's own address %v: MAC %s",
			own.Addr, strings.Join(strange, ", ")).With(link.FactTwins, strange).On(fmt.Sprintf("own %v", own.Addr)))
	}
	for _, t := range others {
		if all := heard[t.Addr]; len(all) > 1 {
			slices.Sort(all)
			r := probe.Found(probe.Info, "%d MACs answer ARP for this address: %s", len(all), strings.Join(all, ", "))
			out = append(out, node.About(r, t).With(link.FactTwins, all).With(probe.FactNode, t.Node).On(t.String()+" answers"))
		}
	}
	return out
}
