package capture

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
)

// Mark identifies packets that a probe sends. The probe can recognise them on this node and on other nodes, through
// any NAT. An echo contains the mark in its payload. A marked connection starts with a maximum segment size that no
// other program uses.
type Mark uint64

// NewMark returns a random mark.
func NewMark() Mark { return Mark(rand.Uint64() | 1) }

// String returns the mark in the form that ParseMark reads.
func (m Mark) String() string { return strconv.FormatUint(uint64(m), 16) }

// ParseMark reads a mark.
func ParseMark(text string) (Mark, error) {
	n, err := strconv.ParseUint(text, 16, 64)
	if err != nil || n == 0 {
		return 0, errors.New("a mark is a hexadecimal number")
	}
	return Mark(n), nil
}

// segment returns the maximum segment size of a marked connection. It is below the MSS of any path, so it does not
// change if routers clamp the MSS.
func (m Mark) segment() int { return 601 + int(m%599) }

// Flags of TCP.
const (
	flagFIN = 0x01
	flagSYN = 0x02
	flagRST = 0x04
	flagACK = 0x10
)

// flow recognises packets that have a mark.
type flow struct {
	mark   Mark
	echoes []uint16 // identifiers of echoes that have the mark, before and after a NAT
	starts []uint32 // the first sequence numbers of connections that have the mark
}

// maxKnown limits the memory of a flow, because a machine on the path may copy the mark into its own packets.
const maxKnown = 16

// has reports whether a packet belongs to the flow. The caller must pass packets in the order in which they arrive.
func (f *flow) has(layers []layer) bool {
	for i, l := range layers {
		quoted := i > 0 && slices.ContainsFunc(layers[:i], func(o layer) bool {
			return (o.kind == icmpv4 || o.kind == icmpv6) && o.has(1) && isError(o.kind, o.b[0])
		})
		switch {
		case l.kind == tcp && f.hasSegment(l, quoted):
			return true
		case (l.kind == icmpv4 || l.kind == icmpv6) && f.hasEcho(l, quoted):
			return true
		}
	}
	return false
}

func (f *flow) hasEcho(l layer, quoted bool) bool {
	request, reply := echoTypes(l.kind)
	if !l.has(8) || l.b[0] != request && l.b[0] != reply {
		return false
	}
	id := binary.BigEndian.Uint16(l.b[4:])
	if l.has(16) {
		if binary.BigEndian.Uint64(l.b[8:]) != uint64(f.mark) {
			return false
		}
		if !slices.Contains(f.echoes, id) && len(f.echoes) < maxKnown {
			f.echoes = append(f.echoes, id)
		}
		return true
	}
	return quoted && slices.Contains(f.echoes, id)
}

// hasSegment recognises a connection by its first segment, and later segments by their sequence numbers. Only
// opening and closing segments are sent, so a sequence number exceeds the first one by at most two.
func (f *flow) hasSegment(l layer, quoted bool) bool {
	if !l.has(8) {
		return false
	}
	number := binary.BigEndian.Uint32(l.b[4:])
	near := func(n uint32) bool {
		return slices.ContainsFunc(f.starts, func(start uint32) bool { return n-start <= 2 })
	}
	if near(number) {
		return true
	}
	if quoted || !l.has(20) {
		return false
	}
	flags := l.b[13]
	if flags&flagACK != 0 && near(binary.BigEndian.Uint32(l.b[8:])) {
		return true
	}
	if flags&(flagSYN|flagACK) != flagSYN || f.segmentOf(l) != f.mark.segment() {
		return false
	}
	if len(f.starts) < maxKnown {
		f.starts = append(f.starts, number)
	}
	return true
}

// segmentOf returns the maximum segment size from a segment's options, 0 = none.
func (*flow) segmentOf(l layer) int {
	size := 0
	tcpOptions(l.b[:min(l.head, len(l.b))], func(option uint8, value []byte) {
		if option == optionMSS && len(value) == 2 {
			size = int(binary.BigEndian.Uint16(value))
		}
	})
	return size
}

// isDiscovery reports whether a packet is ARP or neighbour discovery.
func isDiscovery(layers []layer) bool {
	first, last := layers[0], layers[len(layers)-1]
	return first.kind == arp || last.kind == icmpv6 && last.has(1) &&
		(last.b[0] == neighbourSolicitation || last.b[0] == neighbourAdvertisement)
}
