package cause

import (
	"fmt"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// birdConfigRejected is a BIRD that names the line it cannot read.
func birdConfigRejected(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	for _, r := range evidence.Writes(f, logs.SaysBIRDConfig) {
		family := diagnose.FamilyOf(r)
		down := diagnose.Keep(deaf(f), func(s diagnose.Finding) bool { return diagnose.FamilyOf(s) == family })
		down = append(down, diagnose.Keep(evidence.BirdOf(f, bgp.BirdConfig.ID, family),
			func(c diagnose.Finding) bool { return c.Facts[bgp.FactRuns] == false })...)
		file := r.Facts.Str(probe.FactFile)
		line, _ := r.Facts.Num(logs.FactAtLine)
		c := diagnose.Case{About: diagnose.FamilyName(family), Family: family,
			For:    append(diagnose.Suggests([]diagnose.Finding{r}), diagnose.Hints(down)...),
			Args:   map[string]diagnose.Arg{"file": diagnose.FileArg(file), "atline": diagnose.NumberArg(line)},
			Covers: append(evidence.PathFollows(f, family, ""), diagnose.Covers(logs.CalicoErrors.ID, logs.CalicoLog.ID)...)}
		c.Says = fmt.Sprintf("BIRD for %s on {node} rejects line %.0f of %s: %s", diagnose.FamilyName(family), line, file, evidence.QuotedLine(r))
		if len(down) == 0 {
			c.Says += "; it keeps the configuration it had"
		} else {
			c.Covers = append(c.Covers, diagnose.Covers(bgp.BirdConfig.ID, bgp.BirdSocket.ID, bgp.BGPExpected.ID)...)
		}
		out = append(out, c)
	}
	return out
}
