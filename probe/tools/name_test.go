package tools

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/calico-probe/calico-probe/probe/kernel"
)

func TestIsDomainName(t *testing.T) {
	t.Parallel()
	label := strings.Repeat("x", 63)
	long := strings.Repeat(label+".", 3)
	for text, want := range map[string]bool{
		"web": true, "web.": true, "web.default.svc.cluster.local": true, ".": true, "_sip._tcp.web": true, "größe": true,
		"": false, "..": false, ".web": false, "web..": false, "a..b": false,
		label: true, label + "x": false, label + "x.": false, long + label: true, long + label + ".": true,
		long + label + ".x": false, long + "x." + label: false,
		`a\.b`: true, `a\046b`: true, `a\`: false, `a\.`: true, `a\\`: true, `a\\.`: true, `\..b`: true,
		strings.Repeat(`\046`, 63): true, strings.Repeat(`\046`, 64): false, strings.Repeat(`\.`, 63): true,
		`\04`: true,
	} {
		if got := isDomainName(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// FuzzIsDomainName checks that a name is accepted here if and only if the node's library accepts it. It skips names
// that end in an escape, which the library misreads after another escape or a non-ASCII character.
func FuzzIsDomainName(f *testing.F) {
	label := strings.Repeat("x", 63)
	for _, text := range []string{"", ".", "a.b", `\`, `\.`, `\1234`, label + "." + label + "." + label + "." + label} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		odd := strings.Contains(text[max(0, len(text)-2):], `\`)
		if _, want := dns.IsDomainName(text); !odd && isDomainName(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	})
}

// TestNames checks that the accepted words are those of the node's libraries.
func TestNames(t *testing.T) {
	t.Parallel()
	have := func(what string, got []string, want ...string) {
		t.Helper()
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	records := slices.Sorted(maps.Keys(dns.StringToType))
	zones := []string{"AXFR", "IXFR"}
	have("types", slices.Clone(types), slices.DeleteFunc(records, func(name string) bool {
		return slices.Contains(zones, name) || name != strings.ToUpper(name) // None and Reserved
	})...)
	have("protocols", slices.Clone(protocols), slices.Sorted(maps.Keys(kernel.Protocols))...)
	have("tables", slices.Clone(tables), slices.Sorted(maps.Keys(kernel.Tables))...)
	have("states", slices.Clone(states), slices.Sorted(maps.Values(kernel.NeighbourStates))...)
}
