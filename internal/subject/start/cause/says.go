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
var containerNotStarted = &diagnose.Rule{
	ID: "container-not-started", Layer: diagnose.LayerStart, Title: "a container of calico-node cannot start",
	Doc: `The image is there and the runtime cannot start the container: its command does not exist, a file or folder that it mounts is missing or of another kind, a ConfigMap or Secret that it names is not there, a security profile is unknown, or the program is for another architecture. The kubelet has the runtime's own words in the container's state (StartError, ContainerCannotRun, CreateContainerConfigError, RunContainerError). Such a run never began, so it has no log, and its time of start is zero.
Told from a program that starts and ends by that state, and by the missing log.`,
	Fix: probe.Fix{
		Says: "Provide what the quoted message names: the file or directory on the node, the ConfigMap or Secret, or an image for this CPU; or correct its name in the pod's template.",
		Manifest: []string{
			"kubectl -n {namespace} describe pod {pod}  # state and message of each container",
			"kubectl -n {namespace} rollout history ds {daemonset}  # whether the template was changed lately",
		},
		Radius: "reading changes nothing; a changed template restarts calico-node on every node, one after the other",
	},
	Explains: withoutStart,
	Match: func(f diagnose.Findings) []diagnose.Case {
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
	},
}

// settingRefused is a setting that calico-node does not take.
var settingRefused = &diagnose.Rule{
	ID: "setting-refused", Layer: diagnose.LayerStart, Title: "calico-node rejects one of its settings",
	Doc: `calico-node reads its environment at each start and ends where a value is none: an address that is not one (IP=999.1.2.3), an autodetection method it does not know or that finds nothing, an AS number, a pool that does not parse. Felix ends in the same way over a setting of its own. It starts again and again, each time to the same line of its log, and everything after it (Felix, BIRD) is down for that reason alone.
Told from a crash by the line it ends with, which names the setting.`,
	Fix: probe.Fix{
		Says: "Put the setting right that the line names.",
		Manifest: []string{
			"kubectl -n {namespace} set env ds/{daemonset} -c calico-node --list",
			"kubectl -n {namespace} rollout history ds {daemonset}  # whether it was changed lately",
		},
		Operator: []string{"kubectl get installation default -o yaml", "kubectl get felixconfigurations.crd.projectcalico.org -o yaml"},
		Radius:   "reading changes nothing; a changed setting restarts calico-node on every node, one after the other",
	},
	Explains: append([]string{"calico-ends"}, evidence.AfterLog...),
	Match: func(f diagnose.Findings) []diagnose.Case {
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
	},
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
var calicoForbidden = &diagnose.Rule{
	ID: "calico-forbidden", Layer: diagnose.LayerDatastore, Title: "calico-node's service account lacks a permission",
	Doc: `The API server knows the account and refuses what it asks for ("is forbidden"): the ClusterRole or its binding was deleted, changed, or is of an older version of Calico than the image. At its start install-cni is refused first (a token for the CNI plugin), so calico-node stays in its init containers; a running calico-node whose rights are taken away goes on with what it knows and says nothing for a while.
Told from a token that has run out, which is "Unauthorized"; from an API server that is not reached by the answer, which is one.`,
	Fix: probe.Fix{
		Says: "Give the account its role again: apply the roles and bindings of the manifest (or chart, or operator) of the version that runs.",
		Manifest: []string{
			"kubectl get clusterrolebindings -o wide | grep -E 'calico|NAME'",
			"kubectl auth can-i --list --as=system:serviceaccount:{account}  # what it may do",
		},
		Operator: []string{"kubectl get tigerastatus calico -o yaml  # the operator makes roles anew by itself, unless it does not run"},
		Radius:   "reading changes nothing; a role that is given back takes nothing away",
	},
	Explains: append([]string{"calico-ends", "cni-config-missing", "felix-waits"}, evidence.AfterLog...),
	Match: func(f diagnose.Findings) []diagnose.Case {
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
	},
}

// resourceMissing is a resource of Calico's that the API server does not know.
var resourceMissing = &diagnose.Rule{
	ID: "calico-resource-missing", Layer: diagnose.LayerDatastore,
	Title: "the API server lacks a resource type (CRD) that Calico needs",
	Doc: `A custom resource definition of Calico's is missing or of an older version than calico-node: deleted, forgotten at an upgrade, or left out by a chart that does not upgrade them. calico-node ends at its start ("the server could not find the requested resource"); one that runs goes on until then.
Told from a missing right, which is "forbidden".`,
	Fix: probe.Fix{
		Says: "Apply the CRDs of the version of Calico that runs; they are in its manifest, and beside its chart.",
		Manifest: []string{
			"kubectl get crds | grep projectcalico.org",
			"kubectl -n {namespace} get ds {daemonset} -o jsonpath='{.spec.template.spec.containers[0].image}'  # the version",
		},
		Radius: "reading changes nothing; a CRD that is applied anew is empty, if it had been deleted: its objects are gone and are made anew by calico-node or by hand",
	},
	Explains: append([]string{"calico-ends", "felix-waits"}, evidence.AfterLog...),
	Match: func(f diagnose.Findings) []diagnose.Case {
		lines, served := evidence.LogLines(f, logs.SaysNoResource), lacking(f, "kinds")
		if len(lines) == 0 {
			return lacks(served)
		}
		return []diagnose.Case{also(logged(f, "asks for a resource that the API server does not know", lines), served)}
	},
}

// calicoEnds is a container that ends, with the line it ends with.
var calicoEnds = &diagnose.Rule{
	ID: "calico-ends", Layer: diagnose.LayerCalico, Title: "calico-node or its init container keeps exiting, and logs why",
	Doc: `The last line of the run that ended, or of the one before, is the reason in the component's own words; it is quoted as it is where no rule knows it better. What does not work on the node follows from it.
Told from a container that is killed from outside by that line: one that is killed has none.`,
	Fix: probe.Fix{
		Says:     "Correct what the quoted line names. Where it names a symptom alone (a timeout, a refused connection), the log has the address and the component.",
		Manifest: []string{"kubectl -n {namespace} logs {pod} -c {container} --tail=50", "kubectl -n {namespace} logs {pod} -c {container} --tail=50 --previous"},
		Radius:   evidence.OnlyReads,
	},
	Explains: evidence.AfterLog,
	Match: func(f diagnose.Findings) []diagnose.Case {
		ended := evidence.LogLines(f)
		if len(ended) == 0 {
			return nil
		}
		c := logged(f, "ended", ended[:1])
		c.For[0].Weight = min(c.For[0].Weight, diagnose.Strong)
		name := ended[0].Facts.Str(probe.FactOfContainer)
		c.Args = map[string]diagnose.Arg{"container": diagnose.CheckedArg(name, diagnose.IsName(name), "CONTAINER")}
		return []diagnose.Case{c}
	},
}
