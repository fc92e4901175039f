package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/felix"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/internal/subject/runtime"
	"github.com/calico-probe/calico-probe/internal/subject/start"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// notStarted is what a calico-node that has not begun leaves undone.
var notStarted = Covers(facts.CheckCalicoPod, facts.CheckControllers, facts.CheckNodeReady, facts.CheckNodeTaints,
	start.InitStall.ID, cni.IPAMFiles.ID, cni.CNIConfig.ID, cni.CNINodename.ID, cni.CNIToken.ID,
	felix.FelixLive.ID, felix.FelixReady.ID, bgp.BirdSocket.ID, bgp.BirdConfig.ID, bgp.BGPSession.ID,
	bgp.BGPPort.ID, bgp.BGPExpected.ID, start.StartupBudget.ID, logs.CalicoLog.ID, facts.CheckPodsStart)

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
var upgradePodCIDR = &Rule{
	ID: "upgrade-ipam-pod-cidr", Layer: LayerInit,
	Title: "upgrade-ipam cannot finish: the node's podCIDR is missing or in no IP pool",
	Doc: upgrading + `Before it moves anything it takes the first address of the Node's spec.podCIDR for the node's tunnel, and that has to lie in an enabled IP pool. On clusters where nothing gives nodes a podCIDR, or gives one outside Calico's pools, it fails for ever ("PodCIDR did not parse successfully", "not in a configured pool").
Told from a stale runtime by its living process; from an API out of reach by datastore-latency; from a held lock by ipam-files.`,
	Fix: probe.Fix{
		Says:     "Put the leftover files aside if nothing uses them; else give the node a podCIDR inside a pool.",
		Manifest: []string{`kubectl get node {node} -o jsonpath="{.spec.podCIDR}"; kubectl get ippools.crd.projectcalico.org -o wide`, lookAtFiles}, OnlyIf: asideFiles,
		Radius: asideRadius,
	},
	RuledOut: []string{datastore.DatastoreLatency.ID, runtime.CRIHealth.ID, runtime.RuntimeGhosts.ID},
	Match: func(f Findings) []Case {
		return upgradeCase(f, keep(f.Failed(cni.IPAMFiles.ID), because(cni.IPAMNoPodCIDR, cni.IPAMOutsidePool)))
	},
}

// upgradeLocked waits for somebody who does not let go.
var upgradeLocked = &Rule{
	ID: "upgrade-ipam-locked", Layer: LayerInit, Title: "upgrade-ipam waits for a lock that another process holds",
	Doc: upgrading + `It takes the lock of that directory (flock) before it lists the files, and waits for it without an end. host-local holds it for milliseconds; another holder is a plugin that hangs, a backup, somebody's shell.
Told from the other reasons by the lock itself, which the kernel shows with its holder.`,
	Fix: probe.Fix{
		Says: "Look at who holds the lock, and end that.",
		Manifest: []string{"ssh {node} sudo fuser -v /var/lib/cni/networks/k8s-pod-network/lock",
			"ssh {node} ps -o user,pid,ppid,stat,etime,args -p {holder}"},
		OnlyIf: []probe.Conditional{{If: "it hangs, or is nobody's", Manifest: []string{"ssh {node} sudo kill {holder}"}}},
		Radius: "the process that holds the lock; upgrade-ipam goes on by itself",
	},
	RuledOut: []string{datastore.DatastoreLatency.ID, runtime.CRIHealth.ID, runtime.RuntimeGhosts.ID},
	Match: func(f Findings) []Case {
		held := keep(f.Failed(cni.IPAMFiles.ID), because(cni.IPAMLocked))
		cases := upgradeCase(f, held)
		for i := range cases {
			cases[i].Args = map[string]Arg{"holder": processArg(num(held, cni.FactHolder))}
		}
		return cases
	},
}

// upgradeNoAPI waits thirty seconds each time.
var upgradeNoAPI = &Rule{
	ID: "upgrade-ipam-no-api", Layer: LayerInit, Title: "upgrade-ipam cannot reach the API server",
	Doc: upgrading + `Each try begins with reading the Node from the API server at the kubernetes service's address, which a broken kube-proxy, a firewall or a missing route keeps from it; a try then takes half a minute.
Told from the other reasons by the same address being out of reach for the probe, and by its connection in the state syn-sent. Where the API servers answer at their own addresses it is kube-proxy's rules on this node.`,
	Fix: probe.Fix{
		Says: "Make the kubernetes service reachable from this node.",
		Manifest: []string{
			`kubectl get pods -n kube-system -l k8s-app=kube-proxy --field-selector spec.nodeName={node}`,
			"ssh {node} curl -sk --max-time 5 https://$(kubectl get service kubernetes -o jsonpath=\"{.spec.clusterIP}\")/readyz",
		},
		Radius: "only looks; upgrade-ipam goes on by itself",
	},
	RuledOut: []string{runtime.CRIHealth.ID, runtime.RuntimeGhosts.ID},
	Match: func(f Findings) []Case {
		// Without leftovers it never asks the API server.
		if n, there := leftovers(f); there && n == 0 {
			return nil
		}
		cases := upgradeCase(f, toService(f.Failed(datastore.DatastoreLatency.ID)))
		for i := range cases {
			cases[i].Covers = append(cases[i].Covers, Covers(datastore.DatastoreLatency.ID)...)
		}
		return cases
	},
}

