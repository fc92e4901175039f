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

// planes maps the checks that try paths to the planes of a mesh.
var planes = map[string]string{
	link.NodePing.ID: mesh.PlaneNode, pod.PodPing.ID: mesh.PlanePod, link.NeighbourReach.ID: mesh.PlaneTCP,
	pod.PodTCP.ID: mesh.PlaneTCP, pod.PodMTU.ID: mesh.PlaneMTU,
}

// targetsOf lists the kinds of targets at the end of a plane's paths.
var targetsOf = map[string][]string{
	mesh.PlaneNode: {probe.KindNode}, mesh.PlanePod: {probe.KindPod}, mesh.PlaneMTU: {probe.KindPod},
	mesh.PlaneTCP: {probe.KindOutside, probe.KindPod},
}

// answers are the results of a plane's paths.
type answers struct {
	trials map[mesh.Path]mesh.Trial
	held   map[mesh.Path]bool // unanswered, possibly because of a network policy
	wanted map[mesh.Path]bool // paths that were tried or should have been
}

// count returns how many wanted paths are unknown, and how many a policy may block.
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

// of returns the answers of a plane. If there are none yet, it creates them.
func (t *trying) of(plane string) *answers {
	a := t.answers[plane]
	if a == nil {
		a = &answers{map[mesh.Path]mesh.Trial{}, map[mesh.Path]bool{}, map[mesh.Path]bool{}}
		t.answers[plane] = a
	}
	return a
}

// expect records the results that a node must send to complete its plan.
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

// take records a path's result from a node. If there are several addresses, the worst result counts.
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

// worseTrial reports whether one trial of a path is worse than another.
func worseTrial(a, b mesh.Trial) bool {
	return a.Failed && !b.Failed || a.Failed == b.Failed && a.Received < b.Received
}

// outcome is the outcome of trying a path.
type outcome int

const (
	notKnown outcome = iota // the path could not be tried
	isHeld                  // no answer, possibly because of a network policy
	isTried
)

// trialOf turns a result into the trial of a path.
func trialOf(r probe.Result) (mesh.Trial, outcome) {
	t := mesh.Trial{Saw: r.Saw}
	if r.Status == probe.Unknown || r.Status == probe.Skip {
		return t, notKnown
	}
	switch planes[r.Check] {
	case mesh.PlaneTCP:
		t.Sent, t.Received = 1, 1
		t.RTT = milliseconds(r, probe.FactTook)
		// A refused connection proves that packets pass in both directions.
		if bad := r.Status == probe.Fail || r.Status == probe.Warn; bad && r.Facts.Str(probe.FactReason) != "refused" {
			t.Received, t.Failed = 0, true
		}
	case mesh.PlaneMTU:
		if _, measured := r.Facts.Num(probe.FactPromised); !measured {
			return t, notKnown
		}
		t.Failed = r.Facts.Str(probe.FactReason) == "timeout"
		return t, isTried // small packets pass, so no policy blocks them
	default:
		sent, _ := r.Facts.Num(probe.FactSent)
		received, _ := r.Facts.Num(probe.FactReceived)
		if sent < 1 || sent > maxSent || received < 0 || received > sent { // impossible for a ping
			return t, notKnown
		}
		lives, _ := r.Facts[probe.FactLives].(bool) // the target ignores pings
		t.RTT = milliseconds(r, probe.FactRTT)
		t.Sent, t.Received, t.Failed = int(sent), int(received), received == 0 && !lives
	}
	if t.Failed && r.Facts.Str(probe.FactPolicy) != "" {
		return t, isHeld
	}
	return t, isTried
}

// maxSent is above the number of packets that any check sends. longest is above the time that any check waits, in
// milliseconds.
const (
	maxSent = 1000
	longest = 60_000
)

// milliseconds returns a time that a node reports, or 0 if the value is impossible.
func milliseconds(r probe.Result, fact probe.Fact) float64 {
	if ms, ok := r.Facts.Num(fact); ok && ms > 0 && ms < longest {
		return ms
	}
	return 0
}

// bgpReport is one node's report about its BGP sessions.
type bgpReport struct {
	node    int
	ends    []mesh.SessionReport
	bird    bool     // BIRD has answered
	none    string   // why it has no sessions
	unknown []string // why some sessions are unknown
}

// take records a result about a session, or about BIRD itself.
func (t *bgpReport) take(r probe.Result) {
	peer, err := netip.ParseAddr(r.Facts.Str(bgp.FactPeer))
	switch {
	case err == nil && r.Facts.Str(bgp.FactState) != "":
		// A session that Calico did not configure may be down for a good reason. Like a session with a NotReady node, it is
		// only a warning.
		if r.Status != probe.Warn || r.Facts.Str(probe.FactNodeState) != "" {
			t.ends = append(t.ends, mesh.SessionReport{Node: t.node, Peer: peer, Up: r.Status == probe.OK, Saw: r.Saw})
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

// sessions are the BGP sessions of all nodes, as the nodes report them.
type sessions struct {
	ends   []mesh.SessionReport
	whole  map[int]bool   // nodes that reported all their sessions
	silent map[int]string // nodes that could not report their sessions, and the reasons
	none   string         // why a node has no sessions
}

func (s *sessions) add(t bgpReport) {
	s.ends = append(s.ends, t.ends...)
	switch {
	case len(t.unknown) > 0:
		s.silent[t.node] = t.unknown[0]
	case t.bird:
		s.whole[t.node] = true
	default:
		s.none = t.none
	}
}

// plane matches the sessions with all nodes in the cluster, because a peer may be a node outside this run.
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
			if had, is := at[a]; is && had != place { // two nodes claim the address: its owner is unknown
				twice[a] = true
			}
			at[a] = place
		}
	}
	for a := range twice {
		delete(at, a)
	}
	p := mesh.Sessions(members, s.ends, at, s.whole)
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
		p.Left = "no node could be queried"
	}
	return p
}
