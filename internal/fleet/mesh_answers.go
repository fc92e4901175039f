package fleet

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/mesh"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/probe"
)

// planes are those of a mesh, by the checks that try their paths.
var planes = map[string]string{
	link.NodePing.ID: mesh.PlaneNode, pod.PodPing.ID: mesh.PlanePod, link.NeighbourReach.ID: mesh.PlaneTCP,
	pod.PodTCP.ID: mesh.PlaneTCP, pod.PodMTU.ID: mesh.PlaneMTU,
}

// targetsOf are the kinds of target that a plane's paths lead to.
var targetsOf = map[string][]string{
	mesh.PlaneNode: {probe.KindNode}, mesh.PlanePod: {probe.KindPod}, mesh.PlaneMTU: {probe.KindPod},
	mesh.PlaneTCP: {probe.KindOutside, probe.KindPod},
}

// answers are what became of the paths of a plane.
type answers struct {
	trials map[mesh.Path]mesh.Trial
	held   map[mesh.Path]bool // a network policy may be why there is no answer
	wanted map[mesh.Path]bool // those that were asked about
}

// count is of how many paths that were asked about nothing is known, and how many a policy may shut off.
func (a *answers) count() (unknown, held int) {
	for p := range a.wanted {
		_, tried := a.trials[p]
		switch {
		case tried:
		case a.held[p]:
			held++
		default:
			unknown++
		}
	}
	return unknown, held
}

// of are the answers of a plane.
func (t *trying) of(plane string) *answers {
	a := t.answers[plane]
	if a == nil {
		a = &answers{map[mesh.Path]mesh.Trial{}, map[mesh.Path]bool{}, map[mesh.Path]bool{}}
		t.answers[plane] = a
	}
	return a
}

// expect notes which answers there should be from a node that has answered all it was asked.
func (t *trying) expect(paths []mesh.Path) {
	for plane, kinds := range targetsOf {
		if !slices.ContainsFunc(t.run.picked, func(id string) bool { return planes[id] == plane }) {
			continue
		}
		for _, p := range paths {
			hidden := t.hidden[p.To] != nil && slices.Contains(kinds, probe.KindPod)
			is := func(to probe.Target) bool { return slices.Contains(kinds, to.Kind) }
			if hidden || slices.ContainsFunc(t.targets[p.To], is) {
				t.of(plane).wanted[p] = true
			}
		}
	}
}

// take notes what became of a path from a node. Of several addresses the worst counts.
func (t *trying) take(from int, r probe.Result) {
	to, known := t.place[r.Facts.Str(probe.FactNode)]
	if !known || to == from {
		return
	}
	p := mesh.Path{From: from, To: to}
	trial, came := trialOf(r)
	trial.From, trial.To = t.members[from].Name, t.members[to].Name
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.of(planes[r.Check])
	had, tried := a.trials[p]
	switch {
	case came == isHeld:
		a.held[p] = true
	case came == notKnown:
	case !tried || worseTrial(trial, had):
		a.trials[p] = trial
	}
}

// worseTrial tells whether a trial is worse than another one of the same path.
func worseTrial(a, b mesh.Trial) bool {
	return a.Failed && !b.Failed || a.Failed == b.Failed && a.Received < b.Received
}

// outcome is what came of trying a path.
type outcome int

const (
	notKnown outcome = iota // it could not be tried
	isHeld                  // there is no answer, and a network policy may want that
	isTried
)

