package kernel

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
)

// Wall is one firewall chain, with its rules as text.
type Wall struct {
	Family      string // "ip", "ip6", "inet", "bridge", "arp", "netdev"
	Table, Name string
	Legacy      bool   // true for legacy iptables
	Hook        string // "" = other chains jump to this chain
	Policy      string // of a chain with a hook: "accept" or "drop"
	Priority    int
	Rules       []string
	More        int // number of rules that are not listed
}

// Limits on the number of listed chains, and on the number of listed rules in one chain.
const (
	maxWalls     = 200
	maxWallRules = 64
)

// add adds a rule if the limit allows it.
func (w *Wall) add(rule string) {
	if len(w.Rules) >= maxWallRules {
		w.More++
		return
	}
	w.Rules = append(w.Rules, rule)
}

// unreturned removes the return rule that legacy iptables adds to the end of every user-defined chain.
func (w *Wall) unreturned() {
	switch last := len(w.Rules) - 1; {
	case w.Hook != "":
	case w.More > 0:
		w.More--
	case last >= 0 && w.Rules[last] == "return":
		w.Rules = w.Rules[:last]
	}
}

// Queue describes the queueing disciplines and programs on an interface ("tc", XDP).
type Queue struct {
	Device  string
	Kinds   []string // kinds of its queueing disciplines, without duplicates
	Filters []string // its filters: "ingress bpf cil_from_netdev"
	XDP     bool     // true if a program sees each packet before the kernel does
}

// leadsTo returns the chain to which a rule jumps according to its text, or "" if the rule does not jump.
func leadsTo(rule string) string {
	words := strings.Fields(rule)
	for i, word := range words {
		if (word == "jump" || word == "goto") && i+1 < len(words) {
			return words[i+1]
		}
	}
	return ""
}

// ofCalico is the prefix of the comment on rules that Felix inserts into chains of other owners.
const ofCalico = "cali:"

// hookNames lists the hooks of IPv4 and IPv6 in the kernel's order (linux/netfilter.h).
var hookNames = []string{"prerouting", "input", "forward", "output", "postrouting"}

// legacyWalls lists the chains of a legacy iptables table, with their rules.
func legacyWalls(l legacyLayout, family, table string, info legacyInfo, entries []byte,
	wanted func(table, chain string) bool,
) ([]Wall, error) {
	names := map[int32]string{} // names of user-defined chains, by their offset
	if err := legacyEach(l, entries, func(at, next int, rest []byte, begin int) {
		if target, data := legacyTarget(rest, begin, next-at); target == "ERROR" {
			names[int32(next)] = text(data)
		}
	}); err != nil {
		return nil, err
	}
	var out []Wall
	current := -1
	err := legacyEach(l, entries, func(at, next int, rest []byte, begin int) {
		target, data := legacyTarget(rest, begin, next-at)
		hook := info.hookAt(info.First, at)
		switch {
		case hook >= 0:
			out = append(out, Wall{Family: family, Table: table, Name: strings.ToUpper(hookNames[hook]), Legacy: true,
				Hook: hookNames[hook]})
			current = len(out) - 1
		case names[int32(at)] != "" && names[int32(at)] != "ERROR":
			out = append(out, Wall{Family: family, Table: table, Name: names[int32(at)], Legacy: true})
			current = len(out) - 1
		}
		if target == "ERROR" || current < 0 {
			return
		}
		verdict := legacyVerdict(target, data, names, next)
		of := &out[current]
		last := info.hookAt(info.Last, at)
		switch {
		case of.Hook != "" && last >= 0 && hookNames[last] == of.Hook:
			of.Policy = verdict
		default:
			rule := strings.TrimSpace(legacyMatch(l, rest, begin) + " " + verdict)
			if !strings.Contains(string(rest[l.entry:begin]), ofCalico) {
				of.add(rule)
			}
		}
	})
	for i := range out {
		out[i].unreturned()
	}
	out = slices.DeleteFunc(out, func(w Wall) bool { return !wanted(w.Table, w.Name) })
	return out[:min(len(out), maxWalls)], err
}

// hookAt returns the number of the hook at that offset, or -1 if there is none.
func (i legacyInfo) hookAt(bounds [5]uint32, at int) int {
	for hook, bound := range bounds {
		if i.Hooks&(1<<hook) != 0 && int(bound) == at {
			return hook
		}
	}
	return -1
}

// legacyEach calls each for every entry in a table. It passes the offset of the entry, of the next
// entry, and of the entry's target.
func legacyEach(l legacyLayout, entries []byte, each func(at, next int, rest []byte, begin int)) error {
	for at := 0; at < len(entries); {
		rest := entries[at:]
		if len(rest) < l.entry {
			return errLegacy
		}
		begin, next := int(binary.NativeEndian.Uint16(rest[l.match+4:])), int(binary.NativeEndian.Uint16(rest[l.match+6:]))
		if begin < l.entry || next < begin+targetHead+4 || next > len(rest) {
			return errLegacy
		}
		each(at, at+next, rest, begin)
		at += next
	}
	return nil
}

// targetHead is the size of struct xt_entry_target.
const targetHead = 32

func legacyTarget(rest []byte, begin, size int) (name string, data []byte) {
	return text(rest[begin+2 : begin+targetHead-1]), rest[begin+targetHead : size]
}

