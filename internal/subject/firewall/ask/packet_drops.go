package ask

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/drops"
	"github.com/calico-probe/calico-probe/probe/netns"
	"github.com/calico-probe/calico-probe/probe/node"
)

// packetDropsCheck binds firewall.PacketDrops to the function that runs it.
var packetDropsCheck = answers.To(firewall.PacketDrops, packetDrops)

// Facts of packet-drops.
const (
	factGrew    probe.Fact = "grew"    // number of packets that were counted there
	factCounter probe.Fact = "counter" // the counter that grew
	factBeyond  probe.Fact = "beyond"  // true if the packets left the node, and no counter on the node shows a loss

	factRuleWall probe.Fact = "rule_wall" // the firewall that contains the rule
)

// The maximum number of searches from the node, and from a pod.
const (
	maxSearches = 3
	maxFromPod  = 2
)

func packetDrops(ctx context.Context, p *probe.Pass) {
	targets := node.Elsewhere(node.Unique(p.Of(probe.KindNode, probe.KindPeer, probe.KindPod, probe.KindLocal)))
	targets = append(downSessions(p), targets...)
	if len(targets) == 0 {
		p.Report(node.Gap(p, probe.KindNode, "no other node or pod found"))
		return
	}
	node := drops.Space{Name: drops.Node, Host: p.Host}
	s := searching{p: p, node: node, targets: targets}
	s.from(ctx, node, nil, maxSearches)
	if ctx.Err() != nil {
		return // already reported
	}
	if pod, view := s.aPod(); view != nil {
		defer view.Close()
		s.from(ctx, drops.Space{Name: pod[0].Name, Host: p.Host, View: view}, pod, maxFromPod)
	}
	if s.reported == 0 {
		p.Report(probe.Found(probe.OK, "no packets lost: %d addresses answer %s", s.sent, s.also))
	}
}

// maxSessions is the maximum number of BGP peers to which the check connects.
const maxSessions = 3

// downSessions returns the first BGP peers that have no established connection in either direction. It omits peers
// that have a password, because they do not answer unsigned connections.
func downSessions(p *probe.Pass) []probe.Target {
	sessions := slices.DeleteFunc(p.Of(probe.KindSession), func(t probe.Target) bool {
		return t.Attrs[probe.AttrPassword] != ""
	})
	var ports []int
	for _, t := range sessions {
		ports = append(ports, t.Port)
	}
	up, err := node.Speaking(ports...)
	if err != nil {
		return nil // bgp-port reports it
	}
	down := node.Elsewhere(slices.DeleteFunc(sessions, func(t probe.Target) bool { return up[t.Addr] }))
	return down[:min(len(down), maxSessions)]
}

// searching holds the state of one run of the check.
type searching struct {
	p        *probe.Pass
	node     drops.Space
	targets  []probe.Target
	sent     int
	reported int
	also     string
}

// aPod returns the first pod on the node whose network namespace is accessible, as one target for
// each of its addresses.
func (s *searching) aPod() ([]probe.Target, *netns.View) {
	local := s.p.Of(probe.KindLocal)
	for _, pod := range local {
		if view, err := (netns.Entry{Host: s.p.Host}).View(pod); err == nil {
			s.also = "the node and " + pod.Name
			return slices.DeleteFunc(slices.Clone(local), func(t probe.Target) bool { return t.Name != pod.Name }), view
		}
	}
	s.also = "the node; no pod to test from"
	return nil, nil
}

func (s *searching) report(r probe.Result) {
	s.reported++
	s.p.Report(r)
}

// from finds targets that do not answer from a pod, and searches for some of them. Without a pod, it tests from the
// node itself.
func (s *searching) from(ctx context.Context, space drops.Space, pod []probe.Target, most int) {
	var ask []probe.Target
	var addrs []netip.AddrPort
	for _, t := range s.targets {
		itself := slices.ContainsFunc(pod, func(own probe.Target) bool { return own.Addr == t.Addr })
		if !itself && (len(pod) == 0 || t.Kind != probe.KindSession && ownAddr(pod, node.Family(t.Addr)).IsValid()) {
			ask, addrs = append(ask, t), append(addrs, netip.AddrPortFrom(t.Addr.Unmap(), uint16(t.Port)))
		}
	}
	looked, err := drops.Look(ctx, space, addrs)
	if err != nil {
		s.report(fromPod(node.Unseen(err), pod))
		return
	}
	if ctx.Err() != nil { // if a target has not answered by now, that does not prove that packets were lost
		r, _ := node.CutShort(ctx, ctx.Err())
		s.report(fromPod(r, pod))
		return
	}
	s.sent += looked.Sent
	maps.DeleteFunc(looked.Lost, func(i int, shape drops.Shape) bool { // its pings are the same as the node's pings
		return ask[i].Kind == probe.KindSession && shape.Port == 0
	})
	for _, i := range worstOf(ask, looked.Lost, most) {
		s.search(ctx, space, pod, ask[i], looked.Lost[i], looked.Fine[node.Family(ask[i].Addr)])
	}
}

