package ask

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"

	"github.com/calico-probe/calico-probe/internal/subject/overlay"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
	"github.com/calico-probe/calico-probe/probe/span"
)

// ipSetHostsCheck binds overlay.IPSetHosts to the function that runs it.
var ipSetHostsCheck = answers.To(overlay.IPSetHosts, ipsetHosts)

// hostSets lists the sets of peers, and the tunnel for which Felix uses each set.
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
		e := node.Encapsulations[slices.IndexFunc(node.Encapsulations,
			func(e node.Encapsulation) bool { return e.Device == set.device })]
		if mode, err := e.Use(p); mode == "" && err == nil {
			continue // a set from an earlier configuration that Felix no longer maintains
		}
		_, others := e.Ends(p)
		members, err := hostSet(set.family, set.name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			p.Report(node.Unseen(err).On(set.name))
		case len(others) == 0:
			p.Report(node.Gap(p, probe.KindTunnel, "no other node is registered for this tunnel").On(set.name))
		default:
			p.Report(judgeMembers(set.name, others, members).On(set.name))
		}
		silent = false
	}
	if silent {
		p.Report(node.Gap(p, probe.KindPool, "no pool uses a tunnel, or Felix maintains no host set here"))
	}
}

// hostSet reads a set from the places where Felix stores it. After a mode change, a stale copy may remain in the
// other place, and the two copies look the same. A peer therefore counts as absent only if neither copy contains it.
func hostSet(family int, name string) ([]span.Span, error) {
	inNFT, err := kernel.NFTSet(map[int]string{4: "ip", 6: "ip6"}[family], "calico", name, netip.Addr.IsValid)
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

func judgeMembers(set string, others []probe.Target, members []span.Span) probe.Result {
	total := 0
	var absent []string
	for _, t := range others {
		outer, err := netip.ParseAddr(t.Attrs[probe.AttrOuter])
		if err != nil {
			continue
		}
		total++
		if !slices.ContainsFunc(members,
			func(s span.Span) bool { return s.First.Compare(outer) <= 0 && outer.Compare(s.Last) <= 0 }) {
			absent = append(absent, fmt.Sprintf("%s %s", cmp.Or(t.Node, t.Name), outer))
		}
	}
	r := probe.Found(probe.OK, "all %d other nodes are in %s", total, set)
	switch {
	case total == 0:
		r = probe.Found(probe.Skip, "no other node has a registered address")
	case len(absent) > 0:
		r = probe.Found(probe.Fail, "this node drops tunnelled packets from %s: not in %s", node.Some(absent), set)
	}
	return r.With(overlay.FactSet, set).With(factVTEPs, total).With(overlay.FactAbsent, node.First(absent))
}
