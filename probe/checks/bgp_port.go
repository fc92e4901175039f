package checks

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
)

// BGPPort asks below BGP: can this node open the connection that a session needs,
// from the very address its peers expect?
var BGPPort = &probe.Check{
	ID: "bgp-port", Asks: "does every peer accept BGP connections from the address Calico registered for this node?",
	From: probe.FromNode,
	Tags: []string{tagBGP, tagNetwork}, Access: []string{"host network", "run/calico"},
	Needs: []string{probe.CheckNodeUplink}, Run: bgpPort,
	Doc: `A TCP connection to the BGP port of up to eight peers of each family, from the address Calico registered for this node; and who listens on this node's own. The peers are those that Calico's resources ask for, as in bgp-expected: switches and the like first, nodes that the API calls NotReady last. Where the resources could not be read, BIRD's own peers are asked. A peer whose session is up is not disturbed: it counts as ok.
ok: accepted, or the session is up. fail, refused: the peer's host answers but nothing listens there: its BIRD is down, or a firewall rejects the connection. fail, no answer: packets are dropped on the way there or back. fail, rejected: a firewall says so by ICMP. fail, net-unreachable: this node has no route to the peer's address. fail, no-address: the address Calico registered is on no interface of this node any more. fail, nothing listens here: this node's BIRD is down or lost its port to another program.
skip: Calico's networking backend here is not bird, or the API expects no BGP session here. unknown: neither the API nor BIRD names a peer.`,
}

// Facts of bgp-port.
const (
	FactPort probe.Fact = "port" // TCP
	// where BIRD listens, where that is another port than the configured one
	FactListensAt probe.Fact = "listens_at"
	// true: a session there has a password, and a kernel that wants it answers no connection without
	FactPassword probe.Fact = "password"
	// true: nobody was dialled, as the two have a session
	FactSessionUp probe.Fact = "session_up"
)

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
	peers := bgpPeers(ctx, p, port)
	if len(peers) == 0 {
		p.Report(gap(p, probe.KindSession, "the API expects no BGP session for this node"))
		return
	}
	reportListener(ctx, p, uint16(port))
	ports := []int{port}
	for _, t := range peers {
		ports = append(ports, t.Port)
	}
	up, err := speaking(ports...)
	if err != nil {
		p.Report(unseen(err).On("peers"))
		return
	}
	each(peers, func(t probe.Target) {
		var from netip.Addr
		for _, own := range p.Of(probe.KindSelf) {
			if family(own.Addr) == family(t.Addr) {
				from = own.Addr
			}
		}
		r := dialBGP(ctx, up, from, netip.AddrPortFrom(t.Addr, uint16(t.Port)))
		if t.Attrs[probe.AttrPassword] != "" {
			r = r.With(FactPassword, true)
		}
		p.Report(about(guessedPort(p, r), t).On(t.String()).With(FactFamily, family(t.Addr)).With(probe.FactNode, t.Node).
			With(FactPort, t.Port))
	})
}

// bgpPeers are the peers to ask: what the API expects of this node, and where that
// could not be read what BIRD is set to have, at this node's own port unless its
// name for a peer has another.
func bgpPeers(ctx context.Context, p *probe.Pass, port int) []probe.Target {
	expected := p.Of(probe.KindSession)
	if len(expected) == 0 && p.Gaps[probe.KindSession] != "" {
		for _, d := range daemons() {
			has, _, _ := configuredPeers(ctx, d, p.Host) // bird-socket says what is wrong with it
			for _, b := range has {
				expected = append(expected, probe.Target{Name: b.name, Addr: b.addr, Port: cmp.Or(b.port, port)})
			}
		}
	}
	byFamily := splitByFamily(expected)
	return append(mostTelling(byFamily[4]), mostTelling(byFamily[6])...)
}

// mostTelling picks a few peers of many, spread evenly: those that are no nodes
// first, for they are few, and all depends on them; nodes that are not ready last.
func mostTelling(peers []probe.Target) []probe.Target {
	const most = 8
	var groups [3][]probe.Target
	for _, t := range peers {
		i := 1
		switch {
		case t.Attrs[probe.AttrNode] != "":
			i = 2
		case t.Node == "":
			i = 0
		}
		groups[i] = append(groups[i], t)
	}
	var out []probe.Target
	for _, group := range groups {
		n := min(len(group), most-len(out))
		for i := range n {
			out = append(out, group[i*len(group)/n])
		}
	}
	return out
}

// speaking gives the addresses this node has a TCP connection with by one of these
// ports, at either end.
func speaking(ports ...int) (map[netip.Addr]bool, error) {
	out := map[netip.Addr]bool{}
	slices.Sort(ports)
	for _, port := range slices.Compact(ports) {
		there, err := connected(uint16(port))
		if err != nil {
			return nil, err
		}
		maps.Copy(out, there)
	}
	return out, nil
}

