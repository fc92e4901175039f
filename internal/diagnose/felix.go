package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/felix"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/internal/subject/kubelet"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/internal/subject/start"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// felixIll is what a health port leaves behind that does not answer the kubelet: it
// kills calico-node, with BIRD in it.
var felixIll = slices.Concat(Covers(felix.FelixLive.ID, felix.FelixReady.ID), calicoDown)

// restartCalico starts calico-node on this node anew.
const restartCalico = "kubectl -n {namespace} delete pod {pod}"

// onlyReads is what a fix touches whose commands change nothing: the change itself is the reader's.
const onlyReads = "only what you change yourself: the commands shown only read"

const restartRadius = "calico-node on this node is away for some seconds; running pods keep their routes and policy meanwhile"

// ofLiveness are the findings of felix-live with one reason; felix-ready says the
// same where that was not asked.
func ofLiveness(f Findings, reason string) []Finding {
	if fs := f.With(felix.FelixLive.ID, probe.FactReason, reason); len(fs) > 0 {
		return fs
	}
	return f.With(felix.FelixReady.ID, probe.FactReason, reason)
}

// unwell are the API's signs that calico-node suffers.
func unwell(f Findings) []Finding {
	return append(f.Failed(facts.CheckCalicoBudget), f.Bad(facts.CheckCalicoPod)...)
}

// localhostForeign is projectcalico/calico#2146 and #2880.
var localhostForeign = &Rule{
	ID: "localhost-foreign", Layer: LayerKernel, Apart: true,
	Title: "localhost resolves to another machine, so calico-node's probe fails",
	Doc: `Felix binds its health port to "localhost" and calico-node's probe asks it there. When the node's /etc/hosts, or a search domain with an answer for every name, gives another address for it, Felix cannot bind ("cannot assign requested address") or the kubelet asks another machine: "dial tcp 192.168.99.7:9099: connection refused" for the URL http://localhost:9099.
Told from a start that is too slow by the address, which is not this machine's loopback.`,
	Fix: probe.Fix{
		Says: "Make localhost this machine again, in the node's /etc/hosts; until then a literal address does without the name.",
		Manifest: []string{
			"ssh {node} grep -n localhost /etc/hosts  # wanted: 127.0.0.1 localhost",
		},
		OnlyIf: []probe.Conditional{
			{If: "the file is right now: the container has a copy of it", Manifest: []string{restartCalico}},
			{
				If:       "it cannot be mended soon",
				Manifest: []string{"kubectl -n {namespace} set env ds/{daemonset} -c calico-node FELIX_HEALTHHOST=127.0.0.1"},
				Operator: []string{"# nothing else helps: the operator sets calico-node's variables back"},
			},
		},
		Radius: "the file: this node; the variable restarts calico-node on every node, one after the other",
	},
	Explains: []string{"start-outlasts-budget", "felix-down", "felix-stuck"},
	Match: func(f Findings) []Case {
		foreign := ofLiveness(f, "foreign-address")
		if len(foreign) == 0 {
			return nil
		}
		c := Case{Says: foreign[0].Saw, For: append(Suggests(foreign), Hints(unwell(f))...), Covers: felixIll}
		if load := loads(f.Failed(host.NodeLoad.ID)); len(load) > 0 {
			c.Against = Hints(load) // either is enough, see start-under-load
		}
		return []Case{c}
	},
}

