package checks

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/bird"
)

// BGPSession asks for every peer what calicoctl node status asks, and what it
// leaves out: the last error, routes, and whether a restart holds routes back.
var BGPSession = &probe.Check{
	ID: "bgp-session", Asks: "is the BGP session with every peer established?", From: probe.FromNode,
	Tags: []string{tagBGP}, Access: []string{"run/calico", "proc", "host network"},
	Needs: []string{probe.CheckNodeUplink, probe.CheckBirdSocket}, Run: bgpSession,
	Doc: `Each peer is one result, as BIRD has it: state, since when, last error, routes imported and exported.
ok: Established. fail: any other state. Passive: this side only waits for the peer to connect, so look there. Connect without an error: packets to port 179 are dropped on the way. "Connection refused": the peer's host is up, its BIRD is not. "Network unreachable": this node has no route to the peer's address, often a wrong one. "Connection closed": the peer accepts and does not know this node's address.
One more result is about BIRD as a whole, under its socket. warn: graceful restart: after a start BIRD holds all BGP routes back from the kernel until every peer is up or 240 s have passed; the peers it waits for are named. One dead peer costs the whole time. fail: sessions are up and BIRD's kernel protocol is down or not there, so no route gets into the kernel (warn when Calico configured no session). A peer that Calico did not configure is at most warn, and so is a node that the API calls NotReady.
info: BIRD has no peers at all, or some are down.
warn, under "routes": a session with another node is established and hands over none of this node's blocks, or none of the peer's, though Calico's pools are all to go by BGP: a filter drops them, on the side that the line names.
Where a session is down the kernel's counters of TCP MD5 are read, which both ends of a session with a password have. warn: one grows: segments come here unsigned, or signed where this node has no password, or signed with another. info: one is not zero, and did not grow within these seconds.`,
}

// FactHeard is true where the last error is what the peer said, not BIRD here.
const FactHeard probe.Fact = "heard"

func bgpSession(ctx context.Context, p *probe.Pass) {
	before := md5Counts(p.Host)
	var down atomic.Int32
	each(daemons(), func(d daemon) { down.Add(int32(sessionsOf(ctx, d, p))) })
	if down.Load() > 0 && before != nil {
		if r, ok := md5Dropped(ctx, p.Host, before); ok {
			p.Report(r.On(TargetMD5))
		}
	}
}

// sessionsOf reports all peers of one BIRD, and tells how many are down.
func sessionsOf(ctx context.Context, d daemon, p *probe.Pass) int {
	// calico-node's own check waits two seconds.
	one, limit, cancel := part(ctx, 3)
	defer cancel()
	c, name, err := d.talk(one, p.Host)
	if err != nil {
		// bird-socket says what this means; here nothing could be asked.
		r := judgeDead(d, p, limit, err)
		if r.Status != probe.Skip {
			r = probe.Found(probe.Unknown, "peers not asked: %s", r.Saw)
		}
		p.Report(r.On(name).With(FactFamily, d.family))
		return 0
	}
	defer c.Close()
	status, err := c.Status()
	var protocols []bird.Protocol
	if err == nil {
		protocols, err = c.Protocols()
	}
	if err != nil {
		p.Report(judgeDead(d, p, limit, err).On(name).With(FactFamily, d.family))
		return 0
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
		r, peer := judgeSession(d, p, proto, status)
		p.Report(r)
		age, _ := bird.Age(proto.Since, status.ServerTime)
		if of, ok := exchanged(d, p, proto, peer, age); ok && !status.Restarting {
			p.Report(of.On("routes " + r.Target))
		}
	}
	p.Report(asWhole(status, protocols, peers, up).On(name).With(FactFamily, d.family).With(FactPeerCount, peers).
		With(FactUpCount, up))
	return peers - up
}

// asWhole judges what holds for all peers of one BIRD: whether their routes get
// into the kernel.
func asWhole(status bird.Status, protocols []bird.Protocol, peers, up int) probe.Result {
	kernel := kernelState(protocols)
	r := probe.Found(probe.Info, "BIRD %s has no BGP peers", status.Version)
	switch {
	case status.Restarting:
		r = restarting(status, protocols)
	case up > 0 && (kernel == "" || kernel == "down"):
		how := "it has no kernel protocol"
		if kernel != "" {
			how = "its kernel protocol is down"
		}
		r = probe.Found(probe.Fail, "%d of %d peers established, and BIRD writes no routes into the kernel: %s", up,
			peers, how)
		if !slices.ContainsFunc(protocols, func(o bird.Protocol) bool { return calicoName.MatchString(o.Name) }) {
			r.Status = probe.Warn // somebody's own BIRD may be meant to pass routes on and no more
		}
	case peers > 0:
		r = probe.Found(probe.OK, "%d of %d peers established", up, peers)
		if up < peers {
			r.Status = probe.Info // each of the others is a result of its own
		}
	}
	if kernel != "" {
		r = r.With(FactKernelState, kernel)
	}
	return r
}

// kernelState is the state of the protocol that writes routes into the kernel, the
// best of several; "" when there is none.
func kernelState(protocols []bird.Protocol) string {
	state := ""
	for _, o := range protocols {
		if o.Proto == "Kernel" && (state == "" || state == "down" || o.State == "up") {
			state = o.State
		}
	}
	return state
}

