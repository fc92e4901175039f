package checks

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/autodetect"
)

// NodeUplink asks whether packets can leave the node at all. What goes over the
// network needs it: a cable that is out is one failure and not forty.
var NodeUplink = &probe.Check{
	ID: "node-uplink", Asks: "is the interface with the node's address up?", From: probe.FromNode,
	Tags: []string{tagNetwork, tagHost}, Access: []string{"host network", "netlink"}, Run: nodeUplink,
	Doc: `The interface that has the address Calico registered for the node, or else its InternalIP, in each family.
ok: up, with a carrier. fail: switched off, or without a carrier (a cable, a switch port, a bond without a working member): then nothing else is asked over the network, because all of it would fail for this one reason.
skip: no interface here has such an address (the ip checks say more), or none is known.`,
}

// Facts of node-uplink.
const (
	FactLinkState probe.Fact = "link_state" // up, down, lowerlayerdown, unknown, ... (RFC 2863), or off
	FactLinkMTU   probe.Fact = "link_mtu"   // bytes
)

// link is the state of one interface.
type link struct {
	state string
	mtu   int
}

func nodeUplink(_ context.Context, p *probe.Pass) {
	all, err := interfaces()
	if err != nil {
		p.Report(unseen(err))
		return
	}
	found := false
	for _, f := range []int{4, 6} {
		addr, name := carrier(all, ownAddresses(p, f))
		if name == "" {
			continue
		}
		found = true
		l, err := linkOf(name)
		if err != nil {
			p.Report(unseen(err).On(name))
			continue
		}
		p.Report(uplink(l, name, addr).On(name).With(FactFamily, f))
	}
	if !found {
		p.Report(probe.Found(probe.Skip, "no interface here has an address that is known to be the node's"))
	}
}

// ownAddresses are the node's addresses of a family: the one Calico registered
// first, then its InternalIPs.
func ownAddresses(p *probe.Pass, f int) []netip.Addr {
	var out []netip.Addr
	add := func(a netip.Addr) {
		if a.IsValid() && family(a) == f {
			out = append(out, a)
		}
	}
	for _, t := range p.Of(probe.KindSelf) {
		add(t.Addr)
	}
	for _, t := range p.Of(probe.KindCalico) {
		for text := range strings.SplitSeq(t.Attrs[probe.AttrInternal], ",") {
			if a, err := netip.ParseAddr(text); err == nil {
				add(a)
			}
		}
	}
	return out
}

// carrier finds the first of the addresses that is on an interface, and that
// interface's name; "" when none is.
func carrier(all []autodetect.Interface, addrs []netip.Addr) (netip.Addr, string) {
	for _, a := range addrs {
		for _, i := range all {
			if slices.ContainsFunc(i.Addrs, func(p netip.Prefix) bool { return p.Addr() == a }) {
				return a, i.Name
			}
		}
	}
	return netip.Addr{}, ""
}

func uplink(l link, name string, addr netip.Addr) probe.Result {
	r := probe.Found(probe.OK, "%s with %s is %s, MTU %d", name, addr, l.state, l.mtu)
	switch l.state {
	case "off":
		r = probe.Found(probe.Fail, "%s, which has the node's address %s, is switched off", name, addr)
	case "down", "lower-layer-down", "not-present", "dormant":
		r = probe.Found(probe.Fail, "%s, which has the node's address %s, has no carrier (%s)", name, addr, l.state)
	}
	return r.With(FactInterface, name).With(FactLinkState, l.state).With(FactLinkMTU, l.mtu)
}
