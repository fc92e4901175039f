package kernel

import (
	"net/netip"
	"testing"
)

func TestRouteAsText(t *testing.T) {
	t.Parallel()
	a, p := netip.MustParseAddr, netip.MustParsePrefix
	for want, r := range map[string]Route{
		"10.244.7.0/26 via 10.0.0.2 dev eth0 proto bird": {To: p("10.244.7.0/26"),
			Hops: []Hop{{a("10.0.0.2"), "eth0", ""}}, Proto: 12, Table: TableMain},
		"blackhole 10.244.1.0/26 proto bird": {To: p("10.244.1.0/26"),
			Type: 6, Hops: []Hop{{}}, Proto: 12, Table: TableMain},
		"default via 10.0.0.1 dev eth0 linkdown proto dhcp src 10.0.0.9 metric 100 mtu 1400": {To: p("0.0.0.0/0"),
			Hops: []Hop{{a("10.0.0.1"), "eth0", "linkdown"}}, Proto: 16, Source: a("10.0.0.9"), Metric: 100, MTU: 1400},
		"10.244.7.9 hop 1 via 10.0.0.2 dev eth0 hop 2 via 10.0.0.3 dev eth1 proto 77": {To: p("10.244.7.9/32"),
			Hops: []Hop{{a("10.0.0.2"), "eth0", ""}, {a("10.0.0.3"), "eth1", ""}}, Proto: 77},
		"local ::1 dev lo proto kernel scope host table 255": {To: p("::1/128"),
			Type: 2, Hops: []Hop{{Device: "lo"}}, Proto: 2, Scope: "host", Table: TableLocal},
		"10.244.9.1 dev cali1 proto felix scope link": {To: p("10.244.9.1/32"),
			Hops: []Hop{{Device: "cali1"}}, Proto: 80, Scope: "link"},
	} {
		if got := r.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
