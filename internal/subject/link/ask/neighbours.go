package ask

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/icmp"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
)

// nodeNeighboursCheck binds link.NodeNeighbours to the function that runs it.
var nodeNeighboursCheck = answers.To(link.NodeNeighbours, nodeNeighbours)

func nodeNeighbours(ctx context.Context, p *probe.Pass) {
	for _, f := range []int{4, 6} {
		table, err := neighbours(f)
		target := fmt.Sprintf("IPv%d table", f)
		if err != nil {
			p.Report(node.Unseen(err).On(target))
			continue
		}
		// Permanent entries, such as those that Felix writes for tunnels, do not count.
		counted := slices.DeleteFunc(slices.Clone(table), func(n kernel.Neighbour) bool { return n.State == "permanent" })
		p.Report(judgeTable(p.Host, f, len(counted)).On(target).With(probe.FactFamily, f))
		failed := slices.DeleteFunc(node.Unique(p.Of(probe.KindNode, probe.KindPeer)),
			func(t probe.Target) bool { return stateOf(table, t.Addr) != "failed" })
		for _, r := range append(retryFailed(ctx, failed, f), oddEntries(p, table)...) {
			p.Report(r.With(probe.FactFamily, f))
		}
	}
	twins(ctx, p)
}

// oddEntries returns the entries for other nodes that cannot come from an answer on the link. They are permanent
// entries, and entries with the MAC of one of this node's own interfaces. Calico writes permanent entries for its
// tunnels, but these do not contain the nodes' addresses.
func oddEntries(p *probe.Pass, table []kernel.Neighbour) []probe.Result {
	links, err := kernel.Links()
	if err != nil {
		return nil // node-uplink reports it
	}
	macs := map[string]string{}
	for _, l := range links {
		macs[l.Name] = l.MAC
	}
	var out []probe.Result
	for _, t := range node.Unique(p.Of(probe.KindNode, probe.KindPeer)) {
		i := slices.IndexFunc(table, func(n kernel.Neighbour) bool { return n.Addr == t.Addr && n.MAC != "" })
		if i < 0 {
			continue
		}
		if r, is := judgeEntry(table[i], macs[table[i].Device]); is {
			out = append(out, r.On(t.String()).With(probe.FactNode, t.Node))
		}
	}
	return out
}

// judgeEntry evaluates the entry for another node by the MAC and its interface. If the entry is
// normal, it returns false.
func judgeEntry(n kernel.Neighbour, own string) (probe.Result, bool) {
	r := probe.Found(probe.Info, "a manual permanent entry sends its packets to MAC %s on %s", n.MAC, n.Device)
	switch {
	case n.MAC == own:
		r = probe.Found(probe.Fail, "ARP or NDP resolves it to MAC %s, which belongs to %s on this node", n.MAC, n.Device)
	case n.State != "permanent":
		return probe.Result{}, false
	}
	return r.With(link.FactNeighbour, n.State).With(link.FactMAC, n.MAC).With(probe.FactInterface, n.Device).
		With(link.FactOwnMAC, n.MAC == own), true
}

// neighbours lists the kernel's neighbour table for an address family. It omits the entries for multicast and loopback.
func neighbours(family int) ([]kernel.Neighbour, error) {
	all, err := kernel.Neighbours(family)
	return slices.DeleteFunc(all, func(n kernel.Neighbour) bool { return n.State == "" || n.State == "noarp" }), err
}

// stateOf returns a neighbour's state, or "" if the table has no entry.
func stateOf(table []kernel.Neighbour, addr netip.Addr) string {
	for _, n := range table {
		if n.Addr == addr {
			return n.State
		}
	}
	return ""
}

// retryFailed pings the addresses of failed entries so that the kernel resolves them again. A failed entry may date
// from the last time that the node sent a packet to that address.
func retryFailed(ctx context.Context, failed []probe.Target, f int) []probe.Result {
	addrs := make([]netip.Addr, len(failed))
	for i, t := range failed {
		addrs[i] = t.Addr
	}
	_, pingErr := icmp.Ping(ctx, addrs, icmp.Usual)
	table, err := neighbours(f)
	var out []probe.Result
	for _, t := range failed {
		var r probe.Result
		switch state := stateOf(table, t.Addr); {
		case err != nil:
			r = node.Unseen(err)
		case pingErr != nil:
			r = probe.Found(probe.Info, "no answer to ARP or NDP before; this check could not retry: %v",
				pingErr).With(link.FactNeighbour, state)
		case state == "failed", state == "incomplete":
			r = probe.Found(probe.Fail, "no answer to ARP or NDP on the link").With(link.FactNeighbour, state)
		default:
			r = probe.Found(probe.OK, "answers ARP or NDP now, but did not before").With(link.FactNeighbour, state)
		}
		out = append(out, node.About(r, t).On(t.String()).With(probe.FactNode, t.Node))
	}
	return out
}

func judgeTable(h *probe.Host, family, entries int) probe.Result {
	most, err := kernel.Sysctl(h, fmt.Sprintf("net/ipv%d/neigh/default/gc_thresh3", family))
	if err != nil {
		return probe.Found(probe.Info, "%d entries; the kernel does not report the limit", entries).
			With(probe.FactEntries, entries)
	}
	r := probe.Found(probe.OK, "%d of %d entries", entries, most)
	switch {
	case entries >= most:
		r.Status = probe.Fail
		r.Saw += ": neighbour table overflow"
	case entries*100 >= most*80:
		r.Status = probe.Warn
	}
	return r.With(probe.FactEntries, entries).With(probe.FactMax, most)
}
