package ask

import (
	"slices"

	"github.com/calico-probe/calico-probe/probe"
)

// runnable returns the check of the suite that is bound to its function.
func runnable(spec *probe.Check) *probe.Check {
	all := All()
	return all[slices.IndexFunc(all, func(c *probe.Check) bool { return c.ID == spec.ID })]
}
