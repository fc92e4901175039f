package encap

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"golang.org/x/net/bpf"

	"github.com/calico-probe/calico-probe/probe/must"
)

// TestFilter runs the kernel's filter program on packets that are sent, and on others.
func TestFilter(t *testing.T) {
	const token = 0xcafe0001
	v4, v6 := netip.MustParseAddr("10.9.0.1"), netip.MustParseAddr("fd09::1")
	udp := func(port int, payload []byte) []byte {
		h := make([]byte, udpLen)
		binary.BigEndian.PutUint16(h[2:], uint16(port))
		return append(h, payload...)
	}
	ip := func(header int, proto byte, payload []byte) []byte {
		h := make([]byte, header)
		switch header {
		case ip4Len:
			h[0], h[9] = 0x45, proto
		case ip6Len:
			h[0], h[6] = 0x60, proto
		}
		return append(h, payload...)
	}
	for name, c := range map[string]struct {
		path   Path
		header int
		packet []byte
		passes bool
	}{
		"VXLAN": {Path{v4, v4, 4789}, ip4Len,
			ip(ip4Len, protoUDP, udp(4789, Path{v4, v4, 4789}.packet(token))), true},
		"over IPv6": {Path{v6, v6, 4789}, ip6Len,
			ip(ip6Len, protoUDP, udp(4789, Path{v6, v6, 4789}.packet(token))), true},
		"raw, over IPv6": {Path{v6, v6, 51821}, 0, udp(51821, Path{v6, v6, 51821}.packet(token)), true},
		"IPIP":           {Path{v4, v4, 0}, ip4Len, ip(ip4Len, protoIPIP, Path{v4, v4, 0}.packet(token)), true},
		"another token": {Path{v4, v4, 4789}, ip4Len,
			ip(ip4Len, protoUDP, udp(4789, Path{v4, v4, 4789}.packet(token+1))), false},
		"another port": {Path{v4, v4, 4789}, ip4Len,
			ip(ip4Len, protoUDP, udp(4790, Path{v4, v4, 4789}.packet(token))), false},
		"another protocol": {Path{v4, v4, 0}, ip4Len, ip(ip4Len, protoUDP, Path{v4, v4, 0}.packet(token)), false},
		"cut":              {Path{v4, v4, 4789}, ip4Len, ip(ip4Len, protoUDP, udp(4789, nil)), false},
	} {
		vm := must.Get(bpf.NewVM(c.path.filter(c.header, token)))(t)
		if n, err := vm.Run(c.packet); err != nil || (n > 0) != c.passes {
			t.Errorf("%s: %d bytes, %v", name, n, err)
		}
	}
}
