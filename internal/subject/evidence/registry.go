package evidence

import (
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// Unpulled covers the pods with an image that a registry refused for such a reason.
func Unpulled(f diagnose.Findings, of func(refusal string) bool) []diagnose.Cover {
	var out []diagnose.Cover
	for _, r := range WaitingPods(f, facts.StartsImage) {
		if of(r.Facts.Str(facts.Refusal)) {
			out = append(out, diagnose.Cover{Check: r.Check, About: r.Target})
		}
	}
	return out
}

// SameRefusal reports whether calico-node's image is refused for the same reason as other pods' images.
func SameRefusal(pods, calico diagnose.Finding) bool {
	refusal := pods.Facts.Str(facts.Refusal)
	return refusal != "" && calico.Facts.Str(facts.Refusal) == refusal && (facts.RefusedByWay(refusal) ||
		slices.Contains(diagnose.ListOf(pods, facts.Registries), facts.RegistryOf(calico.Facts.Str(facts.Image))))
}

// Corroborated reports whether no single tenant can have caused what events report about the pods.
func Corroborated(r diagnose.Finding) bool {
	many, _ := r.Facts[facts.Corroborated].(bool)
	return many
}

// RegistryArg is the name of a registry, with its port if it is not the default.
func RegistryArg(s string) diagnose.Arg {
	if s == "docker.io" {
		s = "registry-1.docker.io" // from which Docker Hub's images are pulled
	}
	return diagnose.CheckedArg(s, diagnose.IsWord(s) && !strings.Contains(s, "/"), "REGISTRY")
}

// RefusedWords are the Refused words as part of a sentence.
var RefusedWords = map[string]string{
	facts.RefusedUnresolved: "the name is not resolved", facts.RefusedUnreachable: "it is not reached",
	facts.RefusedProxy: "the runtime's proxy is not reached, or refuses", facts.RefusedUntrusted: "its certificate is not trusted",
	facts.RefusedPlain: "it speaks HTTP and is asked by HTTPS", facts.RefusedLimited: "it has answered too many requests",
	facts.RefusedUnauthorized: "it refuses the login, or wants one", facts.RefusedFailing: "it has an error of its own",
	facts.RefusedAbsent: "it has no such image",
}

// PullFix names the fix for one of the Refused words, "" if no file has one. Then the cause's first fix applies.
func PullFix(refusal string) string {
	name := "pull-" + refusal
	if _, known := Shared().Fixes[name]; !known {
		return ""
	}
	return name
}
