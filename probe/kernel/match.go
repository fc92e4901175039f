package kernel

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// pair reads two ports in the machine's byte order.
func pair(data []byte) [2]uint16 {
	return [2]uint16{binary.NativeEndian.Uint16(data), binary.NativeEndian.Uint16(data[2:])}
}

// tcpText describes a match of iptables' extension tcp. The bits of inverted are XT_TCP_INV_*.
func tcpText(source, dest [2]uint16, option, mask, flags, inverted byte) string {
	const syn, ofSYN = 0x02, 0x17 // SYN among SYN, ACK, RST and FIN
	words := udpText(source, dest, inverted)
	switch {
	case option != 0 || mask != 0 && (mask != ofSYN || flags != syn):
		words += " match flags"
	case mask != 0:
		words += " " + inverse(inverted, 2) + "syn"
	}
	return strings.TrimSpace(words)
}

// udpText describes a match of iptables' extension udp. The bits of inverted are XT_UDP_INV_*.
func udpText(source, dest [2]uint16, inverted byte) string {
	var words []string
	for i, ports := range [][2]uint16{source, dest} {
		if text := portsText([]string{"sport", "dport"}[i], ports[0], ports[1]); text != "" {
			words = append(words, inverse(inverted, i)+text)
		}
	}
	return strings.Join(words, " ")
}

// inverse returns the word for an inverted condition, if a bit is set.
func inverse(bits byte, bit int) string {
	if bits&(1<<bit) != 0 {
		return "not "
	}
	return ""
}

// multiportText describes struct xt_multiport_v1: flags, a count, 15 ports, 15 flags of ranges, and an inversion.
func multiportText(data []byte) string {
	const sport, dport, ports, ranges, inverted = 0, 1, 2, 32, 47
	if len(data) <= inverted || data[0] > dport || int(data[1]) > 15 {
		return "match multiport"
	}
	var list []string
	for i := 0; i < int(data[1]); i++ {
		port := binary.NativeEndian.Uint16(data[ports+2*i:])
		if data[ranges+i] != 0 && i+1 < int(data[1]) { // up to the next port
			i++
			list = append(list, fmt.Sprintf("%d-%d", port, binary.NativeEndian.Uint16(data[ports+2*i:])))
			continue
		}
		list = append(list, fmt.Sprint(port))
	}
	word := map[byte]string{sport: "sport ", dport: "dport "}[data[0]]
	return inverse(data[inverted], 0) + word + strings.Join(list, ",")
}

// The states of connections, one bit each, as nftables and iptables number them.
var (
	nftStates = []string{"invalid", "established", "related", "new", "", "", "untracked"}
	xtStates  = []string{"invalid", "established", "related", "new", "", "", "snat", "dnat", "untracked"}
)

// stateText describes a condition on the state of a connection.
func stateText(mask uint32, states []string) string {
	var names []string
	for bit, name := range states {
		if name != "" && mask&(1<<bit) != 0 {
			names = append(names, name)
			mask &^= 1 << bit
		}
	}
	if mask != 0 || len(names) == 0 {
		return "match ct"
	}
	return "ct state " + strings.Join(names, ",")
}

// trackedText describes struct xt_conntrack_mtinfo1, 2 or 3, or struct xt_state_info, if they test the state alone.
func trackedText(name string, revision byte, data []byte) string {
	const state, alias = 1 << 0, 1 << 13 // XT_CONNTRACK_STATE and XT_CONNTRACK_STATE_ALIAS
	at := map[byte]int{1: 146, 2: 146, 3: 146}[revision]
	switch {
	case name == "state" && len(data) >= 4:
		return stateText(binary.NativeEndian.Uint32(data), xtStates)
	case at == 0 || len(data) < at+6 || binary.NativeEndian.Uint16(data[at:])&^alias != state:
		return "match " + name
	}
	mask := uint32(data[at+4])
	if revision > 1 {
		mask = uint32(binary.NativeEndian.Uint16(data[at+4:]))
	}
	return inverse(data[at+2], 0) + stateText(mask, xtStates)
}
