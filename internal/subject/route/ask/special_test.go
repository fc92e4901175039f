package ask

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
)

// TestIsForeignLocal has routes in table local as kernels and guest agents add them: 66 is google-guest-agent's.
func TestIsForeignLocal(t *testing.T) {
	t.Parallel()
	const byKernel, byAgent = 2, 66
	block, own := netip.MustParsePrefix("10.244.1.0/26"), netip.MustParsePrefix("10.9.0.1/32")
	for name, c := range map[string]struct {
		route kernel.Route
		want  bool
	}{
		"an alias range":         {kernel.Route{To: block, Type: kernel.Local, Proto: byAgent, Table: 255}, true},
		"an address of its own":  {kernel.Route{To: own, Type: kernel.Local, Proto: byKernel, Table: 255}, false},
		"a block by the gateway": {kernel.Route{To: block, Proto: byAgent}, false},
	} {
		if got := isForeignLocal(c.route); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	m := misdirection{route: kernel.Route{To: block, Type: kernel.Local, Proto: byAgent, Table: 255},
		hits: []string{"default/a 10.244.1.2"}, kinds: []string{"pod"}}
	r := m.result()
	if !strings.Contains(r.Saw, "locally delivers traffic for default/a 10.244.1.2") || r.Facts[route.FactRouteType] != "local" {
		t.Error(r)
	}
}

// TestRejectingRules expects the rule that drops all traffic to a target. It ignores rules for other packets, and rules
// after a table that may have a route.
func TestRejectingRules(t *testing.T) {
	t.Parallel()
	api := probe.Target{Kind: probe.KindDatastore, Addr: netip.MustParseAddr("10.0.0.1"), Port: 6443}
	local := kernel.Rule{Table: kernel.TableLocal}
	drop := kernel.Rule{Priority: 90, Rejects: true, To: netip.MustParsePrefix("10.0.0.1/32"), Protocol: 6,
		Ports: [2]int{6443, 6443}}
	after := func(change func(*kernel.Rule)) []kernel.Rule {
		r := drop
		change(&r)
		return []kernel.Rule{local, r}
	}
	elsewhere := netip.MustParsePrefix("10.0.0.2/32")
	for name, c := range map[string]struct {
		rules  []kernel.Rule
		target probe.Target
		want   bool
	}{
		"the API server's port":  {[]kernel.Rule{local, drop}, api, true},
		"every packet":           {[]kernel.Rule{local, {Priority: 5, Rejects: true}}, api, true},
		"near: another port":     {after(func(r *kernel.Rule) { r.Ports = [2]int{443, 444} }), api, false},
		"near: another address":  {after(func(r *kernel.Rule) { r.To = elsewhere }), api, false},
		"near: marked packets":   {after(func(r *kernel.Rule) { r.Mark = 1 }), api, false},
		"near: one user's":       {after(func(r *kernel.Rule) { r.Narrow = true }), api, false},
		"near: after table main": {[]kernel.Rule{local, {Priority: 80, Table: kernel.TableMain}, drop}, api, false},
		"near: a node's pings":   {[]kernel.Rule{local, drop}, probe.Target{Kind: probe.KindNode, Addr: api.Addr}, false},
	} {
		if got := findRejecting(c.rules, c.target); (got != nil) != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got, want := drop.String(), "90: from all to 10.0.0.1/32 ipproto tcp dport 6443 drops or rejects"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
