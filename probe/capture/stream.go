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

// frame is one line of a capture, in JSON, as it is sent to the client. Readers ignore fields that are added later.
type frame struct {
	Start  *start  `json:"start,omitempty"`
	Packet *packet `json:"packet,omitempty"`
}

// start is the first line. It reports that the node is now capturing packets.
type start struct {
	VXLAN []uint16 `json:"vxlan"`
}

// packet is a Packet in JSON.
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

// NewWriter sends the start line and returns a Writer.
func NewWriter(w io.Writer, vxlan []uint16) (*Writer, error) {
	out := &Writer{json.NewEncoder(w)}
	return out, out.json.Encode(frame{Start: &start{vxlan}})
}

// Packet sends one packet.
func (w *Writer) Packet(p Packet) error {
	return w.json.Encode(frame{Packet: &packet{p.Time.UnixNano(), p.Interface, p.Direction, p.Protocol, p.Device, p.From,
		p.Length, p.Data}})
}

// The limits of a Reader.
const (
	maxLineLen    = wholeLen*4/3 + 1024
	maxPacketLen  = 1 << 18 // size on the wire: the kernel joins packets into packets of about 64 KiB, or 185 KiB
	maxAddressLen = 8
	maxNameLen    = 15 // length of an interface name (IFNAMSIZ)
	maxInterfaces = 2048
)

// Reader turns the output of a Writer back into packets, but does not trust the sender. It returns an error if there
// are too many packets, or if a packet is too long or was not requested. Without Payload, it passes only headers.
type Reader struct {
	Begun  func()             // called when the node has started the capture
	Packet func(Packet) error // called for each packet

	Payload bool // true if the payload was requested
	Packets int  // the maximum that was requested

	line   []byte
	vxlan  []uint16
	begun  bool
	names  map[string]bool
	count  int
	failed error
}

// Write accepts the output in pieces of any size. After its first error, it rejects all output.
func (r *Reader) Write(b []byte) (int, error) {
	for rest := b; r.failed == nil; {
		line, more, whole := bytes.Cut(rest, []byte("\n"))
		if r.line = append(r.line, line...); len(r.line) > maxLineLen {
			r.failed = fmt.Errorf("a line of more than %d bytes", maxLineLen)
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

// checked returns a packet if it is valid and was requested.
func (r *Reader) checked(p packet) (Packet, error) {
	if r.count++; r.count > r.Packets {
		return Packet{}, fmt.Errorf("more than the %d requested packets", r.Packets)
	}
	odd := func(c rune) bool { return c <= ' ' || c > '~' }
	switch {
	case p.Interface == "" || len(p.Interface) > maxNameLen || strings.ContainsFunc(p.Interface, odd):
		return Packet{}, errors.New("a packet with an invalid interface name")
	case p.Time < 0, p.Direction > 7, len(p.From) > maxAddressLen:
		return Packet{}, errors.New("an invalid packet")
	case len(p.Data) > wholeLen, p.Length < len(p.Data), p.Length > maxPacketLen:
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

// End must be called after the last Write. It returns an error if part of the capture is missing.
func (r *Reader) End() error {
	switch {
	case r.failed == nil && !r.begun:
		r.failed = errors.New("no capture arrived")
	case r.failed == nil && len(r.line) > 0:
		r.failed = errors.New("the capture ended in the middle of a packet")
	}
	return r.failed
}

// Line formats a packet.
func (r *Reader) Line(p Packet) string { return Line(p, r.vxlan) }