// upgradeStuck is what is known without a reason.
var upgradeStuck = &Rule{
	ID: "upgrade-ipam-stuck", Layer: LayerInit, Symptom: true, Title: "upgrade-ipam does not finish",
	Doc: upgrading + `Known reasons are a podCIDR that is missing or in no pool, an API server out of reach, a held lock; each has a cause of its own and needs a look at the node, as does the case where no such process exists and the runtime's state is old (container-ghosts). Here none of them was seen: its log has the error of each try.`,
	Fix: probe.Fix{
		Says:     "Read its log; put the leftover files aside if nothing uses them.",
		Manifest: []string{"kubectl logs -n {namespace} {pod} -c upgrade-ipam --tail 5", lookAtFiles}, OnlyIf: asideFiles,
		Radius: asideRadius,
	},
	Wants: []string{start.InitStall.ID, cni.IPAMFiles.ID}, RuledOut: []string{datastore.DatastoreLatency.ID,
		runtime.CRIHealth.ID, runtime.RuntimeGhosts.ID},
	Match: func(f Findings) []Case {
		api, process := inInit(f, "upgrade-ipam")
		n, there := leftovers(f)
		known := len(keep(f.Failed(cni.IPAMFiles.ID), because(cni.IPAMNoPodCIDR, cni.IPAMOutsidePool,
			cni.IPAMLocked))) > 0 || len(toService(f.Failed(datastore.DatastoreLatency.ID))) > 0
		switch {
		case known, there && n == 0 && len(process) == 0: // the latter is a ghost, or it has just ended
			return nil
		case len(process) == 0 && (len(api) == 0 || api[0].Status != probe.Fail):
			return nil
		}
		c := Case{
			For:     slices.Concat(Suggests(slices.Concat(process, api)), Shows(f.Bad(cni.IPAMFiles.ID))),
			Against: Suggests(f.Failed(facts.CheckNodeLease)), Covers: notStarted,
			Says: hanging(api, process) + ", and none of the known reasons was seen",
		}
		if n > 0 {
			c.Says = fmt.Sprintf("%s with %.0f addresses that another network plugin left, and none of the known reasons was seen", hanging(api, process), n)
		}
		return []Case{c}
	},
}

// upgradeCase is upgrade-ipam with the reason it cannot get done. While nothing shows
// that it is at work, the reason waits for calico-node's next start.
func upgradeCase(f Findings, why []Finding) []Case {
	api, process := inInit(f, "upgrade-ipam")
	if len(why) == 0 {
		return nil
	}
	c := Case{Covers: notStarted, For: Suggests(why), Against: Suggests(f.Failed(facts.CheckNodeLease))}
	if len(api)+len(process) == 0 {
		if why[0].Check != cni.IPAMFiles.ID {
			return nil
		}
		c.Says = "upgrade-ipam will hang at calico-node's next start on {node}: " + why[0].Saw
		c.For, c.Covers = Suggests(why), Covers(cni.IPAMFiles.ID)
		return []Case{c}
	}
	c.Says = hanging(api, process) + ": " + strings.TrimSpace(why[0].Target+" "+why[0].Saw)
	c.For = append(c.For, Hints(slices.Concat(process, api))...)
	return []Case{c}
}

// inInit is an init container that is at work: by the API, and by its process.
func inInit(f Findings, name string) (api, process []Finding) {
	for _, r := range initByAPI(f) {
		if r.Facts.Str(facts.Container) == name {
			api = append(api, r)
		}
	}
	return api, f.With(start.InitStall.ID, probe.FactProgram, name)
}

// initByAPI is the init container that the API calls running.
func initByAPI(f Findings) []Finding {
	return f.where(func(r Finding) bool {
		return r.Check == facts.CheckCalicoPod && bad(r.Status) && strings.HasPrefix(r.Facts.Str(facts.APIReason), "Init:")
	})
}

