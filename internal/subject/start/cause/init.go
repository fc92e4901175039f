package cause

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/internal/subject/start"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// upgrading is how every one of the causes about upgrade-ipam begins.
const upgrading = `upgrade-ipam is the first init container of a manifest install (the operator has none). It moves addresses that another network plugin (host-local: an earlier bridge, kubenet, Canal) left in /var/lib/cni/networks/k8s-pod-network into Calico's IPAM. Without that directory it ends in a second; with it, it tries again every second for ever, without an event: the pod stands in Init:0/3, new pods get no address, neither Felix nor BIRD is there, and calico-kube-controllers may restart, for the migration marks Calico's datastore as not ready for the whole cluster while it is at work. `

// The way out of all of them, where nothing needs the files any more.
const lookAtFiles = "ssh {node} sudo ls -l /var/lib/cni/networks/k8s-pod-network  # each file is named after an address"

var asideFiles = []probe.Conditional{{
	If: "none of the files is named after the address of a pod that lives",
	Manifest: []string{
		"ssh {node} sudo mv /var/lib/cni/networks/k8s-pod-network /var/lib/cni/k8s-pod-network.old",
		`kubectl get clusterinformations.crd.projectcalico.org default -o jsonpath="{.spec.datastoreReady}"  # has to be true in the end`,
	},
}}

const asideRadius = "this node only; upgrade-ipam ends at its next try, a second later. Pods that still use an address of that directory have to be made anew. While datastoreReady is false no node of the cluster gives a pod an address"

// upgradePodCIDR is the likeliest of incident 000.
func upgradePodCIDR(f diagnose.Findings) []diagnose.Case {
	return upgradeCase(f, diagnose.Keep(f.Failed(cni.IPAMFiles.ID),
		diagnose.Because(cni.IPAMNoPodCIDR, cni.IPAMOutsidePool)))
}

// upgradeLocked waits for somebody who does not let go.
func upgradeLocked(f diagnose.Findings) []diagnose.Case {
	held := diagnose.Keep(f.Failed(cni.IPAMFiles.ID), diagnose.Because(cni.IPAMLocked))
	cases := upgradeCase(f, held)
	for i := range cases {
		cases[i].Args = map[string]diagnose.Arg{"holder": diagnose.ProcessArg(diagnose.Num(held, cni.FactHolder))}
	}
	return cases
}

// upgradeNoAPI waits thirty seconds each time.
func upgradeNoAPI(f diagnose.Findings) []diagnose.Case {
	// Without leftovers it never asks the API server.
	if n, there := leftovers(f); there && n == 0 {
		return nil
	}
	cases := upgradeCase(f, evidence.ToService(f.Failed(datastore.DatastoreLatency.ID)))
	for i := range cases {
		cases[i].Covers = append(cases[i].Covers, diagnose.Covers(datastore.DatastoreLatency.ID)...)
	}
	return cases
}

// upgradeStuck is what is known without a reason.
func upgradeStuck(f diagnose.Findings) []diagnose.Case {
	api, process := inInit(f, "upgrade-ipam")
	n, there := leftovers(f)
	known := len(diagnose.Keep(f.Failed(cni.IPAMFiles.ID), diagnose.Because(cni.IPAMNoPodCIDR, cni.IPAMOutsidePool,
		cni.IPAMLocked))) > 0 || len(evidence.ToService(f.Failed(datastore.DatastoreLatency.ID))) > 0
	switch {
	case known, there && n == 0 && len(process) == 0: // the latter is a ghost, or it has just ended
		return nil
	case len(process) == 0 && (len(api) == 0 || api[0].Status != probe.Fail):
		return nil
	}
	c := diagnose.Case{
		For:     slices.Concat(diagnose.Suggests(slices.Concat(process, api)), diagnose.Shows(f.Bad(cni.IPAMFiles.ID))),
		Against: diagnose.Suggests(f.Failed(facts.CheckNodeLease)), Covers: evidence.NotStarted,
		Says: hanging(api, process) + ", and none of the known reasons was seen",
	}
	if n > 0 {
		c.Says = fmt.Sprintf("%s with %.0f addresses that another network plugin left, and none of the known reasons was seen", hanging(api, process), n)
	}
	return []diagnose.Case{c}
}

