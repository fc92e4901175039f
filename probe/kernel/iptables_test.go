package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
)

// ruleOf returns a legacy iptables entry with a target.
func ruleOf(l legacyLayout, target, data string) []byte {
	b := make([]byte, l.entry+32+len(data))
	binary.NativeEndian.PutUint16(b[l.match+4:], uint16(l.entry))
	binary.NativeEndian.PutUint16(b[l.match+6:], uint16(len(b)))
	copy(b[l.entry+2:], target)
	copy(b[l.entry+32:], data)
	return b
}

func verdict(n int32) string {
	return string(binary.NativeEndian.AppendUint32(nil, uint32(n))) + "\x00\x00\x00\x00"
}

// table is a filter table with a rule in FORWARD that jumps to cali-FORWARD, which is empty, and the policy drop. Real
// tables are in TestRealFirewall.
func table(l legacyLayout) (legacyInfo, []byte) {
	const padded = "cali-FORWARD\x00............................"
	input, policy := ruleOf(l, "", verdict(-2)), ruleOf(l, "", verdict(-1))
	name := ruleOf(l, "ERROR", padded)
	jump := ruleOf(l, "", verdict(int32(3*len(input)+len(name))))
	info := legacyInfo{Hooks: 1<<1 | 1<<2 | 1<<3}
	info.First[2], info.Last[2] = uint32(len(input)), uint32(2*len(input))
	all := append(append(input, jump...), policy...)
	all = append(all, name...)
	all = append(all, ruleOf(l, "", verdict(-5))...) // RETURN
	return info, append(all, ruleOf(l, "ERROR", "ERROR\x00...")...)
}

func TestLegacyParse(t *testing.T) {
	t.Parallel()
	for _, l := range []legacyLayout{legacy4, legacy6} {
		info, entries := table(l)
		got, err := legacyParse(l, info, entries)
		if err != nil || len(got) != 2 || got[0].Name != "cali-FORWARD" || !got[1].Forward || !got[1].Drops ||
			fmt.Sprint(got[1].Jumps) != "[cali-FORWARD]" {
			t.Errorf("%+v, %v", got, err)
		}
		for cut := 1; cut < 40; cut++ {
			if _, err := legacyParse(l, info, entries[:len(entries)-cut]); !errors.Is(err, errLegacy) {
				t.Errorf("cut by %d: %v", cut, err)
			}
		}
	}
}

func FuzzLegacyParse(f *testing.F) {
	for _, l := range []legacyLayout{legacy4, legacy6} {
		info, entries := table(l)
		f.Add(info.First[2], info.Last[2], l == legacy6, entries)
	}
	f.Fuzz(func(t *testing.T, first, last uint32, six bool, entries []byte) {
		l := legacy4
		if six {
			l = legacy6
		}
		info := legacyInfo{Hooks: 1 << 2}
		info.First[2], info.Last[2] = first, last
		chains, err := legacyParse(l, info, entries)
		if err == nil && len(chains) > 1+len(entries)/l.entry {
			t.Errorf("%d chains in %d bytes", len(chains), len(entries))
		}
	})
}
