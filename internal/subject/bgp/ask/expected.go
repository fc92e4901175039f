package ask

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/bird"
	"github.com/calico-probe/calico-probe/probe/node"
)

// bgpExpectedCheck binds bgp.BGPExpected to the function that runs it.
var bgpExpectedCheck = answers.To(bgp.BGPExpected, bgpExpected)

// Facts of bgp-expected, in addition to FactMissing.
const (
	factExpected probe.Fact = "expected" // number of peers that the API configures
	factExtra    probe.Fact = "extra"    // BIRD's names for the first ten peers that are not in the API
)

// birdPeer is a peer in BIRD's configuration. If the session's name contains no port, the port is 0.
type birdPeer struct {
	name string
	addr netip.Addr
	port int
}

func bgpExpected(ctx context.Context, p *probe.Pass) {
	if set := node.Named(p, probe.KindBackend); set == "vxlan" || set == "none" {
		p.Report(probe.Found(probe.Skip, "Calico's networking backend here is %s, which does not use BGP", set))
		return
	}
	sessions := p.Of(probe.KindSession)
	if len(sessions) == 0 {
		p.Report(node.Gap(p, probe.KindSession, "the API configures no BGP session for this node"))
		return
	}
	why := p.Gaps[probe.KindSession]
	if why != "" {
		p.Report(probe.Found(probe.Unknown, "the API may configure more peers: %s", why).On("BGPPeers"))
	}
	expected := node.SplitByFamily(sessions)
	var has []birdPeer
	silent := map[int]probe.Result{}
	for _, d := range node.Daemons() {
		peers, limit, err := configuredPeers(ctx, d, p.Host)
		if err != nil {
			silent[d.Family] = judgeDead(d, p, limit, err)
		}
		has = append(has, peers...)
	}
	for _, f := range []int{4, 6} {
		here := slices.DeleteFunc(slices.Clone(has), func(b birdPeer) bool { return node.Family(b.addr) != f })
		if len(expected[f]) == 0 && len(here) == 0 {
			continue
		}
		r, quiet := silent[f]
		if !quiet || len(here) > 0 { // BIRD 3 serves both families on one socket
			r = comparePeers(expected[f], here, why == "")
		} else if r.Status == probe.Fail { // bird-socket reports this
			r = probe.Found(probe.Unknown, "cannot query peers: %s", r.Saw)
		}
		p.Report(r.On(fmt.Sprintf("IPv%d", f)).With(probe.FactFamily, f).With(factExpected, len(expected[f])))
	}
}

// configuredPeers queries a daemon for the peers in its configuration.
func configuredPeers(ctx context.Context, d node.Daemon, h *probe.Host) ([]birdPeer, time.Duration, error) {
	one, limit, cancel := node.Part(ctx, 2)
	defer cancel()
	c, _, err := d.Talk(one, h)
	if err != nil {
		return nil, limit, err
	}
	defer c.Close()
	protocols, err := c.Protocols()
	if err != nil {
		return nil, limit, err
	}
	return peersOf(protocols), limit, nil
}

// peersOf omits peers that have no single address. It also omits peers that are the node's own
// pods, because these pods come and go.
func peersOf(protocols []bird.Protocol) []birdPeer {
	var out []birdPeer
	for _, o := range protocols {
		if o.Proto != "BGP" || !o.Neighbor.IsValid() || strings.HasPrefix(o.Name, "Local_Workload_") {
			continue
		}
		peer := birdPeer{name: o.Name, addr: o.Neighbor.WithZone("")}
		if _, after, ok := strings.Cut(o.Name, "_port_"); ok {
			if n, err := strconv.ParseUint(after, 10, 16); err == nil {
				peer.port = int(n)
			}
		}
		out = append(out, peer)
	}
	return out
}

// comparePeers evaluates the peers in one address family. It reports additional peers in BIRD only
// if all expected peers are known.
func comparePeers(expected []probe.Target, has []birdPeer, whole bool) probe.Result {
	ports := map[netip.Addr][]int{}
	for _, b := range has {
		ports[b.addr] = append(ports[b.addr], b.port)
	}
	var missing, extra []string
	scopes := map[string]int{}
	wanted := map[netip.Addr]bool{}
	for _, t := range expected {
		scopes[t.Attrs[probe.AttrScope]]++
		wanted[t.Addr] = true
		at, ok := ports[t.Addr]
		switch {
		case !ok:
			missing = append(missing, t.String())
		case !slices.Contains(at, 0) && !slices.Contains(at, t.Port):
			missing = append(missing, fmt.Sprintf("%s at port %d, where BIRD has port %d", t, t.Port, at[0]))
		}
	}
	for _, b := range has {
		if whole && !wanted[b.addr] {
			extra = append(extra, b.name)
		}
	}
	var kinds []string
	for _, scope := range []string{"mesh", "global", "node"} {
		if n := scopes[scope]; n > 0 {
			kinds = append(kinds, fmt.Sprintf("%d %s", n, scope))
		}
	}
	r := probe.Found(probe.OK, "BIRD has all %d peers that the API configures: %s", len(expected),
		strings.Join(kinds, ", "))
	switch {
	case len(missing) > 0:
		r = probe.Found(probe.Fail, "BIRD lacks %d of %d peers that the API configures: %s", len(missing), len(expected),
			node.Some(missing))
	case len(expected) == 0:
		r = probe.Found(probe.Info, "the API configures no peer")
	case len(extra) > 0:
		r.Status = probe.Info
	}
	if len(extra) > 0 {
		r.Saw += fmt.Sprintf("; BIRD has %d that the API does not configure: %s", len(extra), node.Some(extra))
	}
	return r.With(probe.FactMissing, node.First(missing)).With(factExtra, node.First(extra))
}
