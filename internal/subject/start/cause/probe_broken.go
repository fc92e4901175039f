package cause

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// probeBroken is a liveness probe, or another of the kubelet's calls, that no container can answer.
var probeBroken = &diagnose.Rule{
	ID: "probe-broken", Layer: diagnose.LayerStart,
	Title: "a probe or hook of calico-node cannot succeed: its command or flag does not exist",
	Doc: `The kubelet runs the probe's command in the container. Where the program is not in the image ("fork/exec /bin/birdcl: no such file or directory"), or does not have the flag ("unknown shorthand flag: 'l'"), the probe fails whatever the container does. With a liveness or startup probe, or a postStart hook, the kubelet kills the container in a loop. With a readiness probe it only stays unready. It happens when the image and the manifest are of two versions of Calico: one was updated, the other patched, pinned or copied from elsewhere.
Told from a container that is ill by the kubelet's event: a program that runs and reports a fault is named there by what it reports.`,
	Fix: probe.Fix{
		Says: "Correct the {kind} of container {container}: take it from the manifest of the same version as the image.",
		Manifest: []string{
			"kubectl -n {of} get pod {itspod} -o yaml | grep -n -A8 -e Probe: -e postStart: -e 'image:'  # the image's version, and each command",
			"kubectl -n {of} get events --field-selector involvedObject.name={itspod} --sort-by .lastTimestamp | tail",
		},
		Operator: []string{"kubectl get tigerastatus calico -o yaml  # the operator writes both: a probe of another version is a change by hand, or an operator that does not run"},
		OnlyIf: []probe.Conditional{{If: "the manifest is yours: put the version's own command there",
			Manifest: []string{"kubectl -n {of} edit {owner}"}}},
		Radius: "reading changes nothing; a changed template restarts these pods, calico-node on one node after the other; running pods keep their routes",
	},
	Explains: append([]string{"calico-ends", "controllers-end", "calico-starting", "bird-probe"},
		evidence.AfterLog...),
	Match: func(f diagnose.Findings) []diagnose.Case {
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
	},
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
