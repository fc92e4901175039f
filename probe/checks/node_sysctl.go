package checks

import (
	"context"
	"errors"
	"io/fs"

	"github.com/calico-probe/calico-probe/probe"
)

// NodeSysctl asks for the kernel settings without which a node routes nothing for
// its pods; a tool that "hardens" a node turns them off, at the next boot too.
var NodeSysctl = &probe.Check{
	ID: "node-sysctl", Asks: "does the kernel forward packets?", From: probe.FromNode,
	Tags: []string{tagHost, tagNetwork}, Access: []string{"proc", "host network"}, Run: nodeSysctl,
	Doc: `Pods' packets pass a node only when it forwards. Felix turns forwarding on when it starts; something else can turn it off again.
ok: on. fail: off: no pod on this node reaches anything beyond it. skip: the kernel has no such setting, or Calico has no IPv6 address here.`,
}

func nodeSysctl(_ context.Context, p *probe.Pass) {
	want := map[string]bool{"net/ipv4/ip_forward": true, "net/ipv6/conf/all/forwarding": false}
	for _, own := range p.Of(probe.KindSelf) {
		if family(own.Addr) == 6 {
			want["net/ipv6/conf/all/forwarding"] = true
		}
	}
	for name, needed := range want {
		value, err := sysctl(p.Host, name)
		r := probe.Found(probe.OK, "%d", value)
		switch {
		case !needed:
			r = probe.Found(probe.Skip, "Calico has registered no IPv6 address for this node")
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
