package probe

import "testing"

func TestNearest(t *testing.T) {
	t.Parallel()
	names := []string{"bgp", "bgp-session", "bgp-peers-missing", "node-swap", "swap-on", "run", "runbook"}
	for typed, want := range map[string]string{
		"bpg": "bgp", "bgp-sesion": "bgp-session", "swap-onn": "swap-on", "rnbook": "runbook", "rnu": "run", "swap": "node-swap", "session-bgp": "bgp-session",
		"": "", "x": "", "wholly-other": "",
	} {
		if got := Nearest(typed, names); got != want {
			t.Errorf("%q: %q, want %q", typed, got, want)
		}
	}
}
