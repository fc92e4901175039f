package cause

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/probe"
)

// bgpOneWay is a session that opens and dies of silence.
func bgpOneWay(f diagnose.Findings) []diagnose.Case {
	return perSession(f, func(s session, c *diagnose.Case) bool {
		state := s.Facts.Str(bgp.FactBGPState)
		hangs := (state == "OpenSent" || state == "OpenConfirm") && diagnose.ReasonOf(s.Finding) == ""
		if diagnose.ReasonOf(s.Finding) != "hold-expired" && !hangs || s.refusal() != "" || !s.answers() {
			return false
		}
		c.For = append(diagnose.Suggests([]diagnose.Finding{s.Finding}),
			diagnose.Shows([]diagnose.Finding{s.ping}, s.there)...)
		c.Says = fmt.Sprintf("the session with %s opens and then hears nothing: packets of one direction, or large ones, are lost", s.Target)
		return true
	})
}

// bgpWaits is the end of a session that can only wait.
func bgpWaits(f diagnose.Findings) []diagnose.Case {
	return perSession(f, func(s session, c *diagnose.Case) bool {
		if s.Facts.Str(bgp.FactBGPState) != "Passive" || s.refusal() != "" ||
			diagnose.ReasonOf(s.Finding) == "unknown-peer" ||
			!s.ported {
			return false
		}
		c.For, c.Fix = diagnose.Hints([]diagnose.Finding{s.Finding}), s.where()
		c.Says = fmt.Sprintf("{node} waits for %s to dial (Passive), and nothing here says why it does not get through",
			s.Target)
		for _, theirs := range s.there {
			if diagnose.IsBad(theirs.Status) {
				c.For = append(c.For, diagnose.Hints([]diagnose.Finding{theirs})...)
				c.Says = fmt.Sprintf("{node} waits for %s to dial (Passive), and that end says: %s", s.Target, theirs.Saw)
			}
		}
		return true
	})
}

// bgpPeerSilent is a peer that is no node, and that nobody hears of.
func bgpPeerSilent(f diagnose.Findings) []diagnose.Case {
	return perSession(f, func(s session, c *diagnose.Case) bool {
		silent := []string{"timeout", "host-unreachable", "net-unreachable"}
		said := cmp.Or(s.refusal(), diagnose.ReasonOf(s.Finding))
		secret := s.port.Facts[probe.FactPassword] == true || diagnose.ReasonOf(s.Finding) == "password" || s.forPassword(f)
		if diagnose.NodeOf(s.Finding) != "" || !s.ported || s.answers() || secret || !slices.Contains(silent, said) {
			return false
		}
		c.For = append(diagnose.Suggests([]diagnose.Finding{s.port}), diagnose.Shows([]diagnose.Finding{s.Finding})...)
		other := diagnose.Keep(f.Elsewhere(bgp.BGPPort.ID),
			func(r diagnose.Finding) bool { return r.Target == s.port.Target && diagnose.IsBad(r.Status) })
		if len(other) > 0 && said != "timeout" { // which a firewall makes too
			c.For = append(c.For, diagnose.Hints(other[:1])...)
		}
		c.Says = fmt.Sprintf("%s, which is no node of the cluster, takes no BGP connection: %s", s.Target, s.port.Saw)
		return true
	})
}
