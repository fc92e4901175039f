package checks

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
)

// RouteBlocks compares what Calico's IPAM says with what the kernel does: every
// block of pod addresses belongs to a node, and the kernel must send there.
var RouteBlocks = &probe.Check{
	ID: "route-blocks", Asks: "does the kernel have a route to every other node's pods, and to the right node?",
	From: probe.FromNode,
	Tags: []string{tagNetwork}, Access: []string{"host network", "netlink", "run/calico"},
	Needs: []string{probe.CheckNodeUplink}, Run: routeBlocks,
	Doc: `Every confirmed block affinity of another node needs a route here: by BIRD, or by Felix for VXLAN (and IPIP in new versions). The route is judged by where it leads, not by who made it. An address that a node borrowed out of another node's block needs a route of its own.
ok: all there. fail: some are missing, so pods there cannot be reached from this node. BIRD is asked about those: it knows no route either, so it has no session with that node; or it knows one and has not given it to the kernel, as in a graceful restart, or because it cannot reach the next hop. warn: all that lack a route, here and in BIRD, belong to nodes that the API calls NotReady.
fail: some lead to another machine than the one the block belongs to, as with an affinity that is left over; or to several nodes at once, so that some connections work and others do not; or this node itself swallows them by a blackhole route, as with a block it once had; or a block belongs to two nodes in Calico's IPAM; or an interface of this node that is not Calico's has a range in it, whose route wins over Calico's.
fail: a borrowed address has no route of its own: its pod cannot be reached from this node.
info: some are reached through a router that is no node of the cluster (the fact by_hand: by a route for just that block that somebody made, where BIRD's would stand); where their IP pool is encapsulated and no switch is a BGP peer, no router can know them, and a default route is none for them. info, of this node's own blocks: one has no blackhole route, so packets to pods that are gone leave the node.
skip: Calico's IPAM has no blocks (another IPAM is used), or Calico keeps them in its own etcd. unknown: they could not be read.`,
}

// Facts of route-blocks.
const (
	FactBlocks    probe.Fact = "blocks"     // count
	FactWrong     probe.Fact = "wrong"      // list of block, node and where the route leads
	FactNoRoute   probe.Fact = "noroute"    // list of block and node
	FactSwallowed probe.Fact = "swallowed"  // list of block and node
	FactShared    probe.Fact = "shared"     // list of block and the nodes it belongs to
	FactOverlaps  probe.Fact = "overlaps"   // list of an interface here with its range, and the block and node
	FactOverlapOn probe.Fact = "overlap_on" // the first of these interfaces
	FactByHand    probe.Fact = "by_hand"    // list of block and node: through a router, by a route that no daemon made
	FactOwners    probe.Fact = "owners"     // by wrong, swallowed, shared, overlaps, by_hand: by block, its nodes
	// of those without a route, the ones BIRD knows, and from which of its protocols
	FactInBIRD probe.Fact = "in_bird"
	// of those without a route, the ones whose route Felix makes: of VXLAN pools, or by programClusterRoutes
	FactByFelix probe.Fact = "by_felix"
)

// ipamBlock is a block of pod addresses, or one borrowed address, that belongs to a node.
type ipamBlock struct {
	prefix netip.Prefix
	node   string
	addr   netip.Addr // of that node
	state  string     // what the API says of that node, when that is not Ready
}

func (l ipamBlock) String() string {
	if l.prefix.IsSingleIP() {
		return fmt.Sprintf("%s of %s", l.prefix.Addr(), l.node)
	}
	return fmt.Sprintf("%s of %s", l.prefix, l.node)
}

func routeBlocks(ctx context.Context, p *probe.Pass) {
	if len(p.Of(probe.KindBlock)) == 0 {
		p.Report(gap(p, probe.KindBlock, "Calico's IPAM has no blocks"))
		return
	}
	a := routeView{nodes: map[netip.Addr]string{}, pools: p.Of(probe.KindPool)}
	a.links, _ = kernel.Links()
	a.fabric = slices.ContainsFunc(p.Of(probe.KindSession), func(t probe.Target) bool { return t.Node == "" })
	for _, t := range p.Of(probe.KindBlock, probe.KindTunnel) {
		if t.Addr.IsValid() {
			a.nodes[t.Addr] = t.Node
		}
	}
	for _, d := range daemons() {
		var blocks, addresses, own []ipamBlock
		wanted := map[netip.Prefix]bool{}
		for _, t := range p.Of(probe.KindBlock) {
			prefix, err := netip.ParsePrefix(t.Name)
			if err != nil || family(prefix.Addr()) != d.family {
				continue
			}
			wanted[prefix] = true
			switch l := (ipamBlock{prefix, t.Node, t.Addr, t.Attrs[probe.AttrNode]}); {
			case t.Attrs[probe.AttrOwn] != "":
				own = append(own, l)
			case prefix.IsSingleIP():
				addresses = append(addresses, l)
			default:
				blocks = append(blocks, l)
			}
		}
		if len(wanted) == 0 {
			continue
		}
		a.table, a.unread = routesTo(d.family, wanted)
		report := func(r probe.Result, target string) {
			p.Report(r.On(fmt.Sprintf(target, d.family)).With(FactFamily, d.family))
		}
		if len(blocks) > 0 {
			f := a.survey(blocks, own)
			report(f.judged(foreign, len(blocks), inBIRD(ctx, d, p.Host, a, f.missing)), "IPv%d")
		}
		if len(addresses) > 0 {
			f := a.survey(addresses, nil)
			report(f.judged(borrowed, len(addresses), birdKnows{}), "IPv%d addresses")
		}
		own = slices.DeleteFunc(own, func(l ipamBlock) bool { return l.prefix.IsSingleIP() })
		if len(own) > 0 {
			report(a.ownBlocks(own), "own IPv%d")
		}
	}
}

