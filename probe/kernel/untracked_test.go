//go:build linux

package kernel

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/google/nftables/expr"
	"github.com/google/nftables/xt"
)

func TestUntrackedBy(t *testing.T) {
	t.Parallel()
	ct := xt.Unknown{1, 0, 0, 0}
	field := func(base expr.PayloadBase, offset, size uint32) expr.Any {
		return &expr.Payload{Base: base, Offset: offset, Len: size}
	}
	is := func(data ...byte) expr.Any { return &expr.Cmp{Op: expr.CmpOpEq, Data: data} }
	got, ok := untrackedBy([]expr.Any{field(expr.PayloadBaseNetworkHeader, 16, 4), is(10, 96, 0, 10),
		&expr.Meta{Key: expr.MetaKeyL4PROTO}, is(17), &expr.Match{Name: "udp",
			Info: &xt.Udp{SrcPorts: [2]uint16{0, 65535}, DstPorts: [2]uint16{53, 53}}},
		&expr.Counter{}, &expr.Target{Name: "CT", Info: &ct}})
	if !ok || got.Partly || got.String() != " : to 10.96.0.10/32 udp port 53 notrack" {
		t.Errorf("iptables-nft: %v %v", got, ok)
	}
	got, ok = untrackedBy([]expr.Any{field(expr.PayloadBaseNetworkHeader, 12, 2), is(10, 244), &expr.Notrack{}})
	if !ok || got.From != netip.MustParsePrefix("10.244.0.0/16") ||
		!got.Matches(netip.MustParseAddrPort("10.96.0.1:443"), 6) {
		t.Errorf("nft: %v %v", got, ok)
	}
	whole := make([]byte, 16)
	copy(whole, "eth0")
	for name, c := range map[string]struct {
		key  expr.MetaKey
		data []byte
		want string
	}{
		"iptables":  {expr.MetaKeyIIFNAME, []byte("eth0\x00"), " : in eth0 notrack"},
		"nft":       {expr.MetaKeyOIFNAME, whole, " : out eth0 notrack"},
		"a prefix":  {expr.MetaKeyIIFNAME, []byte("cali"), " : in cali* notrack"},
		"an index":  {expr.MetaKeyOIF, []byte{1, 0, 0, 0}, " : out lo notrack"},
		"one of 16": {expr.MetaKeyIIFNAME, []byte("calif0123456789\x00"), " : in calif0123456789 notrack"},
	} {
		got, _ = untrackedBy([]expr.Any{&expr.Meta{Key: c.key}, is(c.data...), &expr.Notrack{}})
		if got.Partly || got.String() != c.want || got.Wall != WallNative {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
	got, _ = untrackedBy([]expr.Any{&expr.Meta{Key: expr.MetaKeyIIFNAME},
		&expr.Cmp{Op: expr.CmpOpNeq, Data: whole}, &expr.Notrack{}})
	if !got.Partly {
		t.Errorf("%v: a negated interface is left out", got)
	}
	if _, ok := untrackedBy([]expr.Any{&expr.Target{Name: "CT", Info: &xt.Unknown{0, 0, 1, 0}}}); ok {
		t.Error("a zone is no NOTRACK")
	}
}

func TestLegacyUntracked(t *testing.T) {
	t.Parallel()
	put := binary.NativeEndian.PutUint16
	udp := make([]byte, 32+16)
	put(udp, uint16(len(udp)))
	copy(udp[2:], "udp")
	put(udp[34:], 65535)
	put(udp[36:], 53)
	put(udp[38:], 53)
	target := make([]byte, 32+24)
	copy(target[2:], "CT")
	put(target[32:], 1)
	head := make([]byte, legacy4.entry)
	copy(head[4:], []byte{10, 96, 0, 10})
	copy(head[12:], []byte{255, 255, 255, 255})
	put(head[80:], 17)
	put(head[legacy4.match+4:], uint16(legacy4.entry+len(udp)))
	put(head[legacy4.match+6:], uint16(legacy4.entry+len(udp)+len(target)))
	entries := append(append(head, udp...), target...)
	info := legacyInfo{Hooks: 1 | 1<<3, First: [5]uint32{0, 0, 0, 1 << 20}, Last: [5]uint32{400, 0, 0, 1 << 20}}
	copy(entries[16:], "eth0")
	copy(entries[48:], []byte{255, 255, 255, 255, 255})
	if got, err := legacyUntracked(legacy4, info, entries); err != nil || len(got) != 1 || got[0].Partly ||
		!got[0].Passes("prerouting", "eth0", "") || got[0].Passes("prerouting", "cali1", "") ||
		got[0].Passes("output", "", "eth0") {
		t.Errorf("of an interface: %v %v", got, err)
	}
	clear(entries[16:80])
	got, err := legacyUntracked(legacy4, info, entries)
	if err != nil || len(got) != 1 || got[0].Partly || got[0].String() != " PREROUTING: to 10.96.0.10/32 udp port 53 notrack" {
		t.Errorf("%v %v", got, err)
	}
	if _, err := legacyUntracked(legacy4, info, entries[:60]); err == nil {
		t.Error("half an entry is understood")
	}
}
