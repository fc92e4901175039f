package capture

import (
	"encoding/binary"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"golang.org/x/net/bpf"

	"github.com/calico-probe/calico-probe/probe/must"
)

// TestFlow recognises packets with a mark through every NAT, and no others.
func TestFlow(t *testing.T) {
	t.Parallel()
	mark := Mark(0x1122334455667788)
	payload := binary.BigEndian.AppendUint64(nil, uint64(mark))
	ping := func(id uint16, payload []byte) sample {
		return made(t, ip4(podA, podB, layers.IPProtocolICMPv4),
			&layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(8, 0), Id: id}, gopacket.Payload(payload))
	}
	quoted := func(s sample, n int) sample {
		return made(t, ip4(hostB, podA, layers.IPProtocolICMPv4),
			&layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(11, 0)}, gopacket.Payload(s.b[:n]))
	}
	tcp := func(port uint16, seq, ack uint32, flags string, mss int) sample {
		segment := &layers.TCP{SrcPort: layers.TCPPort(port), DstPort: 80, Seq: seq, Ack: ack}
		for _, f := range flags {
			switch f {
			case 'S':
				segment.SYN = true
			case 'A':
				segment.ACK = true
			case 'R':
				segment.RST = true
			}
		}
		if mss > 0 {
			segment.Options = []layers.TCPOption{{OptionType: optionMSS, OptionLength: 4,
				OptionData: binary.BigEndian.AppendUint16(nil, uint16(mss))}}
		}
		return made(t, ip4(podA, podB, layers.IPProtocolTCP), segment)
	}
	const first = 0xffffffff // and a new connection begins
	code := must.Get(Options{Mark: mark}.filter([]uint16{defaultVXLAN}))(t)
	vm := must.Get(bpf.NewVM(code))(t)
	f := &flow{mark: mark}
	for _, c := range []struct {
		name string
		s    sample
		want bool
	}{
		{"a quoted ping before any", quoted(ping(5, payload), 28), false},
		{"somebody's ping", ping(5, []byte("somebody's own")), false},
		{"a ping", ping(5, payload), true},
		{"a ping behind a NAT", ping(6, payload), true},
		{"a ping in VXLAN", in(t, ping(6, payload), tunnel()...), true},
		{"a quoted ping", quoted(ping(6, payload), 28), true},
		{"somebody's quoted ping", quoted(ping(7, []byte("somebody's own")), 28), false},
		{"the answer before the connection", tcp(80, 1, 0, "SA", 1460), false},
		{"somebody's connection", tcp(1000, 5, 0, "S", 1460), false},
		{"the connection", tcp(1000, first, 0, "S", mark.segment()), true},
		{"the same behind a NAT", tcp(2000, first, 0, "S", mark.segment()), true},
		{"its answer", tcp(80, 77, 0, "SA", 1460), true},
		{"its end", tcp(1000, 0, 78, "RA", 0), true},
		{"somebody's answer", tcp(80, 77, 9, "SA", mark.segment()), false},
		{"quoted", quoted(tcp(1000, first, 0, "S", mark.segment()), 28), true},
		{"somebody's quoted", quoted(tcp(1000, 5, 0, "S", mark.segment()), 28), false},
	} {
		if n, err := vm.Run(c.s.b); c.want && (n == 0 || err != nil) {
			t.Errorf("%s: the filter does not let it through: %v", c.name, err)
		}
		if got := f.has(dissect(c.s.protocol, c.s.b, []uint16{defaultVXLAN})); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	for i := range uint32(1000) { // a sender that has copied the mark
		s := tcp(1000, 1000*i, 0, "S", mark.segment())
		f.has(dissect(s.protocol, s.b, nil))
	}
	if len(f.starts) > maxKnown {
		t.Errorf("%d connections are remembered", len(f.starts))
	}
}

func TestMarks(t *testing.T) {
	t.Parallel()
	for range 1000 {
		m := NewMark()
		if again, err := ParseMark(m.String()); err != nil || again != m {
			t.Fatal(m, again, err)
		}
		if size := m.segment(); size < 600 || size >= 1200 {
			t.Fatalf("%v has segments of %d bytes", m, size)
		}
	}
	for _, text := range []string{"", "0", "x", "-1", "11223344556677889"} {
		if m, err := ParseMark(text); err == nil {
			t.Errorf("%q is %v", text, m)
		}
	}
}