// worstOf returns the indices of some lost targets. It starts with one target of each kind and address family.
func worstOf(targets []probe.Target, lost map[int]drops.Shape, most int) []int {
	var out, rest []int
	seen := map[string]bool{}
	for i, t := range targets {
		if _, is := lost[i]; !is {
			continue
		}
		kind := fmt.Sprint(t.Kind, node.Family(t.Addr))
		if seen[kind] {
			rest = append(rest, i)
			continue
		}
		seen[kind] = true
		out = append(out, i)
	}
	out = append(out, rest...)
	return out[:min(len(out), most)]
}

// search finds the place where packets to one target are dropped.
func (s *searching) search(ctx context.Context, from drops.Space, pod []probe.Target, t probe.Target, shape drops.Shape,
	fine netip.Addr) {
	q := drops.Question{From: from, Pod: ownAddr(pod, node.Family(t.Addr)), To: t.Addr.Unmap(), Shape: shape, Fine: fine,
		Count: []drops.Space{s.node}}
	if len(pod) > 0 {
		q.Count = append(q.Count, from)
	}
	if t.Kind == probe.KindLocal {
		if view, err := (netns.Entry{Host: s.p.Host}).View(t); err == nil {
			defer view.Close()
			q.Count = append(q.Count, drops.Space{Name: t.Name, Host: s.p.Host, View: view})
		}
	}
	found, err := drops.Search(ctx, q)
	r := judgeSearch(found, shape)
	switch {
	case err != nil && ctx.Err() != nil:
		r, _ = node.CutShort(ctx, err)
	case err != nil:
		r = node.Unseen(err)
	}
	s.report(fromPod(r, pod).On(t.String()).With(probe.FactFamily, node.Family(t.Addr)).With(probe.FactNode, t.Node))
}

func fromPod(r probe.Result, pod []probe.Target) probe.Result {
	if len(pod) > 0 {
		r.From = pod[0].Name
	}
	return r
}

// ownAddr returns a pod's address in a family, or an invalid address.
func ownAddr(pod []probe.Target, f int) netip.Addr {
	for _, t := range pod {
		if node.Family(t.Addr) == f {
			return t.Addr.Unmap()
		}
	}
	return netip.Addr{}
}

// judgeSearch turns the outcome of a search into a result.
func judgeSearch(found drops.Found, shape drops.Shape) probe.Result {
	lines := found.Lines(shape)
	r := probe.Found(probe.Info, "%s", lines[0]).Because(lines[1:]...).With(probe.FactSent, found.Packets).
		With(probe.FactReceived, found.Packets-found.Lost)
	switch {
	case found.Lost == 0:
		r.Status = probe.OK
	case len(found.Deaths) > 0:
		d := found.Deaths[0]
		r = r.With(firewall.FactPlace, d.Place).With(firewall.FactPlaceKind, d.Kind).With(probe.FactPlaceIn,
			d.Where).With(factGrew, d.Count).
			With(factCounter, d.Reason)
		if r.Status = probe.Fail; d.Kind == drops.KindPolicy {
			r.Status = probe.Info
			r = r.With(probe.FactPolicy, d.Policy)
		}
		if d.Rule != nil {
			r = r.With(firewall.FactRuleChain, d.Rule.Chain).With(firewall.FactRuleTable, d.Rule.Family+" "+d.Rule.Table).
				With(factRuleWall, d.Rule.Wall).With(firewall.FactRuleHook, d.Rule.Hook)
		}
	case found.Unread != nil:
		r.Status = probe.Unknown
		if errors.Is(found.Unread, probe.ErrNotVisible) {
			r.Status = probe.Skip
		}
	case found.Beyond():
		r = r.With(factBeyond, true)
	}
	if found.Unread != nil && found.Lost > 0 {
		first, _, _ := strings.Cut(found.Unread.Error(), "\n")
		r.Saw += "; some counters could not be read: " + first
	}
	return r
}
