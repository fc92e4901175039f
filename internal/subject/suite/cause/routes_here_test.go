package cause

import (
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/nightfile"
)

// TestPodInterfaceDown wants the interface named that is down, before the route that went with it.
func TestPodInterfaceDown(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(nightfile.Path("pod-interface-down"))
	if err != nil {
		t.Fatal(err)
	}
	c := diagnose.Explain(read(t, txtar.Parse(text).Files[1].Data), All()).Causes[0]
	if !strings.Contains(c.Says, "the interface of 1 pod on node-a is down") ||
		!slices.Contains(commandsOf(c.Fix), "ssh node-a sudo ip link set caliab026e27ce4 up") {
		t.Errorf("%s: %s, %v", c.ID, c.Says, commandsOf(c.Fix))
	}
}
