package cause

import (
	"fmt"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/kubelet"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// serviceTakesPort is a Service that has the node's own address. kube-proxy acts before what listens on
// the node, so it lies in the layer of the kernel.
func serviceTakesPort(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	for _, r := range f.Bad(facts.CheckServiceClaims) {
		namespace, name, ok := strings.Cut(r.Facts.Str(facts.Service), "/")
		if !ok {
			continue
		}
		weight, covers := diagnose.Strong, []diagnose.Cover(nil)
		answered := diagnose.Keep(evidence.NotPlaced(f, facts.ReasonAttach),
			func(p diagnose.Finding) bool { return p.Facts[facts.Answered] == true })
		if evidence.HasPort(r, facts.TakenPorts, evidence.KubeletPort) {
			covers = diagnose.Covers(link.NeighbourReach.ID, kubelet.KubeletHealth.ID, probe.CheckAnswered)
			if len(answered) > 0 { // by something that is no kubelet
				weight = diagnose.Proof
			}
		}
		out = append(out, diagnose.Case{
			About: r.Facts.Str(facts.Service),
			Says:  fmt.Sprintf("Service %s takes ports of {node} away: %s", r.Facts.Str(facts.Service), r.Saw),
			Args: map[string]diagnose.Arg{"of": diagnose.NamespaceArg(namespace),
				"service": diagnose.CheckedArg(name, diagnose.IsName(name), "SERVICE")},
			For:    append(diagnose.Clues(weight, []diagnose.Finding{r}), diagnose.Shows(answered)...),
			Covers: covers,
		})
	}
	return out
}
