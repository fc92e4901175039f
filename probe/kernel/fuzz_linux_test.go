package kernel

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// attr is a netlink attribute with its padding.
func attr(kind uint16, data ...[]byte) []byte {
	all := bytes.Join(data, nil)
	b := binary.NativeEndian.AppendUint16(nil, uint16(unix.SizeofNlAttr+len(all)))
	b = append(binary.NativeEndian.AppendUint16(b, kind), all...)
	return append(b, make([]byte, -len(b)&3)...)
}

// expression is an expression of a rule.
func expression(name string, data ...[]byte) []byte {
	return attr(unix.NFTA_LIST_ELEM, attr(unix.NFTA_EXPR_NAME, []byte(name+"\x00")), attr(unix.NFTA_EXPR_DATA, data...))
}

// dropping is a rule that drops, with user data.
func dropping(userData ...byte) []byte {
	number := func(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
	verdict := attr(unix.NFTA_DATA_VERDICT, attr(unix.NFTA_VERDICT_CODE, number(0)))
	return bytes.Join([][]byte{
		attr(unix.NFTA_RULE_TABLE, []byte("mine\x00")), attr(unix.NFTA_RULE_CHAIN, []byte("forward\x00")),
		attr(unix.NFTA_RULE_HANDLE, make([]byte, 8)),
		attr(unix.NFTA_RULE_EXPRESSIONS,
			expression("meta", attr(unix.NFTA_META_KEY, number(6)), attr(unix.NFTA_META_DREG, number(1))),
			expression("cmp", attr(unix.NFTA_CMP_SREG, number(1)), attr(unix.NFTA_CMP_OP, number(0)),
				attr(unix.NFTA_CMP_DATA, attr(unix.NFTA_DATA_VALUE, []byte("eth0\x00")))),
			expression("match", attr(unix.NFTA_MATCH_NAME, []byte("comment\x00")), attr(unix.NFTA_MATCH_REV, number(0)),
				attr(unix.NFTA_MATCH_INFO, make([]byte, 256))),
			expression("counter", attr(unix.NFTA_COUNTER_BYTES, make([]byte, 8))),
			expression("immediate", attr(unix.NFTA_IMMEDIATE_DREG, number(0)), attr(unix.NFTA_IMMEDIATE_DATA, verdict))),
		attr(unix.NFTA_RULE_USERDATA, userData),
	}, nil)
}

// TestUserComment checks for nftables' comment of a rule, and that user data of a pod's invention is ignored.
func TestUserComment(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ data, want string }{
		{"\x00\x03hi\x00", "hi"}, {"\x01\x01x\x00\x02hi", "hi"}, {"\x00\x00", ""}, {"", ""}, {"\x01", ""},
		{"\x01\xff", ""}, {"\x00\xff", ""}, {"\x01\xffx\x00\x02hi", ""}, {"\x00\x04a\x00bc", "a"}, {"\x00\x01\xff", "?"},
	} {
		if got, _ := userComment([]byte(c.data)); got != c.want {
			t.Errorf("%q: %q, want %q", c.data, got, c.want)
		}
		_, rule, _ := nftRead(nftables.TableFamilyIPv4, nftAttrs(dropping([]byte(c.data)...)))
		if got := nftComments(&rule); c.want != "" && (len(got) == 0 || got[0] != c.want) {
			t.Errorf("%q in a rule: %q", c.data, got)
		}
	}
}

// FuzzNFTRule parses an nftables rule of any bytes, as a pod with NET_ADMIN can create.
func FuzzNFTRule(f *testing.F) {
	f.Add(byte(nftables.TableFamilyIPv4), dropping(1, 255))
	f.Add(byte(nftables.TableFamilyINet), dropping(0, 3, 'h', 'i', 0))
	f.Fuzz(func(t *testing.T, family byte, b []byte) {
		attrs, size := nftAttrs(b), 0
		for _, a := range attrs {
			size += len(a.data)
		}
		if size > len(b) {
			t.Errorf("%d bytes in attributes of %d", size, len(b))
		}
		_, r, raw := nftRead(nftables.TableFamily(family), attrs)
		nftDoes(raw)
		r.Exprs = nftExprs(family, raw)
		for _, text := range nftComments(&r) {
			if len(text) > len(b)+64 {
				t.Errorf("a comment of %d bytes in %d", len(text), len(b))
			}
		}
		if rule, _ := nftRule(&r); len(rule) > 64*(len(b)+1) {
			t.Errorf("%d bytes of text of a rule of %d", len(rule), len(b))
		}
		nftHook(nftables.TableFamily(family), b)
		nftCounted(b)
	})
}

// FuzzUserComment parses user data of any bytes.
func FuzzUserComment(f *testing.F) {
	f.Add([]byte{1, 255})
	f.Add([]byte{0, 3, 'h', 'i', 0, 1, 1, 'x'})
	f.Fuzz(func(t *testing.T, b []byte) {
		got, is := userComment(b)
		whole := utf8.ValidString(got) && !strings.Contains(got, "\x00")
		if len(got) > 255 || len(got) > len(b) || !whole || got != "" && !is {
			t.Errorf("%q of %q", got, b)
		}
	})
}

// FuzzLegacyRules parses a legacy iptables table of any bytes for drop rules and notrack rules.
func FuzzLegacyRules(f *testing.F) {
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
		refusals, err := legacyRefusals(l, "ip", "filter", info, entries)
		if err == nil && len(refusals) > 1+len(entries)/l.entry {
			t.Errorf("%d rules in %d bytes", len(refusals), len(entries))
		}
		untracked, err := legacyUntracked(l, info, entries)
		if err == nil && len(untracked) > 1+len(entries)/l.entry {
			t.Errorf("%d untracked in %d bytes", len(untracked), len(entries))
		}
	})
}
