package cause

import (
	"fmt"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/probe"
)

// detectionFindsNone is a method that finds nothing, where an address of before is kept.
func detectionFindsNone(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	for _, auto := range f.Of(link.IPAutodetect.ID) {
		registered, on := auto.Facts.Str(probe.FactRegistered), auto.Facts.Str(link.FactKeptOn)
		if auto.Status != probe.Warn || auto.Facts.Str(link.FactPicked) != "" || registered == "" || on == "" {
			continue
		}
		out = append(out, diagnose.Case{
			About: auto.Target, Family: diagnose.FamilyOf(auto), For: diagnose.Suggests([]diagnose.Finding{auto}),
			Args: evidence.MethodFor(diagnose.FamilyOf(auto), registered, auto),
			Says: fmt.Sprintf("%s finds no address on {node}, and the registered %s is kept; a node that is new gets none", auto.Facts.Str(link.FactMethod), registered),
		})
	}
	return out
}
