package capture

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// frame is one line of the form in which a capture travels: of JSON, with fields that are added later passed over.
type frame struct {
	Start  *start  `json:"start,omitempty"`
	Packet *packet `json:"packet,omitempty"`
}

// start is the first one: packets are seen from now on.
type start struct {
	VXLAN []uint16 `json:"vxlan"`
}

// packet is a Packet.
type packet struct {
	Time      int64     `json:"t"` // nanoseconds since 1970
	Interface string    `json:"i"`
	Direction Direction `json:"d"`
	Protocol  uint16    `json:"p"`
	Device    uint16    `json:"h"`
	From      []byte    `json:"a,omitempty"`
	Length    int       `json:"n"`
	Data      []byte    `json:"b"`
}

// Writer sends packets to a Reader.
type Writer struct{ json *json.Encoder }

// NewWriter begins.
func NewWriter(w io.Writer, vxlan []uint16) (*Writer, error) {
	out := &Writer{json.NewEncoder(w)}
	return out, out.json.Encode(frame{Start: &start{vxlan}})
}

// Packet sends one.
func (w *Writer) Packet(p Packet) error {
	return w.json.Encode(frame{Packet: &packet{p.Time.UnixNano(), p.Interface, p.Direction, p.Protocol, p.Device, p.From,
		p.Length, p.Data}})
}

// Bounds of what a Reader takes.
const (
	longestLine    = wholeLen*4/3 + 1024
	longestPacket  = 1 << 18 // on the wire: the kernel joins packets to some 64 KiB, or 185 KiB
	longestAddress = 8
	longestName    = 15 // of an interface (IFNAMSIZ)
	maxInterfaces  = 2048
)

// Reader makes packets again of what a Writer wrote, and believes none of it: what is longer, more or other than what
// was asked for is its error, and without payload only headers are let through.
type Reader struct {
	Begun  func()             // the node has begun to capture
	Packet func(Packet) error // each one

	Payload bool // is wanted
	Packets int  // at most

	line   []byte
	vxlan  []uint16
	begun  bool
	names  map[string]bool
	count  int
	failed error
}

// Write takes what was written, in whatever pieces. After its first error it takes nothing.
func (r *Reader) Write(b []byte) (int, error) {
	for rest := b; r.failed == nil; {
		line, more, whole := bytes.Cut(rest, []byte("\n"))
		if r.line = append(r.line, line...); len(r.line) > longestLine {
			r.failed = fmt.Errorf("a line of more than %d bytes", longestLine)
		}
		if !whole || r.failed != nil {
			break
		}
		r.failed = r.take(r.line)
		r.line, rest = r.line[:0], more
	}
	if r.failed != nil {
		return 0, r.failed
	}
	return len(b), nil
}

func (r *Reader) take(line []byte) error {
	var f frame
	if err := json.Unmarshal(line, &f); err != nil {
		return errors.New("the data is not a capture")
	}
	switch {
	case f.Start != nil && !r.begun && len(f.Start.VXLAN) <= maxPorts:
		r.begun, r.vxlan = true, f.Start.VXLAN
		if r.Begun != nil {
			r.Begun()
		}
	case f.Packet != nil && r.begun:
		p, err := r.checked(*f.Packet)
		if err != nil {
			return err
		}
		return r.Packet(p)
	case f.Start != nil, f.Packet != nil:
		return errors.New("the data is not a capture")
	}
	return nil
}

// checked is a packet, if it can be one and is wanted.
func (r *Reader) checked(p packet) (Packet, error) {
	if r.count++; r.count > r.Packets {
		return Packet{}, fmt.Errorf("more than the %d requested packets", r.Packets)
	}
	odd := func(c rune) bool { return c <= ' ' || c > '~' }
	switch {
	case p.Interface == "" || len(p.Interface) > longestName || strings.ContainsFunc(p.Interface, odd):
		return Packet{}, errors.New("a packet with an invalid interface name")
	case p.Time < 0, p.Direction > 7, len(p.From) > longestAddress:
		return Packet{}, errors.New("an invalid packet")
	case len(p.Data) > wholeLen, p.Length < len(p.Data), p.Length > longestPacket:
		return Packet{}, errors.New("a packet with an invalid length")
	}
	if r.names == nil {
		r.names = map[string]bool{}
	}
	if r.names[p.Interface] = true; len(r.names) > maxInterfaces {
		return Packet{}, fmt.Errorf("packets of more than %d interfaces", maxInterfaces)
	}
	if !r.Payload {
		p.Data = headers(p.Protocol, p.Data, r.vxlan)
	}
	return Packet{Time: time.Unix(0, p.Time), Interface: p.Interface, Direction: p.Direction, Protocol: p.Protocol,
		Device: p.Device, From: p.From, Length: p.Length, Data: p.Data}, nil
}

// End is to be called when no more comes. The error is that something is missing.
func (r *Reader) End() error {
	switch {
	case r.failed == nil && !r.begun:
		r.failed = errors.New("no capture arrived")
	case r.failed == nil && len(r.line) > 0:
		r.failed = errors.New("the capture ended in the middle of a packet")
	}
	return r.failed
}

// Line is a packet in words.
func (r *Reader) Line(p Packet) string { return Line(p, r.vxlan) }
