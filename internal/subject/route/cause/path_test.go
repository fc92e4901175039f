package cause

import (
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/probe"
)

// TestRouteOfLiar wants nothing that a node calls the type of a route to come into a command.
func TestRouteOfLiar(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{
		"blackhole": "blackhole 10.88.0.12/32", "$(id) blackhole": "ROUTE", "blackhole;id": "ROUTE", "local": "ROUTE",
	} {
		f := diagnose.Findings{Node: "node-a", All: []diagnose.Finding{{Node: "node-a", Result: probe.Found(probe.Fail, "x").
			With(route.FactRoute, "blackhole 10.88.0.12/32").With(route.FactRouteType, kind).
			With(route.FactMatch, "10.88.0.12/32")}}}
		c, is := dropsBy(f.Indexed(), f.All[0])
		if got := c.Args["route"].Typed(); !is || got != want || strings.Contains(c.Args["match"].Typed(), "$") {
			t.Errorf("%q: %q, want %q", kind, got, want)
		}
	}
}