// legacyVerdict describes what a rule does. Netfilter stores its verdicts as negative numbers minus one. next is the
// offset of the next rule. A rule that only counts jumps to that offset.
func legacyVerdict(target string, data []byte, names map[int32]string, next int) string {
	if target == "CT" && len(data) >= 2 && binary.NativeEndian.Uint16(data)&1 != 0 { // XT_CT_NOTRACK
		return "notrack"
	}
	if target != "" {
		return strings.ToLower(target)
	}
	switch verdict := int32(binary.NativeEndian.Uint32(data)); {
	case int(verdict) == next: // the rule only counts
		return ""
	case verdict >= 0:
		return "jump " + cmp.Or(names[verdict], "?")
	case verdict == -1:
		return "drop"
	case verdict == -2:
		return "accept"
	case verdict == -5:
		return "return"
	default:
		return fmt.Sprintf("verdict %d", verdict)
	}
}

// legacyMatch describes the packets that a rule matches: struct ipt_ip or ip6t_ip6, followed by the
// matches of extensions.
func legacyMatch(l legacyLayout, rest []byte, begin int) string {
	size, proto, inverted := 4, 80, 83
	if l == legacy6 {
		size, proto, inverted = 16, 128, 132
	}
	not := func(bit int) string { // IPT_INV_* and IP6T_INV_*, which have the same values
		if rest[inverted]&(1<<bit) != 0 {
			return "not "
		}
		return ""
	}
	var words []string
	for i, word := range []string{"saddr", "daddr"} {
		addr, mask := rest[i*size:(i+1)*size], rest[(i+2)*size:(i+3)*size]
		if bits := leadingBits(mask); bits > 0 {
			words = append(words, not(3+i)+word, networkText(addr, bits))
		}
	}
	for i, word := range []string{"iif", "oif"} {
		at := 4*size + 16*i
		if name := text(rest[at : at+16]); name != "" { // a name with a trailing + is a prefix
			words = append(words, not(i)+word, name)
		}
	}
	if n := binary.NativeEndian.Uint16(rest[proto:]); n != 0 {
		words = append(words, not(6)+protocolText(byte(n)))
	}
	for at := l.entry; at+targetHead <= begin; {
		size := int(binary.NativeEndian.Uint16(rest[at:]))
		if size < targetHead || at+size > begin {
			break
		}
		name, data := text(rest[at+2:at+targetHead-1]), rest[at+targetHead:at+size]
		switch {
		case name == "tcp" && len(data) >= 12: // struct xt_tcp
			words = append(words, tcpText(pair(data), pair(data[4:]), data[8], data[9], data[10], data[11]))
		case name == "udp" && len(data) >= 9: // struct xt_udp
			words = append(words, udpText(pair(data), pair(data[4:]), data[8]))
		case name == "multiport":
			words = append(words, multiportText(data))
		case name == "conntrack" || name == "state":
			words = append(words, trackedText(name, rest[at+targetHead-1], data))
		case name == "mark" && len(data) > 8: // struct xt_mark_mtinfo1
			mark := markText(binary.NativeEndian.Uint32(data), binary.NativeEndian.Uint32(data[4:]))
			if data[8] != 0 {
				mark = "not " + mark
			}
			words = append(words, mark)
		case name == "addrtype" && len(data) >= 8: // struct xt_addrtype_info_v1
			words = append(words, kindsText(binary.NativeEndian.Uint16(data), binary.NativeEndian.Uint16(data[2:]),
				binary.NativeEndian.Uint32(data[4:])))
		case name != "comment":
			words = append(words, "match "+name)
		}
		at += size
	}
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ")
}

// kindsText describes the types that the source and destination addresses of packets must have. The types are bit sets
// of the kernel's route types (1 << RTN_LOCAL is 4). Flag bits 0 and 1 invert the two conditions. Other flags add
// restrictions.
func kindsText(source, dest uint16, flags uint32) string {
	const local = 1 << Local
	var words []string
	for i, kinds := range []uint16{source, dest} {
		if kinds == 0 {
			continue
		}
		if kinds != local || flags>>2 != 0 {
			return "match addrtype"
		}
		not := ""
		if flags&(1<<i) != 0 {
			not = "not "
		}
		words = append(words, not+[]string{"saddrtype", "daddrtype"}[i]+" local")
	}
	return strings.Join(words, " ")
}

// markText describes the mark that is required within the bits of the mask.
func markText(mark, mask uint32) string {
	if mask == math.MaxUint32 {
		return fmt.Sprintf("mark %#x", mark)
	}
	return fmt.Sprintf("mark %#x/%#x", mark, mask)
}

// leadingBits returns the number of leading bits that are set in a mask.
func leadingBits(mask []byte) int {
	n := 0
	for _, b := range mask {
		for bit := 7; bit >= 0; bit-- {
			if b&(1<<bit) == 0 {
				return n
			}
			n++
		}
	}
	return n
}

// networkText formats an address with its prefix length. The last bytes of the address may be missing.
func networkText(addr []byte, bits int) string {
	whole := make([]byte, 4)
	if len(addr) > 4 {
		whole = make([]byte, 16)
	}
	copy(whole, addr)
	a, _ := netip.AddrFromSlice(whole)
	if bits == a.BitLen() {
		return a.String()
	}
	return netip.PrefixFrom(a, bits).Masked().String()
}

func portsText(word string, from, to uint16) string {
	switch {
	case from == 0 && to == 0xffff:
		return ""
	case from == to:
		return fmt.Sprintf("%s %d", word, from)
	}
	return fmt.Sprintf("%s %d-%d", word, from, to)
}

func protocolText(n byte) string {
	if name := map[byte]string{1: "icmp", 6: "tcp", 17: "udp", 50: "esp", 58: "icmpv6", 132: "sctp",
		4: "ipip"}[n]; name != "" {
		return name
	}
	return fmt.Sprintf("proto %d", n)
}
