package checks

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
)

// NodeUplink asks whether packets can leave the node at all. What goes over the
// network needs it: a cable that is out is one failure and not forty.
var NodeUplink = &probe.Check{
	ID: probe.CheckNodeUplink, Asks: "is the interface with the node's address up?", From: probe.FromNode,
	Tags: []string{tagNetwork, tagHost}, Access: []string{"host network", "netlink"}, Run: nodeUplink,
	Doc: `The interface that has the address Calico registered for the node, or else its InternalIP (without the API: the kubelet's --node-ip), in each family.
ok: up, with a carrier. fail: switched off, or without a carrier (a cable, a switch port, a bond without a working member): then nothing else is asked over the network, because all of it would fail for this one reason.
warn: the same of an interface with the registered address while another one, with an InternalIP, is up: a NIC or a bridge that Calico should not have picked.
info: no interface here has such an address (the ip checks say more), or none is known.`,
}

// Facts of node-uplink.
const (
	FactLinkState probe.Fact = "link_state" // up, down, lower-layer-down, unknown, ... (RFC 2863), or off
	FactLinkMTU   probe.Fact = "link_mtu"   // bytes
)

func nodeUplink(_ context.Context, p *probe.Pass) {
	all, err := kernel.Links()
	if err != nil {
		p.Report(unseen(err))
		return
	}
	found := false
	for _, f := range []int{4, 6} {
		if out, at := uplink(p, all, f); out != nil {
			found = true
			p.Report(besideInternal(p, all, f, out, carries(out, at)).On(fmt.Sprintf("%s IPv%d", out.Name, f)).
				With(FactFamily, f))
		}
	}
	if !found {
		p.Report(probe.Found(probe.Info, "no interface here has an address that is known to be the node's"))
	}
}

// besideInternal takes a dead interface back to a warning where another one has the
// node's InternalIP: what Calico registered is then most likely the wrong one, such as
// a bridge that nothing hangs on, and packets do leave the node.
func besideInternal(p *probe.Pass, all []kernel.Link, f int, out *kernel.Link, r probe.Result) probe.Result {
	if r.Status != probe.Fail {
		return r
	}
	for _, own := range ownAddresses(p, f) {
		for i, d := range all {
			if &all[i] != out && carries(&d, netip.Prefix{}).Status == probe.OK &&
				slices.ContainsFunc(d.Addrs, func(a netip.Prefix) bool { return a.Addr() == own }) {
				r.Status = probe.Warn
				r.Saw += fmt.Sprintf("; %s, with %s, is up", d.Name, own)
				return r
			}
		}
	}
	return r
}

// ownAddresses are the node's addresses of a family: the one Calico registered
// first, then its InternalIPs; without the API, what the kubelet was told.
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
	if len(p.Targets) == 0 {
		_, args, _ := nodesDaemon(p.Host, "kubelet") // that it is not known which is for its checks to say
		for text := range strings.SplitSeq(flagOf(args, "--node-ip"), ",") {
			if a, err := netip.ParseAddr(text); err == nil {
				add(a)
			}
		}
	}
	return out
}

// uplink is the interface with the node's own address. Where that is on a loopback,
// as with routing on the node, it is the one towards another node.
func uplink(p *probe.Pass, all []kernel.Link, f int) (*kernel.Link, netip.Prefix) {
	for _, own := range ownAddresses(p, f) {
		for i, d := range all {
			for _, a := range d.Addrs {
				if a.Addr() != own {
					continue
				}
				if !d.Loopback && d.Kind != "dummy" {
					return &all[i], a
				}
				for _, t := range splitByFamily(p.Of(probe.KindNode, probe.KindPeer))[f] {
					if way, err := lookup(t.Addr); err == nil {
						if j := slices.IndexFunc(all, func(d kernel.Link) bool { return d.Name == way.device }); j >= 0 {
							return &all[j], a
						}
					}
				}
			}
		}
	}
	return nil, netip.Prefix{}
}

// dead are the states of an interface that carries nothing (RFC 2863). Some drivers
// never say more than "unknown".
var dead = []string{"down", "lower-layer-down", "not-present", "dormant"}

func carries(d *kernel.Link, at netip.Prefix) probe.Result {
	r := probe.Found(probe.OK, "%s with %s is %s, MTU %d", d.Name, at.Addr(), d.State, d.MTU)
	switch {
	case !d.Up:
		r = probe.Found(probe.Fail, "%s, which has the node's address %s, is switched off", d.Name, at.Addr())
	case slices.Contains(dead, d.State):
		r = probe.Found(probe.Fail, "%s, which has the node's address %s, has no carrier (%s)", d.Name, at.Addr(),
			d.State)
	}
	return r.With(FactInterface, d.Name).With(FactLinkState, d.State).With(FactLinkMTU, d.MTU)
}
