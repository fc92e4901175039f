package diagnose

import (
	"maps"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// particulars fills this run's names into a cause's sentence and fix.
func particulars(f Findings, cause *probe.Cause, fix probe.Fix, args map[string]Arg) {
	with := known(f)
	for _, r := range f.Of(facts.CheckCalicoPod) {
		namespace, pod, ok := strings.Cut(r.Facts.Str(facts.Pod), "/")
		if !ok {
			continue
		}
		with["namespace"], with["pod"] = NamespaceArg(namespace), PodArg(pod)
		if owner := r.Facts.Str(facts.Owner); owner != "" {
			with["daemonset"] = daemonSetArg(owner)
			with["config"] = OwnArg(map[bool]string{true: "canal-config", false: "calico-config"}[owner == "canal"])
		}
		fix.Install = installOf(r, namespace)
	}
	maps.Copy(with, args)
	say := func(text string) string { return filled(text, with, inSentence) }
	commands := func(texts []string) []string {
		var out []string
		for _, text := range texts {
			out = append(out, inGroup(f, filled(text, with, inCommand)))
		}
		return out
	}
	// The sentence quotes foreign text, so {node} is the only name that is replaced in it.
	cause.Says = probe.Line(strings.ReplaceAll(cause.Says, "{node}", f.Node))
	fix.Says, fix.Radius = say(fix.Says), say(fix.Radius)
	fix.Manifest, fix.Operator = commands(fix.Manifest), commands(fix.Operator)
	fix.OnlyIf = slices.Clone(fix.OnlyIf)
	for i, c := range fix.OnlyIf {
		fix.OnlyIf[i] = probe.Conditional{If: say(c.If), Manifest: commands(c.Manifest), Operator: commands(c.Operator)}
	}
	cause.Fix = fix
}

// inGroup changes the API group of Calico's resources in a command to the group that this cluster uses.
func inGroup(f Findings, command string) string {
	if len(f.With(facts.CheckDatastoreReady, facts.Group, "projectcalico.org")) == 0 {
		return command
	}
	return strings.ReplaceAll(command, ".crd.projectcalico.org", ".projectcalico.org")
}

// installOf returns what manages Calico: "operator", "manifest", or "" if unknown. The namespace alone proves nothing,
// because other installers may also use the operator's calico-system. Older versions recorded only the namespace.
func installOf(calico Finding, namespace string) string {
	made, recorded := calico.Facts[facts.Operator].(bool)
	switch inOperators := namespace == "calico-system"; {
	case made, inOperators && !recorded:
		return "operator"
	case inOperators:
		return ""
	}
	return "manifest"
}

// known returns the args that every fix may use, except the args about calico-node's pod.
func known(f Findings) map[string]Arg {
	out := map[string]Arg{
		"node": NodeArg(f.Node), "namespace": NamespaceArg("kube-system"), "pod": PodArg(""),
		"daemonset": daemonSetArg("calico-node"), "config": OwnArg("calico-config"),
	}
	for name, unit := range units(f) {
		out[name] = OwnArg(unit)
	}
	return out
}
