package checks

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"github.com/calico-probe/calico-probe/probe"
)

// NodeSysctl asks for the kernel settings without which a node routes nothing for
// its pods; a tool that "hardens" a node turns them off, at the next boot too.
var NodeSysctl = &probe.Check{
	ID: "node-sysctl", Asks: "does the kernel forward packets?", From: probe.FromNode,
	Tags: []string{tagHost, tagNetwork}, Access: []string{"proc", "host network"}, Run: nodeSysctl,
	Doc: `Pods' packets pass a node only when it forwards. Felix turns forwarding on when it starts; something else can turn it off again.
ok: on. fail: off: no pod on this node reaches anything beyond it. skip: the kernel has no such setting, or Calico has no address of that family here.`,
}

func nodeSysctl(_ context.Context, p *probe.Pass) {
	own := p.Of(probe.KindSelf)
	has := func(f int) bool {
		return slices.ContainsFunc(own, func(t probe.Target) bool { return family(t.Addr) == f })
	}
	want := map[string]bool{"net/ipv4/ip_forward": has(4) || len(own) == 0, "net/ipv6/conf/all/forwarding": has(6)}
	for name, needed := range want {
		value, err := sysctl(p.Host, name)
		r := probe.Found(probe.OK, "%d", value)
		switch {
		case !needed:
			r = probe.Found(probe.Skip, "Calico has registered no address of that family for this node")
		case errors.Is(err, fs.ErrNotExist):
			r = probe.Found(probe.Skip, "this kernel has no such setting")
		case err != nil:
			r = probe.Failed(err)
		case value == 0:
			r = probe.Found(probe.Fail, "0: this node does not forward packets, so its pods reach nothing beyond it")
		}
		p.Report(r.On(name))
	}
}
