package cause

import (
	"os"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/nightfile"
	"golang.org/x/tools/txtar"
)

// TestNodeTurnsAway wants a node's own firewall blamed where its rules are seen, or its own address says so, and not
// where somebody in between rejects.
func TestNodeTurnsAway(t *testing.T) {
	b, err := os.ReadFile(nightfile.Path("blind5-firewalld"))
	if err != nil {
		t.Fatal(err)
	}
	stream := string(txtar.Parse(b).Files[1].Data)
	unlisted := strings.ReplaceAll(stream, "hook input, policy accept, accept drop jump reject", "hook input, policy accept, accept")
	between := strings.NewReplacer(`"icmp_from":"10.88.0.11"`, `"icmp_from":"10.0.0.1"`,
		`"icmp_from":"fd00:10:88::11"`, `"icmp_from":"10.0.0.1"`).Replace(unlisted)
	const others = "bgp-restart-hold IPv4 medium, kubelet-port-blocked medium, node-differs medium" // what else is there
	for name, c := range map[string]struct{ stream, want string }{
		"with its rules": {stream, "node-turns-away high"}, "by its address alone": {unlisted, "node-turns-away medium"},
		"by a router": {between, others},
		"by a router, whatever the node drops": {strings.ReplaceAll(between, "hook input, policy accept, accept",
			"hook input, policy accept, accept drop"), others},
		"by timeouts": {strings.ReplaceAll(stream, `"reason":"rejected"`, `"reason":"timeout"`), others},
	} {
		if got := causesOf(read(t, []byte(c.stream))); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
