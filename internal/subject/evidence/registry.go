package evidence

import (
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// Unpulled covers the findings about image pulls that failed for a reason accepted by of, and so follow from another
// cause.
func Unpulled(f diagnose.Findings, of func(refusal string) bool) []diagnose.Cover {
	var out []diagnose.Cover
	for _, r := range WaitingPods(f, facts.StartsImage) {
		if of(r.Facts.Str(facts.Refusal)) {
			out = append(out, diagnose.Cover{Check: r.Check, About: r.Target})
		}
	}
	return out
}

// SameRefusal reports whether calico-node waits for its image for the same reason as other pods.
func SameRefusal(pods, calico diagnose.Finding) bool {
	refusal := pods.Facts.Str(facts.Refusal)
	return refusal != "" && calico.Facts.Str(facts.Refusal) == refusal && (facts.RefusedOnPath(refusal) ||
		slices.Contains(diagnose.ListOf(pods, facts.Registries), facts.RegistryOf(calico.Facts.Str(facts.Image))))
}

// Corroborated reports whether the finding about pods cannot come from a single tenant. A tenant controls the events of
// its pods, so a single tenant could fake the finding.
func Corroborated(r diagnose.Finding) bool {
	many, _ := r.Facts[facts.Corroborated].(bool)
	return many
}

// RegistryArg returns a registry's host, with its port, if any, as an argument of a fix.
func RegistryArg(s string) diagnose.Arg {
	if s == "docker.io" {
		s = "registry-1.docker.io" // docker.io's images are served there
	}
	return diagnose.CheckedArg(s, diagnose.IsWord(s) && !strings.Contains(s, "/"), "REGISTRY")
}

// RefusedWords has a clause for each facts.Refused word.
var RefusedWords = map[string]string{
	facts.RefusedUnresolved: "the name does not resolve", facts.RefusedUnreachable: "it is unreachable",
	facts.RefusedProxy: "the runtime's proxy is unreachable, or refuses", facts.RefusedUntrusted: "its certificate is not trusted",
	facts.RefusedPlain: "it speaks HTTP, but the runtime uses HTTPS", facts.RefusedLimited: "its rate limit is reached",
	facts.RefusedUnauthorized: "it rejects the login, or requires one", facts.RefusedFailing: "it has an internal error",
	facts.RefusedAbsent: "it has no such image",
}

// PullFix names the fix for a facts.Refused word. If it returns "", the cause's first fix applies.
func PullFix(refusal string) string {
	name := "pull-" + refusal
	if _, known := Shared().Fixes[name]; !known {
		return ""
	}
	return name
}
