package kernel

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/calico-probe/calico-probe/probe/span"
)

// anonymous is the start of the name that the kernel gives a set written in a rule itself: "tcp dport { 22, 80 }".
const anonymous = "@__"

// unknownSet replaces elements that cannot be described. It looks like a named set, whose elements are not read.
const unknownSet = "@?"

// Limits of the sets in rules: sets that are read, and elements of one set.
const (
	maxAnonymous = 64
	maxElements  = 64
)

// lookups replaces the names of anonymous sets in the text of rules by the sets' elements.
type lookups struct {
	conn *nftables.Conn
	read int
}

// rules returns the text of a rule, with the elements in place of each anonymous set: "dport 22,80-90". A map to
// verdicts becomes one rule for each element. A set that cannot be read keeps its name.
func (l *lookups) rules(table *nftables.Table, rule string) []string {
	words := strings.Fields(rule)
	for i, word := range words {
		if i == 0 || !strings.HasPrefix(word, anonymous) || l.read >= maxAnonymous {
			continue
		}
		l.read++
		set, err := l.conn.GetSetByName(table, word[1:])
		if err != nil {
			continue
		}
		elements, err := l.conn.GetSetElements(set)
		if err != nil || len(elements) > maxElements || set.Concatenation {
			continue
		}
		// The kernel lists them in any order, and rules of two nodes are compared by their text.
		slices.SortFunc(elements, func(a, b nftables.SetElement) int { return bytes.Compare(a.Key, b.Key) })
		of := words[i-1] // "dport", "state" of "ct state", ...
		if i+1 < len(words) && words[i+1] == toVerdicts {
			return branches(words[:i], of, words[i+2:], set, elements)
		}
		if text := elementsText(of, set, elements); text != "" {
			words[i] = text
		}
	}
	return []string{strings.Join(words, " ")}
}

// branches returns one rule for each element of a map to verdicts.
func branches(before []string, of string, after []string, set *nftables.Set, elements []nftables.SetElement) []string {
	var out []string
	for i, e := range elements {
		if e.IntervalEnd {
			continue
		}
		one := elements[i : i+1]
		if set.Interval {
			one = slices.Concat(one, boundaryAfter(elements, e.Key))
		}
		for j := 1; j < len(one); j++ {
			one[j].IntervalEnd = true // also if another range starts there
		}
		key := elementsText(of, set, one)
		if key == "" {
			key = unknownSet
		}
		verdict := verdictText(e.Val)
		if verdict == "" {
			verdict = toVerdicts
		}
		words := slices.Concat(before, []string{key, verdict}, after)
		out = append(out, strings.Join(strings.Fields(strings.Join(words, " ")), " "))
	}
	return out
}

// boundaryAfter returns the start or end of a range that follows a value, none after the highest one.
func boundaryAfter(elements []nftables.SetElement, key []byte) []nftables.SetElement {
	var next []nftables.SetElement
	for i, e := range elements {
		if bytes.Compare(e.Key, key) > 0 && (next == nil || bytes.Compare(e.Key, next[0].Key) < 0) {
			next = elements[i : i+1]
		}
	}
	return slices.Clone(next)
}

// verdictText describes the verdict of a map's element, as the kernel encodes it.
func verdictText(data []byte) string {
	v, read := expr.Verdict{}, false
	for _, a := range nftAttrs(data) {
		switch a.kind {
		case unix.NFTA_VERDICT_CODE:
			if len(a.data) == 4 {
				v.Kind, read = expr.VerdictKind(int32(binary.BigEndian.Uint32(a.data))), true
			}
		case unix.NFTA_VERDICT_CHAIN:
			v.Chain = text(a.data)
		}
	}
	if !read { // the zero value would be a drop
		return ""
	}
	return action(&v)
}

// elementsText lists the elements of a set by commas, with ranges as FIRST-LAST, "" if they have no words here.
func elementsText(of string, set *nftables.Set, elements []nftables.SetElement) string {
	switch of {
	case "saddr", "daddr":
		return rangesText(set, elements, netip.AddrFromSlice, netip.Addr.String)
	case "sport", "dport":
		return portsOfSet(set, elements)
	}
	if set.Interval {
		return ""
	}
	var out []string
	states := uint32(0)
	for _, e := range elements {
		switch {
		case of == "state" && len(e.Key) == 4:
			states |= binary.NativeEndian.Uint32(e.Key)
		case (of == "iif" || of == "oif") && len(e.Key) > 0:
			out = append(out, text(e.Key))
		case of == "proto" && len(e.Key) == 1:
			out = append(out, fmt.Sprint(e.Key[0]))
		default:
			return ""
		}
	}
	if states != 0 {
		list, _ := strings.CutPrefix(stateText(states, nftStates), "ct state ")
		return list
	}
	return strings.Join(out, ",")
}

// portsOfSet lists the ports and ranges of a set.
func portsOfSet(set *nftables.Set, elements []nftables.SetElement) string {
	return rangesText(set, elements, func(key []byte) (netip.Addr, bool) {
		return netip.AddrFrom4([4]byte{0, 0, key[0], key[len(key)-1]}), len(key) == 2
	}, func(a netip.Addr) string {
		n := a.As4() // the highest port has no end, so a range from there ends beyond all ports
		return fmt.Sprint(min(binary.BigEndian.Uint32(n[:]), math.MaxUint16))
	})
}

// rangesText lists the values and ranges of a set. The kernel lists the first value of a range, and the first after it.
func rangesText(set *nftables.Set, elements []nftables.SetElement, parse func([]byte) (netip.Addr, bool),
	show func(netip.Addr) string) string {
	var keys []span.Boundary
	for _, e := range elements {
		a, ok := netip.Addr{}, len(e.Key) > 0
		if ok {
			a, ok = parse(e.Key)
		}
		if !ok {
			return ""
		}
		keys = append(keys, span.Boundary{Addr: a, End: e.IntervalEnd})
	}
	var out []string
	for _, s := range span.Join(keys, set.Interval) {
		one := show(s.First)
		if s.Last != s.First {
			one += "-" + show(s.Last)
		}
		out = append(out, one)
	}
	return strings.Join(out, ",")
}
