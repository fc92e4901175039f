package cause

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe"
)

// birdPortTaken matches another routing daemon that holds the BGP port, on this node or on a peer.
func birdPortTaken(f diagnose.Findings) []diagnose.Case {
	out := append(withoutListener(f), peersWithoutListener(f)...)
	for _, socket := range deaf(f) {
		family := diagnose.FamilyOf(socket)
		holds := diagnose.Keep(f.Of(bgp.BGPPort.ID), func(r diagnose.Finding) bool {
			return slices.ContainsFunc(diagnose.ListOf(r, probe.FactListening),
				func(at string) bool { return strings.HasPrefix(at, "[") == (family == 6) })
		})
		if diagnose.ReasonOf(socket) != "refused" || len(holds) == 0 {
			continue
		}
		c := diagnose.Case{
			About: diagnose.FamilyName(family), Family: family, For: diagnose.Suggests([]diagnose.Finding{socket}),
			Covers: append(evidence.PathFollows(f, family, ""), diagnose.Covers(bgp.BirdConfig.ID, bgp.BGPExpected.ID)...),
			Says: fmt.Sprintf("Calico's BIRD for %s is not running on {node}, and another program listens on %s",
				diagnose.FamilyName(family), strings.Join(diagnose.ListOf(holds[0], probe.FactListening), ", ")),
		}
		if who := holds[0].Facts.Str(probe.FactHeldBy); who != "" {
			c.Says += ": " + who
		}
		ended := diagnose.Keep(evidence.BirdOf(f, bgp.BirdConfig.ID, family),
			func(r diagnose.Finding) bool { return r.Facts[bgp.FactRuns] == false })
		c.For = append(c.For, append(diagnose.Shows(holds),
			diagnose.Hints(ended)...)...) // otherwise BIRD may have restarted in between
		out = append(out, c)
	}
	return out
}

// peersWithoutListener returns the cases of another node's BIRD that could not open its port. The program on that port
// accepts this node's connection and closes it.
func peersWithoutListener(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	for _, r := range f.Elsewhere(bgp.BGPSession.ID) {
		if !diagnose.IsBad(r.Status) || diagnose.ReasonOf(r) != "no-listener" || diagnose.NodeOf(r) != f.Node {
			continue
		}
		here := diagnose.Keep(f.Bad(bgp.BGPSession.ID), func(o diagnose.Finding) bool {
			return diagnose.NodeOf(o) == r.Node && diagnose.FamilyOf(o) == diagnose.FamilyOf(r)
		})
		out = append(out, diagnose.Case{
			About: r.Node, Peer: r.Node, Family: diagnose.FamilyOf(r), FixName: "free-port",
			Args:   map[string]diagnose.Arg{"other": diagnose.NodeArg(r.Node)},
			For:    append(diagnose.Suggests(here), diagnose.Suggests([]diagnose.Finding{r})...),
			Covers: evidence.PathFollows(f, diagnose.FamilyOf(r), r.Node),
			Says: fmt.Sprintf("BIRD on %s could not open the BGP port, which another program holds: it reports %q for its session with {node}",
				r.Node, r.Facts.Str(bgp.FactLastError)),
		})
	}
	return out
}

// withoutListener returns the cases of a BIRD that runs and reports that it could not open the port.
func withoutListener(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	for _, family := range []int{4, 6} {
		down := diagnose.Keep(f.Bad(bgp.BGPSession.ID), func(r diagnose.Finding) bool {
			return diagnose.ReasonOf(r) == "no-listener" && diagnose.FamilyOf(r) == family
		})
		if len(down) == 0 {
			continue
		}
		holds := diagnose.Keep(f.Of(bgp.BGPPort.ID),
			func(r diagnose.Finding) bool { return len(diagnose.ListOf(r, probe.FactListening)) > 0 })
		c := diagnose.Case{About: diagnose.FamilyName(family), Family: family,
			For:    append(diagnose.Suggests(down), diagnose.Hints(holds)...),
			Covers: append(evidence.PathFollows(f, family, ""), diagnose.Covers(bgp.BGPExpected.ID)...),
			Says:   fmt.Sprintf("Calico's BIRD for %s on {node} could not open its port at start, so it has no session", diagnose.FamilyName(family))}
		if len(holds) > 0 {
			c.Says += fmt.Sprintf(": %s listens on %s", cmp.Or(holds[0].Facts.Str(probe.FactHeldBy), "another program, perhaps a second BIRD,"),
				strings.Join(diagnose.ListOf(holds[0], probe.FactListening), ", "))
		}
		out = append(out, c)
	}
	return out
}