// felixElsewhere is a health port at an address where the kubelet's probe does not ask.
var felixElsewhere = &Rule{
	ID: "felix-elsewhere", Layer: LayerCalico,
	Title: "Felix serves its health port at an address that the probe does not use",
	Doc: `FelixConfiguration's healthHost moves Felix's health port; calico-node's own probe knows only the variable FELIX_HEALTHHOST and else asks localhost. The kubelet then kills a Felix that is well.
Told from a start that is too slow and from a dead Felix by what listens: the port is open, elsewhere.`,
	Fix: probe.Fix{
		Says: "Set both alike: take healthHost out of FelixConfiguration, or name the same address in FELIX_HEALTHHOST.",
		Manifest: []string{
			"kubectl get felixconfigurations.crd.projectcalico.org -o custom-columns=NAME:.metadata.name,HOST:.spec.healthHost,PORT:.spec.healthPort",
		},
		OnlyIf: []probe.Conditional{
			{If: "the one called default has it",
				Manifest: []string{`kubectl patch felixconfigurations.crd.projectcalico.org default --type json -p '[{"op":"remove","path":"/spec/healthHost"}]'`}},
			{If: "the one called node.{node} has it",
				Manifest: []string{`kubectl patch felixconfigurations.crd.projectcalico.org node.{node} --type json -p '[{"op":"remove","path":"/spec/healthHost"}]'`}},
		},
		Radius: "Felix restarts on the nodes for which that setting holds; running pods keep their policy meanwhile",
	},
	Explains: []string{"start-outlasts-budget", "felix-down"},
	Match: func(f Findings) []Case {
		var open []Finding
		for _, r := range f.Bad(felix.FelixLive.ID) {
			if len(elsewhere(r)) > 0 {
				open = append(open, r)
			}
		}
		if len(open) == 0 {
			return nil
		}
		return []Case{{
			Says: "calico-node's probe asks where nobody listens: " + open[0].Saw,
			For:  append(Suggests(open), Hints(unwell(f))...), Covers: felixIll,
		}}
	},
}

// felixHealthOff is a health endpoint that is off while the probe asks it.
var felixHealthOff = &Rule{
	ID: "felix-health-off", Layer: LayerCalico,
	Title: "Felix's health endpoint is disabled, but calico-node's probe uses it",
	Doc: `Felix opens its health port only with healthEnabled (FELIX_HEALTHENABLED in Calico's manifests). Without it the probe is refused, and the kubelet kills a calico-node that is well.
Told from a dead Felix by the setting.`,
	Fix: probe.Fix{
		Says:     "Switch it on.",
		Manifest: []string{"kubectl -n {namespace} set env ds/{daemonset} -c calico-node FELIX_HEALTHENABLED=true"},
		Operator: []string{`kubectl patch felixconfigurations.crd.projectcalico.org default --type merge -p '{"spec":{"healthEnabled":true}}'`},
		Radius:   "calico-node restarts on every node, one after the other; running pods keep their routes",
	},
	Explains: []string{"start-outlasts-budget"},
	Match: func(f Findings) []Case {
		off, ill := ofLiveness(f, "disabled"), unwell(f)
		if len(off) == 0 || len(ill) == 0 {
			return nil // then nothing asks it
		}
		return []Case{{
			Says: "Felix is set not to open its health port (healthEnabled is false), and calico-node's probe fails for it",
			For:  append(Suggests(off), Hints(ill)...), Covers: felixIll,
		}}
	},
}

// silentAtHome are daemons of the node that take no connection on its loopback, one answer of each.
func silentAtHome(f Findings) []Finding {
	var silent []Finding
	for _, id := range []string{felix.FelixLive.ID, kubelet.KubeletHealth.ID, service.KubeProxyHealth.ID} {
		for _, r := range f.With(id, probe.FactTaken, false) {
			if at := r.Facts.Str(probe.FactAddress); bad(r.Status) && strings.HasPrefix(at, "127.") {
				silent = append(silent, r)
				break
			}
		}
	}
	return silent
}

