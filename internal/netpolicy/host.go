package netpolicy

import (
	"maps"
	"net/netip"
)

// AtHost returns the policy that denies a TCP port at a HostEndpoint with these labels, or "" if there is none. held
// reports whether a policy selects the HostEndpoint. If no sender's address is given, the packets may come from any
// sender.
func (p Policies) AtHost(with map[string]string, direction string, port int, from netip.Addr) (by string, held bool) {
	with = maps.Clone(with)
	if with == nil {
		with = map[string]string{}
	}
	f := Flow{Protocol: ProtocolTCP, Port: port, From: End{unknown: true}, To: End{unknown: true}}
	if from.IsValid() {
		f.From = End{Addrs: []netip.Addr{from}}
	}
	d := p.decide(direction, func(one *Policy) answer {
		if one.namespace != "" {
			return no
		}
		return p.holds(one, &End{Labels: with})
	}, func(_ *Policy, r *rule) answer { return p.about(r, &f) })
	return d.By, d.held
}
