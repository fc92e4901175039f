package netpolicy

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// answer records whether a rule matches a packet, or whether a policy applies to a pod.
type answer int

// If facts about the cluster are unknown, the answer is maybe.
const (
	no answer = iota
	maybe
	yes
)

func (a answer) not() answer { return yes - a }

// sure returns the answer if everything is known.
func sure(is bool) answer {
	if is {
		return yes
	}
	return no
}

// A Flow represents packets from one end to the other, to a port on the receiver.
type Flow struct {
	Protocol string
	Port     int // 0 = unknown
	From, To End
}

// An End sends or receives packets. It is a pod if it has labels, otherwise an address.
type End struct {
	unknown   bool // any sender or receiver
	Namespace string
	Labels    map[string]string // a pod's labels in Calico, without namespace and ServiceAccount labels
	Addrs     []netip.Addr      // the addresses that policies match
	Also      []netip.Addr      // other addresses at which it may be queried instead
	Cached    bool              // a cache on the node, with an unknown address, may answer instead
	Hinted    []netip.Addr      // addresses before translation, which a rule may match instead
	Ports     map[string]int    // by PROTOCOL/NAME; nil = unknown
	Service   string            // NAMESPACE/NAME of the Service to which it belongs
}

// about reports whether a rule matches a flow.
func (p Policies) about(r *rule, f *Flow) answer {
	if r.protocol != "" && r.protocol != f.Protocol || r.notProtocol != "" && r.notProtocol == f.Protocol {
		return no
	}
	out := yes
	if r.icmp {
		if out = maybe; !strings.HasPrefix(f.Protocol, "ICMP") { // types are not compared
			return no
		}
	}
	if r.version != 0 {
		out = min(out, ofFamily(r.version, f.To.Addrs))
	}
	if out == no {
		return no
	}
	return min(out, p.matches(&r.src, &f.From, f.Protocol, -1), p.matches(&r.dst, &f.To, f.Protocol, f.Port))
}

// ofFamily reports whether addresses have an IP version.
func ofFamily(version int, addrs []netip.Addr) answer {
	return each(addrs, func(a netip.Addr) answer { return sure(a.Is4() == (version == 4)) })
}

// each returns the common answer for some addresses. It is maybe if the answers differ, or if no address is known.
func each(addrs []netip.Addr, of func(netip.Addr) answer) answer {
	least, most := yes, no
	for _, a := range addrs {
		is := of(a)
		least, most = min(least, is), max(most, is)
	}
	if len(addrs) == 0 || least != most {
		return maybe
	}
	return least
}

// matches reports whether an end meets a rule's requirements. port is -1 for a sender, because a sender may use any
// port.
func (p Policies) matches(x *entity, e *End, protocol string, port int) answer {
	if x.empty() {
		return yes
	}
	out := portsOf(x, e, protocol, port)
	if e.unknown {
		if named := *x; len(x.ports)+len(x.notPorts) > 0 {
			named.ports, named.notPorts = nil, nil
			return min(out, max(maybe, sure(named.empty())))
		}
		return maybe
	}
	out = min(out, p.netsOf(x, e))
	if x.service != "" {
		out = min(out, max(maybe, sure(x.service == e.Service))) // another Service may have the same pods
	}
	if x.selects() || x.notSelector != "" && x.of != "" {
		out = min(out, p.selected(x, e))
	}
	if x.notSelector != "" {
		out = min(out, p.selected(&entity{selector: x.notSelector}, e).not())
	}
	return out
}

// netsOf reports whether an end is in a rule's networks.
func (p Policies) netsOf(x *entity, e *End) answer {
	out := yes
	if x.badNets {
		out = maybe
	}
	if len(x.nets) > 0 {
		out = min(out, inNets(x.nets, e))
		elsewhere := len(x.ports) > 0 || slices.ContainsFunc(x.nets, linkLocal.Overlaps)
		if out == no && (e.Cached && elsewhere || len(e.Hinted) > 0 && inNets(x.nets, &End{Addrs: e.Hinted}) != no) {
			out = maybe
		}
	}
	if len(x.notNets) > 0 {
		out = min(out, inNets(x.notNets, e).not())
	}
	return out
}

// inNets reports whether an end's addresses are in one of the given networks.
func inNets(nets []netip.Prefix, e *End) answer {
	in := func(a netip.Addr) answer {
		return sure(slices.ContainsFunc(nets, func(n netip.Prefix) bool { return n.Contains(a) }))
	}
	out := each(e.Addrs, in)
	if len(e.Also) > 0 && out != each(e.Also, in) {
		return maybe
	}
	return out
}

// portsOf reports whether a rule's ports include a port.
func portsOf(x *entity, e *End, protocol string, port int) answer {
	out := yes
	if len(x.ports) > 0 {
		out = inPorts(x.ports, e, protocol, port)
	}
	if len(x.notPorts) > 0 {
		out = min(out, inPorts(x.notPorts, e, protocol, port).not())
	}
	return out
}

func inPorts(ports []any, e *End, protocol string, port int) answer {
	if port <= 0 {
		return maybe
	}
	out := no
	for _, one := range ports {
		text, isText := one.(string)
		if !isText {
			out = max(out, sure(int(number(one, 0)) == port))
			continue
		}
		first, last, isRange := strings.Cut(text, ":")
		from, err := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		switch at, known := e.Ports[protocol+"/"+text]; {
		case known:
			out = max(out, sure(at == port))
		case err != nil || isRange && err2 != nil: // a named port
			if e.Ports == nil {
				out = max(out, maybe)
			}
		case isRange:
			out = max(out, sure(from <= port && port <= to))
		default:
			out = max(out, sure(from == port))
		}
	}
	return out
}

// A Destination represents pods in one namespace with the same labels, and the port to which packets are sent.
type Destination struct {
	Protocol string
	Port     int // 0 = unknown
	End
}

// linkLocal contains the addresses of caches on the node, such as NodeLocal DNSCache.
var linkLocal = netip.MustParsePrefix("169.254.0.0/16")
