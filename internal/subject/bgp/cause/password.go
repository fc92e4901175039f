package cause

import (
	"fmt"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/probe"
)

// bgpPassword matches different TCP MD5 passwords at the two ends.
func bgpPassword(f diagnose.Findings) []diagnose.Case {
	signed, alone := signatures(f), len(downSessions(f)) == 1 // the counters have no peer
	return perSession(f, func(s session, c *diagnose.Case) bool {
		here := s.ported && s.port.Facts[probe.FactPassword] == true
		open := s.ported && s.port.Status == probe.OK
		c.Says = fmt.Sprintf("the session with %s has a password: either the two ends have different ones, or its port is dropped", s.Target)
		switch {
		case diagnose.ReasonOf(s.Finding) == "password":
			c.For = diagnose.Proves([]diagnose.Finding{s.Finding})
		case len(signed) > 0 && s.signing(signed[0], here, alone):
			c.For = append(diagnose.Clues(signed[0].Weight, []diagnose.Finding{signed[0].Finding}),
				diagnose.Shows([]diagnose.Finding{s.Finding})...)
			if (alone || here) && signed[0].Weight == diagnose.Strong {
				c.For[1].Weight, c.For[1].Context = diagnose.Hint, false
			}
			c.Says = side(signed[0].Finding, s.Target)
			if here && open {
				c.For = append(c.For, diagnose.Suggests([]diagnose.Finding{s.port})...)
			}
			c.For = append(c.For, diagnose.Shows(s.thereSigned(f))...)
		case here && open:
			c.For = append(diagnose.Suggests([]diagnose.Finding{s.port}), diagnose.Shows([]diagnose.Finding{s.Finding})...)
			c.Says = fmt.Sprintf("{node} has a password for the session with %s, which accepts connections without one", s.Target)
		case here && s.refusal() == "timeout" && s.answers():
			c.For = append(diagnose.Suggests([]diagnose.Finding{s.Finding}),
				diagnose.Shows([]diagnose.Finding{s.port, s.ping})...)
		default:
			return false
		}
		return true
	})
}

// signatures returns the kernel's MD5 counters as a clue. A growing counter shows a current fault. Unsigned segments
// may come from a probe, so their number since boot is only a hint.
func signatures(f diagnose.Findings) []diagnose.Clue {
	for _, r := range f.Of(bgp.BGPSession.ID) {
		grew, counted := r.Facts.Num(bgp.FactMD5Grew)
		switch {
		case !counted:
		case grew > 0, r.Facts.Str(bgp.FactMD5) == bgp.MD5Unexpected:
			return []diagnose.Clue{{Finding: r, Weight: diagnose.Strong}}
		case r.Facts.Str(bgp.FactMD5) != "":
			return []diagnose.Clue{{Finding: r, Weight: diagnose.Hint}}
		}
	}
	return nil
}

// forPassword reports whether the kernel certainly drops segments of this session because of a password.
func (s session) forPassword(f diagnose.Findings) bool {
	signed := signatures(f)
	return len(signed) > 0 && signed[0].Weight == diagnose.Strong &&
		s.signing(signed[0], s.port.Facts[probe.FactPassword] == true, len(downSessions(f)) == 1)
}

// signing reports whether the kernel's counters may be about this session. The API shows which peers have a password on
// this node.
func (s session) signing(r diagnose.Clue, here, alone bool) bool {
	switch s.refusal() {
	case "", "timeout", "reset": // otherwise another program answers
	default:
		return false
	}
	if state := s.Facts.Str(bgp.FactBGPState); diagnose.ReasonOf(s.Finding) == "refused" || state == "Idle" {
		return false
	}
	if r.Weight < diagnose.Strong {
		return here
	}
	return alone || here != (r.Facts.Str(bgp.FactMD5) == bgp.MD5Unexpected)
}

// thereSigned returns the MD5 counters of the other end's kernel.
func (s session) thereSigned(f diagnose.Findings) []diagnose.Finding {
	return diagnose.Keep(f.At(diagnose.NodeOf(s.Finding)).Of(bgp.BGPSession.ID), diagnose.About(bgp.TargetMD5))
}

// side describes which end has a password.
func side(r diagnose.Finding, peer string) string {
	switch r.Facts.Str(bgp.FactMD5) {
	case bgp.MD5Missing:
		return fmt.Sprintf("{node} has a password for the session with %s, which has none: %s", peer, r.Saw)
	case bgp.MD5Unexpected:
		return fmt.Sprintf("%s has a password for the session, and {node} has none: %s", peer, r.Saw)
	}
	return fmt.Sprintf("{node} and %s have different passwords for their session: %s", peer, r.Saw)
}
