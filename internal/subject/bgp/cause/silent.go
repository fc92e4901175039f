package cause

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/probe"
)

// bgpPeerSilent matches a silent peer that is not a cluster node.
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
		if len(other) > 0 && said != "timeout" { // a firewall also causes timeouts
			c.For = append(c.For, diagnose.Hints(other[:1])...)
		}
		c.Says = fmt.Sprintf("the external peer %s does not answer BGP connections: %s", s.Target, s.port.Saw)
		return true
	})
}
