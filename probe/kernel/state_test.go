package kernel

import (
	"encoding/binary"
	"slices"
	"testing"
)

// differsRule is a legacy iptables entry for a destination and a UDP port.
func differsRule(target, data string, to [4]byte, port uint16) []byte {
	match := make([]byte, targetHead+16)
	binary.NativeEndian.PutUint16(match, uint16(len(match)))
	copy(match[2:], "udp")
	binary.NativeEndian.PutUint16(match[targetHead+2:], 0xffff)
	binary.NativeEndian.PutUint16(match[targetHead+4:], port)
	binary.NativeEndian.PutUint16(match[targetHead+6:], port)
	b := make([]byte, legacy4.entry, legacy4.entry+len(match)+targetHead+len(data))
	copy(b[4:], to[:])
	copy(b[12:], "\xff\xff\xff\xff")
	binary.NativeEndian.PutUint16(b[80:], 17)
	b = append(b, match...)
	binary.NativeEndian.PutUint16(b[legacy4.match+4:], uint16(len(b)))
	head := make([]byte, targetHead)
	copy(head[2:], target)
	b = append(append(b, head...), data...)
	binary.NativeEndian.PutUint16(b[legacy4.match+6:], uint16(len(b)))
	return b
}

// TestLegacyWalls checks the text of a legacy iptables table: NodeLocal DNS's rule and the policy, without unwanted
// chains.
func TestLegacyWalls(t *testing.T) {
	t.Parallel()
	const padded = "cali-PREROUTING\x00............................"
	untracked := differsRule("CT", "\x01\x00\x00\x00\x00\x00\x00\x00", [4]byte{10, 96, 0, 10}, 53)
	policy, name := ruleOf(legacy4, "", verdict(-2)), ruleOf(legacy4, "ERROR", padded)
	jump := ruleOf(legacy4, "", verdict(int32(len(untracked)+2*len(policy)+len(name))))
	info := legacyInfo{Hooks: 1 << 0}
	info.Last[0] = uint32(len(untracked) + len(jump))
	all := slices.Concat(untracked, jump, policy, name, ruleOf(legacy4, "", verdict(-5)),
		ruleOf(legacy4, "ERROR", "ERROR\x00..."))
	got, err := legacyWalls(legacy4, "ip", "raw", info, all, func(_, chain string) bool { return chain == "PREROUTING" })
	if err != nil || len(got) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	want := []string{"daddr 10.96.0.10 udp dport 53 notrack", "jump cali-PREROUTING"}
	if w := got[0]; w.Policy != "accept" || w.Hook != "prerouting" || len(w.Rules) != 2 ||
		w.Rules[0] != "daddr 10.96.0.10 udp dport 53 notrack" || leadsTo(w.Rules[1]) != "cali-PREROUTING" {
		t.Errorf("%+v, want %q", w, want)
	}
	if _, err := legacyWalls(legacy4, "ip", "raw", info, all[:len(all)-3], func(_,
		_ string) bool {
		return true
	}); err == nil {
		t.Error("a table that is cut is read")
	}
}