// findings sorts what was found about some blocks of other nodes.
type findings struct {
	missing                          []ipamBlock
	wrong, swallowed, shared, routed []string
	overlaps, byHand                 []string
	overlapOn                        string
	owners                           map[probe.Fact]map[string][]string
	asking                           error
}

// owned notes to which nodes a block belongs with which something is wrong; as many are kept as are named.
func (f findings) owned(key probe.Fact, l ipamBlock, nodes ...string) {
	of := f.owners[key]
	if of == nil {
		of = map[string][]string{}
		f.owners[key] = of
	}
	name := l.prefix.String()
	if l.prefix.IsSingleIP() {
		name = l.prefix.Addr().String()
	}
	if len(of) < listed {
		of[name] = nodes
	}
}

func (a routeView) survey(blocks, own []ipamBlock) findings {
	f := findings{asking: a.unread, owners: map[probe.Fact]map[string][]string{}}
	owners := map[netip.Prefix][]string{}
	for _, l := range slices.Concat(own, blocks) {
		if !slices.Contains(owners[l.prefix], l.node) {
			owners[l.prefix] = append(owners[l.prefix], l.node)
		}
	}
	for _, l := range blocks {
		if of := owners[l.prefix]; len(of) > 1 {
			text := fmt.Sprintf("%s of %s", l.prefix, strings.Join(of, " and "))
			if !slices.Contains(f.shared, text) {
				f.shared = append(f.shared, text)
				f.owned(FactShared, l, of...)
			}
			continue // where it should lead nobody can say
		}
		if device, text := a.overlap(l); device != "" {
			f.overlapOn = cmp.Or(f.overlapOn, device)
			f.overlaps = append(f.overlaps, text)
			f.owned(FactOverlaps, l, l.node)
			continue
		}
		saw, err := a.leads(l)
		switch {
		case err != nil:
			f.asking = err
		case saw == "":
		case saw == byRouter:
			f.routed = append(f.routed, l.String())
		case saw == byHand:
			f.routed = append(f.routed, l.String())
			f.owned(FactByHand, l, l.node)
			f.byHand = append(f.byHand, l.String())
		case saw == noRoute:
			f.missing = append(f.missing, l)
		case saw == swallowed:
			f.swallowed = append(f.swallowed, l.String())
			f.owned(FactSwallowed, l, l.node)
		default:
			f.owned(FactWrong, l, l.node)
			f.wrong = append(f.wrong, l.String()+" leads "+saw)
		}
	}
	// Those that are a fault for certain come first, for not all are named.
	slices.SortStableFunc(f.missing, func(a, b ipamBlock) int { return min(1, len(a.state)) - min(1, len(b.state)) })
	return f
}

// phrasing is how findings are told: what the blocks are, and what and how bad it is
// when they lack a route.
type phrasing struct{ what, lacks string }

var (
	foreign = phrasing{"blocks of other nodes", "no route"}
	// The plan names only those whose pods are there.
	borrowed = phrasing{"addresses that other nodes borrowed", "no route of their own"}
)

// astray says of which of the blocks there are routes that lead to the wrong place.
func (f findings) astray(what string, total int) (bad []string) {
	if len(f.shared) > 0 {
		bad = append(bad, fmt.Sprintf("%d of %d %s belong to two nodes at once in Calico's IPAM: %s", len(f.shared),
			total, what, some(f.shared)))
	}
	if len(f.wrong) > 0 {
		bad = append(bad, fmt.Sprintf("%d of %d %s lead to the wrong node: %s", len(f.wrong), total, what,
			some(f.wrong)))
	}
	if len(f.swallowed) > 0 {
		bad = append(bad, fmt.Sprintf("this node discards packets to %d of %d %s by a blackhole route: %s",
			len(f.swallowed), total, what, some(f.swallowed)))
	}
	if len(f.overlaps) > 0 {
		bad = append(bad, fmt.Sprintf("packets to %d of %d %s stay on this node, whose interface has their range: %s",
			len(f.overlaps), total, what, some(f.overlaps)))
	}
	return bad
}

