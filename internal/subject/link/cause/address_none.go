package cause

import (
	"fmt"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// detectionFindsNone is a method that finds nothing, where an address of before is kept.
var detectionFindsNone = &diagnose.Rule{
	ID: "detection-finds-none", Layer: diagnose.LayerCalico, Later: true,
	Title: "Calico's address autodetection finds no address",
	Doc:   `The node has an address that Calico registered earlier, and keeps it, because the method that calico-node uses now (IP_AUTODETECTION_METHOD, nodeAddressAutodetection of the operator) finds none on this node: no interface has such a name, or none an address of that range. Nothing is broken yet. A node that is new, or whose Node is made anew, gets none, and its calico-node ends with "failed to autodetect an IPv4 address".`,
	Fix:   evidence.SetMethod, Wants: []string{facts.CheckIPRegistered},
	Match: func(f diagnose.Findings) []diagnose.Case {
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
	},
}
