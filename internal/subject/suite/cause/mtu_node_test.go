package cause

import (
	"os"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/nightfile"
	"github.com/calico-probe/calico-probe/probe"
)

// TestSmallMTUIsAFault wants packets that are lost for a node's own MTU to be a fault, though no check failed.
func TestSmallMTUIsAFault(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(nightfile.Path("mtu-node-own-interface"))
	if err != nil {
		t.Fatal(err)
	}
	c := diagnose.Explain(read(t, txtar.Parse(b).Files[1].Data), All()).Causes[0]
	if c.ID != "mtu-node-small" || c.Confidence != probe.High || !c.Fault {
		t.Errorf("%s, %s, fault %v", c.ID, c.Confidence, c.Fault)
	}
}