// upgradeCase is upgrade-ipam with the reason it cannot get done. While nothing shows
// that it is at work, the reason waits for calico-node's next start.
func upgradeCase(f diagnose.Findings, why []diagnose.Finding) []diagnose.Case {
	api, process := inInit(f, "upgrade-ipam")
	if len(why) == 0 {
		return nil
	}
	c := diagnose.Case{Covers: evidence.NotStarted, For: diagnose.Suggests(why),
		Against: diagnose.Suggests(f.Failed(facts.CheckNodeLease))}
	if len(api)+len(process) == 0 {
		if why[0].Check != cni.IPAMFiles.ID {
			return nil
		}
		c.Says = "upgrade-ipam will hang at calico-node's next start on {node}: " + why[0].Saw
		c.For, c.Covers = diagnose.Suggests(why), diagnose.Covers(cni.IPAMFiles.ID)
		return []diagnose.Case{c}
	}
	c.Says = hanging(api, process) + ": " + strings.TrimSpace(why[0].Target+" "+why[0].Saw)
	c.For = append(c.For, diagnose.Hints(slices.Concat(process, api))...)
	return []diagnose.Case{c}
}

// inInit is an init container that is at work: by the API, and by its process.
func inInit(f diagnose.Findings, name string) (api, process []diagnose.Finding) {
	for _, r := range evidence.InitByAPI(f) {
		if r.Facts.Str(facts.Container) == name {
			api = append(api, r)
		}
	}
	return api, f.With(start.InitStall.ID, probe.FactProgram, name)
}

// hanging says which init container hangs, since when, and what its process does now.
func hanging(api, process []diagnose.Finding) string {
	what, age := "an init container", 0.0
	for _, r := range slices.Concat(api, process) {
		what = cmp.Or(r.Facts.Str(facts.Container), r.Facts.Str(probe.FactProgram), what)
		if n, ok := r.Facts.Num(facts.Age); ok {
			age = max(age, n)
		}
	}
	text := fmt.Sprintf("calico-node on {node} hangs in init container %s for %s", what, diagnose.Lasting(age))
	if len(api) > 0 {
		text = fmt.Sprintf("calico-node on {node} hangs in %s, init container %s, for %s", api[0].Facts.Str(facts.APIReason),
			what, diagnose.Lasting(age))
	}
	if len(process) == 0 {
		return text
	}
	pid, _ := process[0].Facts.Num(probe.FactPID)
	text += fmt.Sprintf(" (process %.0f, state %s", pid, process[0].Facts.Str(start.FactProcess))
	if waits := process[0].Facts.Str(start.FactWaits); waits != "" {
		text += ", waits in " + waits
	}
	if leads := diagnose.ListOf(process[0], start.FactLeads); len(leads) > 0 {
		text += ", " + leads[0]
	}
	return text + ")"
}

// leftovers is how many addresses another plugin left; false when nobody looked.
func leftovers(f diagnose.Findings) (float64, bool) {
	for _, r := range f.Of(cni.IPAMFiles.ID) {
		if n, ok := r.Facts.Num(cni.FactAddresses); ok {
			return n, true
		}
	}
	return 0, false
}

// installCNIFails is the second init container.
func installCNIFails(f diagnose.Findings) []diagnose.Case {
	api := f.Where(func(r diagnose.Finding) bool {
		return r.Check == facts.CheckCalicoPod && r.Status == probe.Fail && r.Facts.Str(facts.Container) == "install-cni" &&
			!probe.ImageWanting(r.Facts.Str(facts.APIReason))
	})
	process := diagnose.Keep(f.With(start.InitStall.ID, probe.FactProgram, "install-cni"), diagnose.About(""))
	stuck := slices.DeleteFunc(slices.Clone(process), func(r diagnose.Finding) bool { return r.Status != probe.Fail })
	if len(api)+len(stuck) == 0 {
		return nil
	}
	away := evidence.ToService(f.Failed(datastore.DatastoreLatency.ID))
	disk := f.Failed(host.NodeDisk.ID)
	c := diagnose.Case{
		For:     slices.Concat(diagnose.Suggests(slices.Concat(api, stuck)), diagnose.Hints(away), diagnose.Hints(disk)),
		Against: diagnose.Suggests(f.Failed(facts.CheckNodeLease)), Covers: evidence.NotStarted,
	}
	c.Says = "install-cni does not finish on {node}: " + slices.Concat(api, stuck)[0].Saw
	switch {
	case len(away) > 0:
		c.Says = fmt.Sprintf("install-cni does not finish on {node}, for the API server does not answer there: %s: %s",
			away[0].Target, away[0].Saw)
		c.Covers = append(c.Covers, diagnose.Covers(datastore.DatastoreLatency.ID)...)
	case len(disk) > 0:
		c.Says = fmt.Sprintf("install-cni does not finish on {node}, for it cannot write there: %s: %s", disk[0].Target,
			disk[0].Saw)
		c.Covers = append(c.Covers, diagnose.Covers(host.NodeDisk.ID)...)
	}
	return []diagnose.Case{c}
}

