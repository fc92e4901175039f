package ask

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"syscall"

	"github.com/calico-probe/calico-probe/internal/subject/overlay"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/encap"
	"github.com/calico-probe/calico-probe/probe/node"
	"github.com/calico-probe/calico-probe/probe/reach"
)

// encapProofCheck binds overlay.EncapProof to the function that runs it.
var encapProofCheck = answers.To(overlay.EncapProof, encaps)

func encaps(ctx context.Context, p *probe.Pass) {
	targets := p.Of(probe.KindEncap)
	if len(targets) == 0 {
		p.Report(probe.Found(probe.Skip, "needs a second probe on another node, which only the client can start"))
		return
	}
	here := cmp.Or(p.Host.Node, "this node")
	of := func(role string) []probe.Target {
		return slices.DeleteFunc(slices.Clone(targets), func(t probe.Target) bool {
			return t.Attrs[probe.AttrRole] != role || len(node.OwnAddresses(p, node.Family(t.Addr))) == 0
		})
	}
	if listen := of(probe.RoleListen); len(listen) > 0 {
		awaitTokens(ctx, p, here, listen)
	}
	node.Each(of(probe.RoleSend), func(t probe.Target) {
		p.Report(send(ctx, here, node.OwnAddresses(p, node.Family(t.Addr))[0], t).With(probe.FactFamily, node.Family(t.Addr)).
			With(overlay.FactReceiver, cmp.Or(t.Node, t.Addr.String())))
	})
}

// pathName returns the name of one direction of a path.
func pathName(from, to string, t probe.Target) string {
	return fmt.Sprintf("%s to %s %s IPv%d", from, to, t.Name, node.Family(t.Addr))
}

func tokenOf(t probe.Target) (uint32, error) {
	n, err := strconv.ParseUint(t.Attrs[probe.AttrToken], 16, 32)
	if err != nil {
		return 0, fmt.Errorf("the plan's token: %w", err)
	}
	return uint32(n), nil
}

// awaitTokens first reports that it is listening, and later reports the result for each path.
func awaitTokens(ctx context.Context, p *probe.Pass, here string, targets []probe.Target) {
	var paths []encap.Path
	for _, t := range targets {
		paths = append(paths, encap.Path{From: t.Addr, To: node.OwnAddresses(p, node.Family(t.Addr))[0], Port: t.Port})
	}
	token, err := tokenOf(targets[0])
	if err != nil {
		p.Report(probe.Failed(err))
		return
	}
	l, err := encap.Listen(paths, token)
	if err != nil {
		p.Report(node.Unseen(err))
		return
	}
	defer l.Close()
	p.Report(probe.Found(probe.Info, "listening for packets from %s", targets[0].Node).With(overlay.FactReady, true))
	one, limit, cancel := node.Part(ctx, 4)
	defer cancel()
	got, err := l.Wait(one, len(paths))
	for i, t := range targets {
		r := judgeArrival(got[i], t, limit.String())
		switch {
		case err != nil && !got[i].Passed:
			r = probe.Failed(err)
		case ctx.Err() != nil && !got[i].Passed:
			r, _ = node.CutShort(ctx, ctx.Err())
		}
		p.Report(r.On(pathName(t.Node, here, t)).With(overlay.FactPath, t.Name).With(probe.FactFamily, node.Family(t.Addr)).
			With(overlay.FactReceiver, here))
	}
}

// judgeArrival evaluates what happened to a token on its way to this node.
func judgeArrival(a encap.Arrival, t probe.Target, limit string) probe.Result {
	packets := "UDP packets to port " + strconv.Itoa(t.Port)
	if t.Port == 0 {
		packets = "IPIP packets (protocol 4)"
	}
	var r probe.Result
	switch {
	case a.Passed:
		r = probe.Found(probe.OK, "%s arrive", packets)
	case a.Wire:
		r = probe.Found(probe.Fail, "%s arrive, but the receiving node's own firewall drops them", packets)
	default:
		r = probe.Found(probe.Fail, "%s were sent, but none arrived within %s: they are lost between the nodes",
			packets, limit)
	}
	return downgradeUnused(r, t).With(overlay.FactWire, a.Wire).With(overlay.FactPassed, a.Passed)
}

// downgradeUnused reduces a fault on an unused path to information.
func downgradeUnused(r probe.Result, t probe.Target) probe.Result {
	used := t.Attrs[probe.AttrUsed] == "true"
	if !used && r.Status == probe.Fail {
		r.Status = probe.Info
		if t.Name == "BGP" {
			r.Saw += "; unknown whether these two nodes are BGP peers"
		} else {
			r.Saw += "; this cluster does not use this protocol"
		}
	}
	return r.With(overlay.FactUsed, used)
}

// send sends this node's token. BGP needs no token, because a connection proves both directions.
func send(ctx context.Context, here string, own netip.Addr, t probe.Target) probe.Result {
	to := cmp.Or(t.Node, t.Addr.String())
	if t.Name == "BGP" {
		var r probe.Result
		if up, err := node.Speaking(t.Port, node.BGPDefaultPort); err != nil {
			r = node.Unseen(err)
		} else {
			r = reach.DialBGP(ctx, up, own, netip.AddrPortFrom(t.Addr, uint16(t.Port)))
		}
		return downgradeUnused(r, t).On(pathName(here, to, t)).With(overlay.FactPath, t.Name)
	}
	token, err := tokenOf(t)
	if err == nil {
		err = encap.Send(ctx, encap.Path{From: own, To: t.Addr, Port: t.Port}, token)
	}
	r := probe.Found(probe.OK, "sent")
	switch cut, stopped := node.CutShort(ctx, err); {
	case err == nil:
	case stopped:
		r = cut
	case errors.Is(err, encap.ErrRefused) && errors.Is(err, syscall.EPERM):
		r = downgradeUnused(probe.Found(probe.Fail, "packets cannot leave: this node's own firewall rejects them"), t)
	case errors.Is(err, encap.ErrRefused):
		r = downgradeUnused(probe.Found(probe.Fail, "%v", err), t)
	default:
		r = probe.Failed(err)
	}
	return r.On(pathName(here, to, t)).With(overlay.FactPath, t.Name)
}
