package ask

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
)

// nodeUplinkCheck binds link.NodeUplink to the function that runs it.
var nodeUplinkCheck = answers.To(link.NodeUplink, nodeUplink)

func nodeUplink(_ context.Context, p *probe.Pass) {
	all, err := kernel.Links()
	if err != nil {
		p.Report(node.Unseen(err))
		return
	}
	found := false
	for _, f := range []int{4, 6} {
		if out, at := node.Uplink(p, all, f); out != nil {
			found = true
			p.Report(downgradeIfInternal(p, all, f, out, judgeLink(out, at)).On(fmt.Sprintf("%s IPv%d", out.Name, f)).
				With(probe.FactFamily, f))
		}
	}
	if !found {
		p.Report(probe.Found(probe.Info, "no interface has a known address of this node"))
	}
}

// downgradeIfInternal reduces a dead interface to a warning if another interface has the node's InternalIP. In that
// case, the address in Calico is probably wrong. For example, it may belong to an unused bridge. Packets do leave
// the node.
func downgradeIfInternal(p *probe.Pass, all []kernel.Link, f int, out *kernel.Link, r probe.Result) probe.Result {
	if r.Status != probe.Fail {
		return r
	}
	for _, own := range node.OwnAddresses(p, f) {
		for i, d := range all {
			if &all[i] != out && judgeLink(&d, netip.Prefix{}).Status == probe.OK &&
				slices.ContainsFunc(d.Addrs, func(a netip.Prefix) bool { return a.Addr() == own }) {
				r.Status = probe.Warn
				r.Saw += fmt.Sprintf("; %s, with %s, is up", d.Name, own)
				return r
			}
		}
	}
	return r
}

func judgeLink(d *kernel.Link, at netip.Prefix) probe.Result {
	r := probe.Found(probe.OK, "%s with %s is %s, MTU %d", d.Name, at.Addr(), d.State, d.MTU)
	switch {
	case !d.Up:
		r = probe.Found(probe.Fail, "%s, which has the node's address %s, is administratively down", d.Name, at.Addr())
	case slices.Contains(node.Dead, d.State):
		r = probe.Found(probe.Fail, "%s, which has the node's address %s, has no carrier (%s)", d.Name, at.Addr(),
			d.State)
	}
	return r.With(probe.FactInterface, d.Name).With(probe.FactLinkState, d.State).With(probe.FactLinkMTU, d.MTU)
}
