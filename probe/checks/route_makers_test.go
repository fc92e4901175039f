package checks

import (
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
)

// TestMakers has both sides of programClusterRoutes, by version and kind of pool.
func TestMakers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ version, felix, bird, ipip, want string }{
		"as it comes":             {"v3.32.1", "", "", "Always", ""},
		"both":                    {"v3.32.1", "Enabled", "", "Always", "both Felix and BIRD"},
		"neither":                 {"v3.32.1", "", "Disabled", "Never", "nobody makes"},
		"they complement":         {"v3.32.1", "Enabled", "Disabled", "Never", ""},
		"v3.33 as it comes":       {"v3.33.0", "", "", "Always", ""},
		"v3.33, no encapsulation": {"v3.33.0", "", "", "Never", ""},
		"v3.33, set as before":    {"v3.33.0", "", "Enabled", "Always", "both Felix and BIRD"},
		"before the setting":      {"v3.30.0", "Enabled", "", "Always", ""},
	} {
		backend := backend("bird")
		if c.bird != "" {
			backend.Attrs = map[string]string{probe.AttrProgram: c.bird}
		}
		felix := probe.Target{Kind: probe.KindFelix, Attrs: map[string]string{"programClusterRoutes": c.felix}}
		pool := probe.Target{Kind: probe.KindPool, Name: "10.244.0.0/16",
			Attrs: map[string]string{probe.AttrIPIP: c.ipip}}
		version := probe.Target{Kind: probe.KindCalico, Name: c.version}
		r, odd := makers(&probe.Pass{Targets: []probe.Target{backend, felix, pool, version}})
		if odd != (c.want != "") || !strings.Contains(r.Saw, c.want) {
			t.Errorf("%s: %v %+v", name, odd, r)
		}
	}
}