// hanging says which init container hangs, since when, and what its process does now.
func hanging(api, process []Finding) string {
	what, age := "an init container", 0.0
	for _, r := range slices.Concat(api, process) {
		what = cmp.Or(r.Facts.Str(facts.Container), r.Facts.Str(probe.FactProgram), what)
		if n, ok := r.Facts.Num(facts.Age); ok {
			age = max(age, n)
		}
	}
	text := fmt.Sprintf("calico-node on {node} hangs in init container %s for %s", what, lasting(age))
	if len(api) > 0 {
		text = fmt.Sprintf("calico-node on {node} hangs in %s, init container %s, for %s", api[0].Facts.Str(facts.APIReason),
			what, lasting(age))
	}
	if len(process) == 0 {
		return text
	}
	pid, _ := process[0].Facts.Num(probe.FactPID)
	text += fmt.Sprintf(" (process %.0f, state %s", pid, process[0].Facts.Str(start.FactProcess))
	if waits := process[0].Facts.Str(start.FactWaits); waits != "" {
		text += ", waits in " + waits
	}
	if leads := listOf(process[0], start.FactLeads); len(leads) > 0 {
		text += ", " + leads[0]
	}
	return text + ")"
}

// leftovers is how many addresses another plugin left; false when nobody looked.
func leftovers(f Findings) (float64, bool) {
	for _, r := range f.Of(cni.IPAMFiles.ID) {
		if n, ok := r.Facts.Num(cni.FactAddresses); ok {
			return n, true
		}
	}
	return 0, false
}

// installCNIFails is the second init container.
var installCNIFails = &Rule{
	ID: "install-cni-fails", Layer: LayerInit, Symptom: true, Title: "install-cni does not finish",
	Doc: `install-cni copies Calico's CNI plugins to the node, asks the API server for a token and writes the network configuration. Since v3.24 it ends after 30 s when the API server does not answer at the kubernetes service's address ("Unable to create token for CNI kubeconfig ... i/o timeout") and is started again, ever more slowly; before, it wrote a configuration without a look. A read-only or full file system stops it too ("found no writeable directory").
Until it is done pods get no network and calico-node does not begin: Felix, BIRD and BGP sessions that are missing follow from it.`,
	Fix: probe.Fix{
		Says: "Read its last words; make the kubernetes service reachable from this node, or the disk writable.",
		Manifest: []string{
			"kubectl logs -n {namespace} {pod} -c install-cni --tail 20",
			"kubectl get pods -n kube-system -l k8s-app=kube-proxy --field-selector spec.nodeName={node}",
		},
		OnlyIf: []probe.Conditional{
			{If: "the reason is gone: it starts at once then, instead of after the back-off",
				Manifest: []string{"kubectl delete pod -n {namespace} {pod}"}},
		},
		Radius: "reading changes nothing; deleting calico-node's pod while it is in its init containers interrupts nothing",
	},
	RuledOut: []string{runtime.CRIHealth.ID, runtime.RuntimeGhosts.ID},
	Explains: append([]string{"cni-config-missing", "cni-plugin-missing"}, withoutCalico...),
	Match: func(f Findings) []Case {
		api := f.where(func(r Finding) bool {
			return r.Check == facts.CheckCalicoPod && r.Status == probe.Fail && r.Facts.Str(facts.Container) == "install-cni" &&
				!probe.ImageWanting(r.Facts.Str(facts.APIReason))
		})
		process := keep(f.With(start.InitStall.ID, probe.FactProgram, "install-cni"), about(""))
		stuck := slices.DeleteFunc(slices.Clone(process), func(r Finding) bool { return r.Status != probe.Fail })
		if len(api)+len(stuck) == 0 {
			return nil
		}
		away := toService(f.Failed(datastore.DatastoreLatency.ID))
		disk := f.Failed(host.NodeDisk.ID)
		c := Case{
			For:     slices.Concat(Suggests(slices.Concat(api, stuck)), Hints(away), Hints(disk)),
			Against: Suggests(f.Failed(facts.CheckNodeLease)), Covers: notStarted,
		}
		c.Says = "install-cni does not finish on {node}: " + slices.Concat(api, stuck)[0].Saw
		switch {
		case len(away) > 0:
			c.Says = fmt.Sprintf("install-cni does not finish on {node}, for the API server does not answer there: %s: %s",
				away[0].Target, away[0].Saw)
			c.Covers = append(c.Covers, Covers(datastore.DatastoreLatency.ID)...)
		case len(disk) > 0:
			c.Says = fmt.Sprintf("install-cni does not finish on {node}, for it cannot write there: %s: %s", disk[0].Target,
				disk[0].Saw)
			c.Covers = append(c.Covers, Covers(host.NodeDisk.ID)...)
		}
		return []Case{c}
	},
}

