package suggest

import "testing"

func TestNearest(t *testing.T) {
	t.Parallel()
	names := []string{"bgp", "bgp-session", "bgp-peers-missing", "node-swap", "swap-on", "run", "runbook",
		"bgp-wrong-as", "nodename-wrong"}
	for typed, want := range map[string]string{
		"bpg": "bgp", "bgp-sesion": "bgp-session", "swap-onn": "swap-on", "rnbook": "runbook", "rnu": "run",
		"wrong-as": "bgp-wrong-as", "swap": "node-swap", "session-bgp": "bgp-session",
		"": "", "x": "", "wholly-other": "",
	} {
		if got := Nearest(typed, names); got != want {
			t.Errorf("%q: %q, want %q", typed, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	t.Parallel()
	for pair, want := range map[[2]string]int{
		{"", ""}: 0, {"run", "run"}: 0, {"run", ""}: 3, {"", "run"}: 3, {"rnu", "run"}: 1, {"rn", "run"}: 1, {"ran",
			"run"}: 1, {"kitten", "sitting"}: 3,
	} {
		if got := Distance(pair[0], pair[1]); got != want {
			t.Errorf("%q: %d, want %d", pair, got, want)
		}
	}
}
