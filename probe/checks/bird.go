package checks

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/bird"
)

// BirdSocket asks whether BIRD lives, by its control socket: a file left by a
// dead BIRD refuses, a frozen one accepts and stays silent.
var BirdSocket = &probe.Check{
	ID: "bird-socket", Asks: "does BIRD answer on its control socket?", From: probe.FromNode,
	Tags: []string{tagBGP}, Access: []string{"run/calico"}, Run: birdSocket,
	Doc: `BIRD carries the routes between nodes, one daemon for IPv4 (bird.ctl) and one for IPv6 (bird6.ctl).
ok: it answers and says that it is up.
fail, refused: the socket is there and nobody listens: BIRD died, often because another program holds port 179.
fail, missing: BIRD never started on this node, usually because calico-node has not got past its start-up.
fail, no answer: it accepts and does not speak: frozen, or starved of CPU.
skip: Calico's networking backend here is not bird (VXLAN, policy only), or has no address of that family.
unknown: there is no socket, and the plan does not say whether this node should run BIRD.`,
}

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

// Facts of the BIRD checks.
const (
	FactVersion   probe.Fact = "version"      // of BIRD
	FactRouterID  probe.Fact = "router_id"    // of BIRD
	FactPeer      probe.Fact = "peer"         // address
	FactProtocol  probe.Fact = "protocol"     // BIRD's name for the session
	FactState     probe.Fact = "state"        // of the protocol: up, start, ...
	FactBGPState  probe.Fact = "bgp_state"    // Established, Active, Passive, ...
	FactSince     probe.Fact = "since_s"      // seconds in this state
	FactLastError probe.Fact = "last_error"   // BIRD's words
	FactImported  probe.Fact = "imported"     // routes taken from the peer
	FactExported  probe.Fact = "exported"     // routes given to the peer
	FactSource    probe.Fact = "source"       // address this side uses
	FactWaiting   probe.Fact = "waiting"      // protocols a graceful restart waits for
	FactWaitLeft  probe.Fact = "wait_left_s"  // seconds it waits at most
	FactPeerCount probe.Fact = "peers"        // BGP protocols there are
	FactUpCount   probe.Fact = "established"  // of these, established
	FactASNumber  probe.Fact = "neighbour_as" // the peer's AS number
)

// birdWait bounds a conversation; calico-node's own check waits two seconds.
const birdWait = 3 * time.Second

// daemon is one of the two BIRDs a node may run.
type daemon struct {
	family int
	name   string // of its socket
}

func daemons() []daemon { return []daemon{{4, "bird.ctl"}, {6, "bird6.ctl"}} }

// folders are where the sockets are: Calico's, and that of BIRD on its own,
// which Calico's tools try too.
var folders = []string{"/run/calico", "/run/bird"}

// talk opens a conversation with a daemon and gives the socket's path on the node.
func (d daemon) talk(ctx context.Context, h *probe.Host) (*bird.Conn, string, error) {
	var first error
	for _, folder := range folders {
		name := folder + "/" + d.name
		path, err := h.Path(name)
		if err == nil {
			var c *bird.Conn
			if c, err = bird.Dial(ctx, path); err == nil {
				return c, name, nil
			}
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, probe.ErrNotVisible) {
			return nil, name, err
		}
		if first == nil {
			first = err
		}
	}
	return nil, folders[0] + "/" + d.name, first
}

func birdSocket(ctx context.Context, p *probe.Pass) {
	ctx, cancel := context.WithTimeout(ctx, birdWait)
	defer cancel()
	each(daemons(), func(d daemon) {
		r := d.alive(ctx, p)
		p.Report(r.With(FactFamily, d.family))
	})
}

func (d daemon) alive(ctx context.Context, p *probe.Pass) probe.Result {
	c, name, err := d.talk(ctx, p.Host)
	if err != nil {
		return d.dead(p, name, err).On(name)
	}
	defer c.Close()
	s, err := c.Status()
	if err != nil {
		return d.dead(p, name, err).On(name)
	}
	r := probe.Found(probe.OK, "BIRD %s answers, router ID %s", s.Version, s.RouterID)
	if s.Daemon != "Daemon is up and running" {
		r = probe.Found(probe.Warn, "BIRD %s answers: %s", s.Version, s.Daemon)
	}
	if age, ok := bird.Age(s.LastReboot, s.ServerTime); ok {
		r.Saw += ", up for " + age.Round(time.Second).String()
		r = r.With(FactSince, int(age.Seconds()))
	}
	return r.On(name).With(FactVersion, s.Version).With(FactRouterID, s.RouterID)
}

// dead judges an error of talking to BIRD.
func (d daemon) dead(p *probe.Pass, name string, err error) probe.Result {
	reason := probe.Reason(err)
	r := probe.Failed(err)
	switch {
	case errors.Is(err, probe.ErrNotVisible):
		return probe.Found(probe.Skip, "%v", err)
	case reason == "missing":
		r = d.missing(p)
	case reason == "refused":
		r = probe.Found(probe.Fail, "the socket is there and nobody listens: BIRD is dead or just starting again")
	case reason == "timeout":
		r = probe.Found(probe.Fail, "accepts the connection and does not speak within %v", birdWait)
	case reason == "reset", reason == "closed":
		r = probe.Found(probe.Fail, "took the connection and closed it")
	case errors.Is(err, bird.ErrNotBIRD):
		r = probe.Found(probe.Fail, "%v", err)
	}
	return r.With(FactReason, reason)
}

// missing judges a socket that is not there, by what Calico is set to on this node.
func (d daemon) missing(p *probe.Pass) probe.Result {
	backend, own := named(p, probe.KindBackend), p.Of(probe.KindSelf)
	has := func(t probe.Target) bool { return family(t.Addr) == d.family }
	switch {
	case backend == "vxlan" || backend == "none":
		return probe.Found(probe.Skip, "Calico's networking backend here is %s, which runs no BIRD", backend)
	case len(own) > 0 && !slices.ContainsFunc(own, has):
		return probe.Found(probe.Skip, "Calico has registered no IPv%d address for this node", d.family)
	case backend == "":
		return probe.Found(probe.Unknown, "no such socket, and whether this node should run BIRD is not known")
	}
	return probe.Found(probe.Fail, "no such socket, and no other: BIRD has not started on this node")
}

func bgpSession(ctx context.Context, p *probe.Pass) {
	ctx, cancel := context.WithTimeout(ctx, birdWait)
	defer cancel()
	each(daemons(), func(d daemon) { d.sessions(ctx, p) })
}

func (d daemon) sessions(ctx context.Context, p *probe.Pass) {
	c, name, err := d.talk(ctx, p.Host)
	if err != nil {
		// bird-socket says what this means; here nothing could be asked.
		r := d.dead(p, name, err)
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
		p.Report(d.dead(p, name, err).On(name).With(FactFamily, d.family))
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
		p.Report(session(proto, status))
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

func session(proto bird.Protocol, status bird.Status) probe.Result {
	target := proto.Name
	if proto.Neighbor.IsValid() {
		target = proto.Neighbor.String()
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
	r = r.On(target).With(FactProtocol, proto.Name).With(FactState, proto.State).With(FactBGPState, proto.BGP).
		With(FactImported, proto.Imported).With(FactExported, proto.Exported).With(FactASNumber, proto.NeighborAS)
	if proto.Neighbor.IsValid() {
		r = r.With(FactPeer, target).With(FactFamily, family(proto.Neighbor))
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