// restarting names the peers a graceful restart waits for. BIRD marks them as
// pending; where only the rows are known they are those that are not up.
func restarting(status bird.Status, protocols []bird.Protocol) probe.Result {
	down, late, names := []string{}, []string{}, []string{}
	for _, o := range protocols {
		if o.Proto != "BGP" || o.Recovery != "pending" && (len(o.Details) > 0 || o.Established()) {
			continue
		}
		name := o.Name
		if o.Neighbor.IsValid() {
			name = o.Neighbor.String()
		}
		names = append(names, name)
		if o.Established() {
			late = append(late, name)
		} else {
			down = append(down, name)
		}
	}
	var until []string
	if len(down) > 0 {
		until = append(until, "these come up: "+some(down))
	}
	if len(late) > 0 {
		until = append(until, "these have sent all their routes: "+some(late))
	}
	if len(until) == 0 {
		until = append(until, fmt.Sprintf("%d protocols recover", status.Waiting))
	}
	return probe.Found(probe.Warn, "graceful restart: no BGP route enters the kernel for up to %.0fs more, unless %s",
		status.WaitLeft.Seconds(), strings.Join(until, " and ")).
		With(FactWaiting, status.Waiting).With(FactWaitLeft, status.WaitLeft.Seconds()).With(FactBlockers, first(names))
}

// calicoName is how confd names sessions (bird.cfg.template); others were
// configured by hand.
var calicoName = regexp.MustCompile(`^(Global|Node|Mesh|Local_Workload)_`)

// sessionReasons puts BIRD's words for why a session is down (proto/bgp/packets.c, and
// the C library's for errors of the socket: musl's in Calico's images, glibc's
// elsewhere) into one word each.
var sessionReasons = []struct{ words, reason string }{
	{"Connection refused", "refused"},
	{"Network unreachable", "net-unreachable"}, {"Network is unreachable", "net-unreachable"},
	{"Host is unreachable", "host-unreachable"}, {"No route to host", "host-unreachable"},
	{"Operation timed out", "timeout"}, {"Connection timed out", "timeout"},
	{"Address not available", "no-address"}, {"Cannot assign requested address", "no-address"},
	{"Connection reset", "reset"}, {"Connection closed", "closed"},
	{"Bad peer AS", "bad-as"}, {"Bad BGP identifier", "bad-id"}, {"Hold timer expired", "hold-expired"},
	{"No listening socket", "no-listener"}, {"MD5 auth failed", "password"}, {"Authentication failure", "password"},
	{"Connection rejected", "unknown-peer"}, {"Peer de-configured", "unknown-peer"},
}

// sessionReason is one word for why a session is down, "" where BIRD does not say.
func sessionReason(text string) string {
	for _, r := range sessionReasons {
		if strings.Contains(text, r.words) {
			return r.reason
		}
	}
	return ""
}

func judgeSession(d daemon, p *probe.Pass, proto bird.Protocol, status bird.Status) (probe.Result, probe.Target) {
	target, peer := proto.Name, probe.Target{}
	if proto.Neighbor.IsValid() {
		target = proto.Neighbor.String()
		// Sessions come last: of nodes the plan has a few, of sessions all.
		for _, t := range append(p.Of(probe.KindNode, probe.KindPeer), p.Of(probe.KindSession)...) {
			if t.Addr == proto.Neighbor {
				target, peer = t.String(), t
			}
		}
	}
	age := "since " + proto.Since
	seconds, known := bird.Age(proto.Since, status.ServerTime)
	if known {
		age = "for " + seconds.Round(time.Second).String()
	}
	r := sessionState(proto, age)
	if peer.Node != "" {
		r = r.With(probe.FactNode, peer.Node)
	}
	return withDetails(about(r, peer).On(target), proto, seconds, known), peer
}

// sessionState judges the state of a session, which it has had for some time.
func sessionState(proto bird.Protocol, age string) probe.Result {
	var r probe.Result
	switch {
	case proto.Established():
		r = probe.Found(probe.OK, "Established %s", age)
		if len(proto.Details) > 0 {
			r.Saw += fmt.Sprintf(", %d routes imported, %d exported", proto.Imported, proto.Exported)
		}
	default:
		r = probe.Found(probe.Fail, "%s %s %s", proto.State, proto.Info, age)
		if proto.BGP == "Passive" {
			r.Saw += ": this side waits for the peer to connect"
		}
		if e := proto.LastError; e != "" && !strings.Contains(proto.Info, e) {
			r.Saw += fmt.Sprintf(", last error %q", e)
		}
		if !calicoName.MatchString(proto.Name) {
			r.Status = probe.Warn
			r.Saw += "; not a session that Calico configured"
		}
		r = r.Because(proto.Details...)
	}
	if said := proto.Info + " " + proto.LastError; !proto.Established() && strings.Contains(said, "Received: ") {
		r = r.With(FactHeard, true)
	}
	if reason := sessionReason(proto.Info + " " + proto.LastError); reason != "" && !proto.Established() {
		r = r.With(probe.FactReason, reason)
	}
	return r
}

// withDetails adds to a result about a session what BIRD says of it, and for how long it has had its state.
func withDetails(r probe.Result, proto bird.Protocol, since time.Duration, known bool) probe.Result {
	r = r.With(FactProtocol, proto.Name).With(FactState, proto.State).With(FactBGPState, proto.BGP).
		With(FactASNumber, proto.NeighborAS)
	if len(proto.Details) > 0 {
		r = r.With(FactImported, proto.Imported).With(FactExported, proto.Exported)
	}
	if proto.Neighbor.IsValid() {
		r = r.With(FactPeer, proto.Neighbor.String()).With(FactFamily, family(proto.Neighbor))
	}
	if proto.Source.IsValid() {
		r = r.With(FactSource, proto.Source.String())
	}
	if known {
		r = r.With(FactSince, int(since.Seconds()))
	}
	if proto.LastError != "" {
		r = r.With(FactLastError, proto.LastError)
	}
	if proto.Hold > 0 {
		r = r.With(FactHold, proto.Hold.Seconds()).With(FactHoldLeft, proto.HoldLeft.Seconds())
	}
	return r
}
