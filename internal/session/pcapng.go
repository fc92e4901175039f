package session

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/capture"
)

// Pcapng writes a capture for tcpdump and Wireshark. The file contains only packets and validated interface names from
// a node.
type Pcapng struct {
	to     io.Writer
	filter string         // a description of what was captured
	ids    map[string]int // IDs of the interfaces
	first  map[string]int // first interface of each node
}

// NewPcapng starts a file. filter describes what is captured.
func NewPcapng(to io.Writer, filter string) *Pcapng {
	return &Pcapng{to: to, filter: filter, ids: map[string]int{}, first: map[string]int{}}
}

// cookedLen is the length of a cooked header (LINKTYPE_LINUX_SLL). This header contains the direction and works for
// every kind of interface. tcpdump cannot read a file with interfaces of different kinds.
const cookedLen = 16

// Packet writes a packet. Before an interface's first packet, it writes the description of the interface.
func (f *Pcapng) Packet(p Captured) error {
	id, known := f.ids[p.Interface]
	if !known {
		var err error
		if id, err = f.add(p.Node, p.Interface, p.Clock); err != nil {
			return err
		}
	}
	data := append(cooked(p.Packet), p.Data...)
	flags := uint32(1) // inbound
	if p.Direction == capture.Out {
		flags = 2
	}
	body := littleEndian.AppendUint32(nil, uint32(id))
	body = moment(body, p.Time)
	body = littleEndian.AppendUint32(body, uint32(len(data)))
	body = littleEndian.AppendUint32(body, uint32(cookedLen+p.Length))
	body = padded(append(body, data...))
	return f.write(blockPacket, body, option{packetFlags, littleEndian.AppendUint32(nil, flags)})
}

// add writes the description of an interface. Before the first interface, it writes the file's header.
func (f *Pcapng) add(node, name, clock string) (int, error) {
	id := len(f.ids)
	f.ids[name] = id
	if _, known := f.first[node]; !known {
		f.first[node] = id
	}
	if id == 0 {
		body := littleEndian.AppendUint32(nil, 0x1a2b3c4d) // shows readers the byte order
		body = append(body, 1, 0, 0, 0)                    // version 1.0
		body = littleEndian.AppendUint64(body, ^uint64(0)) // unknown section length
		if err := f.write(blockSection, body, option{sectionBy, []byte("calico-probe " + probe.Release)}); err != nil {
			return 0, err
		}
	}
	options := []option{{interfaceName, []byte(name)}, {comment, []byte(clock)}}
	if f.filter != "" {
		options = append(options, option{interfaceFilter, append([]byte{0}, f.filter...)}) // 0 = text
	}
	options = append(options, option{interfaceOS, []byte("Linux")}, option{interfaceResolution, []byte{9}}) // nanoseconds
	body := littleEndian.AppendUint32(nil, linkCooked)
	body = littleEndian.AppendUint32(body, 0) // no snapshot length: packets are whole
	return id, f.write(blockInterface, body, options...)
}

// cooked returns a packet's header in the file.
func cooked(p capture.Packet) []byte {
	b := make([]byte, cookedLen)
	binary.BigEndian.PutUint16(b, uint16(p.Direction)) // the value is the same as the kernel's
	binary.BigEndian.PutUint16(b[2:], p.Device)
	binary.BigEndian.PutUint16(b[4:], uint16(len(p.From)))
	copy(b[6:14], p.From)
	binary.BigEndian.PutUint16(b[14:], p.Protocol)
	return b
}

// End writes the number of packets that a node dropped, for the node's first interface. If the node has no interface in
// the file, it adds one, because a file needs at least one.
func (f *Pcapng) End(node string, dropped int) error {
	id, known := f.first[node]
	if !known && (len(f.ids) == 0 || dropped > 0) {
		var err error
		if id, err = f.add(node, node, fmt.Sprintf("no packet was seen on %s", node)); err != nil {
			return err
		}
	}
	if dropped == 0 {
		return nil
	}
	body := moment(littleEndian.AppendUint32(nil, uint32(id)), time.Now())
	return f.write(blockStatistics, body, option{statisticsDropped, littleEndian.AppendUint64(nil, uint64(dropped))})
}
