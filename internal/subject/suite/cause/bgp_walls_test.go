package cause

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/nightfile"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/nodestate"
)

// TestShutBy wants the rule named that the peer lists, and none where it lists one of another port.
func TestShutBy(t *testing.T) {
	b, err := os.ReadFile(nightfile.Path("bgp-port-dropped-by-the-peer"))
	if err != nil {
		t.Fatal(err)
	}
	stream := string(txtar.Parse(b).Files[1].Data)
	for text, named := range map[string]bool{stream: true, strings.ReplaceAll(stream, "dport 179", "dport 1790"): false} {
		d := diagnose.Explain(read(t, []byte(text)), All())
		if causesOf(read(t, []byte(text))) != "bgp-filtered node-a 10.88.0.11 high" ||
			strings.Contains(d.Causes[0].Says, "a rule on node-a blocks it: ip filter INPUT: tcp dport 179 drop") != named {
			t.Errorf("%v: %+v", named, d.Causes)
		}
	}
}

// TestRejectedAtOneWord wants no firewall of a node blamed for certain by a peer that says it is rejected and gives no
// answer itself: a rule of the node's own does that, or a second node that is rejected.
func TestRejectedAtOneWord(t *testing.T) {
	t.Parallel()
	heard := night(t, "bgp-rejected-heard-by-the-peer")
	second := heard.Elsewhere(link.NeighbourReach.ID)[0]
	second.Node = "node-c"
	var rule diagnose.Finding
	for _, r := range night(t, "bgp-port-dropped-by-the-peer").All {
		if r.Check == nodestate.NodeState.ID && r.Node == "node-a" && strings.Contains(fmt.Sprint(r.Facts), "dport 179") {
			rule = r
		}
	}
	rule.Node = heard.Node
	for name, c := range map[string]struct {
		more []diagnose.Finding
		want string
	}{
		"the peer alone":           {nil, "bgp-filtered node-a 10.88.0.11 high"},
		"a second node":            {[]diagnose.Finding{second}, "bgp-rejected node-a 10.88.0.11 high"},
		"a rule of the node's own": {[]diagnose.Finding{rule}, "bgp-rejected node-a 10.88.0.11 high"},
	} {
		f := heard
		f.All = append(slices.Clone(f.All), c.more...)
		if got := causesOf(f); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
