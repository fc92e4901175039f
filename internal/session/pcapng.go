package session

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/capture"
)

// Pcapng writes a capture for tcpdump and Wireshark. Of what a node says only packets, and names of interfaces that
// have been checked, get into it: the file is this program's own.
type Pcapng struct {
	to     io.Writer
	filter string // what was captured, in words
	file   *pcapgo.NgWriter
	ids    map[string]int // of the interfaces
	first  map[string]int // of each node
}

// NewPcapng begins a file that says what was captured.
func NewPcapng(to io.Writer, filter string) *Pcapng {
	return &Pcapng{to: to, filter: filter, ids: map[string]int{}, first: map[string]int{}}
}

// cookedLen is the length of a cooked header (LINKTYPE_LINUX_SLL), which has the direction and which every interface
// can have: tcpdump reads no file with interfaces of different kinds.
const cookedLen = 16

// Packet writes one, and before the first of an interface what is known of that.
func (f *Pcapng) Packet(p Captured) error {
	id, known := f.ids[p.Interface]
	if !known {
		var err error
		if id, err = f.add(p.Node, p.Interface, p.Clock); err != nil {
			return err
		}
	}
	data := append(cooked(p.Packet), p.Data...)
	info := gopacket.CaptureInfo{Timestamp: p.Time, CaptureLength: len(data), Length: cookedLen + p.Length,
		InterfaceIndex: id}
	flags := pcapgo.NgEpbFlags{Direction: pcapgo.NgEpbFlagDirectionInbound}
	if p.Direction == capture.Out {
		flags.Direction = pcapgo.NgEpbFlagDirectionOutbound
	}
	if err := f.file.WritePacketWithOptions(info, data, pcapgo.NgPacketOptions{Flags: &flags}); err != nil {
		return err
	}
	return f.file.Flush() // somebody may look on
}

// add writes what is known of an interface.
func (f *Pcapng) add(node, name, clock string) (int, error) {
	i := pcapgo.NgInterface{Name: name, Comment: clock, Filter: f.filter, OS: "Linux", LinkType: layers.LinkTypeLinuxSLL}
	id := len(f.ids)
	f.ids[name] = id
	if _, known := f.first[node]; !known {
		f.first[node] = id
	}
	if f.file != nil {
		_, err := f.file.AddInterface(i)
		return id, err
	}
	by := pcapgo.NgWriterOptions{SectionInfo: pcapgo.NgSectionInfo{Application: "calico-probe " + probe.Release}}
	var err error
	f.file, err = pcapgo.NewNgWriterInterface(f.to, i, by)
	return id, err
}

// cooked is the header that a packet has in the file.
func cooked(p capture.Packet) []byte {
	b := make([]byte, cookedLen)
	binary.BigEndian.PutUint16(b, uint16(p.Direction)) // the kernel's own number
	binary.BigEndian.PutUint16(b[2:], p.Device)
	binary.BigEndian.PutUint16(b[4:], uint16(len(p.From)))
	copy(b[6:14], p.From)
	binary.BigEndian.PutUint16(b[14:], p.Protocol)
	return b
}

// End writes how many packets a node lacks, at the first of its interfaces. A file has one at least.
func (f *Pcapng) End(node string, dropped int) error {
	id, known := f.first[node]
	if !known && (f.file == nil || dropped > 0) {
		var err error
		if id, err = f.add(node, node, fmt.Sprintf("no packet was seen on %s", node)); err != nil {
			return err
		}
	}
	if f.file == nil {
		return nil
	}
	if dropped > 0 {
		stats := pcapgo.NgInterfaceStatistics{LastUpdate: time.Now(), PacketsReceived: pcapgo.NgNoValue64,
			PacketsDropped: uint64(dropped)}
		if err := f.file.WriteInterfaceStats(id, stats); err != nil {
			return err
		}
	}
	return f.file.Flush()
}
