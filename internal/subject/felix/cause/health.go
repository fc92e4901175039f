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

// healthPort returns the failed findings about Felix's health port: with the port open at another address
// ("elsewhere"), or with a refused connection and the port closed everywhere ("closed").
func healthPort(f diagnose.Findings, where ...string) []diagnose.Finding {
	if where[0] == "elsewhere" {
		return diagnose.Keep(f.Bad(felix.FelixLive.ID), opensElsewhere)
	}
	return diagnose.Keep(evidence.OfLiveness(f, "refused"), func(r diagnose.Finding) bool {
		return diagnose.IsBad(r.Status) && !opensElsewhere(r)
	})
}

// opensElsewhere reports whether Felix's port is open at an address other than the one that the check used. The same
// address means that the port opened after the check.
func opensElsewhere(r diagnose.Finding) bool {
	return slices.ContainsFunc(diagnose.ListOf(r, probe.FactListening),
		func(at string) bool { return at != r.Facts.Str(probe.FactAddress) })
}

// factComponent is the name of one Felix component that the check reports as bad.
const factComponent probe.Fact = "component"

// components returns the findings of a check, once for each bad Felix component.
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
