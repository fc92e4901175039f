package cause

import (
	"maps"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/felix"
	"github.com/calico-probe/calico-probe/probe"
)

// healthPort are the bad answers of Felix's health port where it is open at another address ("elsewhere"), or where it
// refuses and is open at none ("closed").
func healthPort(f diagnose.Findings, where ...string) []diagnose.Finding {
	if where[0] == "elsewhere" {
		return diagnose.Keep(f.Bad(felix.FelixLive.ID), opensElsewhere)
	}
	return diagnose.Keep(evidence.OfLiveness(f, "refused"), func(r diagnose.Finding) bool {
		return diagnose.IsBad(r.Status) && !opensElsewhere(r)
	})
}

// opensElsewhere reports whether Felix's port is open at an address other than the one that the check used: a port
// that opened in between is none.
func opensElsewhere(r diagnose.Finding) bool {
	return slices.ContainsFunc(diagnose.ListOf(r, probe.FactListening),
		func(at string) bool { return at != r.Facts.Str(probe.FactAddress) })
}

// factComponent is the name of a component of Felix: one of those that the check calls bad.
const factComponent probe.Fact = "component"

// components are the answers of a check, once for each component of Felix that they call bad.
func components(f diagnose.Findings, of ...string) []diagnose.Finding {
	var out []diagnose.Finding
	for _, r := range f.Of(of[0]) {
		for _, bad := range diagnose.ListOf(r, felix.FactBad) {
			one := r
			one.Facts = maps.Clone(r.Facts)
			one.Facts[factComponent], _, _ = strings.Cut(bad, " ")
			out = append(out, one)
		}
	}
	return out
}
