package selector_test

import (
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/netpolicy/selector"
)

var labels = map[string]string{"zone": "eu-1", "kubernetes.io/hostname": "node-a", "rr": "", "in": "x"}

func TestMatches(t *testing.T) {
	for text, want := range map[string]bool{
		"": true, " \t": true, "all()": true, "all( )": true, "global()": true, "!all()": false, "!!all()": true,
		"has(zone)": true, "has( zone )": true, "has(rr)": true, "!has(rack)": true, "has(rack)": false,
		"zone == 'eu-1'": true, `zone=="eu-1"`: true, "zone == 'eu'": false, "rack == ''": false, "rr == ''": true,
		"zone != 'eu-1'": false, "zone != 'x'": true, "rack != 'x'": true,
		"kubernetes.io/hostname == 'node-a'": true,
		"zone in {'eu-1', \"eu-2\"}":         true, "zone in {}": false, "zone in{'x',}": false, "rack in {'x'}": false,
		"zone not in {'eu-1'}": false, "rack not in {'x'}": true, "zone notin { 'x' }": true,
		"zone contains 'u-'": true, "zone starts with 'eu'": true, "zone startswith 'us'": false,
		"zone ends with \"-1\"": true, "rack ends with ''": false,
		"in in {'x'}":                              true,
		"has(rack) || has(rr) && zone == 'eu-1'":   true,
		"has(rr) || has(rack) && zone == 'x'":      true, // && binds before ||
		"(has(rr) || has(rack)) && zone == 'x'":    false,
		"!(has(rack) || zone == 'x') && has(rr)":   true,
		"((zone == 'eu-1'))":                       true,
		"zone == \"it's\" || zone == '\"quoted\"'": false,
	} {
		s, err := selector.Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if got := s(labels); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, text := range []string{
		"zone", "zone = 'x'", "zone == x", "zone == 'x", "zone == 'x' &&", "zone == 'x' zone == 'y'", "(all()", "all())",
		"all(zone)", "has()", "has(zone",
		"zone in 'x'", "zone in {'x'", "zone in {'x' 'y'}", "zone in {x}", "zone not 'x'", "zone starts 'x'", "&& all()",
		"all() & all()", "zone == 'x'\n&& all()", "zöne == 'x'",
		strings.Repeat("(", 1000) + "all()" + strings.Repeat(")", 1000),
	} {
		if _, err := selector.Parse(text); err == nil {
			t.Errorf("%.40s is taken", text)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("has(a) && b in {'c', \"d\"} || !(e not in {} && f starts with 'g')")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := selector.Parse(text)
		if (s == nil) == (err == nil) {
			t.Fatalf("%q: %v", text, err)
		}
		if err != nil {
			return
		}
		n, err := selector.Parse("!(" + text + ")")
		if strings.TrimLeft(text, " \t") == "" || strings.Count(text, "(") >= 100 {
			return // !() is invalid, and nesting is limited
		}
		if err != nil || n(labels) == s(labels) {
			t.Errorf("%q is not the opposite of its negation: %v", text, err)
		}
	})
}
