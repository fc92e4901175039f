package ask

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/bird"
	"github.com/calico-probe/calico-probe/probe/node"
)

// bgpSessionCheck binds bgp.BGPSession to the function that runs it.
var bgpSessionCheck = answers.To(bgp.BGPSession, bgpSession)

func bgpSession(ctx context.Context, p *probe.Pass) {
	before := md5Counts(p.Host)
	var down atomic.Int32
	node.Each(node.Daemons(), func(d node.Daemon) { down.Add(int32(sessionsOf(ctx, d, p))) })
	if down.Load() > 0 && before != nil {
		if r, ok := md5Dropped(ctx, p.Host, before); ok {
			p.Report(r.On(bgp.TargetMD5))
		}
	}
}

// sessionsOf reports all peers of one BIRD daemon, and returns the number of peers that are down.
func sessionsOf(ctx context.Context, d node.Daemon, p *probe.Pass) int {
	// calico-node's own check waits for two seconds.
	one, limit, cancel := node.Part(ctx, 3)
	defer cancel()
	c, name, err := d.Talk(one, p.Host)
	if err != nil {
		// bird-socket explains the reason. No session could be queried.
		r := judgeDead(d, p, limit, err)
		if r.Status != probe.Skip {
			r = probe.Found(probe.Unknown, "cannot query peers: %s", r.Saw)
		}
		p.Report(r.On(name).With(probe.FactFamily, d.Family))
		return 0
	}
	defer c.Close()
	status, err := c.Status()
	var protocols []bird.Protocol
	if err == nil {
		protocols, err = c.Protocols()
	}
	if err != nil {
		p.Report(judgeDead(d, p, limit, err).On(name).With(probe.FactFamily, d.Family))
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
		if of, ok := judgeExchange(d, p, proto, peer, age); ok && !status.Restarting {
			p.Report(of.On("routes " + r.Target))
		}
	}
	p.Report(judgeAll(status, protocols, peers, up).On(name).With(probe.FactFamily, d.Family).With(FactPeerCount, peers).
		With(factUpCount, up))
	return peers - up
}

// judgeAll evaluates one BIRD daemon as a whole: do the peers' routes reach the kernel?
func judgeAll(status bird.Status, protocols []bird.Protocol, peers, up int) probe.Result {
	kernel := kernelState(protocols)
	r := probe.Found(probe.Info, "BIRD %s has no BGP peers", status.Version)
	switch {
	case status.Restarting:
		r = judgeRestart(status, protocols)
	case up > 0 && (kernel == "" || kernel == "down"):
		how := "it has no kernel protocol"
		if kernel != "" {
			how = "its kernel protocol is down"
		}
		r = probe.Found(probe.Fail, "%d of %d peers established, but BIRD writes no routes into the kernel: %s", up,
			peers, how)
		if !slices.ContainsFunc(protocols, func(o bird.Protocol) bool { return calicoName.MatchString(o.Name) }) {
			r.Status = probe.Warn // a BIRD that does not belong to Calico may only forward routes to its peers
		}
	case peers > 0:
		r = probe.Found(probe.OK, "%d of %d peers established", up, peers)
		if up < peers {
			r.Status = probe.Info // each peer that is down has a separate result
		}
	}
	if kernel != "" {
		r = r.With(bgp.FactKernelState, kernel)
	}
	return r
}

// kernelState returns the state of the protocol that writes routes to the kernel. If there are
// several, it returns the best state, and "" if there is none.
func kernelState(protocols []bird.Protocol) string {
	state := ""
	for _, o := range protocols {
		if o.Proto == "Kernel" && (state == "" || state == "down" || o.State == "up") {
			state = o.State
		}
	}
	return state
}

// judgeRestart lists the peers for which a graceful restart waits. BIRD marks these peers as pending. If only the
// rows of the table are known, judgeRestart lists the sessions that are not up.
func judgeRestart(status bird.Status, protocols []bird.Protocol) probe.Result {
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
		until = append(until, "these peers come up: "+node.Some(down))
	}
	if len(late) > 0 {
		until = append(until, "these peers have sent all their routes: "+node.Some(late))
	}
	if len(until) == 0 {
		until = append(until, fmt.Sprintf("%d protocols recover", status.Waiting))
	}
	return probe.Found(probe.Warn, "graceful restart: BIRD writes no BGP routes into the kernel for up to %.0fs, unless %s",
		status.WaitLeft.Seconds(), strings.Join(until, " and ")).
		With(factWaiting, status.Waiting).With(bgp.FactWaitLeft, status.WaitLeft.Seconds()).With(bgp.FactBlockers,
		node.First(names))
}

// calicoName matches the names that confd gives to sessions (bird.cfg.template). Other sessions
// were configured by hand.
var calicoName = regexp.MustCompile(`^(Global|Node|Mesh|Local_Workload)_`)

// sessionReasons maps BIRD's texts about a session that is down to one word each. The texts are from
// proto/bgp/packets.c. The texts for socket errors come from the C library: musl in Calico's images, glibc elsewhere.
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

// sessionReason returns one word for the reason why a session is down, or "" if BIRD does not report the reason.
func sessionReason(text string) string {
	for _, r := range sessionReasons {
		if strings.Contains(text, r.words) {
			return r.reason
		}
	}
	return ""
}

func judgeSession(d node.Daemon, p *probe.Pass, proto bird.Protocol, status bird.Status) (probe.Result, probe.Target) {
	target, peer := proto.Name, probe.Target{}
	if proto.Neighbor.IsValid() {
		target = proto.Neighbor.String()
		// Sessions come last, because the plan contains all sessions but only some nodes.
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
	return withDetails(node.About(r, peer).On(target), proto, seconds, known), peer
}

// sessionState evaluates the state of a session, and the age of that state.
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
			r.Saw += "; Calico did not configure this session"
		}
		r = r.Because(proto.Details...)
	}
	if said := proto.Info + " " + proto.LastError; !proto.Established() && strings.Contains(said, "Received: ") {
		r = r.With(bgp.FactHeard, true)
	}
	if reason := sessionReason(proto.Info + " " + proto.LastError); reason != "" && !proto.Established() {
		r = r.With(probe.FactReason, reason)
	}
	return r
}

// withDetails adds BIRD's details about a session, and the age of the session's state, to the result.
func withDetails(r probe.Result, proto bird.Protocol, since time.Duration, known bool) probe.Result {
	r = r.With(factProtocol, proto.Name).With(bgp.FactState, proto.State).With(bgp.FactBGPState, proto.BGP).
		With(bgp.FactASNumber, proto.NeighborAS)
	if len(proto.Details) > 0 {
		r = r.With(factImported, proto.Imported).With(factExported, proto.Exported)
	}
	if proto.Neighbor.IsValid() {
		r = r.With(bgp.FactPeer, proto.Neighbor.String()).With(probe.FactFamily, node.Family(proto.Neighbor))
	}
	if proto.Source.IsValid() {
		r = r.With(probe.FactSource, proto.Source.String())
	}
	if known {
		r = r.With(node.FactSince, int(since.Seconds()))
	}
	if proto.LastError != "" {
		r = r.With(bgp.FactLastError, proto.LastError)
	}
	if proto.Hold > 0 {
		r = r.With(bgp.FactHold, proto.Hold.Seconds()).With(bgp.FactHoldLeft, proto.HoldLeft.Seconds())
	}
	return r
}
