package cause

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/felix"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// withoutStart is what has not even begun where a container of calico-node cannot run.
var withoutStart = append([]string{"start-outlasts-budget", "upgrade-ipam-stuck", "install-cni-fails", "calico-ends"},
	evidence.WithoutCalico...)

// containerNotStarted is a container whose program the runtime cannot start.
func containerNotStarted(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	for _, r := range f.Failed(facts.CheckCalicoPod) {
		if r.Facts[facts.NotStarted] != true || r.Facts.Str(facts.Obstacle) == facts.ObstacleSpace { // that is disk-full's
			continue
		}
		out = append(out, diagnose.Case{
			Says: fmt.Sprintf("container %s of calico-node's pod on {node} cannot be started: %s", r.Facts.Str(facts.Container), r.Facts.Str(facts.Message)),
			For:  diagnose.Proves([]diagnose.Finding{r}), Covers: slices.Concat(evidence.CalicoDown, evidence.NotStarted),
		})
	}
	return out[:min(len(out), 1)] // the first that fails; those after it wait for it
}

// settingRefused is a setting that calico-node does not take.
func settingRefused(f diagnose.Findings) []diagnose.Case {
	lines := evidence.LogLines(f, logs.SaysBadAddress, logs.SaysBadSetting, logs.SaysNoAddress)
	if len(lines) == 0 {
		return nil
	}
	c := logged(f, "does not accept a setting", lines)
	if lines[0].Facts.Str(logs.FactSignature) == logs.SaysNoAddress {
		for _, r := range f.Bad(link.IPAutodetect.ID) { // which names it
			method := r.Facts.Str(link.FactMethod)
			if method == "" || r.Facts.Str(link.FactPicked) != "" {
				continue
			}
			c.Says = fmt.Sprintf("calico-node on {node} finds no address by the method that it is given (IP_AUTODETECTION_METHOD %s): %s",
				method, lines[0].Facts.Str(logs.FactLine))
			c.For = append(c.For, diagnose.Shows([]diagnose.Finding{r})...)
			c.Covers = append(c.Covers, diagnose.Covers(link.IPAutodetect.ID, facts.CheckIPRegistered)...)
			break
		}
	}
	return []diagnose.Case{c}
}

// logged is the case of a line that says it outright. It is proof where the API knows of a run that
// ended too, and no more than a hint where the API says that calico-node has run ever since it began.
func logged(f diagnose.Findings, what string, lines []diagnose.Finding) diagnose.Case {
	r := lines[0]
	container, line := r.Facts.Str(probe.FactOfContainer), r.Facts.Str(logs.FactLine)
	out := diagnose.Case{Says: fmt.Sprintf("%s on {node} %s: %s", container, what, line)}
	weight := diagnose.Hint
	switch {
	case slices.ContainsFunc(f.Bad(facts.CheckCalicoPod), restarts):
		weight = diagnose.Proof
	case !f.Answered(facts.CheckCalicoPod), startsOver(f):
		weight = diagnose.Strong
	}
	out.For = diagnose.Clues(weight, lines)
	if weight > diagnose.Hint {
		out.Covers = slices.Concat(diagnose.Covers(logs.CalicoLog.ID), evidence.CalicoDown, evidence.NotStarted)
	}
	return out
}

// startsOver tells whether runit may have begun Felix again in a container that goes on: nothing of it is ready.
func startsOver(f diagnose.Findings) bool {
	return len(f.Bad(facts.CheckCalicoPod)) > 0 && len(f.Bad(felix.FelixReady.ID)) > 0
}

// restarts tells whether what the API says of calico-node's pod is of a container that ended.
func restarts(pod diagnose.Finding) bool {
	again, _ := pod.Facts.Num(facts.Restarts)
	return again > 0 || pod.Facts.Str(facts.APIReason) != "" || pod.Facts[facts.ExitCode] != nil
}

// calicoForbidden is a right that calico-node's account lacks.
func calicoForbidden(f diagnose.Findings) []diagnose.Case {
	lines, reviewed := evidence.LogLines(f, logs.SaysForbidden), lacking(f, "account")
	if len(lines) == 0 {
		return lacks(reviewed)
	}
	c := logged(f, "is refused by the API server", lines)
	account := lines[0].Facts.Str(logs.FactWho)
	if may := lines[0].Facts.Str(logs.FactMay); account != "" && may != "" {
		c.Says = fmt.Sprintf("account %s may not %s, which %s on {node} needs", account, may, lines[0].Facts.Str(probe.FactOfContainer))
	}
	namespace, name, _ := strings.Cut(account, ":")
	c.Args = map[string]diagnose.Arg{"account": diagnose.CheckedArg(account, diagnose.IsName(namespace) &&
		diagnose.IsName(name), "NAMESPACE:NAME")}
	return []diagnose.Case{also(c, reviewed)}
}

// resourceMissing is a resource of Calico's that the API server does not know.
func resourceMissing(f diagnose.Findings) []diagnose.Case {
	lines, served := evidence.LogLines(f, logs.SaysNoResource), lacking(f, "kinds")
	if len(lines) == 0 {
		return lacks(served)
	}
	return []diagnose.Case{also(logged(f, "asks for a resource that the API server does not know", lines), served)}
}

// calicoEnds is a container that ends, with the line it ends with.
func calicoEnds(f diagnose.Findings) []diagnose.Case {
	ended := evidence.LogLines(f)
	if len(ended) == 0 {
		return nil
	}
	c := logged(f, "ended", ended[:1])
	c.For[0].Weight = min(c.For[0].Weight, diagnose.Strong)
	name := ended[0].Facts.Str(probe.FactOfContainer)
	c.Args = map[string]diagnose.Arg{"container": diagnose.CheckedArg(name, diagnose.IsName(name), "CONTAINER")}
	return []diagnose.Case{c}
}
