package kernel

import (
	"encoding/binary"
	"net/netip"
	"testing"
)

// TestDiverted reads iptables targets in each revision, whole and truncated.
func TestDiverted(t *testing.T) {
	t.Parallel()
	u32 := func(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }
	join := func(parts ...[]byte) (out []byte) {
		for _, p := range parts {
			out = append(out, p...)
		}
		return out
	}
	four, port := []byte{10, 88, 0, 12}, []byte{0x28, 0x0a}
	wide := join(four, make([]byte, 12))
	six := netip.MustParseAddr("fd00::7").AsSlice()
	for name, c := range map[string]struct {
		target   string
		revision byte
		v4       bool
		data     []byte
		want     string
	}{
		"DNAT of old":     {"DNAT", 0, true, join(u32(1), u32(3), four, four, port, port), "dnat 10.88.0.12:10250"},
		"DNAT":            {"DNAT", 2, true, join(u32(3), wide, wide, port, port, []byte{0, 0}), "dnat 10.88.0.12:10250"},
		"DNAT of IPv6":    {"DNAT", 1, false, join(u32(3), six, six, port, port), "dnat [fd00::7]:10250"},
		"one of several":  {"DNAT", 1, false, join(u32(1), six, make([]byte, 16), port, port), "dnat invalid AddrPort"},
		"REDIRECT":        {"REDIRECT", 0, true, join(u32(1), u32(2), four, four, port, port), "redirect invalid AddrPort"},
		"REDIRECT, IPv6":  {"REDIRECT", 0, false, join(u32(2), wide, wide, port, port), "redirect invalid AddrPort"},
		"TPROXY":          {"TPROXY", 1, true, join(u32(1), u32(1), wide, port), "tproxy 10.88.0.12:10250"},
		"TPROXY anywhere": {"TPROXY", 0, true, join(u32(1), u32(1), make([]byte, 4), port), "tproxy invalid AddrPort"},
		"another":         {"MASQUERADE", 0, true, u32(1), " invalid AddrPort"},
	} {
		does, to, is := diverted(c.target, c.revision, c.v4, c.data)
		if got := does + " " + to.String(); got != c.want || is != (does != "") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if does == DoesRedirect && c.v4 && to.Port() != 10250 {
			t.Errorf("%s: port %d", name, to.Port())
		}
		for n := range c.data {
			diverted(c.target, c.revision, c.v4, c.data[:n])
		}
	}
}

func TestForeign(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		table, chain string
		want         bool
	}{
		"kube-proxy":            {"kube-proxy", "service-X", false},
		"kube-proxy, iptables":  {"nat", "KUBE-SEP-ABC", false},
		"Calico's floating IPs": {"nat", "cali-fip-dnat", false},
		"a hostPort of CRI-O":   {"nat", "KUBE-HP-ABC", true},
		"a hostPort":            {"nat", "CNI-DN-ABC", true},
		"OUTPUT":                {"nat", "OUTPUT", true},
	} {
		if Foreign(c.table, c.chain) != c.want {
			t.Errorf("%s: %v", name, !c.want)
		}
	}
}
