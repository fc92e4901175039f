package cause

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// registryRefuses matches a node that cannot pull images for a reason that is not specific to an image. It returns one
// case for each refusal.
func registryRefuses(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	for _, r := range evidence.WaitingPods(f, facts.StartsImage) {
		refusal := r.Facts.Str(facts.Refusal)
		registries := diagnose.ListOf(r, facts.Registries)
		if len(registries) == 0 {
			continue
		}
		c := diagnose.Case{About: registries[0],
			Args: map[string]diagnose.Arg{"registry": evidence.RegistryArg(registries[0])}}
		if facts.RefusedOnPath(refusal) && len(registries) > 1 {
			c.About = ""
		}
		c.FixName = evidence.PullFix(refusal)
		c.Says = fmt.Sprintf("{node} cannot pull images from %s: %s: %s; %s", strings.Join(registries, ", "), evidence.RefusedWords[refusal],
			r.Facts.Str(facts.Message), concerned(r))
		c.For = diagnose.Suggests([]diagnose.Finding{r})
		if evidence.Corroborated(r) && len(diagnose.ListOf(r, facts.Images)) > 1 { // a single name may be wrong
			c.For = evidence.Said([]diagnose.Finding{r})
		}
		own := diagnose.Keep(f.Bad(facts.CheckCalicoPod),
			func(o diagnose.Finding) bool { return evidence.SameRefusal(r, o) })
		if c.For = append(c.For, diagnose.Hints(own)...); len(own) > 0 {
			c.Says += "; calico-node waits for its image too"
			c.Covers = slices.Clone(evidence.NotStarted)
		}
		seen, words := seenHere(f, refusal)
		c.Says += words
		c.For = slices.Concat(c.For, diagnose.Hints(seen), diagnose.Shows(evidence.NotPlaced(f, facts.ReasonImage)))
		out = append(out, c)
	}
	return out
}

// seenHere returns what the node's own checks found on the path to the registry, and a clause that states it.
func seenHere(f diagnose.Findings, refusal string) ([]diagnose.Finding, string) {
	route := f.With(route.RouteCanReach.ID, route.FactDefault, false)
	switch {
	case refusal == facts.RefusedUnreachable && len(route) > 0:
		return route, "; the node has no default route"
	case refusal == facts.RefusedUntrusted && len(f.Failed(host.NodeClock.ID)) > 0:
		return f.Failed(host.NodeClock.ID), "; the node's clock is wrong, which makes every certificate look invalid"
	}
	return nil, ""
}

// concerned names the images that the refusal is known to affect.
func concerned(r diagnose.Finding) string {
	images := diagnose.ListOf(r, facts.Images)
	if len(images) == 1 {
		return fmt.Sprintf("one image is known to be affected: %s", images[0])
	}
	return fmt.Sprintf("affected are all images that this node's pods wait for from there: %s", strings.Join(images, ", "))
}
