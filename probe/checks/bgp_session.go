package checks

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/bird"
)

// BGPSession asks for every peer what calicoctl node status asks, and what it
// leaves out: the last error, routes, and whether a restart holds routes back.
var BGPSession = &probe.Check{
	ID: "bgp-session", Asks: "is the BGP session with every peer established?", From: probe.FromNode,
	Tags: []string{tagBGP}, Access: []string{"run/calico"}, Needs: []*probe.Check{BirdSocket}, Run: bgpSession,
	Doc: `Each peer is one result, as BIRD has it: state, since when, last error, routes taken and given.
ok: Established. fail: any other state. Passive: this side only waits; the other end dials, so look there. Connect without an error: packets to port 179 are dropped on the way. "Connection refused": the other host lives, its BIRD does not. "Network unreachable": this node has no route to the peer's address, often a wrong one. "Connection closed": the peer accepts and does not know this node's address.
warn: graceful restart: BIRD holds all BGP routes back from the kernel until every peer is up or 240 s have passed. One dead peer costs the whole time. A peer that is not of Calico's making is at most warn.
info: BIRD has no peers at all.`,
}

func bgpSession(ctx context.Context, p *probe.Pass) {
	each(daemons(), func(d daemon) { d.sessions(ctx, p) })
}

func (d daemon) sessions(ctx context.Context, p *probe.Pass) {
	// calico-node's own check waits two seconds.
	one, limit, cancel := part(ctx, 3)
	defer cancel()
	c, name, err := d.talk(one, p.Host)
	if err != nil {
		// bird-socket says what this means; here nothing could be asked.
		r := d.dead(p, limit, err)
		if r.Status != probe.Skip {
			r = probe.Found(probe.Unknown, "peers not asked: %s", r.Saw)
		}
		p.Report(r.On(name).With(FactFamily, d.family))
		return
	}
	defer c.Close()
	status, err := c.Status()
	var protocols []bird.Protocol
	if err == nil {
		protocols, err = c.Protocols()
	}
	if err != nil {
		p.Report(d.dead(p, limit, err).On(name).With(FactFamily, d.family))
		return
	}
	peers, up := 0, 0
	for _, proto := range protocols {
		if proto.Proto != "BGP" {
			continue
		}
		peers++
		if proto.Established() {
			up++
		}
		p.Report(d.session(p, proto, status))
	}
	r := probe.Found(probe.Info, "BIRD %s has no BGP peers", status.Version)
	switch {
	case status.Restarting:
		r = probe.Found(probe.Warn, "graceful restart: no BGP route enters the kernel until %d more protocols are up or %v have passed", status.Waiting, status.WaitLeft)
		r = r.With(FactWaiting, status.Waiting).With(FactWaitLeft, status.WaitLeft.Seconds())
	case peers > 0:
		r = probe.Found(probe.OK, "%d of %d peers established", up, peers)
		if up < peers {
			r.Status = probe.Info // each of the others is a result of its own
		}
	}
	p.Report(r.On(name).With(FactFamily, d.family).With(FactPeerCount, peers).With(FactUpCount, up))
}

// calicoName is how confd names sessions (bird.cfg.template); others were
// configured by hand.
var calicoName = regexp.MustCompile(`^(Global|Node|Mesh|Local_Workload)_`)

func (d daemon) session(p *probe.Pass, proto bird.Protocol, status bird.Status) probe.Result {
	target, peer := proto.Name, probe.Target{}
	if proto.Neighbor.IsValid() {
		target = proto.Neighbor.String()
		for _, t := range p.Of(probe.KindNode, probe.KindPeer) {
			if t.Addr == proto.Neighbor { // a node of this cluster
				target, peer = t.String(), t
			}
		}
	}
	age := "since " + proto.Since
	seconds, known := bird.Age(proto.Since, status.ServerTime)
	if known {
		age = "for " + seconds.Round(time.Second).String()
	}
	var r probe.Result
	switch {
	case proto.Established():
		r = probe.Found(probe.OK, "Established %s, %d routes taken, %d given", age, proto.Imported, proto.Exported)
	default:
		r = probe.Found(probe.Fail, "%s %s %s", proto.State, proto.Info, age)
		if proto.BGP == "Passive" {
			r.Saw += ": this side waits, the other end has to dial"
		}
		if e := proto.LastError; e != "" && !strings.Contains(proto.Info, e) {
			r.Saw += fmt.Sprintf(", last error %q", e)
		}
		if !calicoName.MatchString(proto.Name) {
			r.Status = probe.Warn
			r.Saw += "; not a session of Calico's making"
		}
		r = r.Because(proto.Details...)
	}
	r = about(r, peer).On(target).With(FactProtocol, proto.Name).With(FactState, proto.State).With(FactBGPState, proto.BGP).
		With(FactImported, proto.Imported).With(FactExported, proto.Exported).With(FactASNumber, proto.NeighborAS)
	if proto.Neighbor.IsValid() {
		r = r.With(FactPeer, proto.Neighbor.String()).With(FactFamily, family(proto.Neighbor))
	}
	if proto.Source.IsValid() {
		r = r.With(FactSource, proto.Source.String())
	}
	if known {
		r = r.With(FactSince, int(seconds.Seconds()))
	}
	if proto.LastError != "" {
		r = r.With(FactLastError, proto.LastError)
	}
	return r
}
