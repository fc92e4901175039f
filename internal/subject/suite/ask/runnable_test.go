package ask

import (
	"slices"

	"github.com/calico-probe/calico-probe/probe"
)

// runnable is a check of the suite with what answers it.
func runnable(spec *probe.Check) *probe.Check {
	all := All()
	return all[slices.IndexFunc(all, func(c *probe.Check) bool { return c.ID == spec.ID })]
}