// calicoImage is calico-node's own image.
var calicoImage = &Rule{
	ID: "calico-image", Layer: LayerStart, Title: "this node cannot pull a calico-node image",
	Doc: `calico-node's pod waits for one of its images: the registry is out of reach from this node, refuses it (credentials, rate limit), or has no such tag. The kubelet says which, in its message; it tries again every five minutes at most. On a new node everything else about Calico is missing because of it.
Told from a runtime that hangs by the kubelet's answer: it did ask, and was refused.`,
	Fix: probe.Fix{
		Says: "Make the registry answer this node, or bring the image there.",
		Manifest: []string{
			"kubectl get events -n {namespace} --field-selector involvedObject.name={pod} | tail -5",
			"ssh {node} sudo crictl pull {image}  # the node's own words",
			askRegistry,
			"# without a registry: on a node that has it, 'sudo ctr -n k8s.io images export calico.tar {image}'; on {node}, 'sudo ctr -n k8s.io images import calico.tar'",
		},
		Radius: "this node only",
	},
	Explains: append([]string{"cni-config-missing", "probe-image"}, withoutCalico...),
	Match: func(f Findings) []Case {
		wanting := f.where(func(r Finding) bool {
			return r.Check == facts.CheckCalicoPod && r.Status == probe.Fail && probe.ImageWanting(r.Facts.Str(facts.APIReason))
		})
		if len(wanting) == 0 ||
			slices.ContainsFunc(waitingPods(f, facts.StartsImage), func(r Finding) bool { return sameRefusal(r, wanting[0]) }) {
			return nil // with others, whose cause is registry-refuses
		}
		image, why := wanting[0].Facts.Str(facts.Image), ""
		if refusal := refusedWords[wanting[0].Facts.Str(facts.Refusal)]; refusal != "" {
			why = fmt.Sprintf("registry %s: %s: ", facts.RegistryOf(image), refusal)
		}
		return []Case{{
			Says: fmt.Sprintf("calico-node does not start on {node}, for its image cannot be had: %s%s", why, wanting[0].Saw),
			Args: map[string]Arg{"image": imageArg(image), "registry": registryArg(facts.RegistryOf(image))},
			For:  Proves(wanting), Against: Suggests(f.Failed(facts.CheckNodeLease)), Covers: notStarted,
			Fix: calicoPullFix(wanting[0].Facts.Str(facts.Refusal)),
		}}
	},
}

// calicoPullFix is what to do about a refusal; nil for the rule's own fix, where it is not known.
func calicoPullFix(refusal string) *probe.Fix {
	if refusal == facts.RefusedAbsent {
		return &noSuchImage
	}
	if fix, known := pullFixes[refusal]; known {
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
var calicoPodMissing = &Rule{
	ID: "calico-pod-missing", Layer: LayerStart, Title: "the node has no calico-node pod",
	Doc: `The DaemonSet does not put calico-node here: its nodeSelector or affinity does not fit (the label kubernetes.io/os=linux was removed, or a selector was added), it does not tolerate a taint of the node, or a quota or admission webhook refuses its pods. What an earlier pod left (routes, firewall rules, configuration) stays and grows old: pods that run keep working for a while, new ones fail with "stat /var/lib/calico/nodename" or an expired token.`,
	Fix: probe.Fix{
		Says: "Compare the DaemonSet's nodeSelector and tolerations with this node's labels and taints; its events show a pod that was refused.",
		Manifest: []string{
			"kubectl describe daemonset -n {namespace} {daemonset} | tail -20  # its selectors, and what was refused",
			"kubectl get node {node} --show-labels; kubectl describe node {node} | grep -A5 Taints",
		},
		Operator: []string{
			"kubectl describe daemonset -n calico-system calico-node | tail -20; kubectl get tigerastatus",
			"kubectl get node {node} --show-labels; kubectl describe node {node} | grep -A5 Taints",
			"# selectors and tolerations of the DaemonSet belong into the Installation",
		},
		Radius: missingRadius,
	},
	Explains: append([]string{"cni-config-missing"}, withoutCalico...),
	Match: func(f Findings) []Case {
		none := f.With(facts.CheckCalicoPod, probe.FactReason, facts.ReasonNoPod)
		if len(none) == 0 {
			return nil
		}
		if none[0].Facts.Str(facts.Skips) == facts.SkipsUnscheduled {
			return []Case{unscheduled(none)}
		}
		// Why is proof; that there is none is what is to be explained.
		weight, skips := strong, none[0].Facts.Str(facts.Skips)
		if skips != "" && skips != facts.SkipsUnsaid {
			weight = proof
		}
		fix, args := missingFix(none[0])
		return []Case{{
			Says: "Calico does not run on {node}: " + none[0].Saw, For: clues(weight, none), Covers: notStarted,
			Fix: fix, Args: args,
			// A node that has just come gets its pod in a moment.
			Against: Suggests(f.where(func(r Finding) bool {
				return r.Check == facts.CheckNodeLease &&
					r.Status == probe.Info
			})),
		}}
	},
}
