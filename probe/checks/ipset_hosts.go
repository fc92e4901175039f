package checks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
)

// IPSetHosts looks into the sets by which Felix decides whose tunnelled packets it
// takes: what comes from an address that is not in them is dropped without a word.
var IPSetHosts = &probe.Check{
	ID: "ipset-hosts", Asks: "does this node's firewall take tunnelled packets from every other node?",
	From: probe.FromNode, In: probe.Standard,
	Tags: []string{tagNetwork, tagOverlay, tagFelix}, Access: []string{"host network", "NET_ADMIN"}, Run: ipsetHosts,
	Doc: `Felix lets IPIP and VXLAN packets in from the other nodes' registered addresses only. It keeps those in the sets cali40all-hosts-net (IPIP), cali40all-vxlan-net and cali60all-vxlan-net (VXLAN): as ipsets, or in nftables' table "calico" where Felix works with nftables.
ok: every other node's address is in the set. fail: some are not: what these nodes send through the tunnel is dropped here, while ping between the nodes works. Felix has not heard of the node, or of its new address (it hangs, or has lost its Typha), or cannot write its sets.
skip: no such set here, as without a tunnel and with the eBPF data plane; or Calico keeps what belongs there in its own etcd; or the capability NET_ADMIN is missing. unknown: which addresses belong there could not be learned.`,
}

// Facts of ipset-hosts.
const (
	FactSet    probe.Fact = "set"    // name
	FactAbsent probe.Fact = "absent" // list of node and address
)

// hostSets are the sets of peers, and the tunnel whose packets they are for.
var hostSets = []struct {
	name   string
	family int
	device string
}{
	{"cali40all-hosts-net", 4, "tunl0"},
	{"cali40all-vxlan-net", 4, "vxlan.calico"},
	{"cali60all-vxlan-net", 6, "vxlan-v6.calico"},
}

func ipsetHosts(_ context.Context, p *probe.Pass) {
	silent := true
	for _, set := range hostSets {
		e := encapsulations[slices.IndexFunc(encapsulations,
			func(e encapsulation) bool { return e.device == set.device })]
		if mode, err := e.use(p); mode == "" && err == nil {
			continue // a set from other days may be left, and nobody keeps it
		}
		_, others := e.ends(p)
		members, err := hostSet(set.family, set.name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			p.Report(unseen(err).On(set.name))
		case len(others) == 0:
			p.Report(gap(p, probe.KindTunnel, "no other node has an end of this tunnel").On(set.name))
		default:
			p.Report(judgeMembers(set.name, others, members).On(set.name))
		}
		silent = false
	}
	if silent {
		p.Report(gap(p, probe.KindPool, "no pool uses a tunnel, or Felix keeps no set of peers here"))
	}
}

// hostSet reads a set where Felix keeps it. After a change of mode a dead copy may
// be left in the other place, and which is which does not show: a peer must be
// in neither to be called absent.
func hostSet(family int, name string) ([]kernel.Span, error) {
	inNFT, err := kernel.NFTSet(family, "calico", name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	inSet, err2 := kernel.IPSet(name)
	if err2 != nil && !errors.Is(err2, fs.ErrNotExist) {
		return nil, err2
	}
	if err != nil && err2 != nil {
		return nil, err
	}
	return append(inNFT, inSet...), nil
}

func judgeMembers(set string, others []probe.Target, members []kernel.Span) probe.Result {
	total := 0
	var absent []string
	for _, t := range others {
		outer, err := netip.ParseAddr(t.Attrs[probe.AttrOuter])
		if err != nil {
			continue
		}
		total++
		if !slices.ContainsFunc(members,
			func(s kernel.Span) bool { return s.First.Compare(outer) <= 0 && outer.Compare(s.Last) <= 0 }) {
			absent = append(absent, fmt.Sprintf("%s %s", cmp.Or(t.Node, t.Name), outer))
		}
	}
	r := probe.Found(probe.OK, "all %d other nodes are in %s", total, set)
	switch {
	case total == 0:
		r = probe.Found(probe.Skip, "no other node has a registered address")
	case len(absent) > 0:
		r = probe.Found(probe.Fail, "tunnelled packets from %s are dropped here: not in %s", some(absent), set)
	}
	return r.With(FactSet, set).With(FactVTEPs, total).With(FactAbsent, first(absent))
}
