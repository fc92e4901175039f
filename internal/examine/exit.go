package examine

import (
	"slices"

	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
)

// WorseExit returns the more severe of two exit codes. From most to least severe: fault, usage mistake, failed to run,
// incomplete, warnings. Other programs' codes count as failed to run.
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

// DiffError returns the exit code for a difference: fault if B is worse, incomplete if B answers less.
func DiffError(d report.Difference) error {
	switch {
	case d.Worse():
		return ui.Exit(report.ExitFault)
	case d.Short():
		return ui.Exit(report.ExitIncomplete)
	}
	return nil
}
