package ask

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
)

// routeBlocksCheck binds route.RouteBlocks to the function that runs it.
var routeBlocksCheck = answers.To(route.RouteBlocks, routeBlocks)

// Facts of route-blocks.
const factBlocks probe.Fact = "blocks" // number of blocks

// ipamBlock is a block of pod addresses, or one borrowed address, that belongs to a node.
type ipamBlock struct {
	prefix netip.Prefix
	node   string
	addr   netip.Addr // of the block's node
	state  string     // the state of that node in the API, if the node is not Ready
}

func (l ipamBlock) String() string {
	if l.prefix.IsSingleIP() {
		return fmt.Sprintf("%s of %s", l.prefix.Addr(), l.node)
	}
	return fmt.Sprintf("%s of %s", l.prefix, l.node)
}

func routeBlocks(ctx context.Context, p *probe.Pass) {
	if len(p.Of(probe.KindBlock)) == 0 {
		p.Report(node.Gap(p, probe.KindBlock, "Calico's IPAM has no blocks"))
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
	for _, d := range node.Daemons() {
		var blocks, addresses, own []ipamBlock
		wanted := map[netip.Prefix]bool{}
		for _, t := range p.Of(probe.KindBlock) {
			prefix, err := netip.ParsePrefix(t.Name)
			if err != nil || node.Family(prefix.Addr()) != d.Family {
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
		a.table, a.unread = routesTo(d.Family, wanted)
		report := func(r probe.Result, target string) {
			p.Report(r.On(fmt.Sprintf(target, d.Family)).With(probe.FactFamily, d.Family))
		}
		if len(blocks) > 0 {
			f := a.survey(blocks, own)
			report(f.judge(foreign, len(blocks), queryBIRD(ctx, d, p.Host, a, f.missing)), "IPv%d")
		}
		if len(addresses) > 0 {
			f := a.survey(addresses, nil)
			report(f.judge(borrowed, len(addresses), birdRoutes{}), "IPv%d addresses")
		}
		own = slices.DeleteFunc(own, func(l ipamBlock) bool { return l.prefix.IsSingleIP() })
		if len(own) > 0 {
			report(a.ownBlocks(own), "own IPv%d")
		}
	}
}

// findings sorts the problems with some blocks of other nodes.
type findings struct {
	missing                          []ipamBlock
	wrong, swallowed, shared, routed []string
	overlaps, byHand                 []string
	overlapOn                        string
	owners                           map[probe.Fact]map[string][]string
	asking                           error
}

// noteOwners records the nodes of blocks that have a problem. It records as many as the result lists.
func (f findings) noteOwners(key probe.Fact, l ipamBlock, nodes ...string) {
	of := f.owners[key]
	if of == nil {
		of = map[string][]string{}
		f.owners[key] = of
	}
	name := l.prefix.String()
	if l.prefix.IsSingleIP() {
		name = l.prefix.Addr().String()
	}
	if len(of) < node.Listed {
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
				f.noteOwners(route.FactShared, l, of...)
			}
			continue // the correct destination is unknown
		}
		if device, text := a.overlap(l); device != "" {
			f.overlapOn = cmp.Or(f.overlapOn, device)
			f.overlaps = append(f.overlaps, text)
			f.noteOwners(route.FactOverlaps, l, l.node)
			continue
		}
		saw, err := a.nextHop(l)
		switch {
		case err != nil:
			f.asking = err
		case saw == "":
		case saw == byRouter:
			f.routed = append(f.routed, l.String())
		case saw == byHand:
			f.routed = append(f.routed, l.String())
			f.noteOwners(route.FactByHand, l, l.node)
			f.byHand = append(f.byHand, l.String())
		case saw == noRoute:
			f.missing = append(f.missing, l)
		case saw == swallowed:
			f.swallowed = append(f.swallowed, l.String())
			f.noteOwners(route.FactSwallowed, l, l.node)
		default:
			f.noteOwners(route.FactWrong, l, l.node)
			f.wrong = append(f.wrong, l.String()+" leads "+saw)
		}
	}
	// Certain faults come first, because not all faults are listed.
	slices.SortStableFunc(f.missing, func(a, b ipamBlock) int { return min(1, len(a.state)) - min(1, len(b.state)) })
	return f
}

// phrasing describes how to report findings: what the blocks are, and the text and status if they have no route.
type phrasing struct{ what, lacks string }

var (
	foreign = phrasing{"blocks of other nodes", "no route"}
	// The plan contains only borrowed addresses whose pods exist.
	borrowed = phrasing{"addresses borrowed by other nodes", "no host route"}
)

// describeFaults lists the blocks whose routes lead to a wrong place.
func (f findings) describeFaults(what string, total int) (bad []string) {
	if len(f.shared) > 0 {
		bad = append(bad, fmt.Sprintf("%d of %d %s belong to two nodes in Calico's IPAM: %s", len(f.shared),
			total, what, node.Some(f.shared)))
	}
	if len(f.wrong) > 0 {
		bad = append(bad, fmt.Sprintf("%d of %d %s are routed to the wrong node: %s", len(f.wrong), total, what,
			node.Some(f.wrong)))
	}
	if len(f.swallowed) > 0 {
		bad = append(bad, fmt.Sprintf("a blackhole route on this node drops packets to %d of %d %s: %s",
			len(f.swallowed), total, what, node.Some(f.swallowed)))
	}
	if len(f.overlaps) > 0 {
		bad = append(bad, fmt.Sprintf("packets to %d of %d %s stay on this node, because a local interface has their range: %s",
			len(f.overlaps), total, what, node.Some(f.overlaps)))
	}
	return bad
}

// judge combines the findings into one result.
func (f findings) judge(as phrasing, total int, in birdRoutes) probe.Result {
	what := as.what
	r := probe.Found(probe.OK, "all %d %s have a route to their node", total, what)
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
	bad := f.describeFaults(what, total)
	if len(missing) > 0 {
		bad = append(bad, fmt.Sprintf("%d of %d %s have %s: %s%s", len(missing), total, what, as.lacks, node.Some(missing),
			in.said))
	}
	if len(quiet) > 0 {
		bad = append(bad, "the API reports "+node.Some(quiet))
	}
	switch {
	case len(bad) > 0:
		r = probe.Found(probe.Fail, "%s", strings.Join(bad, "; "))
		if expected { // a large cluster always has such a node
			r.Status = probe.Warn
		}
	case f.asking != nil:
		r = node.Unseen(f.asking)
	case len(f.routed) > 0:
		r = probe.Found(probe.Info, "%d of %d %s are reached through a router, which needs routes to them: %s",
			len(f.routed), total, what, node.Some(f.routed))
	}
	if len(in.known) > 0 {
		r = r.With(route.FactInBIRD, in.known)
	}
	if len(f.overlaps) > 0 {
		r = r.With(route.FactOverlaps, node.First(f.overlaps)).With(route.FactOverlapOn, f.overlapOn)
	}
	if len(in.felix) > 0 {
		r = r.With(route.FactByFelix, node.First(in.felix))
	}
	if len(f.byHand) > 0 {
		r.Saw += "; by a manual route (proto static or boot): " + node.Some(f.byHand)
		r = r.With(route.FactByHand, node.First(f.byHand))
	}
	if len(f.owners) > 0 {
		r = r.With(route.FactOwners, f.owners)
	}
	return r.With(factBlocks, total).With(route.FactNoRoute, node.First(missing)).With(route.FactWrong,
		node.First(f.wrong)).
		With(route.FactSwallowed, node.First(f.swallowed)).With(route.FactShared, node.First(f.shared))
}

// birdRoutes holds BIRD's routes to blocks that have no route in the kernel.
type birdRoutes struct {
	known []string // the block and the protocol
	felix []string // blocks whose routes Felix creates
	said  string   // the same as words that end a sentence
}

// queryBIRD queries a daemon for the first blocks that have no route. If Felix creates the routes
// (VXLAN, programClusterRoutes), or no BIRD daemon answers, it reports nothing.
func queryBIRD(ctx context.Context, d node.Daemon, h *probe.Host, a routeView, missing []ipamBlock) birdRoutes {
	var in birdRoutes
	for _, l := range missing {
		if a.byFelix(l) && l.state == "" {
			in.felix = append(in.felix, l.String())
		}
	}
	missing = slices.DeleteFunc(slices.Clone(missing), a.byFelix)
	if len(missing) == 0 {
		return in
	}
	one, _, cancel := node.Part(ctx, 2)
	defer cancel()
	c, _, err := d.Talk(one, h)
	if err != nil {
		return in
	}
	defer c.Close()
	var unreachable []string
	either := "no route either"
	if len(missing) > node.Listed {
		missing = missing[:node.Listed]
		either = fmt.Sprintf("no route to the first %d of them either", node.Listed)
	}
	for _, l := range missing {
		routes, err := c.Routes(l.prefix)
		if err != nil {
			return birdRoutes{felix: in.felix}
		}
		for _, r := range routes {
			if strings.HasPrefix(r.Protocol, "kernel") { // BIRD learned this route from the kernel
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
		in.said = fmt.Sprintf("; BIRD has %s but no route to the next hop", node.Some(in.known))
	default:
		in.said = fmt.Sprintf("; BIRD has %s but has not written it to the kernel", node.Some(in.known))
	}
	if n := len(missing) - len(in.known); n > 0 && len(in.known) > 0 {
		in.said += fmt.Sprintf(", and no route to %d others", n)
	}
	return in
}
