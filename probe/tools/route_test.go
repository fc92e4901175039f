package tools

import (
	"net/netip"
	"testing"
)

func TestWay(t *testing.T) {
	t.Parallel()
	a, p := netip.MustParseAddr, netip.MustParsePrefix
	for want, w := range map[string]way{
		"10.244.7.0/26 via 10.0.0.2 dev eth0 proto bird": {to: p("10.244.7.0/26"),
			hops: []hop{{a("10.0.0.2"), "eth0", ""}}, proto: 12, table: tableMain},
		"blackhole 10.244.1.0/26 proto bird": {to: p("10.244.1.0/26"),
			kind: 6, hops: []hop{{}}, proto: 12, table: tableMain},
		"default via 10.0.0.1 dev eth0 linkdown proto dhcp src 10.0.0.9 metric 100 mtu 1400": {to: p("0.0.0.0/0"),
			hops: []hop{{a("10.0.0.1"), "eth0", "linkdown"}}, proto: 16, src: a("10.0.0.9"), metric: 100, mtu: 1400},
		"10.244.7.9 hop 1 via 10.0.0.2 dev eth0 hop 2 via 10.0.0.3 dev eth1 proto 77": {to: p("10.244.7.9/32"),
			hops: []hop{{a("10.0.0.2"), "eth0", ""}, {a("10.0.0.3"), "eth1", ""}}, proto: 77},
		"local ::1 dev lo proto kernel scope host table 255": {to: p("::1/128"),
			kind: 2, hops: []hop{{device: "lo"}}, proto: 2, scope: "host", table: tableLocal},
		"10.244.9.1 dev cali1 proto felix scope link": {to: p("10.244.9.1/32"),
			hops: []hop{{device: "cali1"}}, proto: 80, scope: "link"},
	} {
		if got := w.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestShown(t *testing.T) {
	t.Parallel()
	p := netip.MustParsePrefix
	all := []way{
		{to: p("0.0.0.0/0"), hops: []hop{{device: "eth0"}}, proto: 3, table: tableMain},
		{to: p("10.244.7.0/26"), hops: []hop{{device: "eth0"}, {device: "eth1"}}, proto: 12, table: tableMain},
		{to: p("10.244.7.9/32"), hops: []hop{{device: "cali1"}}, proto: 80, table: tableMain},
		{to: p("10.0.0.9/32"), hops: []hop{{device: "lo"}}, proto: 2, table: tableLocal},
		{to: p("fd00::/64"), hops: []hop{{device: "eth0"}}, proto: 2, table: tableMain},
		{to: p("::/0"), hops: []hop{{device: "eth0"}}, proto: 9, table: tableMain},
	}
	none := showing{proto: -1, table: tableMain}
	with := func(change func(*showing)) showing { s := none; change(&s); return s }
	for name, c := range map[string]struct {
		s    showing
		want string
	}{
		"main":    {none, "01245"},
		"prefix":  {with(func(s *showing) { s.within = p("10.244.0.0/16") }), "12"},
		"default": {with(func(s *showing) { s.byDefault = true }), "05"},
		"of IPv4": {with(func(s *showing) { s.within = p("0.0.0.0/0") }), "0"},
		"of IPv6": {with(func(s *showing) { s.within = p("::/0") }), "5"},
		"address": {with(func(s *showing) { s.having = netip.MustParseAddr("10.244.7.9") }), "012"},
		"device":  {with(func(s *showing) { s.device = "eth1" }), "1"},
		"bird":    {with(func(s *showing) { s.proto = 12 }), "1"},
		"local":   {with(func(s *showing) { s.table = tableLocal }), "3"},
		"all":     {with(func(s *showing) { s.table = 0 }), "012345"},
	} {
		got := ""
		for i, w := range all {
			if c.s.shown(w) {
				got += string(rune('0' + i))
			}
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if one := len(c.s.families()) == 1; one != (c.s.within.IsValid() || c.s.having.IsValid()) {
			t.Errorf("%s: of families %v", name, c.s.families())
		}
	}
}
