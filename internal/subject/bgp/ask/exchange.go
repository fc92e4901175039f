package ask

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/bird"
	"github.com/calico-probe/calico-probe/probe/node"
)

// Facts of bgp-session about a session's routes, in addition to imported and exported.
const (
	factOwnBlocks   probe.Fact = "own_blocks"   // number of this node's blocks that it could export
	factTheirBlocks probe.Fact = "their_blocks" // number of the peer's blocks that this node could import
)

// exchangeTime is the maximum time that an established session may take to exchange its routes.
const exchangeTime = 10 * time.Second

// judgeExchange evaluates the routes of an established session with another node. A session is useless if it
// does not exchange any of the existing blocks. If there is nothing to report, it returns false.
func judgeExchange(d node.Daemon, p *probe.Pass, proto bird.Protocol, peer probe.Target,
	age time.Duration) (probe.Result, bool) {
	if !proto.Established() || len(proto.Details) == 0 || peer.Node == "" || age < exchangeTime || !usesOnlyBGP(d, p) {
		return probe.Result{}, false
	}
	own, theirs := 0, 0
	for _, t := range p.Of(probe.KindBlock) {
		cidr, err := netip.ParsePrefix(t.Name)
		switch {
		case err != nil || node.Family(cidr.Addr()) != d.Family || cidr.IsSingleIP():
		case t.Attrs[probe.AttrOwn] != "":
			own++
		case t.Node == peer.Node:
			theirs++
		}
	}
	var wrong []string
	if own > 0 && proto.Exported == 0 {
		wrong = append(wrong, fmt.Sprintf("this node exports 0 of its %d blocks to the peer", own))
	}
	if theirs > 0 && proto.Imported == 0 {
		how := "the peer sends no routes"
		if proto.Received > 0 {
			how = fmt.Sprintf("a filter on this node drops the %d routes that the peer sent", proto.Received)
		}
		wrong = append(wrong, fmt.Sprintf("this node imports 0 of the peer's %d blocks: %s", theirs, how))
	}
	if len(wrong) == 0 {
		return probe.Result{}, false
	}
	saw, filters := strings.Join(wrong, "; "), peer.Attrs[probe.AttrFilters]
	if filters != "" {
		saw += "; its BGPPeer uses BGPFilter " + filters
	}
	r := probe.Found(probe.Warn, "the session is established, but %s", saw)
	return r.With(probe.FactFamily, d.Family).With(probe.FactNode, peer.Node).With(factOwnBlocks,
		own).With(factTheirBlocks, theirs).
		With(factExported, proto.Exported).With(factImported, proto.Imported).With(bgp.FactUpdates, proto.Received).
		With(bgp.FactFilters, filters), true
}

// usesOnlyBGP reports whether all pools in the address family advertise their blocks only through BGP.
func usesOnlyBGP(d node.Daemon, p *probe.Pass) bool {
	pools := 0
	for _, t := range p.Of(probe.KindPool) {
		cidr, err := netip.ParsePrefix(t.Name)
		if err != nil || node.Family(cidr.Addr()) != d.Family {
			continue
		}
		if t.Attrs[probe.AttrVXLAN] != "Never" || t.Attrs[probe.AttrNoExport] != "" {
			return false
		}
		pools++
	}
	return pools > 0 && p.Gaps[probe.KindPool] == "" && p.Gaps[probe.KindBlock] == ""
}
