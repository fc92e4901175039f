package cause

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// probeBroken is a liveness probe, or another of the kubelet's calls, that no container can answer.
func probeBroken(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	for _, r := range slices.Concat(f.Bad(facts.CheckCalicoPod), f.Bad(facts.CheckControllers)) {
		kind := r.Facts.Str(facts.BrokenProbe)
		if kind == "" {
			continue
		}
		container := r.Facts.Str(facts.Container)
		namespace, pod, _ := strings.Cut(r.Target, "/")
		name, weight := cmp.Or(r.Facts.Str(facts.Owner), "calico-node"), diagnose.Strong
		owner := "daemonset " + name
		c := diagnose.Case{About: container, Covers: slices.Concat(evidence.CalicoDown, evidence.NotStarted)}
		if r.Check == facts.CheckControllers {
			name, owner, c.Covers = container, "deployment calico-kube-controllers", diagnose.Covers(facts.CheckControllers)
		}
		c.Says = fmt.Sprintf("the %s of %s on {node} cannot succeed, so the container never gets ready: %s", callNamed(kind), container, r.Facts.Str(facts.ProbeSays))
		if kind != facts.ProbeReadiness {
			n, _ := r.Facts.Num(facts.Restarts)
			weight = diagnose.Proof
			c.Says = fmt.Sprintf("the kubelet on {node} kills %s in a loop (%s), because its %s cannot succeed: %s", container,
				evidence.CountOf(n, "restart"), callNamed(kind), r.Facts.Str(facts.ProbeSays))
		}
		c.For = diagnose.Clues(weight, []diagnose.Finding{r})
		c.Args = map[string]diagnose.Arg{"kind": probeKind(kind),
			"container": diagnose.CheckedArg(container, diagnose.IsName(container), "CONTAINER"),
			"of":        diagnose.CheckedArg(namespace, diagnose.IsName(namespace), "NAMESPACE"),
			"itspod":    diagnose.PodArg(pod),
			"owner":     diagnose.CheckedArg(owner, diagnose.IsName(name), "daemonset NAME")}
		out = append(out, c)
	}
	return out
}

// probeKind is which of the kubelet's calls a cause is about.
func probeKind(s string) diagnose.Arg {
	known := []string{facts.ProbeLiveness, facts.ProbeReadiness, facts.ProbeStartup, facts.ProbePostStart}
	return diagnose.CheckedArg(callNamed(s), slices.Contains(known, s), "liveness probe")
}

// callNamed is the name of one of the kubelet's calls, for example "liveness probe".
func callNamed(kind string) string {
	if kind == facts.ProbePostStart {
		return "postStart hook"
	}
	return kind + " probe"
}
