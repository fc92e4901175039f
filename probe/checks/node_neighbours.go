package checks

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/calico-probe/calico-probe/probe"
)

// NodeNeighbours asks for the kernel's table of who is on the link: when it
// overflows, a large flat network loses packets at random.
var NodeNeighbours = &probe.Check{
	ID: "node-neighbours", Asks: "does the node know its neighbours on the link?", From: probe.FromNode,
	Tags: []string{tagNetwork}, Access: []string{"host network", "netlink", "proc"}, Run: nodeNeighbours,
	Doc: `The ARP table and its counterpart for IPv6: how full it is, and whether another node that is on the same link did not answer.
ok: room enough. warn: 80 % of gc_thresh3. fail: full ("neighbour table overflow"); or another node on the link does not answer for its address: it is down, or the link between is.
info: the kernel does not say how many entries there may be.`,
}

// FactNeighbour is a neighbour's state: reachable, stale, failed, ...
const FactNeighbour probe.Fact = "neighbour"

// neighbour is one entry of the kernel's table.
type neighbour struct {
	addr  netip.Addr
	state string
}

func nodeNeighbours(_ context.Context, p *probe.Pass) {
	for _, f := range []int{4, 6} {
		table, err := neighbours(f)
		target := fmt.Sprintf("IPv%d table", f)
		if err != nil {
			p.Report(unseen(err).On(target))
			continue
		}
		// Permanent entries, such as Felix writes for tunnels, do not count.
		counted := slices.DeleteFunc(slices.Clone(table), func(n neighbour) bool { return n.state == "permanent" })
		p.Report(full(p.Host, f, len(counted)).On(target).With(FactFamily, f))
		for _, t := range p.Of(probe.KindNode, probe.KindPeer) {
			for _, n := range table {
				if n.addr == t.Addr && n.state == "failed" {
					r := probe.Found(probe.Fail, "nobody on the link answers for it").With(FactNeighbour, n.state)
					p.Report(about(r, t).On(t.String()).With(FactFamily, f).With(FactNode, t.Node))
				}
			}
		}
	}
}

func full(h *probe.Host, family, entries int) probe.Result {
	most, err := sysctl(h, fmt.Sprintf("net/ipv%d/neigh/default/gc_thresh3", family))
	if err != nil {
		return probe.Found(probe.Info, "%d entries; the kernel does not say how many there may be", entries).With(FactEntries, entries)
	}
	r := probe.Found(probe.OK, "%d of %d entries", entries, most)
	switch {
	case entries >= most:
		r.Status = probe.Fail
		r.Saw += ": neighbour table overflow"
	case entries*100 >= most*80:
		r.Status = probe.Warn
	}
	return r.With(FactEntries, entries).With(FactMax, most)
}
