package reach

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/node"
)

// DialBGP connects to a peer's BGP port and closes the connection. It never connects if there is already a session,
// because BIRD treats a second connection as a restart of its peer and drops the first one. up lists the peers that
// have a session.
func DialBGP(ctx context.Context, up map[netip.Addr]bool, from netip.Addr, to netip.AddrPort) probe.Result {
	if up[to.Addr()] {
		return probe.Found(probe.OK, "the BGP session is up").With(probe.FactSessionUp, true)
	}
	one, limit, cancel := node.Part(ctx, 3)
	defer cancel()
	var icmpErrors errorQueue
	defer icmpErrors.close()
	d := net.Dialer{Control: icmpErrors.open}
	source := "this node"
	if from.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
		source = from.String()
	}
	c, err := d.DialContext(one, "tcp", to.String())
	if err == nil {
		c.Close()
		return probe.Found(probe.OK, "connected from %s to port %d", source, to.Port()).With(probe.FactSource, source)
	}
	if r, cut := node.CutShort(ctx, err); cut {
		return r
	}
	refusal := icmpErrors.last()
	reason := Connection{Err: err, ICMP: refusal}.Reason()
	words := map[string]string{
		"refused":          "refused: the host answers, but nothing listens there or a firewall rejects it",
		"timeout":          fmt.Sprintf("got no answer within %v: packets are dropped on the way", limit),
		"reset":            "reset",
		"net-unreachable":  "failed: this node has no route to it",
		"host-unreachable": "failed: no host has that address, or a firewall reports so",
		"no-address":       "failed: that address is on no interface of this node",
		"denied":           "failed: this node's own firewall rejects it",
	}
	if refusal.text != "" { // the sender of the ICMP error explains more than the connection's error
		words[reason] = "failed: " + refusal.text
	}
	if words[reason] == "" {
		return probe.Failed(err)
	}
	return probe.Found(probe.Fail, "connection from %s to port %d %s", source, to.Port(), words[reason]).
		With(probe.FactSource, source).With(probe.FactReason, reason)
}
