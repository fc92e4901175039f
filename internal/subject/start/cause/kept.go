package cause

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/felix"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// The kubelet's messages about a volume that name the reason with certainty.
var (
	volumeOfNode  = regexp.MustCompile(`hostPath type check failed: (\S+) is not `)
	volumeMissing = regexp.MustCompile(`(configmap|secret) "([^"]+)" not found|references non-existent (?:config|secret) key: (\S+)`)
)

// calicoPodWaits matches a calico-node pod whose containers have not started, for the reason that the kubelet reports.
func calicoPodWaits(f diagnose.Findings) []diagnose.Case {
	for _, r := range f.Bad(facts.CheckCalicoPod) {
		starts, says := r.Facts.Str(facts.Starts), r.Facts.Str(facts.Message)
		if starts == "" || says == "" {
			continue
		}
		what := map[string]string{facts.StartsVolume: "a volume cannot be mounted",
			facts.StartsSandbox: "the runtime cannot create a sandbox",
			facts.StartsNetwork: "the runtime has no network"}[starts]
		c := diagnose.Case{Says: fmt.Sprintf("calico-node's pod does not start on {node}: %s: %s", what, says),
			For: diagnose.Suggests([]diagnose.Finding{r}), Covers: slices.Concat(evidence.NotStarted, evidence.CalicoDown)}
		if m := volumeOfNode.FindStringSubmatch(says); m != nil {
			c.FixName, c.Args = "path", map[string]diagnose.Arg{"path": diagnose.FileArg(m[1])}
		}
		if volumeOfNode.MatchString(says) || volumeMissing.MatchString(says) {
			c.For = diagnose.Proves([]diagnose.Finding{r})
		} else if r.Status == probe.Warn && len(f.Failed(felix.FelixLive.ID)) == 0 {
			c.For = diagnose.Hints([]diagnose.Finding{r})
		}
		return []diagnose.Case{c}
	}
	return nil
}
