package netpolicy

import (
	"cmp"
	"fmt"
	"net/netip"
	"strconv"

	"github.com/calico-probe/calico-probe/probe"
)

// flowTo returns the flow from an end to a destination.
func (d *Destination) flowTo(from End) *Flow {
	return &Flow{Protocol: d.Protocol, Port: d.Port, From: from, To: d.End}
}

// The ways in which a policy blocks pods' DNS queries.
const (
	dnsUnlisted = "unlisted" // egress to other destinations is allowed, but no rule allows DNS
	DNSDenied   = "denied"   // a rule for certain networks or pods denies it
	DNSMissed   = "missed"   // a rule for the DNS port does not match it
	DNSShut     = "shut"     // a policy on the DNS pods does not allow the pods
	dnsNowhere  = "nowhere"  // egress is allowed only to addresses that are not the DNS server's
	DNSNoEgress = "noegress" // the policy does not allow any egress
)

// WithoutDNS records which policy blocks pods' DNS queries, and how.
type WithoutDNS struct {
	By, How string // the policy
	Set     string // the network set that a rule denies, and its network that contains the DNS; "" = none
}

// WithoutDNS returns which policy blocks a pod's queries to each of the DNS servers, and how. By is "" if no policy
// does, or if that is uncertain.
func (p Policies) WithoutDNS(from End, servers []Destination) (out WithoutDNS) {
	lets, missed, nowhere := "", "", ""
	for i := range servers {
		d := &servers[i]
		f := d.flowTo(from)
		if in := p.receives(f); in.Denied() && d.Port != 0 {
			if out.How == "" {
				out = WithoutDNS{By: in.By, How: DNSShut}
			}
			if !p.Sends(f).Denied() {
				continue
			}
		}
		sent := p.decide(probe.DeniesEgress, func(one *Policy) answer { return p.holds(one, &from) },
			func(one *Policy, r *rule) answer {
				is := p.about(r, f)
				if is == no && r.action == "Allow" && !r.byNets() {
					lets = cmp.Or(lets, one.name)
					if forDNS(r, d.Port) {
						missed = cmp.Or(missed, one.name)
					}
				}
				return is
			})
		nowhere = cmp.Or(nowhere, sent.By)
		switch {
		case !sent.Denied():
			return WithoutDNS{}
		case sent.chosen && !p.Sends(&Flow{Protocol: ProtocolTCP, Port: HTTPSPort, From: from, To: theInternet}).Denied():
			out = WithoutDNS{By: sent.By, How: DNSDenied}
			if len(d.Addrs) > 0 {
				out.Set = p.setWith(&sent.rule.dst, d.Addrs[0])
			}
		}
	}
	switch {
	case out.How != "":
		return out
	case missed != "":
		return WithoutDNS{By: missed, How: DNSMissed}
	case lets != "":
		return WithoutDNS{By: lets, How: dnsUnlisted}
	}
	if by := p.deniesIn(probe.DeniesEgress, from.Namespace, from.Labels); by != "" {
		return WithoutDNS{By: by, How: DNSNoEgress}
	}
	return WithoutDNS{By: nowhere, How: dnsNowhere}
}

// theInternet represents all destinations outside the cluster. It is an address in TEST-NET-2, which is reserved for
// documentation (RFC 5737).
var theInternet = End{Addrs: []netip.Addr{netip.AddrFrom4([4]byte{198, 51, 100, 1})}}

// forDNS reports whether a rule is only for the port of a DNS server.
func forDNS(r *rule, port int) bool {
	if len(r.dst.ports) != 1 {
		return false
	}
	text := fmt.Sprint(r.dst.ports[0])
	return text == "53" || text == strconv.Itoa(port) || text == "dns"
}

// Closed returns the policy that denies all senders' queries by a protocol to each of the DNS servers. It returns "" if
// at least one server may accept them.
func (p Policies) Closed(servers []Destination, protocol string) (by string) {
	for i := range servers {
		d := servers[i]
		d.Protocol = protocol
		in := p.receives(d.flowTo(End{unknown: true}))
		if !in.Denied() || d.Port == 0 {
			return ""
		}
		by = cmp.Or(by, in.By)
	}
	return by
}

// HTTPSPort is the port of a sample flow that shows whether all outgoing traffic is denied. It must not be one of
// Felix's failsafe ports, which policies cannot close. The default failsafe ports do not include 443 (felix/config).
const HTTPSPort = 443
