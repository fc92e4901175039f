package cause

import (
	"fmt"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/probe"
)

// bgpFiltered matches port 179 dropped on the way.
func bgpFiltered(f diagnose.Findings) []diagnose.Case {
	return perSession(f, func(s session, c *diagnose.Case) bool {
		if s.refusal() != "timeout" || !s.answers() || s.port.Facts[probe.FactPassword] == true ||
			diagnose.ReasonOf(s.Finding) == "password" || s.forPassword(f) {
			return false
		}
		c.For = append(diagnose.Suggests([]diagnose.Finding{s.port}), append(diagnose.Hints([]diagnose.Finding{s.ping}),
			diagnose.Shows([]diagnose.Finding{s.Finding}, s.there)...)...)
		if diagnose.ReasonOf(s.Finding) == "host-unreachable" { // BIRD got an answer
			c.Against = diagnose.Hints([]diagnose.Finding{s.Finding})
		}
		c.For = append(c.For, diagnose.Shows(s.outside)...)
		c.Says = fmt.Sprintf("TCP port %v from {node} to %s is dropped on the way there or back: the machine answers a ping but no connection", s.port.Facts[probe.FactPort], s.Target)
		if len(s.outside) > 0 {
			c.Says += fmt.Sprintf("; %s reports that a firewall on or before {node} rejects its connections", s.outside[0].Node)
		}
		shutBy(f, s, c)
		return true
	})
}

// bgpRejected matches a firewall that rejects BGP with an error.
func bgpRejected(f diagnose.Findings) []diagnose.Case {
	return perSession(f, func(s session, c *diagnose.Case) bool {
		lives := diagnose.Keep(s.theirBirds, func(r diagnose.Finding) bool { return r.Status == probe.OK })
		switch reason := s.refusal(); {
		case reason == "denied":
			c.For = append(diagnose.Proves([]diagnose.Finding{s.port}), diagnose.Shows([]diagnose.Finding{s.Finding})...)
			c.Says = fmt.Sprintf("{node}'s own firewall blocks outgoing BGP to %s", s.Target)
			port, _ := s.port.Facts.Num(probe.FactPort)
			c.Args["port"], c.Args["iptables"] = diagnose.NumberArg(port), diagnose.OwnArg(map[bool]string{true: "ip6tables",
				false: "iptables"}[c.Family == 6])
			c.FixName = "open-output"
			return true
		case reason == "rejected":
			c.For = diagnose.Proves([]diagnose.Finding{s.port})
		case reason == "host-unreachable" && s.answers():
			c.For = append(diagnose.Suggests([]diagnose.Finding{s.port}), diagnose.Hints([]diagnose.Finding{s.ping})...)
		case reason == "refused" && len(lives) > 0 && !s.elsewhere():
			// The sender of the reset is unknown, and BIRD may have started in between.
			c.For = append(diagnose.Suggests([]diagnose.Finding{s.port}), diagnose.Shows(lives, s.listens)...)
		case reason == "timeout" && len(s.outside) > 0: // kernels answer so only once a second
			rejectedHere(f, s, c)
			return true
		case reason == "timeout" && diagnose.ReasonOf(s.Finding) == "host-unreachable" && s.answers():
			c.For = append(diagnose.Suggests([]diagnose.Finding{s.Finding}),
				diagnose.Shows([]diagnose.Finding{s.port, s.ping})...)
			c.Says = fmt.Sprintf("a firewall rejects BGP from {node} to %s: BIRD got its ICMP error, and the machine answers otherwise", s.Target)
			c.FixName = s.where()
			return true
		default:
			return false
		}
		c.For = append(c.For, diagnose.Shows([]diagnose.Finding{s.Finding}, s.there)...)
		c.Says = fmt.Sprintf("a firewall rejects BGP from {node} to %s; the machine answers otherwise", s.Target)
		c.FixName = s.where()
		shutBy(f, s, c)
		return true
	})
}

// peerBirdDead matches a peer whose machine is up but whose BIRD is down.
func peerBirdDead(f diagnose.Findings) []diagnose.Case {
	return perSession(f, func(s session, c *diagnose.Case) bool {
		said := s.refusal()
		if !s.ported {
			said = diagnose.ReasonOf(s.Finding)
		}
		if said != "refused" {
			return false
		}
		dead := diagnose.Keep(s.theirBirds, func(r diagnose.Finding) bool { return r.Status == probe.Fail })
		if s.ported {
			c.For = diagnose.Suggests([]diagnose.Finding{s.port})
		}
		c.For = append(c.For, diagnose.Clues(map[bool]int{true: 0, false: diagnose.Strong}[s.ported],
			[]diagnose.Finding{s.Finding})...)
		c.For = append(c.For, diagnose.Hints(dead)...)
		c.FixName = s.where()
		if len(dead) == 0 && !s.elsewhere() {
			c.Against = diagnose.Suggests(diagnose.Keep(s.theirBirds,
				func(r diagnose.Finding) bool { return r.Status == probe.OK }))
		}
		c.Says = fmt.Sprintf("%s refuses BGP: its machine answers, but the port is closed", s.Target)
		switch {
		case len(dead) == 0 && s.elsewhere():
			c.For = append(c.For, diagnose.Shows(s.listens)...)
			c.Says += " (" + s.instead() + ")"
		case len(dead) > 0:
			c.Says = fmt.Sprintf("%s refuses BGP: %s there reports that its BIRD is not up (%s)", s.Target, bgp.BirdSocket.ID,
				dead[0].Saw)
		}
		return true
	})
}
