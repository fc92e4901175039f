package tools

import (
	"strings"
	"testing"
)

// TestBIRDPatterns checks that patterns are quoted for BIRD, and nothing else changes.
func TestBIRDPatterns(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"show protocols Mesh_*":                       `show protocols "Mesh_*"`,
		"show protocols all Mesh_10_0_0_?":            `show protocols all "Mesh_10_0_0_?"`,
		`show protocols "Mesh_*"`:                     `show protocols "Mesh_*"`,
		"show protocols all Mesh_10_0_0_2":            "show protocols all Mesh_10_0_0_2",
		"show route where bgp_path ~ [= * 64513 ? =]": "show route where bgp_path ~ [= * 64513 ? =]",
		"show status":                                 "show status",
	} {
		if got := strings.Join(quoted(strings.Fields(line)), " "); got != want {
			t.Errorf("%s is asked as %s", line, got)
		}
	}
}
