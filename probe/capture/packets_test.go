package capture

import (
	"net"
	"net/netip"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/calico-probe/calico-probe/probe/must"
)

// sample is a packet as a socket returns it.
type sample struct {
	protocol uint16
	b        []byte
}

// secret is in every payload, and must not leave the node.
const secret = "hunter2.example.org"

var (
	hostA, hostB = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	podA, podB   = netip.MustParseAddr("10.244.1.5"), netip.MustParseAddr("10.244.2.7")
	host6, pod6  = netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00:10:244::7")
)

func made(t testing.TB, all ...gopacket.SerializableLayer) sample {
	t.Helper()
	var network gopacket.NetworkLayer
	for _, l := range all {
		if n, is := l.(gopacket.NetworkLayer); is {
			network = n
		}
		if s, is := l.(interface {
			SetNetworkLayerForChecksum(gopacket.NetworkLayer) error
		}); is && network != nil {
			must.Do(t, s.SetNetworkLayerForChecksum(network))
		}
	}
	buf := gopacket.NewSerializeBuffer()
	fix := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	must.Do(t, gopacket.SerializeLayers(buf, fix, all...))
	protocol := map[gopacket.LayerType]uint16{layers.LayerTypeIPv4: etherIPv4, layers.LayerTypeIPv6: etherIPv6,
		layers.LayerTypeARP: etherARP}[all[0].LayerType()]
	return sample{protocol, buf.Bytes()}
}

func ip4(from, to netip.Addr, next layers.IPProtocol) *layers.IPv4 {
	return &layers.IPv4{Version: 4, TTL: 64, Protocol: next, SrcIP: from.AsSlice(), DstIP: to.AsSlice()}
}

func ip6(from, to netip.Addr, next layers.IPProtocol) *layers.IPv6 {
	return &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: next, SrcIP: from.AsSlice(), DstIP: to.AsSlice()}
}

func said() gopacket.Payload { return gopacket.Payload("GET /?password=" + secret) }

func segmentOf(from, to uint16, options ...layers.TCPOption) *layers.TCP {
	return &layers.TCP{SrcPort: layers.TCPPort(from), DstPort: layers.TCPPort(to), Seq: 7, ACK: true, PSH: true,
		Window: 100, Options: options}
}

func datagram(from, to uint16) *layers.UDP {
	return &layers.UDP{SrcPort: layers.UDPPort(from), DstPort: layers.UDPPort(to)}
}

func echo(payload []byte) []gopacket.SerializableLayer {
	return []gopacket.SerializableLayer{&layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(8, 0), Id: 9, Seq: 1},
		gopacket.Payload(payload)}
}

// in puts a packet behind other headers.
func in(t testing.TB, inner sample, outer ...gopacket.SerializableLayer) sample {
	t.Helper()
	return made(t, append(outer, gopacket.Payload(inner.b))...)
}

func frame4() *layers.Ethernet {
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 1}
	return &layers.Ethernet{SrcMAC: mac, DstMAC: mac, EthernetType: layers.EthernetTypeIPv4}
}

func tunnel() []gopacket.SerializableLayer {
	return []gopacket.SerializableLayer{ip4(hostA, hostB, layers.IPProtocolUDP), datagram(50000, defaultVXLAN),
		&layers.VXLAN{ValidIDFlag: true, VNI: 4096}, frame4()}
}

// samples are packets by name.
func samples(t testing.TB) map[string]sample {
	t.Helper()
	http := made(t, ip4(podA, podB, layers.IPProtocolTCP), segmentOf(40000, 80), said())
	ping := made(t, append([]gopacket.SerializableLayer{ip4(podA, podB, layers.IPProtocolICMPv4)},
		echo([]byte(secret))...)...)
	mac := []byte{2, 0, 0, 0, 0, 1}
	who := &layers.ARP{AddrType: layers.LinkTypeEthernet, Protocol: layers.EthernetTypeIPv4,
		HwAddressSize: 6, ProtAddressSize: 4, Operation: 1, SourceHwAddress: mac,
		SourceProtAddress: hostA.AsSlice(), DstHwAddress: make([]byte, 6),
		DstProtAddress: hostB.AsSlice()}
	fragment := ip4(podA, podB, layers.IPProtocolTCP)
	fragment.FragOffset = 100
	options := ip4(podA, podB, layers.IPProtocolTCP)
	options.Options = []layers.IPv4Option{{OptionType: 148, OptionLength: 4, OptionData: []byte{0, 0}}}
	quoted := func(inner sample) sample {
		return in(t, inner, ip4(hostB, podA, layers.IPProtocolICMPv4),
			&layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(3, 13)})
	}
	solicited := made(t, ip6(host6, netip.MustParseAddr("ff02::1:ff00:7"), layers.IPProtocolICMPv6),
		&layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(135, 0)}, &layers.ICMPv6NeighborSolicitation{
			TargetAddress: pod6.AsSlice(), Options: layers.ICMPv6Options{{Type: 1, Data: mac}}})
	return map[string]sample{
		"http":         http,
		"http options": made(t, options, segmentOf(40000, 80), said()),
		"dns":          made(t, ip4(podA, podB, layers.IPProtocolUDP), datagram(40001, 53), said()),
		"dns6":         made(t, ip6(host6, pod6, layers.IPProtocolUDP), datagram(40001, 53), said()),
		"ping":         ping,
		"fragment":     made(t, fragment, said()),
		"vxlan http":   in(t, http, tunnel()...),
		"vxlan ping":   in(t, ping, tunnel()...),
		"vxlan quoted": in(t, quoted(http), tunnel()...),
		"ipip http":    in(t, http, ip4(hostA, hostB, layers.IPProtocolIPv4)),
		"quoted http":  quoted(http),
		"quoted ping":  quoted(ping),
		"arp":          made(t, who),
		"solicited":    solicited,
		"others http":  made(t, ip4(hostA, hostB, layers.IPProtocolTCP), segmentOf(40000, 80), said()),
		"not vxlan":    made(t, ip4(hostA, hostB, layers.IPProtocolUDP), datagram(1, defaultVXLAN), said()),
		"esp":          made(t, ip4(podA, podB, layers.IPProtocolESP), said()),
		"http6 behind 3": made(t, ip6(host6, pod6, layers.IPProtocolIPv6HopByHop),
			extension6(layers.IPProtocolIPv6Destination), extension6(layers.IPProtocolTCP), segmentOf(40000, 80), said()),
	}
}

// extension6 is an empty IPv6 extension header.
func extension6(next layers.IPProtocol) gopacket.Payload {
	return gopacket.Payload{byte(next), 0, 1, 4, 0, 0, 0, 0}
}
