package cause

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/nightfile"
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
			strings.Contains(d.Causes[0].Says, "on node-a a rule refuses it: ip filter INPUT: tcp dport 179 drop") != named {
			t.Errorf("%v: %+v", named, d.Causes)
		}
	}
}
