package checks

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/bird"
)

// BGPPort asks below BGP: can this node open the connection that a session needs,
// from the very address its peers expect?
var BGPPort = &probe.Check{
	ID: "bgp-port", Asks: "does every peer take BGP connections from the address Calico registered for this node?", From: probe.FromNode,
	Tags: []string{tagBGP, tagNetwork}, Access: []string{"host network", "run/calico"}, Needs: []*probe.Check{NodeUplink}, Run: bgpPort,
	Doc: `A TCP connection to port 179 (or BGPConfiguration's listenPort) of up to eight peers, from the address Calico registered for this node; and who listens on that port here. A peer whose session is up is not disturbed: it counts as ok.
ok: taken, or the session is up. fail, refused: the peer's machine answers and nothing listens there: its BIRD is down, or a firewall rejects. fail, no answer: packets are dropped on the way there or back. fail, net-unreachable: this node has no route to the peer's address. fail, no-address: the address Calico registered is on no interface of this node any more. fail, nothing listens here: this node's BIRD is down or lost its port to another program.
skip: Calico's networking backend here is not bird, or BIRD has no peers.`,
}

// FactPort is a TCP port.
const FactPort probe.Fact = "port"

const bgpDefaultPort = 179

func bgpPort(ctx context.Context, p *probe.Pass) {
	port := bgpDefaultPort
	if set := p.Of(probe.KindBackend); len(set) > 0 {
		if set[0].Name != "bird" {
			p.Report(probe.Found(probe.Skip, "Calico's networking backend here is %s, which has no BGP", set[0].Name))
			return
		}
		if set[0].Port > 0 {
			port = set[0].Port
		}
	} else {
		p.Report(gap(p, probe.KindBackend, "whether this node speaks BGP is not known"))
		return
	}
	asked := bgpNeighbours(ctx, p.Host)
	known := func(t probe.Target) bool { // what BIRD has no session with is nobody's business
		list, answered := asked[family(t.Addr)]
		return !answered || slices.Contains(list, t.Addr)
	}
	own := func(t probe.Target) bool {
		return slices.ContainsFunc(p.Of(probe.KindSelf), func(o probe.Target) bool { return family(o.Addr) == family(t.Addr) })
	}
	peers := slices.DeleteFunc(bgpPeers(p), func(t probe.Target) bool { return !known(t) || !own(t) })
	if len(peers) == 0 {
		p.Report(probe.Found(probe.Skip, "no other node is a BGP peer of this one, as far as is known"))
		return
	}
	reportListener(p, uint16(port))
	each(peers, func(t probe.Target) {
		var from netip.Addr
		for _, own := range p.Of(probe.KindSelf) {
			if family(own.Addr) == family(t.Addr) {
				from = own.Addr
			}
		}
		r := dialBGP(ctx, from, netip.AddrPortFrom(t.Addr, uint16(port)))
		p.Report(about(guessedPort(p, r), t).On(t.String()).With(FactFamily, family(t.Addr)).With(FactNode, t.Node).With(FactPort, port))
	})
}

// bgpPeers are the addresses other nodes are registered with: their InternalIPs,
// or others where Calico has others.
func bgpPeers(p *probe.Pass) []probe.Target {
	other := p.Of(probe.KindPeer)
	return slices.DeleteFunc(p.Of(probe.KindNode, probe.KindPeer), func(t probe.Target) bool {
		return t.Kind == probe.KindNode && slices.ContainsFunc(other, func(o probe.Target) bool {
			return o.Node == t.Node && family(o.Addr) == family(t.Addr)
		})
	})
}

// bgpNeighbours lists for each family whose BIRD answers the neighbours it is set to
// have.
func bgpNeighbours(ctx context.Context, h *probe.Host) map[int][]netip.Addr {
	asked := map[int][]netip.Addr{}
	for _, d := range daemons() {
		one, _, cancel := part(ctx, 1)
		c, _, err := d.talk(one, h)
		if err == nil {
			var protocols []bird.Protocol
			if protocols, err = c.Protocols(); err == nil {
				asked[d.family] = []netip.Addr{}
			}
			for _, proto := range protocols {
				if proto.Proto == "BGP" {
					asked[d.family] = append(asked[d.family], proto.Neighbor)
				}
			}
			c.Close()
		}
		cancel()
	}
	return asked
}

// dialBGP connects to a peer's BGP port and hangs up. Never beside a session: BIRD
// takes a second connection for a restart of its peer and drops the first one.
func dialBGP(ctx context.Context, from netip.Addr, to netip.AddrPort) probe.Result {
	there, err := connected(to.Port())
	switch {
	case err != nil:
		return unseen(err)
	case there[to.Addr()]:
		return probe.Found(probe.OK, "there is a connection: the BGP session is up")
	}
	one, limit, cancel := part(ctx, 3)
	defer cancel()
	d := net.Dialer{}
	source := "this node"
	if from.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
		source = from.String()
	}
	c, err := d.DialContext(one, "tcp", to.String())
	if err == nil {
		c.Close()
		return probe.Found(probe.OK, "a connection from %s to port %d is taken", source, to.Port()).With(FactSource, source)
	}
	if r, cut := cutShort(ctx, err); cut {
		return r
	}
	reason := probe.Reason(err)
	words := map[string]string{
		"refused":          "refused: the machine answers, and nothing listens there or a firewall rejects",
		"timeout":          fmt.Sprintf("without an answer within %v: dropped on the way", limit),
		"reset":            "reset",
		"net-unreachable":  "not possible: this node has no route there",
		"host-unreachable": "not possible: nobody has that address, or a firewall says so",
		"no-address":       "not possible: that address is on no interface of this node",
		"denied":           "not possible: this node's own firewall refuses it",
	}
	if words[reason] == "" {
		return probe.Failed(err)
	}
	return probe.Found(probe.Fail, "a connection from %s to port %d is %s", source, to.Port(), words[reason]).With(FactSource, source).With(probe.FactReason, reason)
}

// guessedPort takes a fail back where the plan could not say which port BGP has.
func guessedPort(p *probe.Pass, r probe.Result) probe.Result {
	if why := p.Gaps[probe.KindBackend]; why != "" && r.Status == probe.Fail {
		r.Status = probe.Unknown
		r.Saw += "; whether BGP has another port here is not known: " + why
	}
	return r
}

// reportListener says who holds the port on this node.
func reportListener(p *probe.Pass, port uint16) {
	here := "port " + strconv.Itoa(int(port)) + " here"
	at, err := listening(port)
	switch {
	case err != nil:
		p.Report(unseen(err).On(here))
	case len(at) == 0:
		p.Report(guessedPort(p, probe.Found(probe.Fail, "nothing listens on TCP port %d of this node", port)).On(here).With(FactListening, at))
	default:
		p.Report(probe.Found(probe.OK, "something listens on %s", strings.Join(at, ", ")).On(here).With(FactListening, at))
	}
}
