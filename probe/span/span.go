// Package span joins the boundaries of a set of addresses, as the kernel lists them, into ranges:
//
//	ranges := span.Join([]span.Boundary{{Addr: first}, {Addr: after, End: true}}, true)
//
// Package kernel reads the boundaries.
package span

import (
	"net/netip"
	"slices"
)

// Span is a range of addresses that includes both ends.
type Span struct{ First, Last netip.Addr }

// Boundary is the start of a range in an nftables set, or the first address after the range.
type Boundary struct {
	Addr netip.Addr
	End  bool
}

// Join joins the boundaries that nftables lists, in any order, into ranges. In a set without
// intervals, each key is one address.
func Join(keys []Boundary, intervals bool) []Span {
	slices.SortStableFunc(keys, func(a, b Boundary) int {
		if a.Addr != b.Addr || a.End == b.End {
			return a.Addr.Compare(b.Addr)
		}
		return map[bool]int{true: -1, false: 1}[a.End]
	})
	var out []Span
	for i, k := range keys {
		switch {
		case k.End:
		case !intervals:
			out = append(out, Span{k.Addr, k.Addr})
		case i+1 < len(keys):
			out = append(out, Span{k.Addr, keys[i+1].Addr.Prev()})
		default: // up to the highest address
			out = append(out, Span{k.Addr, Last(netip.PrefixFrom(k.Addr, 0))})
		}
	}
	return out
}

// Last returns the highest address of a prefix.
func Last(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}
