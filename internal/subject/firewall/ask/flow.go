package ask

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/calico-probe/calico-probe/probe/kernel"
)

// A flow is packets with the same ends. What it leaves open, a rule may require or not.
type flow struct {
	from, to netip.Addr
	in, out  string // interfaces, "" = open
	proto    string // "tcp", "udp", "ipip", ...; "" = open
	port     int    // the destination port, 0 = open
	here     bool   // to an address of this node; else both ends are pods
	opens    bool   // these packets open a connection
}

// proxyMark is the mark of packets that kube-proxy masquerades (its masqueradeBit, 14 by default).
const proxyMark = "0x4000"

// maxJumps limits the depth of nested jumps. The kernel allows 16.
const maxJumps = 16

// Whether a rule matches the flow.
type fits int

const (
	yes   fits = iota
	no         // surely not
	maybe      // it has conditions that are not understood
)

// certain returns the first rule of a chain or its jump targets that certainly applies one of the wanted verdicts to
// the flow, with its chain, or "". over reports that the later rules of the calling chains might not see the flow.
func (f flow) certain(all []kernel.Wall, w kernel.Wall, depth int, wanted ...string) (rule string, over bool) {
	for _, text := range w.Rules {
		is, to, fits := f.meets(text)
		switch {
		case fits == no:
		case slices.Contains(wanted, is):
			if fits == yes {
				return w.Name + ": " + text, true
			}
		case is == "jump", is == "goto":
			i := chainNamed(all, w, to)
			if i < 0 || depth == maxJumps {
				return "", true
			}
			rule, over = f.certain(all, all[i], depth+1, wanted...)
			if rule != "" && fits == maybe {
				continue // the rule may not match, so the next ones count
			}
			if rule != "" || over || is == "goto" {
				return rule, true
			}
		case is == "return":
			return "", fits == maybe
		case is == "drop", is == "reject": // not wanted: certain only if the rule matches for sure
			if fits == yes {
				return "", true
			}
		case is != "" || strings.Contains(text, " vmap"): // it may accept the flow, or take it elsewhere
			return "", true
		}
	}
	return "", w.More > 0
}

// chainNamed is the chain with a name in the same table, or -1 if it was not read.
func chainNamed(all []kernel.Wall, beside kernel.Wall, name string) int {
	return slices.IndexFunc(all, func(o kernel.Wall) bool {
		return o.Name == name && o.Table == beside.Table && o.Family == beside.Family && o.Legacy == beside.Legacy
	})
}

// verdicts are the words of a rule that decide about a packet, without jumps.
var verdicts = []string{"masquerade", "snat", "dnat", "nat", "redirect", "return", "accept", "drop", "reject", "queue",
	"nfqueue", "tproxy", "synproxy"}

// meets returns what a rule does, the chain that it jumps to, and whether it matches the flow.
func (f flow) meets(rule string) (does, to string, is fits) {
	words := strings.Fields(rule)
	for i := 0; i < len(words); i++ {
		not := words[i] == "not"
		if not {
			i++
		}
		if i == len(words) {
			return does, to, maybe
		}
		arg := ""
		if i+1 < len(words) {
			arg = words[i+1]
		}
		var met fits
		switch word := words[i]; {
		case slices.Contains(verdicts, word):
			does = word
			continue
		case word == "jump", word == "goto":
			does, to = word, arg
			i++
			continue
		case word == "set" && (arg == "mark" || arg == "priority"), word == "rewrite": // changes the packet
			i++
			continue
		case word == "ct" && arg == "state" && i+2 < len(words):
			met = f.ofState(words[i+2])
			i += 2
		default:
			var args int
			met, args = f.condition(word, arg)
			i += args
		}
		if not && met != maybe {
			met = no - met
		}
		switch met {
		case no:
			return does, to, no
		case maybe:
			is = maybe
		}
	}
	return does, to, is
}