// dialBGP connects to a peer's BGP port and hangs up. Never beside a session: BIRD
// takes a second connection for a restart of its peer and drops the first one; up is
// whom this node speaks with already.
func dialBGP(ctx context.Context, up map[netip.Addr]bool, from netip.Addr, to netip.AddrPort) probe.Result {
	if up[to.Addr()] {
		return probe.Found(probe.OK, "the BGP session is up").With(FactSessionUp, true)
	}
	one, limit, cancel := part(ctx, 3)
	defer cancel()
	var heard errorQueue
	defer heard.close()
	d := net.Dialer{Control: heard.open}
	source := "this node"
	if from.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
		source = from.String()
	}
	c, err := d.DialContext(one, "tcp", to.String())
	if err == nil {
		c.Close()
		return probe.Found(probe.OK, "connected from %s to port %d", source, to.Port()).With(FactSource, source)
	}
	if r, cut := cutShort(ctx, err); cut {
		return r
	}
	said := heard.last()
	reason := connection{err: err, said: said}.reason()
	words := map[string]string{
		"refused":          "refused: the host answers, but nothing listens there or a firewall rejects it",
		"timeout":          fmt.Sprintf("got no answer within %v: packets are dropped on the way", limit),
		"reset":            "reset",
		"net-unreachable":  "failed: this node has no route to it",
		"host-unreachable": "failed: no host has that address, or a firewall says so",
		"no-address":       "failed: that address is on no interface of this node",
		"denied":           "failed: this node's own firewall rejects it",
	}
	if said.text != "" { // who sent it tells more than what became of the connection
		words[reason] = "failed: " + said.text
	}
	if words[reason] == "" {
		return probe.Failed(err)
	}
	return probe.Found(probe.Fail, "connection from %s to port %d %s", source, to.Port(), words[reason]).
		With(FactSource, source).With(probe.FactReason, reason)
}

// guessedPort takes a fail back where the plan could not say which port BGP has.
func guessedPort(p *probe.Pass, r probe.Result) probe.Result {
	if why := p.Gaps[probe.KindBackend]; why != "" && r.Status == probe.Fail {
		r.Status = probe.Unknown
		r.Saw += "; whether BGP has another port here is not known: " + why
	}
	return r
}

// reportListener says who holds the port on this node; a process that is no BIRD is named.
func reportListener(ctx context.Context, p *probe.Pass, port uint16) {
	here := "port " + strconv.Itoa(int(port)) + " here"
	at, err := listening(port)
	switch {
	case err != nil:
		p.Report(unseen(err).On(here))
	case len(at) == 0:
		r := guessedPort(p, probe.Found(probe.Fail, "nothing listens on TCP port %d of this node", port))
		if elsewhere := birdListens(ctx, p.Host); len(elsewhere) > 0 {
			r.Saw += "; BIRD listens on " + strings.Join(elsewhere, ", ")
			r = r.With(FactListensAt, elsewhere)
		}
		p.Report(r.On(here).With(FactListening, at).With(FactPort, int(port)))
	default:
		r := probe.Found(probe.OK, "listening on %s", strings.Join(at, ", "))
		if who := holderOfTCP(ctx, p.Host, port); who != "" && !strings.HasPrefix(who, "bird") {
			r.Saw += ": " + who
			r = r.With(FactHeldBy, who)
		}
		p.Report(r.On(here).With(FactListening, at))
	}
}

// birdListens are the addresses on which a BIRD of this node listens, at whichever port.
func birdListens(ctx context.Context, h *probe.Host) (out []string) {
	const most = 500
	var sockets []kernel.Socket
	if kernel.TCP(kernel.Listening, 0, 0, func(s kernel.Socket) { sockets = append(sockets, s) }) != nil {
		return nil
	}
	one, _, cancel := part(ctx, 2)
	defer cancel()
	sockets = sockets[:min(len(sockets), most)]
	names, _ := kernel.Owners(one, h, sockets) // those that are seen
	for _, s := range sockets {
		if strings.HasPrefix(names[s.Inode], "bird") {
			out = append(out, s.Near.String())
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// holderOfTCP is the process that listens on a TCP port, "" where it is not seen.
func holderOfTCP(ctx context.Context, h *probe.Host, port uint16) string {
	var sockets []kernel.Socket
	if kernel.TCP(kernel.Listening, port, 0, func(s kernel.Socket) { sockets = append(sockets, s) }) != nil {
		return ""
	}
	return holder(ctx, h, sockets)
}

// listening gives the addresses of this network namespace that listen on a TCP
// port.
func listening(port uint16) ([]string, error) {
	out := []string{}
	err := kernel.TCP(kernel.Listening, port, 0, func(s kernel.Socket) { out = append(out, s.Near.String()) })
	return out, err
}

// connected gives the addresses that this network namespace has a TCP connection
// with, whose one end has the port.
func connected(port uint16) (map[netip.Addr]bool, error) {
	out := map[netip.Addr]bool{}
	add := func(s kernel.Socket) { out[s.Far.Addr()] = true }
	err := kernel.TCP(kernel.Established, port, 0, add)
	if err == nil {
		err = kernel.TCP(kernel.Established, 0, port, add)
	}
	return out, err
}
