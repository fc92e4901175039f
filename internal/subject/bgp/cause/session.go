package cause

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/probe"
)

// session is a down BGP session with the other results about its peer.
type session struct {
	diagnose.Finding
	port, ping        diagnose.Finding   // of the same address
	ported, pinged    bool               // whether these checks ran
	there, theirBirds []diagnose.Finding // results of the peer: its session with this node, and its BIRD
	outside           []diagnose.Finding // a firewall's answers to other nodes that tested this node, the peer first
	listens           []diagnose.Finding // what listens on the peer's port, as the peer reports
}

// downSessions returns the sessions that are not established.
func downSessions(f diagnose.Findings) []session {
	var out []session
	for _, r := range f.Bad(bgp.BGPSession.ID) {
		if r.Facts.Str(bgp.FactPeer) == "" {
			continue
		}
		s := session{Finding: r}
		s.port, s.ported = first(ofPeer(f, bgp.BGPPort.ID, r.Target, r.Facts.Str(bgp.FactPeer)))
		s.ping, s.pinged = first(ofPeer(f, link.NodePing.ID, r.Target, r.Facts.Str(bgp.FactPeer)))
		if peer := diagnose.NodeOf(r); peer != "" {
			of := f.At(peer)
			s.there = diagnose.Keep(of.Of(bgp.BGPSession.ID), func(o diagnose.Finding) bool {
				return diagnose.NodeOf(o) == f.Node &&
					diagnose.FamilyOf(o) == diagnose.FamilyOf(r)
			})
			s.theirBirds = evidence.BirdOf(of, bgp.BirdSocket.ID, diagnose.FamilyOf(r))
			s.listens = diagnose.Keep(of.Of(bgp.BGPPort.ID), func(o diagnose.Finding) bool {
				_, said := o.Facts[probe.FactListening]
				return said
			})
			s.outside = rejectedFrom(f, s)
		}
		out = append(out, s)
	}
	return out
}

// ofPeer returns the result of a check about the peer of a session. The result has the session's target, or a target
// that ends in the session's address: a session is named after its BGPPeer, a ping after the node.
func ofPeer(f diagnose.Findings, of ...string) []diagnose.Finding {
	if r, ok := diagnose.Answer(f, of[0], of[1]); ok {
		return []diagnose.Finding{r}
	}
	for _, r := range f.Of(of[0]) {
		if r.From == "" && strings.HasSuffix(r.Target, " "+of[2]) {
			return []diagnose.Finding{r}
		}
	}
	return nil
}

// first returns the first of some findings, and whether it exists.
func first(of []diagnose.Finding) (diagnose.Finding, bool) {
	if len(of) == 0 {
		return diagnose.Finding{}, false
	}
	return of[0], true
}

// answers reports whether the peer's machine answered pings at the session's address.
func (s session) answers() bool {
	lives := s.ping.Facts[probe.FactLives] == true
	return s.pinged && (lives || !diagnose.IsBad(s.ping.Status) && diagnose.IsAnswered(s.ping.Status))
}

// refusal returns why a connection to the peer's BGP port failed, or "" if it succeeded or was not tried.
func (s session) refusal() string {
	if !s.ported || !diagnose.IsBad(s.port.Status) {
		return ""
	}
	return diagnose.ReasonOf(s.port)
}

// elsewhere reports whether the peer listens on its port only at addresses that this node cannot reach.
func (s session) elsewhere() bool {
	return len(s.listens) > 0 && !slices.ContainsFunc(s.listens, func(r diagnose.Finding) bool {
		return slices.ContainsFunc(diagnose.ListOf(r, probe.FactListening), func(at string) bool {
			listener, err := netip.ParseAddrPort(at)
			peer := s.Facts.Str(bgp.FactPeer)
			return err == nil && (listener.Addr().String() == peer || listener.Addr().IsUnspecified() &&
				listener.Addr().Is6() == (diagnose.FamilyOf(s.Finding) == 6))
		})
	})
}

// instead describes the unreachable address at which the peer listens.
func (s session) instead() string {
	at := diagnose.ListOf(s.listens[0], probe.FactListening)
	if len(at) == 0 {
		return diagnose.NodeOf(s.Finding) + ": " + s.listens[0].Saw
	}
	return fmt.Sprintf("%s does not listen at %s, only at %s", diagnose.NodeOf(s.Finding), s.Facts.Str(bgp.FactPeer),
		strings.Join(at, ", "))
}

// where returns the name of the fix for the other end. "" is the rule's own fix, for a node.
func (s session) where() string {
	if diagnose.NodeOf(s.Finding) == "" {
		return "ask-peer"
	}
	return ""
}

// perSession returns one case for each matching down session.
func perSession(f diagnose.Findings, fits func(session, *diagnose.Case) bool) []diagnose.Case {
	var out []diagnose.Case
	for _, s := range downSessions(f) {
		peer, node := s.Facts.Str(bgp.FactPeer), diagnose.NodeOf(s.Finding)
		c := diagnose.Case{About: s.Target, Peer: cmp.Or(node, peer), Family: diagnose.FamilyOf(s.Finding),
			Args: map[string]diagnose.Arg{"peer": diagnose.AddressArg(peer)}}
		if node != "" {
			c.Args["other"] = diagnose.NodeArg(node)
		}
		if fits(s, &c) {
			c.Covers = evidence.PathFollows(f, diagnose.FamilyOf(s.Finding), node) // slow with thousands of results
			out = append(out, c)
		}
	}
	return out
}
