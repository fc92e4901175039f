package capture

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe/must"
)

// TestStream lets a Reader read the output of a Writer, in pieces of any size.
func TestStream(t *testing.T) {
	t.Parallel()
	var sent []Packet
	var wire bytes.Buffer
	w := must.Get(NewWriter(&wire, []uint16{defaultVXLAN}))(t)
	for name, s := range samples(t) {
		p := Packet{Time: time.Unix(1, 234), Interface: "eth0", Direction: Out, Protocol: s.protocol, Device: 1,
			From: []byte{1, 2, 3, 4, 5, 6}, Length: len(s.b), Data: s.b}
		if err := w.Packet(p); err != nil {
			t.Fatal(name, err)
		}
		sent = append(sent, p)
	}
	for _, payload := range []bool{true, false} {
		for _, size := range []int{1, 7, 640, wire.Len()} {
			var got []Packet
			begun := 0
			r := &Reader{Payload: payload, Packets: len(sent), Begun: func() { begun++ },
				Packet: func(p Packet) error { got = append(got, p); return nil }}
			for rest := wire.Bytes(); len(rest) > 0; {
				n := min(size, len(rest))
				must.Get(r.Write(rest[:n]))(t)
				rest = rest[n:]
			}
			if err := r.End(); err != nil || begun != 1 || len(got) != len(sent) {
				t.Fatal(err, begun, len(got))
			}
			for i, p := range sent {
				if !payload { // also where the node sends more
					p.Data = headers(p.Protocol, p.Data, []uint16{defaultVXLAN})
				}
				if !reflect.DeepEqual(got[i], p) {
					t.Errorf("got %+v, want %+v", got[i], p)
				}
			}
		}
	}
}

// TestHostileStreams are streams with which a node could write more, or other data, than requested.
func TestHostileStreams(t *testing.T) {
	t.Parallel()
	const begin = `{"start":{"vxlan":[4789]}}` + "\n"
	one := func(change func(*packet)) string {
		p := packet{Time: 1, Interface: "eth0", Protocol: etherIPv4, Length: 20, Data: make([]byte, 20)}
		change(&p)
		b := must.Get(json.Marshal(frame{Packet: &p}))(t)
		return string(b) + "\n"
	}
	good := one(func(*packet) {})
	many := func() string {
		var b strings.Builder
		for i := range maxInterfaces + 1 {
			b.WriteString(one(func(p *packet) { p.Interface = fmt.Sprint("eth", i) }))
		}
		return b.String()
	}
	for says, text := range map[string]string{
		"not a capture":       "total 12\n",
		"the data is not":     good,
		"is not a capture":    begin + begin,
		"a line of more":      strings.Repeat("x", maxLineLen+1),
		"more than the 3":     begin + strings.Repeat(good, 4),
		"in the middle":       begin + good[:20],
		"no capture arrived":  "",
		"a packet with":       begin + one(func(p *packet) { p.Interface = "eth0\x1b[2J" }),
		"interface name":      begin + one(func(p *packet) { p.Interface = strings.Repeat("e", 16) }),
		"interface":           begin + one(func(p *packet) { p.Interface = "" }),
		"invalid packet":      begin + one(func(p *packet) { p.Time = -1 }),
		"an invalid packet":   begin + one(func(p *packet) { p.From = make([]byte, 9) }),
		"invalid pack":        begin + one(func(p *packet) { p.Direction = 8 }),
		"invalid length":      begin + one(func(p *packet) { p.Length = 19 }),
		"with an invalid len": begin + one(func(p *packet) { p.Length = 1 << 30 }),
		"an invalid length":   begin + one(func(p *packet) { p.Data, p.Length = make([]byte, wholeLen+1), wholeLen+1 }),
		"2048 interfaces":     begin + many(),
	} {
		count := 0
		r := &Reader{Packets: 3, Payload: true, Packet: func(Packet) error { count++; return nil }}
		if says == "2048 interfaces" {
			r.Packets = MaxPackets
		}
		_, err := r.Write([]byte(text))
		if err == nil {
			err = r.End()
		}
		if err == nil || !strings.Contains(err.Error(), says) || count > r.Packets {
			t.Errorf("%.60q: %v, want %q", text, err, says)
		}
		if _, again := r.Write([]byte(begin + good)); again == nil {
			t.Errorf("%.60q: it takes more afterwards", text)
		}
	}
	full := errors.New("the disk is full")
	r := &Reader{Packets: 3, Packet: func(Packet) error { return full }}
	if _, err := r.Write([]byte(begin + good)); !errors.Is(err, full) {
		t.Error(err)
	}
}

// FuzzReader feeds streams that a node may send.
func FuzzReader(f *testing.F) {
	f.Add([]byte(`{"start":{"vxlan":[4789]}}` + "\n" +
		`{"packet":{"t":1,"i":"eth0","d":4,"p":2048,"h":1,"n":20,"b":"RQAAFA=="}}` + "\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		count := 0
		r := &Reader{Packets: 5, Packet: func(p Packet) error {
			if count++; len(p.Data) > p.Length || len(p.Data) > headersLen && len(p.Data) > wholeLen {
				t.Errorf("%+v", p)
			}
			return nil
		}}
		_, _ = r.Write(b)
		if count > 5 || len(r.line) > maxLineLen+len(b) {
			t.Errorf("%d packets, a line of %d", count, len(r.line))
		}
	})
}
