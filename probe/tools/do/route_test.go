package do

import (
	"net/netip"
	"testing"

	"github.com/calico-probe/calico-probe/probe/kernel"
)

func TestShown(t *testing.T) {
	t.Parallel()
	p := netip.MustParsePrefix
	all := []kernel.Route{
		{To: p("0.0.0.0/0"), Hops: []kernel.Hop{{Device: "eth0"}}, Proto: 3, Table: kernel.TableMain},
		{To: p("10.244.7.0/26"), Hops: []kernel.Hop{{Device: "eth0"}, {Device: "eth1"}}, Proto: 12, Table: kernel.TableMain},
		{To: p("10.244.7.9/32"), Hops: []kernel.Hop{{Device: "cali1"}}, Proto: 80, Table: kernel.TableMain},
		{To: p("10.0.0.9/32"), Hops: []kernel.Hop{{Device: "lo"}}, Proto: 2, Table: kernel.TableLocal},
		{To: p("fd00::/64"), Hops: []kernel.Hop{{Device: "eth0"}}, Proto: 2, Table: kernel.TableMain},
		{To: p("::/0"), Hops: []kernel.Hop{{Device: "eth0"}}, Proto: 9, Table: kernel.TableMain},
	}
	none := showing{proto: -1, table: kernel.TableMain}
	with := func(change func(*showing)) showing { s := none; change(&s); return s }
	for name, c := range map[string]struct {
		s    showing
		want string
	}{
		"main":    {none, "01245"},
		"prefix":  {with(func(s *showing) { s.Within = p("10.244.0.0/16") }), "12"},
		"default": {with(func(s *showing) { s.Default = true }), "05"},
		"of IPv4": {with(func(s *showing) { s.Within = p("0.0.0.0/0") }), "0"},
		"of IPv6": {with(func(s *showing) { s.Within = p("::/0") }), "5"},
		"address": {with(func(s *showing) { s.Having = netip.MustParseAddr("10.244.7.9") }), "012"},
		"device":  {with(func(s *showing) { s.Device = "eth1" }), "1"},
		"bird":    {with(func(s *showing) { s.proto = 12 }), "1"},
		"local":   {with(func(s *showing) { s.table = kernel.TableLocal }), "3"},
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
		if one := len(c.s.families()) == 1; one != (c.s.Within.IsValid() || c.s.Having.IsValid()) {
			t.Errorf("%s: of families %v", name, c.s.families())
		}
	}
}
