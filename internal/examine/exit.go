package examine

import (
	"slices"

	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
)

// WorseExit is the exit code that weighs more: a fault that was seen, a mistake, what could
// not be done, what is incomplete, warnings. Codes of other programs are of the third kind.
func WorseExit(a, b int) int {
	weight := []int{
		report.ExitHealthy, report.ExitWarnings, report.ExitIncomplete, report.ExitTool, report.ExitUsage, report.ExitFault,
	}
	of := func(code int) int {
		if i := slices.Index(weight, code); i >= 0 {
			return i
		}
		return slices.Index(weight, report.ExitTool)
	}
	if of(b) > of(a) {
		return b
	}
	return a
}

// DiffError is the exit code of a difference: a fault where B is worse, incomplete where it
// answers less.
func DiffError(d report.Difference) error {
	switch {
	case d.Worse():
		return ui.Exit(report.ExitFault)
	case d.Short():
		return ui.Exit(report.ExitIncomplete)
	}
	return nil
}