// loopbackDropped is projectcalico/calico#4372.
var loopbackDropped = &Rule{
	ID: "loopback-dropped", Layer: LayerKernel, Title: "the node drops packets on its own loopback",
	Doc: `A firewall rule that drops 127.0.0.0/8, or a loopback interface that is down, cuts off whatever the node asks itself: calico-node's probe, the kubelet's healthz, kube-proxy's. Each of them works, and answers at other addresses.
Told from a frozen daemon, and from one short of CPU, by the connection, which the kernel takes for those; from one that has been frozen for so long that nobody takes connections any more by the others, which would not be silent at the same time.`,
	Fix: probe.Fix{
		Says: "Let the loopback through: find the rule, or bring lo up.",
		Manifest: []string{
			"ssh {node} ip -br addr show lo",
			"ssh {node} \"sudo iptables-save | grep -E -- '-i lo|127\\.0\\.0\\.'; sudo nft list ruleset | grep -nE 'iif.*lo|127\\.0\\.0\\.'\"",
		},
		Radius: "this node only",
	},
	Explains: []string{"start-outlasts-budget", "felix-stuck", "kube-proxy-stuck", "kubelet-dead", "kubelet-frozen"},
	Match: func(f Findings) []Case {
		silent := silentAtHome(f)
		if len(silent) == 0 {
			return nil
		}
		c := Case{
			Says: "packets to " + silent[0].Facts.Str(probe.FactAddress) + " on {node} itself vanish",
			For:  Suggests(silent), Covers: felixIll,
		}
		if len(silent) > 1 {
			c.Says = fmt.Sprintf("packets on {node}'s own loopback vanish: %d daemons that have nothing to do with each other do not even take a connection (%s)", len(silent), strings.Join(names(silent), ", "))
			c.For[1].Weight = hint
		} else if load := loads(f.Failed(host.NodeLoad.ID)); len(load) > 0 {
			c.Against = Hints(load)
		}
		if late := starved(f); len(late) > 0 { // the client itself is slow
			c.Against = append(c.Against, Suggests(late[:1])...)
		}
		// A node that is slow as a whole leaves its Unix sockets unanswered too, to which no packet goes.
		c.Against = append(c.Against, Suggests(keep(f.Failed(bgp.BirdSocket.ID), because("timeout")))...)
		return []Case{c}
	},
}

// elsewhere are the addresses at which Felix's port is open, other than the one that
// was asked: a port that opens meanwhile is none.
func elsewhere(r Finding) []string {
	return slices.DeleteFunc(slices.Clone(listOf(r, probe.FactListening)),
		func(at string) bool { return at == r.Facts.Str(probe.FactAddress) })
}

// components are the names of those Felix calls bad, over all answers of a check.
func components(fs []Finding) []string {
	var out []string
	for _, r := range fs {
		for _, of := range listOf(r, felix.FactBad) {
			name, _, _ := strings.Cut(of, " ")
			out = append(out, name)
		}
	}
	return out
}

// felixWaits is a Felix that lives and has no data from the datastore yet.
var felixWaits = &Rule{
	ID: "felix-waits", Layer: LayerCalico, Symptom: true, Title: "Felix waits for the datastore, or for Typha",
	Doc: `Felix answers as soon as it has read its own configuration: alive and not ready, until it has heard everything once. Readiness 503 with good liveness, of FelixStartup or CalculationGraph, is a Felix that waits for the datastore or for Typha.
Told from a data plane that hangs by liveness and by the component's name; why it waits, datastore-latency and typha-reach say.`,
	Fix: probe.Fix{
		Says:     "Mend the way to the datastore, or to Typha; Felix goes on by itself.",
		Manifest: []string{"kubectl -n {namespace} logs {pod} -c calico-node --tail=50 | grep -iE 'typha|datastore|unauthorized'"},
		Radius:   onlyReads,
	},
	Match: func(f Findings) []Case {
		unready := f.Failed(felix.FelixReady.ID)
		waiting := slices.DeleteFunc(components(unready), func(name string) bool {
			return name != "FelixStartup" && name != "CalculationGraph" && name != "felix-startup" && name != "async_calc_graph"
		})
		if len(waiting) == 0 || !f.Fine(felix.FelixLive.ID) {
			return nil
		}
		return []Case{{
			Says:   fmt.Sprintf("Felix lives and is not ready: %s has not heard everything from the datastore yet", waiting[0]),
			For:    append(Suggests(unready), Shows(f.Of(felix.FelixLive.ID))...),
			Covers: Covers(facts.CheckCalicoPod, felix.FelixReady.ID),
		}}
	},
}

