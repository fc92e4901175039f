package capture

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket/layers"
)

// TestHeadersHaveNothingOfWhatIsSaid checks that each copied packet ends after its last header.
func TestHeadersHaveNothingOfWhatIsSaid(t *testing.T) {
	t.Parallel()
	want := map[string]int{
		"http": 40, "http options": 44, "dns": 28, "dns6": 48, "ping": 28, "fragment": 20,
		"vxlan http": 50 + 40, "vxlan ping": 50 + 28, "vxlan quoted": 50 + 28 + 40, "ipip http": 20 + 40,
		"quoted http": 28 + 40, "quoted ping": 28 + 28, "arp": 28, "solicited": 40 + 32, "others http": 40,
		"not vxlan": 28, "esp": 20, "http6 behind 3": 40 + 16 + 20,
	}
	for name, s := range samples(t) {
		got := headers(s.protocol, s.b, []uint16{defaultVXLAN})
		if len(got) != want[name] || bytes.Contains(got, []byte("hunter2")) {
			t.Errorf("%s: %d of %d bytes, want %d: %q", name, len(got), len(s.b), want[name], got)
		}
		if again := headers(s.protocol, got, []uint16{defaultVXLAN}); !bytes.Equal(got, again) {
			t.Errorf("%s: headers of headers are %d bytes", name, len(again))
		}
		for n := range s.b { // truncated anywhere
			if got := headers(s.protocol, s.b[:n], []uint16{defaultVXLAN}); bytes.Contains(got, []byte("hunter2")) {
				t.Errorf("%s cut to %d bytes has what is said", name, n)
			}
		}
	}
	if got := headers(0x88cc, []byte("a protocol of its own"), nil); len(got) > 0 {
		t.Errorf("of a protocol that is not known there is %q", got)
	}
}

// TestDigestsAreBlank checks that nothing is copied from which the password of a BGP session could be guessed.
func TestDigestsAreBlank(t *testing.T) {
	t.Parallel()
	digest := []byte("0123456789abcdef")
	for kind, left := range map[layers.TCPOptionKind]int{optionDigest: 0, optionAuth: 2} {
		segment := segmentOf(179, 40000, layers.TCPOption{OptionType: 1, OptionLength: 1},
			layers.TCPOption{OptionType: kind, OptionLength: uint8(2 + len(digest)), OptionData: digest})
		s := made(t, ip4(hostA, hostB, layers.IPProtocolTCP), segment, said())
		got := headers(s.protocol, s.b, nil)
		if len(got) <= 40+left || bytes.Contains(got, digest[left:left+2]) || !bytes.Contains(s.b, digest) {
			t.Errorf("option %d: %q", kind, got)
		}
	}
}

// TestOtherPortOfVXLAN uses the VXLAN port of a node's own interface.
func TestOtherPortOfVXLAN(t *testing.T) {
	t.Parallel()
	s := samples(t)["vxlan http"]
	binary.BigEndian.PutUint16(s.b[22:], 8472)
	if got := headers(s.protocol, s.b, []uint16{defaultVXLAN}); len(got) != 28 {
		t.Errorf("as UDP there are %d bytes", len(got))
	}
	if got := headers(s.protocol, s.b, []uint16{defaultVXLAN, 8472}); len(got) != 90 {
		t.Errorf("as VXLAN there are %d bytes", len(got))
	}
}

// TestLines compares lines with tcpdump -n, approximately.
func TestLines(t *testing.T) {
	t.Parallel()
	all := samples(t)
	at := time.Date(2026, 3, 2, 3, 4, 5, 6000, time.Local)
	for name, want := range map[string]string{
		"http":        "IP 10.244.1.5.40000 > 10.244.2.7.80: Flags [P.], seq 7, ack 0, win 100, length 34",
		"dns6":        "IP6 fd00::1.40001 > fd00:10:244::7.53: UDP, length 34",
		"ping":        "IP 10.244.1.5 > 10.244.2.7: ICMP echo request, id 9, seq 1, length 27",
		"fragment":    "IP 10.244.1.5 > 10.244.2.7: fragment at 800, protocol 6, length 54",
		"vxlan ping":  "IP 10.0.0.1.50000 > 10.0.0.2.4789: UDP, length 69: VXLAN 4096: IP 10.244.1.5 > 10.244.2.7: ICMP echo request, id 9, seq 1, length 27",
		"ipip http":   "IP 10.0.0.1 > 10.0.0.2: IP 10.244.1.5.40000 > 10.244.2.7.80: Flags [P.], seq 7, ack 0, win 100, length 34",
		"quoted http": "IP 10.0.0.2 > 10.244.1.5: ICMP unreachable (admin prohibited), length 82: IP 10.244.1.5.40000 > 10.244.2.7.80: Flags [P.], seq 7, ack 0, win 100, length 34",
		"arp":         "ARP, who has 10.0.0.2, tell 10.0.0.1",
		"solicited":   "IP6 fd00::1 > ff02::1:ff00:7: ICMP6 neighbour solicitation, who has fd00:10:244::7, length 32",
		"esp":         "IP 10.244.1.5 > 10.244.2.7: protocol 50, length 54",
	} {
		s := all[name]
		p := Packet{Time: at, Interface: "eth0", Direction: Out, Protocol: s.protocol, Length: len(s.b), Data: s.b}
		for range 2 { // the whole packet, and headers only
			if got := Line(p, []uint16{defaultVXLAN}); got != "03:04:05.000006 eth0 Out "+want {
				t.Errorf("%s:\n got %s\nwant %s", name, got, want)
			}
			p.Data = headers(s.protocol, s.b, []uint16{defaultVXLAN})
		}
	}
	odd := Packet{Time: at, Interface: "eth0", Direction: toOther, Protocol: 0x88cc, Length: 60}
	if got := Line(odd, nil); !strings.HasSuffix(got, "eth0 P protocol 0x88cc, length 60") {
		t.Error(got)
	}
}

// FuzzLayers feeds packets that any host may send.
func FuzzLayers(f *testing.F) {
	for _, s := range samples(f) {
		f.Add(s.protocol, s.b)
	}
	f.Fuzz(func(t *testing.T, protocol uint16, b []byte) {
		before := bytes.Clone(b)
		got := headers(protocol, b, []uint16{defaultVXLAN})
		if len(got) > len(b) || !bytes.Equal(b, before) {
			t.Errorf("%d bytes of %d", len(got), len(b))
		}
		if again := headers(protocol, got, []uint16{defaultVXLAN}); !bytes.Equal(again, got) {
			t.Errorf("headers of %x are %x", got, again)
		}
		line := Line(Packet{Protocol: protocol, Data: b, Length: len(b)}, []uint16{defaultVXLAN})
		if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("%q", line)
		}
		fl := &flow{mark: 1}
		fl.has(dissect(protocol, b, []uint16{defaultVXLAN}))
	})
}