// judged puts the findings into one result.
func (f findings) judged(as phrasing, total int, in birdKnows) probe.Result {
	what := as.what
	r := probe.Found(probe.OK, "all %d %s have a route that leads to their node", total, what)
	var missing, quiet []string
	expected := len(f.missing) > 0 && len(f.shared)+len(f.wrong)+len(f.swallowed)+len(f.overlaps)+len(in.known) == 0
	for _, l := range f.missing {
		missing = append(missing, l.String())
		if l.state == "" {
			expected = false
		} else if of := l.node + " as " + l.state; !slices.Contains(quiet, of) {
			quiet = append(quiet, of)
		}
	}
	bad := f.astray(what, total)
	if len(missing) > 0 {
		bad = append(bad, fmt.Sprintf("%d of %d %s have %s: %s%s", len(missing), total, what, as.lacks, some(missing),
			in.said))
	}
	if len(quiet) > 0 {
		bad = append(bad, "the API reports "+some(quiet))
	}
	switch {
	case len(bad) > 0:
		r = probe.Found(probe.Fail, "%s", strings.Join(bad, "; "))
		if expected { // somewhere in a big cluster there always is such a node
			r.Status = probe.Warn
		}
	case f.asking != nil:
		r = unseen(f.asking)
	case len(f.routed) > 0:
		r = probe.Found(probe.Info, "%d of %d %s are reached through a router, which must know them: %s",
			len(f.routed), total, what, some(f.routed))
	}
	if len(in.known) > 0 {
		r = r.With(FactInBIRD, in.known)
	}
	if len(f.overlaps) > 0 {
		r = r.With(FactOverlaps, first(f.overlaps)).With(FactOverlapOn, f.overlapOn)
	}
	if len(in.felix) > 0 {
		r = r.With(FactByFelix, first(in.felix))
	}
	if len(f.byHand) > 0 {
		r.Saw += "; by a route that somebody made (proto static or boot): " + some(f.byHand)
		r = r.With(FactByHand, first(f.byHand))
	}
	if len(f.owners) > 0 {
		r = r.With(FactOwners, f.owners)
	}
	return r.With(FactBlocks, total).With(FactNoRoute, first(missing)).With(FactWrong, first(f.wrong)).
		With(FactSwallowed, first(f.swallowed)).With(FactShared, first(f.shared))
}

// birdKnows is what BIRD says about blocks the kernel has no route to.
type birdKnows struct {
	known []string // block and protocol
	felix []string // blocks whose routes are not BIRD's to make
	said  string   // the same as the end of a sentence
}

// inBIRD asks a daemon about the first of the blocks that lack a route. Where Felix
// makes the routes (VXLAN, programClusterRoutes), or no BIRD answers, there is nothing to say.
func inBIRD(ctx context.Context, d daemon, h *probe.Host, a routeView, missing []ipamBlock) birdKnows {
	var in birdKnows
	for _, l := range missing {
		if a.byFelix(l) && l.state == "" {
			in.felix = append(in.felix, l.String())
		}
	}
	missing = slices.DeleteFunc(slices.Clone(missing), a.byFelix)
	if len(missing) == 0 {
		return in
	}
	one, _, cancel := part(ctx, 2)
	defer cancel()
	c, _, err := d.talk(one, h)
	if err != nil {
		return in
	}
	defer c.Close()
	var unreachable []string
	either := "no route either"
	if len(missing) > listed {
		missing = missing[:listed]
		either = fmt.Sprintf("no route to the first %d of them either", listed)
	}
	for _, l := range missing {
		routes, err := c.Routes(l.prefix)
		if err != nil {
			return birdKnows{felix: in.felix}
		}
		for _, r := range routes {
			if strings.HasPrefix(r.Protocol, "kernel") { // it learned this one from the kernel
				continue
			}
			text := fmt.Sprintf("%s from %s", l.prefix, r.Protocol)
			in.known = append(in.known, text)
			if r.Unreachable {
				unreachable = append(unreachable, text)
			}
			break
		}
	}
	switch {
	case len(in.known) == 0:
		in.said = "; BIRD has " + either
	case len(unreachable) == len(in.known):
		in.said = fmt.Sprintf("; BIRD has %s but no route to the next hop", some(in.known))
	default:
		in.said = fmt.Sprintf("; BIRD has %s but has not written it to the kernel", some(in.known))
	}
	if n := len(missing) - len(in.known); n > 0 && len(in.known) > 0 {
		in.said += fmt.Sprintf(", and no route to %d others", n)
	}
	return in
}

// listed bounds lists in one result: a cluster may have thousands of blocks.
const listed = 10

func first(all []string) []string { return append([]string{}, all[:min(len(all), listed)]...) }

// some names the first few.
func some(all []string) string {
	const few = 3
	if len(all) <= few {
		return strings.Join(all, ", ")
	}
	return strings.Join(all[:few], ", ") + fmt.Sprintf(" and %d more", len(all)-few)
}