// felixDataplaneLate is a part of Felix that has not reported in time.
var felixDataplaneLate = &Rule{
	ID: "felix-dataplane-late", Layer: LayerCalico, Title: "a component of Felix has not reported in time",
	Doc: `Each part of Felix has to report within its limit: InternalDataplaneMainLoop within 90 s, CalculationGraph within 30 s. The data plane's is late when writing rules takes long: another program holds the lock of iptables (/run/xtables.lock), there are tens of thousands of rules, or the CPU is short. Liveness is 503 then, and the kubelet kills calico-node, which writes all rules anew.
Told from a Felix that waits for the datastore by liveness, which is good there; from a frozen one by its answer.`,
	Fix: probe.Fix{
		Says: "See what holds it up; a longer limit keeps the kubelet from making it worse.",
		Manifest: []string{
			"ssh {node} sudo grep -H . /proc/locks  # who holds /run/xtables.lock, by inode",
			"kubectl -n {namespace} logs {pod} -c calico-node --tail=100 | grep -iE 'lock|timed out|took'",
		},
		OnlyIf: []probe.Conditional{
			{If: "what holds it up cannot go soon: the limit, on every node",
				Manifest: []string{`kubectl patch felixconfigurations.crd.projectcalico.org default --type merge -p '{"spec":{"dataplaneWatchdogTimeout":"5m"}}'`}},
		},
		Radius: "the limit: Felix restarts on every node; running pods keep their policy meanwhile",
	},
	Explains: []string{"start-outlasts-budget"},
	Match: func(f Findings) []Case {
		late := f.With(felix.FelixLive.ID, probe.FactCode, 503)
		which := components(late)
		if len(which) == 0 {
			return nil
		}
		c := Case{Says: fmt.Sprintf("%s of Felix has not reported in time, so its liveness is 503",
			strings.Join(slices.Compact(which), " and ")), For: Suggests(late), Covers: felixIll}
		c.For = append(c.For, Hints(unwell(f))...)
		return []Case{c}
	},
}

// felixStuck is a Felix that takes connections and answers none.
var felixStuck = &Rule{
	ID: "felix-stuck", Layer: LayerCalico, Title: "Felix accepts connections but does not respond",
	Doc: `The kernel takes connections for a process that is stopped, starved of CPU or deadlocked; the kubelet sees "context deadline exceeded". An answer comes within a millisecond otherwise.
Told from a dead Felix, which refuses; from a loopback that is cut off by the other daemons on it, which answer.`,
	Fix: probe.Fix{
		Says: "Keep what Felix logged last and look at the node's load and calico-node's CPU limit; then start calico-node on this node anew.",
		Manifest: []string{
			"kubectl logs -n {namespace} {pod} -c calico-node --tail 100  # a new pod takes it away",
			"ssh {node} top -b -n1 -o %CPU | head -20",
			restartCalico,
		},
		Radius: restartRadius,
	},
	RuledOut: []string{host.NodeLoad.ID, kubelet.KubeletHealth.ID, service.KubeProxyHealth.ID},
	Explains: []string{"start-outlasts-budget"},
	Match: func(f Findings) []Case {
		silent := slices.DeleteFunc(ofLiveness(f, "timeout"), func(r Finding) bool { return !bad(r.Status) })
		if len(silent) == 0 {
			return nil
		}
		c := Case{Says: "Felix is frozen: " + silent[0].Saw, For: Suggests(silent), Covers: felixIll}
		if silent[0].Facts[probe.FactTaken] == false {
			c.For[0].Weight = hint // see loopback-dropped
		}
		if kubelet := kubeletAnswers(f); len(kubelet) > 0 { // on the same loopback, and in time
			c.For = append(c.For, Hints(kubelet)...)
		} else if load := loads(f.Bad(host.NodeLoad.ID)); len(load) > 0 {
			c.Against = Hints(load)
		}
		return []Case{c}
	},
}

