package span

import (
	"net/netip"
	"strings"
	"testing"
)

// TestSpans has the orders in which kernels list the boundaries of intervals.
func TestSpans(t *testing.T) {
	t.Parallel()
	b := func(a string, end bool) Boundary { return Boundary{netip.MustParseAddr(a), end} }
	text := func(all []Span) string {
		var out []string
		for _, s := range all {
			out = append(out, s.First.String()+"-"+s.Last.String())
		}
		return strings.Join(out, " ")
	}
	for want, keys := range map[string][]Boundary{
		"10.0.0.1-10.0.0.1 10.0.0.2-10.0.0.2": {b("10.0.0.3", true), b("10.0.0.2", false), b("10.0.0.2", true),
			b("10.0.0.1", false), b("0.0.0.0", true)},
		"10.1.0.0-10.1.0.255":       {b("10.1.0.0", false), b("10.1.1.0", true)},
		"255.0.0.0-255.255.255.255": {b("255.0.0.0", false)},
		"fd00::1-fd00::1":           {b("fd00::2", true), b("fd00::1", false)},
		"":                          {b("0.0.0.0", true)},
	} {
		if got := text(Join(keys, true)); got != want {
			t.Errorf("%v: %s", keys, got)
		}
	}
	if got := text(Join([]Boundary{b("10.0.0.9", false), b("10.0.0.1", false)},
		false)); got != "10.0.0.1-10.0.0.1 10.0.0.9-10.0.0.9" {
		t.Error(got)
	}
}