// condition reports whether the flow meets one condition of a rule, and how many arguments the condition has.
func (f flow) condition(word, arg string) (met fits, args int) {
	switch word {
	case "saddr":
		return within(f.from, arg), 1
	case "daddr":
		return within(f.to, arg), 1
	case "saddrtype": // the sender is never an address of this node
		return f.local(arg, false), 1
	case "daddrtype":
		return f.local(arg, f.here), 1
	case "mark": // only packets to Services have kube-proxy's mark
		if mark, _, _ := strings.Cut(arg, "/"); mark == proxyMark {
			return no, 1
		}
		return maybe, 1
	case "iif":
		return ofDevice(f.in, arg), 1
	case "oif":
		return ofDevice(f.out, arg), 1
	case "tcp", "udp", "icmp", "icmpv6", "ipip", "esp", "sctp":
		return f.ofProto(word), 0
	case "proto":
		return f.ofProtos(arg), 1
	case "dport":
		return inPorts(f.port, arg), 1
	case "sport":
		return fromPorts(arg), 1
	case "syn":
		if f.opens && f.proto == "tcp" {
			return yes, 0
		}
	case "log", "counter":
		return yes, 0
	}
	return maybe, 0
}

// isSet reports whether a rule looks a value up in a set whose elements are not known.
func isSet(list string) bool { return strings.HasPrefix(list, "@") }

func (f flow) local(kind string, is bool) fits {
	switch {
	case kind != "local":
		return maybe
	case is:
		return yes
	}
	return no
}

// ofState reports whether the packet that opens a connection is in one of some states.
func (f flow) ofState(list string) fits {
	switch {
	case !f.opens || isSet(list):
		return maybe
	case slices.Contains(strings.Split(list, ","), "new"):
		return yes
	}
	return no
}

func (f flow) ofProto(name string) fits {
	switch f.proto {
	case "":
		return maybe
	case name:
		return yes
	}
	return no
}

// ofProtos is ofProto for a list of protocol numbers.
func (f flow) ofProtos(list string) fits {
	number := map[string]string{"tcp": "6", "udp": "17", "ipip": "4"}[f.proto]
	switch {
	case number == "" || isSet(list):
		return maybe
	case slices.Contains(strings.Split(list, ","), number):
		return yes
	}
	return no
}

// ofDevice compares an interface with the names in a rule, of which one that ends in + is a prefix.
func ofDevice(device, list string) fits {
	if device == "" || isSet(list) {
		return maybe
	}
	for name := range strings.SplitSeq(list, ",") {
		prefix, several := strings.CutSuffix(name, "+")
		if name == device || several && strings.HasPrefix(device, prefix) {
			return yes
		}
	}
	return no
}

// inPorts reports whether a port is in a list of ports and ranges: "22,80-90".
func inPorts(port int, list string) fits {
	if port == 0 {
		return maybe
	}
	for one := range strings.SplitSeq(list, ",") {
		first, last, several := strings.Cut(one, "-")
		if !several {
			last = first
		}
		from, bad := strconv.Atoi(first)
		to, worse := strconv.Atoi(last)
		switch {
		case bad != nil || worse != nil:
			return maybe
		case from <= port && port <= to:
			return yes
		}
	}
	return no
}

// firstFree is the lowest port from which the kernel sends without the sender's request (net.ipv4.ip_local_port_range).
const firstFree = 1024

// fromPorts reports whether a list of ports and ranges contains the port that a client or tunnel sends from. The kernel
// chooses that port, so only a list of lower ports certainly does not.
func fromPorts(list string) fits {
	for one := range strings.SplitSeq(list, ",") {
		if i := strings.LastIndex(one, "-"); i >= 0 {
			one = one[i+1:]
		}
		if last, err := strconv.Atoi(one); err != nil || last >= firstFree {
			return maybe
		}
	}
	return no
}

// within reports whether an address is in a list of addresses, prefixes and ranges.
func within(a netip.Addr, list string) fits {
	for one := range strings.SplitSeq(list, ",") {
		first, last, several := strings.Cut(one, "-")
		if from, err := netip.ParseAddr(first); err == nil {
			to := from
			if several {
				to, err = netip.ParseAddr(last)
			}
			switch {
			case err != nil:
				return maybe
			case from.BitLen() == a.BitLen() && !a.Less(from) && !to.Less(a):
				return yes
			}
			continue
		}
		net, err := netip.ParsePrefix(one)
		switch {
		case err != nil:
			return maybe
		case net.Contains(a):
			return yes
		}
	}
	return no
}