// kubeletAnswers is the kubelet's answer to a question by the network, where it gave no bad one; what
// is read of its files says nothing about the loopback or the load.
func kubeletAnswers(f Findings) []Finding {
	if !f.Fine(kubelet.KubeletHealth.ID) {
		return nil
	}
	all := keep(f.Of(kubelet.KubeletHealth.ID), func(r Finding) bool {
		return answered(r.Status) &&
			r.Target != kubelet.TargetCertificate && r.Target != kubelet.TargetAuthority && r.Target != kubelet.TargetState
	})
	return all[:min(len(all), 1)]
}

// felixLog is the way to why Felix ends where calico-log has no line of it.
var felixLog = probe.Fix{
	Says:     "Correct what calico-node logs as FATAL, PANIC or ERROR before Felix ends, then restart calico-node. This run has seen no such line.",
	Manifest: []string{"kubectl -n {namespace} logs {pod} -c calico-node --tail=100 | grep -E 'FATAL|PANIC|ERROR|Health endpoint failed'"},
	OnlyIf:   []probe.Conditional{{If: "its reason is gone, or the log has none", Manifest: []string{restartCalico}}},
	Radius:   restartRadius,
}

// lastError is the last error that calico-node's own container wrote. Where runit starts Felix again
// and again the container goes on, and nothing in its log ends.
func lastError(f Findings) []Finding {
	return keep(f.Of(logs.CalicoLog.ID), func(r Finding) bool {
		return r.Facts.Str(probe.FactOfContainer) == "calico-node" && r.Facts.Str(logs.FactLine) != ""
	})
}

// felixDown is a Felix that does not run in a container that does.
var felixDown = &Rule{
	ID: "felix-down", Layer: LayerCalico, Symptom: true, Title: "Felix is not running, or cannot open its health port",
	Doc: `Nothing listens on Felix's port at any address, start-up is over, and the node has time enough: Felix ends again and again and runit starts it anew ("Restarting to avoid leaking datastore connections", a setting it does not accept, a loose RPF check before v3.12), or it cannot bind the port.
Told from a start that is still at work by startup-budget, from a port elsewhere by what listens, from one that is off by the setting.`,
	Fix:      felixLog,
	RuledOut: []string{host.NodeLoad.ID, datastore.DatastoreLatency.ID},
	Match: func(f Findings) []Case {
		refused := slices.DeleteFunc(ofLiveness(f, "refused"), func(r Finding) bool {
			return !bad(r.Status) || len(elsewhere(r)) > 0
		})
		if len(refused) == 0 {
			return nil
		}
		c := Case{Says: "Felix does not run: nothing listens on its health port", For: Suggests(refused),
			Covers: felixIll}
		if over := f.With(start.StartupBudget.ID, start.FactOver, true); len(over) > 0 {
			c.Says = fmt.Sprintf("Felix does not answer although start-up is over: %s", over[0].Saw)
			c.For = append(c.For, Hints(over)...)
		}
		if short := cutShort(f); len(short) > 0 { // perhaps it never was started
			c.Against = Hints(short)
		}
		if wrote := lastError(f); len(wrote) > 0 {
			c.Says += "; the last error in its log: " + wrote[0].Facts.Str(logs.FactLine)
			c.For = append(c.For, Shows(wrote)...)
			c.Fix = &probe.Fix{Says: "Correct what the quoted line names, then restart calico-node. Felix logs a panic or a missing dependency before it exits.",
				Manifest: felixLog.Manifest, OnlyIf: felixLog.OnlyIf, Radius: felixLog.Radius}
		}
		return []Case{c}
	},
}
