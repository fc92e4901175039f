package node

import (
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe/checktest"
)

// TestAssigns has the values that Calico's plugin accepts: strings, of which only "true" requests IPv6.
func TestAssigns(t *testing.T) {
	t.Parallel()
	for ipam, want := range map[string]string{
		`{"type":"calico-ipam"}`: "IPv4",
		`{"type":"calico-ipam","assign_ipv4":"true","assign_ipv6":"true"}`:  "IPv4 IPv6",
		`{"type":"calico-ipam","assign_ipv4":"false","assign_ipv6":"true"}`: "IPv6",
		`{"type":"calico-ipam","assign_ipv6":true}`:                         "IPv4",
		`{"type":"host-local","assign_ipv6":"true"}`:                        "",
	} {
		_, got, err := pluginsIn([]byte(`{"plugins":[{"type":"calico","ipam":` + ipam + `}]}`))
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %v, %v, want %q", ipam, got, err, want)
		}
	}
}

func FuzzPluginsIn(f *testing.F) {
	f.Add([]byte(checktest.CalicoList))
	f.Add([]byte(`{"type":"bridge","ipam":{"type":"host-local"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		plugins, _, err := pluginsIn(text)
		if err != nil && plugins != nil {
			t.Errorf("plugins of a file that cannot be read: %v", plugins)
		}
	})
}
