package capture

import (
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/net/bpf"

	"github.com/calico-probe/calico-probe/probe/must"
)

// TestFilter runs the program like the kernel does.
func TestFilter(t *testing.T) {
	t.Parallel()
	all := samples(t)
	for name, c := range map[string]struct {
		o    Options
		want []string
	}{
		"a host": {Options{Hosts: []netip.Addr{podB}}, []string{"http", "http options", "dns", "ping", "fragment",
			"vxlan http", "vxlan ping", "vxlan quoted", "ipip http", "quoted http", "quoted ping", "esp"}},
		"a port of a host": {Options{Hosts: []netip.Addr{podB}, Port: 80}, []string{"http", "http options", "fragment",
			"vxlan http", "vxlan quoted", "ipip http", "quoted http"}},
		"a port": {Options{Port: 80}, []string{"http", "http options", "fragment", "vxlan http", "vxlan quoted", "ipip http",
			"quoted http", "others http"}},
		"a port of a protocol": {Options{Port: 53, Protocol: "udp"}, []string{"dns", "dns6"}},
		"a protocol": {Options{Hosts: []netip.Addr{podB}, Protocol: "icmp"},
			[]string{"ping", "vxlan ping", "quoted ping"}},
		"a node": {Options{Hosts: []netip.Addr{hostB}}, []string{"vxlan http", "vxlan ping", "vxlan quoted", "ipip http",
			"quoted http", "quoted ping", "arp", "others http", "not vxlan"}},
		"two families": {Options{Hosts: []netip.Addr{netip.MustParseAddr("192.0.2.1"), host6}},
			[]string{"dns6", "solicited", "http6 behind 3"}},
		"a neighbour": {Options{Hosts: []netip.Addr{pod6}}, []string{"dns6", "solicited", "http6 behind 3"}},
		"nobody":      {Options{Hosts: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}, nil},
		"a mark": {Options{Mark: 1, Hosts: []netip.Addr{hostB}}, []string{"ping", "vxlan ping", "quoted ping", "quoted http",
			"vxlan quoted", "arp"}},
	} {
		code, err := c.o.filter([]uint16{defaultVXLAN})
		if err != nil {
			t.Fatal(name, err)
		}
		if raw, err := bpf.Assemble(code); err != nil || len(raw) > 4096 {
			t.Fatalf("%s: %d instructions, which the kernel does not take: %v", name, len(raw), err)
		}
		vm, err := bpf.NewVM(code)
		if err != nil {
			t.Fatal(name, err)
		}
		for packet, s := range all {
			n, err := vm.Run(s.b)
			if err != nil {
				t.Fatal(name, packet, err)
			}
			if got, want := n > 0, slices.Contains(c.want, packet); got != want {
				t.Errorf("%s: %s passes: %v, want %v", name, packet, got, want)
			}
		}
	}
}

// TestFilterFits checks that the kernel accepts the program for the maximum number of hosts and ports.
func TestFilterFits(t *testing.T) {
	t.Parallel()
	o := Options{Port: 443, Protocol: "tcp", Payload: true}
	for i := range maxHosts {
		o.Hosts = append(o.Hosts, netip.AddrFrom16([16]byte{0xfd, 15: byte(i)}))
	}
	code := must.Get(o.filter([]uint16{1, 2, 3, 4}))(t)
	if raw, err := bpf.Assemble(code); err != nil || len(raw) > 4096 {
		t.Errorf("%d instructions: %v", len(raw), err)
	}
}

// FuzzFilter checks that the program ends with one of its two answers for every input.
func FuzzFilter(f *testing.F) {
	for _, s := range samples(f) {
		f.Add(s.b)
	}
	code := must.Get(Options{Hosts: []netip.Addr{podB}, Port: 80}.filter([]uint16{defaultVXLAN}))(f)
	vm := must.Get(bpf.NewVM(code))(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := vm.Run(b)
		if err != nil || n != 0 && n != headersLen {
			t.Errorf("%d, %v", n, err)
		}
	})
}