// trialOf is what a result says of a path.
func trialOf(r probe.Result) (mesh.Trial, outcome) {
	t := mesh.Trial{Saw: r.Saw}
	if r.Status == probe.Unknown || r.Status == probe.Skip {
		return t, notKnown
	}
	switch planes[r.Check] {
	case mesh.PlaneTCP:
		t.Sent, t.Received = 1, 1
		t.RTT = milliseconds(r, probe.FactTook)
		// A refusal has come the whole way, and back.
		if bad := r.Status == probe.Fail || r.Status == probe.Warn; bad && r.Facts.Str(probe.FactReason) != "refused" {
			t.Received, t.Failed = 0, true
		}
	case mesh.PlaneMTU:
		if _, measured := r.Facts.Num(probe.FactPromised); !measured {
			return t, notKnown
		}
		t.Failed = r.Facts.Str(probe.FactReason) == "timeout"
		return t, isTried // small packets pass: no policy forbids them
	default:
		sent, _ := r.Facts.Num(probe.FactSent)
		received, _ := r.Facts.Num(probe.FactReceived)
		if sent < 1 || sent > mostSent || received < 0 || received > sent { // nothing that a ping could say
			return t, notKnown
		}
		lives, _ := r.Facts[probe.FactLives].(bool) // ping is switched off there
		t.RTT = milliseconds(r, probe.FactRTT)
		t.Sent, t.Received, t.Failed = int(sent), int(received), received == 0 && !lives
	}
	if t.Failed && r.Facts.Str(probe.FactPolicy) != "" {
		return t, isHeld
	}
	return t, isTried
}

// mostSent is more packets than any check sends, and longest longer than it waits, in milliseconds.
const (
	mostSent = 1000
	longest  = 60_000
)

// milliseconds is a time that a node says, 0 where it could not have been measured.
func milliseconds(r probe.Result, fact probe.Fact) float64 {
	if ms, ok := r.Facts.Num(fact); ok && ms > 0 && ms < longest {
		return ms
	}
	return 0
}

// telling is what one node tells of its BGP sessions.
type telling struct {
	node    int
	told    []mesh.Told
	bird    bool     // a BIRD has answered
	none    string   // why there is none
	unknown []string // why some are not known
}

// take notes a result about a session, or about a BIRD as a whole.
func (t *telling) take(r probe.Result) {
	peer, err := netip.ParseAddr(r.Facts.Str(bgp.FactPeer))
	switch {
	case err == nil && r.Facts.Str(bgp.FactState) != "":
		// A session that Calico did not configure may be down for good reasons: then it is a warning, as it is
		// where the API calls the peer's node not ready.
		if r.Status != probe.Warn || r.Facts.Str(probe.FactNodeState) != "" {
			t.told = append(t.told, mesh.Told{Node: t.node, Peer: peer, Up: r.Status == probe.OK, Saw: r.Saw})
		}
	case r.Target == bgp.TargetMD5:
	case r.Status == probe.Unknown:
		t.unknown = append(t.unknown, r.Saw)
	case r.Status == probe.Skip:
		t.none = r.Saw
	default:
		t.bird = true
	}
}

// sessions are the BGP sessions of all nodes, as they tell them.
type sessions struct {
	told   []mesh.Told
	whole  map[int]bool   // nodes that told all they have
	silent map[int]string // nodes that could not, and why
	none   string         // why a node has none
}

func (s *sessions) add(t telling) {
	s.told = append(s.told, t.told...)
	switch {
	case len(t.unknown) > 0:
		s.silent[t.node] = t.unknown[0]
	case t.bird:
		s.whole[t.node] = true
	default:
		s.none = t.none
	}
}

// plane matches the sessions of all nodes of the cluster: peers may be nodes that were not asked.
func (s *sessions) plane(t *trying) mesh.Plane {
	members, at := slices.Clone(t.members), map[netip.Addr]int{}
	twice := map[netip.Addr]bool{}
	for i := range t.survey.Nodes {
		n := &t.survey.Nodes[i]
		place, chosen := t.place[n.Name]
		if !chosen {
			place = len(members)
			members = append(members, t.run.member(n))
		}
		for _, a := range cluster.Addresses(n) {
			if had, is := at[a]; is && had != place { // two claim it: nobody knows whose it is
				twice[a] = true
			}
			at[a] = place
		}
	}
	for a := range twice {
		delete(at, a)
	}
	p := mesh.Sessions(members, s.told, at, s.whole)
	for i, m := range t.members {
		if why := s.silent[i]; why != "" {
			p.Silent = append(p.Silent, fmt.Sprintf("%s: %s", m.Name, why))
		}
	}
	switch {
	case p.Tried > 0 || len(p.Silent) > 0:
	case s.none != "":
		p.Left = s.none
	case len(s.whole) > 0:
		p.Left = "no node has a BGP session"
	default:
		p.Left = "no node could be asked"
	}
	return p
}
