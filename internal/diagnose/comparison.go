package diagnose

import (
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

func Everything(Finding) bool { return true }

// Concerns reports whether a result is about a node: it names the node or something on the node.
func Concerns(r Finding, node string) bool {
	return r.Facts.Str(probe.FactNode) == node || slices.Contains(strings.Fields(r.Target), node)
}
