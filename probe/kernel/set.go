package kernel

import (
	"net/netip"
	"slices"
)

// Span is a range of addresses that includes both ends.
type Span struct{ First, Last netip.Addr }

// boundary is the start of a range in an nftables set, or the first address after the range.
type boundary struct {
	addr netip.Addr
	end  bool
}

// spans joins the boundaries that nftables lists, in any order, into ranges. In a set without
// intervals, each key is one address.
func spans(keys []boundary, intervals bool) []Span {
	slices.SortStableFunc(keys, func(a, b boundary) int {
		if a.addr != b.addr || a.end == b.end {
			return a.addr.Compare(b.addr)
		}
		return map[bool]int{true: -1, false: 1}[a.end]
	})
	var out []Span
	for i, k := range keys {
		switch {
		case k.end:
		case !intervals:
			out = append(out, Span{k.addr, k.addr})
		case i+1 < len(keys):
			out = append(out, Span{k.addr, keys[i+1].addr.Prev()})
		default: // up to the highest address
			out = append(out, Span{k.addr, last(netip.PrefixFrom(k.addr, 0))})
		}
	}
	return out
}

// last returns the highest address of a prefix.
func last(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}
