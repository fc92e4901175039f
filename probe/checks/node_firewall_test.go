package checks

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
)

// ruleOf is one of legacy iptables' entries with a target.
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

// table is a filter table with a rule in FORWARD that leads to cali-FORWARD, which
// is empty, and the policy to drop. Real ones are in TestRealFirewall.
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
		if err != nil || len(got) != 2 || got[0].name != "cali-FORWARD" || !got[1].forward || !got[1].drops ||
			fmt.Sprint(got[1].jumps) != "[cali-FORWARD]" {
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

func TestWalls(t *testing.T) {
	t.Parallel()
	calico := chain{family: 4, table: "filter", name: "cali-FORWARD"}
	forward := chain{family: 4, table: "filter", name: "FORWARD", forward: true,
		jumps: []string{"DOCKER-USER", "cali-FORWARD"}}
	docker := chain{family: 4, table: "filter", name: "FORWARD", forward: true, drops: true,
		jumps: []string{"DOCKER-USER"}}
	both := forward
	both.drops = true
	unread := fmt.Errorf("16 MB: %w", probe.ErrNotVisible)
	for name, c := range map[string]struct {
		nft, legacy []chain
		unread      error
		pods        int
		known       bool
		want        probe.Status
		saw         string
	}{
		"nft": {[]chain{calico, forward}, nil, nil, 3, true, probe.OK,
			"in use only in iptables-nft"},
		"nft and docker": {[]chain{calico, both}, nil, nil, 3, true, probe.OK, "only in"},
		"docker beside": {[]chain{docker}, []chain{calico, forward}, nil, 3, true, probe.Warn,
			"FORWARD of iptables-nft drops"},
		"docker beside, no pods": {[]chain{docker}, []chain{calico, forward}, nil, 0, true, probe.Info,
			"dropped by the policy of FORWARD of iptables-nft"},
		"by hand": {[]chain{calico, forward,
			{table: "filter", name: "forward", forward: true, drops: true}}, nil, nil, 3, true, probe.Info,
			"dropped by the policy of forward of nftables' table filter"},
		"two": {[]chain{calico, forward}, []chain{calico, forward}, nil, 0, false, probe.Fail,
			"legacy iptables and in iptables-nft"},
		"one in use": {[]chain{calico, forward}, []chain{calico}, nil, 1, true, probe.Info,
			"unused ones are left over in legacy"},
		"none in use":             {[]chain{calico}, nil, nil, 1, true, probe.Fail, "no rule of FORWARD leads to them"},
		"none":                    {nil, nil, nil, 2, true, probe.Fail, "2 pod interfaces"},
		"none, settings unknown":  {nil, nil, nil, 2, false, probe.Info, "2 pod interfaces"},
		"none and no pods":        {nil, nil, nil, 0, true, probe.Info, "0 pod interfaces"},
		"none, legacy unread":     {nil, nil, unread, 2, true, probe.Skip, "16 MB"},
		"unhooked, legacy unread": {[]chain{calico}, nil, unread, 2, true, probe.Skip, "16 MB"},
		"nft, legacy unread":      {[]chain{calico, forward}, nil, unread, 2, true, probe.Info, "cannot be seen"},
		"other family": {[]chain{{family: 6, table: "filter", name: "cali-FORWARD"}}, nil, nil, 0, true,
			probe.Info, "no firewall has Calico's chains"},
	} {
		w := wallsOf(4, c.nft, c.legacy)
		w.unread = c.unread
		got := judgeWalls(w, c.pods, c.known)
		t.Run(name, func(t *testing.T) { want(t, []probe.Result{got}, "", c.want, c.saw) })
	}
}
