package checks

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// RouteBlocks compares what Calico's IPAM says with what the kernel does: every
// block of pod addresses belongs to a node, and the kernel must send there.
var RouteBlocks = &probe.Check{
	ID: "route-blocks", Asks: "does the kernel have a route to every other node's pods, and to the right node?", From: probe.FromNode,
	Tags: []string{tagNetwork, tagBGP}, Access: []string{"host network", "netlink"}, Needs: []*probe.Check{NodeUplink}, Run: routeBlocks,
	Doc: `Every confirmed block affinity of another node needs a route here: by BIRD, or by Felix for VXLAN (and IPIP in new versions). The route is judged by where it leads, not by who made it.
ok: all there. fail: some are missing, so pods there cannot be reached from this node: BIRD has no session with that node, or holds routes back in a graceful restart; or some lead to another machine than the one the block belongs to, as with an affinity that is left over.
info: some are reached through a router that is no node of the cluster. info, of this node's own blocks: one has no blackhole route, so packets to pods that are gone leave the node.
skip: Calico's IPAM has no blocks (another IPAM is used). unknown: they could not be read.`,
}

// Facts of route-blocks.
const (
	FactBlocks  probe.Fact = "blocks"  // count
	FactWrong   probe.Fact = "wrong"   // list of block, node and where the route leads
	FactNoRoute probe.Fact = "noroute" // list of block and node
)

func routeBlocks(_ context.Context, p *probe.Pass) {
	blocks := p.Of(probe.KindBlock)
	if len(blocks) == 0 {
		p.Report(gap(p, probe.KindBlock, "Calico's IPAM has no blocks"))
		return
	}
	nodes := map[netip.Addr]bool{}
	for _, t := range blocks {
		nodes[t.Addr] = true
	}
	for _, f := range []int{4, 6} {
		var others, own []netip.Prefix
		var missing, wrong, routed []string
		var asking error
		for _, t := range blocks {
			block, err := netip.ParsePrefix(t.Name)
			switch {
			case err != nil || family(block.Addr()) != f:
				continue
			case t.Attrs[probe.AttrOwn] != "":
				own = append(own, block)
				continue
			}
			others = append(others, block)
			saw, err := leads(block, t.Addr, nodes)
			switch {
			case err != nil:
				asking = err
			case saw == "":
			case saw == byRouter:
				routed = append(routed, fmt.Sprintf("%s of %s", block, t.Node))
			case saw == noRoute:
				missing = append(missing, fmt.Sprintf("%s of %s", block, t.Node))
			default:
				wrong = append(wrong, fmt.Sprintf("%s of %s leads %s", block, t.Node, saw))
			}
		}
		if len(others) > 0 {
			p.Report(blocksRouted(len(others), missing, wrong, routed, asking).On(fmt.Sprintf("IPv%d", f)).With(FactFamily, f))
		}
		if len(own) > 0 {
			p.Report(ownBlocks(own).On(fmt.Sprintf("own IPv%d", f)).With(FactFamily, f))
		}
	}
}

func blocksRouted(total int, missing, wrong, routed []string, asking error) probe.Result {
	r := probe.Found(probe.OK, "all %d blocks of other nodes have a route that leads to their node", total)
	var bad []string
	if len(missing) > 0 {
		bad = append(bad, fmt.Sprintf("%d of %d blocks of other nodes have no route: %s", len(missing), total, some(missing)))
	}
	if len(wrong) > 0 {
		bad = append(bad, fmt.Sprintf("%d of %d lead to another machine: %s", len(wrong), total, some(wrong)))
	}
	switch {
	case len(bad) > 0:
		r = probe.Found(probe.Fail, "%s", strings.Join(bad, "; "))
	case asking != nil:
		r = unseen(asking)
	case len(routed) > 0:
		r = probe.Found(probe.Info, "%d of %d blocks of other nodes are reached through a router, which has to know them: %s", len(routed), total, some(routed))
	}
	return r.With(FactBlocks, total).With(FactNoRoute, first(missing)).With(FactWrong, first(wrong))
}

// listed bounds lists in one result: a cluster may have thousands of blocks.
const listed = 10

func first(all []string) []string { return append([]string{}, all[:min(len(all), listed)]...) }

// some names the first few.
func some(all []string) string {
	const few = 3
	if len(all) <= few {
		return strings.Join(all, ", ")
	}
	return strings.Join(all[:few], ", ") + fmt.Sprintf(" and %d more", len(all)-few)
}

// noRoute is what leads says of a block that only the default route covers, or
// none.
const noRoute = "nowhere"

// byRouter is what leads says of a block whose gateway is no node of the cluster:
// between networks without encapsulation that is how it should be.
const byRouter = "by a router"

// leads says where packets to a block go when that is not its node: "" when it
// is. Tunnels that Felix fills have gateways of their own, and it is the device
// that tells.
func leads(block netip.Prefix, node netip.Addr, nodes map[netip.Addr]bool) (string, error) {
	to := block.Addr()
	if !block.IsSingleIP() {
		to = to.Next()
	}
	way, err := lookup(to)
	switch {
	case err != nil && unroutable(err).Status == probe.Fail:
		return noRoute, nil
	case err != nil:
		return "", err
	}
	switch {
	case !way.match.IsValid():
		return "", errors.New("this kernel does not tell which route matches")
	case way.match.Bits() < block.Bits() && !tunnel(way.device):
		// A wider route, such as the default one, is not the block's; but where it also
		// leads to the node, a router may know the block.
		if to, err := lookup(node); err == nil && to.gateway.IsValid() && to.gateway == way.gateway {
			return byRouter, nil
		}
		return noRoute, nil
	case way.match.Bits() > block.Bits(): // one address, borrowed by a pod elsewhere
		return "", nil
	case way.gateway == node, tunnel(way.device):
		return "", nil
	case !way.gateway.IsValid():
		return "to " + way.device + " without a gateway", nil
	}
	if !nodes[way.gateway] {
		return byRouter, nil
	}
	return "to " + way.gateway.String() + " by " + way.device, nil
}

func tunnel(device string) bool {
	return strings.HasPrefix(device, "vxlan") || strings.HasPrefix(device, "wireguard") || strings.HasPrefix(device, "wg-v6")
}

// ownBlocks looks for the routes that keep packets to pods that are gone on this
// node.
func ownBlocks(own []netip.Prefix) probe.Result {
	holes, err := blackholes()
	if err != nil {
		return unseen(err)
	}
	var open []string
	for _, b := range own {
		if !holes[b] && !b.IsSingleIP() {
			open = append(open, b.String())
		}
	}
	if len(open) > 0 {
		return probe.Found(probe.Info, "%d of %d own blocks have no blackhole route: %s", len(open), len(own), some(open)).With(FactBlocks, len(own))
	}
	return probe.Found(probe.OK, "all %d own blocks have their blackhole route", len(own)).With(FactBlocks, len(own))
}