// calicoImage is calico-node's own image.
func calicoImage(f diagnose.Findings) []diagnose.Case {
	wanting := f.Where(func(r diagnose.Finding) bool {
		return r.Check == facts.CheckCalicoPod && r.Status == probe.Fail && probe.ImageWanting(r.Facts.Str(facts.APIReason))
	})
	if len(wanting) == 0 ||
		slices.ContainsFunc(evidence.WaitingPods(f, facts.StartsImage),
			func(r diagnose.Finding) bool { return evidence.SameRefusal(r, wanting[0]) }) {
		return nil // with others, whose cause is registry-refuses
	}
	image, why := wanting[0].Facts.Str(facts.Image), ""
	if refusal := evidence.RefusedWords[wanting[0].Facts.Str(facts.Refusal)]; refusal != "" {
		why = fmt.Sprintf("registry %s: %s: ", facts.RegistryOf(image), refusal)
	}
	return []diagnose.Case{{
		Says: fmt.Sprintf("calico-node does not start on {node}, for its image cannot be had: %s%s", why, wanting[0].Saw),
		Args: map[string]diagnose.Arg{"image": diagnose.ImageArg(image),
			"registry": evidence.RegistryArg(facts.RegistryOf(image))},
		For: diagnose.Proves(wanting), Against: diagnose.Suggests(f.Failed(facts.CheckNodeLease)),
		Covers: evidence.NotStarted,
		Fix:    calicoPullFix(wanting[0].Facts.Str(facts.Refusal)),
	}}
}

// calicoPullFix is what to do about a refusal; nil for the rule's own fix, where it is not known.
func calicoPullFix(refusal string) *probe.Fix {
	if refusal == facts.RefusedAbsent {
		return &noSuchImage
	}
	if fix, known := evidence.PullFixes[refusal]; known {
		return &fix
	}
	return nil
}

// noSuchImage is for a registry that answers, and has no image of that name.
var noSuchImage = probe.Fix{
	Says: "Correct the image in the DaemonSet: the registry has no such name or tag.",
	Manifest: []string{
		"kubectl -n {namespace} get ds {daemonset} -o jsonpath='{.spec.template.spec.initContainers[*].image} {.spec.template.spec.containers[*].image}'",
		"kubectl -n {namespace} rollout history ds {daemonset}  # whether it was changed lately",
		"ssh {node} sudo crictl pull {image}  # the node's own words"},
	OnlyIf: []probe.Conditional{{If: "the last change of the DaemonSet set that image",
		Manifest: []string{"kubectl -n {namespace} rollout undo daemonset/{daemonset}"}}},
	Radius: "reading changes nothing; a changed template restarts calico-node on every node, one after the other",
}

// refusedFix is for a DaemonSet whose pods the API server does not take.
var refusedFix = probe.Fix{
	Says:     "Have the API server accept the pod: the quoted event names the webhook, quota, limit range, PodSecurity level or missing object that rejects it.",
	Manifest: []string{"kubectl describe daemonset -n {namespace} {daemonset} | tail -20  # its events, in full"},
	OnlyIf: []probe.Conditional{
		{If: "a webhook does not answer: bring up the program behind it, or have its namespaceSelector leave that namespace out",
			Manifest: []string{"kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations"}},
		{If: "a quota or a limit range refuses", Manifest: []string{"kubectl describe quota,limitrange -n {namespace}"}},
		{If: "PodSecurity refuses", Manifest: []string{"kubectl get namespace {namespace} --show-labels"}},
		{If: "a service account or a priority class is missing", Manifest: []string{"kubectl get serviceaccounts -n {namespace}; kubectl get priorityclasses"}},
	},
	Radius: "reading changes nothing; the DaemonSet tries again by itself, within a quarter of an hour",
}

// calicoPodMissing is a node without Calico.
func calicoPodMissing(f diagnose.Findings) []diagnose.Case {
	none := f.With(facts.CheckCalicoPod, probe.FactReason, facts.ReasonNoPod)
	if len(none) == 0 {
		return nil
	}
	if none[0].Facts.Str(facts.Skips) == facts.SkipsUnscheduled {
		return []diagnose.Case{unscheduled(none)}
	}
	// Why is proof; that there is none is what is to be explained.
	weight, skips := diagnose.Strong, none[0].Facts.Str(facts.Skips)
	if skips != "" && skips != facts.SkipsUnsaid {
		weight = diagnose.Proof
	}
	fix, args := missingFix(none[0])
	return []diagnose.Case{{
		Says: "Calico does not run on {node}: " + none[0].Saw, For: diagnose.Clues(weight, none), Covers: evidence.NotStarted,
		Fix: fix, Args: args,
		// A node that has just come gets its pod in a moment.
		Against: diagnose.Suggests(f.Where(func(r diagnose.Finding) bool {
			return r.Check == facts.CheckNodeLease &&
				r.Status == probe.Info
		})),
	}}
}
