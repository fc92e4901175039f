package ask

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
	"github.com/calico-probe/calico-probe/probe/reach"
	"github.com/calico-probe/calico-probe/probe/socket"
)

// bgpPortCheck binds bgp.BGPPort to the function that runs it.
var bgpPortCheck = answers.To(bgp.BGPPort, bgpPort)

func bgpPort(ctx context.Context, p *probe.Pass) {
	port := node.BGPDefaultPort
	if set := p.Of(probe.KindBackend); len(set) > 0 {
		if set[0].Name != "bird" {
			p.Report(probe.Found(probe.Skip, "Calico's networking backend here is %s, which does not use BGP", set[0].Name))
			return
		}
		if set[0].Port > 0 {
			port = set[0].Port
		}
	} else {
		p.Report(node.Gap(p, probe.KindBackend, "unknown whether this node uses BGP"))
		return
	}
	peers := bgpPeers(ctx, p, port)
	if len(peers) == 0 {
		p.Report(node.Gap(p, probe.KindSession, "the API configures no BGP session for this node"))
		return
	}
	reportListener(ctx, p, uint16(port))
	ports := []int{port}
	for _, t := range peers {
		ports = append(ports, t.Port)
	}
	up, err := node.Speaking(ports...)
	if err != nil {
		p.Report(node.Unseen(err).On("peers"))
		return
	}
	node.Each(peers, func(t probe.Target) {
		var from netip.Addr
		for _, own := range p.Of(probe.KindSelf) {
			if node.Family(own.Addr) == node.Family(t.Addr) {
				from = own.Addr
			}
		}
		r := reach.DialBGP(ctx, up, from, netip.AddrPortFrom(t.Addr, uint16(t.Port)))
		if t.Attrs[probe.AttrPassword] != "" {
			r = r.With(probe.FactPassword, true)
		}
		p.Report(node.About(retractGuess(p, r), t).On(t.String()).With(probe.FactFamily,
			node.Family(t.Addr)).With(probe.FactNode, t.Node).
			With(probe.FactPort, t.Port))
	})
}

// bgpPeers returns the peers to which the check connects. They are the peers that the API configures for this node, or
// otherwise the peers in BIRD's configuration. For a peer from BIRD, it uses this node's own port, unless the
// session's name contains a port.
func bgpPeers(ctx context.Context, p *probe.Pass, port int) []probe.Target {
	expected := p.Of(probe.KindSession)
	if len(expected) == 0 && p.Gaps[probe.KindSession] != "" {
		for _, d := range node.Daemons() {
			has, _, _ := configuredPeers(ctx, d, p.Host) // bird-socket reports BIRD's problems
			for _, b := range has {
				expected = append(expected, probe.Target{Name: b.name, Addr: b.addr, Port: cmp.Or(b.port, port)})
			}
		}
	}
	byFamily := node.SplitByFamily(expected)
	return append(samplePeers(byFamily[4]), samplePeers(byFamily[6])...)
}

// samplePeers picks a few of many peers, spread evenly over the list. External peers come first, because they are few
// and everything depends on them. Nodes that are not ready come last.
func samplePeers(peers []probe.Target) []probe.Target {
	const maxPeers = 8 // limits the connections that one run opens in each address family
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
		n := min(len(group), maxPeers-len(out))
		for i := range n {
			out = append(out, group[i*len(group)/n])
		}
	}
	return out
}

// retractGuess makes a failure unknown if the plan does not contain BGP's port, because the check then guessed 179.
func retractGuess(p *probe.Pass, r probe.Result) probe.Result {
	if why := p.Gaps[probe.KindBackend]; why != "" && r.Status == probe.Fail {
		r.Status = probe.Unknown
		r.Saw += "; unknown whether BGP uses another port here: " + why
	}
	return r
}

// reportListener reports whether a process listens on the port on this node. If that process is not
// BIRD, reportListener names it.
func reportListener(ctx context.Context, p *probe.Pass, port uint16) {
	here := "port " + strconv.Itoa(int(port)) + " here"
	at, err := node.Listening(port)
	switch {
	case err != nil:
		p.Report(node.Unseen(err).On(here))
	case len(at) == 0:
		r := retractGuess(p, probe.Found(probe.Fail, "nothing listens on TCP port %d of this node", port))
		if elsewhere := birdListeners(ctx, p.Host); len(elsewhere) > 0 {
			r.Saw += "; BIRD listens on " + strings.Join(elsewhere, ", ")
			r = r.With(bgp.FactListensAt, elsewhere)
		}
		p.Report(r.On(here).With(probe.FactListening, at).With(probe.FactPort, int(port)))
	default:
		r := probe.Found(probe.OK, "listening on %s", strings.Join(at, ", "))
		if who := tcpListener(ctx, p.Host, port); who != "" && !strings.HasPrefix(who, "bird") {
			r.Saw += ": " + who
			r = r.With(probe.FactHeldBy, who)
		}
		p.Report(r.On(here).With(probe.FactListening, at))
	}
}

// birdListeners returns the addresses on which a BIRD daemon on this node listens, on any port.
func birdListeners(ctx context.Context, h *probe.Host) (out []string) {
	const maxSockets = 500
	var sockets []kernel.Socket
	if kernel.TCP(kernel.Listening, 0, 0, func(s kernel.Socket) { sockets = append(sockets, s) }) != nil {
		return nil
	}
	one, _, cancel := node.Part(ctx, 2)
	defer cancel()
	sockets = sockets[:min(len(sockets), maxSockets)]
	names, _ := socket.Owners(one, h, sockets) // the daemons that are visible
	for _, s := range sockets {
		if strings.HasPrefix(names[s.Inode], "bird") {
			out = append(out, s.Near.String())
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// tcpListener returns the process that listens on a TCP port, or "" if it is not visible.
func tcpListener(ctx context.Context, h *probe.Host, port uint16) string {
	var sockets []kernel.Socket
	if kernel.TCP(kernel.Listening, port, 0, func(s kernel.Socket) { sockets = append(sockets, s) }) != nil {
		return ""
	}
	return node.Holder(ctx, h, sockets)
}
