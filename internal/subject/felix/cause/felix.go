package cause

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/felix"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/internal/subject/kubelet"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/internal/subject/start"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// unwell are the API's signs that calico-node suffers.
func unwell(f diagnose.Findings) []diagnose.Finding {
	return append(f.Failed(facts.CheckCalicoBudget), f.Bad(facts.CheckCalicoPod)...)
}

// localhostForeign is projectcalico/calico#2146 and #2880.
var localhostForeign = &diagnose.Rule{
	ID: "localhost-foreign", Layer: diagnose.LayerKernel, Apart: true,
	Title: "localhost resolves to another machine, so calico-node's probe fails",
	Doc: `Felix binds its health port to "localhost" and calico-node's probe asks it there. When the node's /etc/hosts, or a search domain with an answer for every name, gives another address for it, Felix cannot bind ("cannot assign requested address") or the kubelet asks another machine: "dial tcp 192.168.99.7:9099: connection refused" for the URL http://localhost:9099.
Told from a start that is too slow by the address, which is not this machine's loopback.`,
	Fix: probe.Fix{
		Says: "Make localhost this machine again, in the node's /etc/hosts; until then a literal address does without the name.",
		Manifest: []string{
			"ssh {node} grep -n localhost /etc/hosts  # wanted: 127.0.0.1 localhost",
		},
		OnlyIf: []probe.Conditional{
			{If: "the file is right now: the container has a copy of it", Manifest: []string{evidence.RestartCalico}},
			{
				If:       "it cannot be mended soon",
				Manifest: []string{"kubectl -n {namespace} set env ds/{daemonset} -c calico-node FELIX_HEALTHHOST=127.0.0.1"},
				Operator: []string{"# nothing else helps: the operator sets calico-node's variables back"},
			},
		},
		Radius: "the file: this node; the variable restarts calico-node on every node, one after the other",
	},
	Explains: []string{"start-outlasts-budget", "felix-down", "felix-stuck"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		foreign := evidence.OfLiveness(f, "foreign-address")
		if len(foreign) == 0 {
			return nil
		}
		c := diagnose.Case{Says: foreign[0].Saw, For: append(diagnose.Suggests(foreign), diagnose.Hints(unwell(f))...),
			Covers: evidence.FelixIll}
		if load := evidence.Loads(f.Failed(host.NodeLoad.ID)); len(load) > 0 {
			c.Against = diagnose.Hints(load) // either is enough, see start-under-load
		}
		return []diagnose.Case{c}
	},
}

// felixElsewhere is a health port at an address where the kubelet's probe does not ask.
var felixElsewhere = &diagnose.Rule{
	ID: "felix-elsewhere", Layer: diagnose.LayerCalico,
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
	Match: func(f diagnose.Findings) []diagnose.Case {
		var open []diagnose.Finding
		for _, r := range f.Bad(felix.FelixLive.ID) {
			if len(elsewhere(r)) > 0 {
				open = append(open, r)
			}
		}
		if len(open) == 0 {
			return nil
		}
		return []diagnose.Case{{
			Says: "calico-node's probe asks where nobody listens: " + open[0].Saw,
			For:  append(diagnose.Suggests(open), diagnose.Hints(unwell(f))...), Covers: evidence.FelixIll,
		}}
	},
}

// felixHealthOff is a health endpoint that is off while the probe asks it.
var felixHealthOff = &diagnose.Rule{
	ID: "felix-health-off", Layer: diagnose.LayerCalico,
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
	Match: func(f diagnose.Findings) []diagnose.Case {
		off, ill := evidence.OfLiveness(f, "disabled"), unwell(f)
		if len(off) == 0 || len(ill) == 0 {
			return nil // then nothing asks it
		}
		return []diagnose.Case{{
			Says: "Felix is set not to open its health port (healthEnabled is false), and calico-node's probe fails for it",
			For:  append(diagnose.Suggests(off), diagnose.Hints(ill)...), Covers: evidence.FelixIll,
		}}
	},
}

// loopbackDropped is projectcalico/calico#4372.
var loopbackDropped = &diagnose.Rule{
	ID: "loopback-dropped", Layer: diagnose.LayerKernel, Title: "the node drops packets on its own loopback",
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
	Match: func(f diagnose.Findings) []diagnose.Case {
		silent := evidence.SilentAtHome(f)
		if len(silent) == 0 {
			return nil
		}
		c := diagnose.Case{
			Says: "packets to " + silent[0].Facts.Str(probe.FactAddress) + " on {node} itself vanish",
			For:  diagnose.Suggests(silent), Covers: evidence.FelixIll,
		}
		if len(silent) > 1 {
			c.Says = fmt.Sprintf("packets on {node}'s own loopback vanish: %d daemons that have nothing to do with each other do not even take a connection (%s)", len(silent), strings.Join(diagnose.ChecksOf(silent), ", "))
			c.For[1].Weight = diagnose.Hint
		} else if load := evidence.Loads(f.Failed(host.NodeLoad.ID)); len(load) > 0 {
			c.Against = diagnose.Hints(load)
		}
		if late := evidence.Starved(f); len(late) > 0 { // the client itself is slow
			c.Against = append(c.Against, diagnose.Suggests(late[:1])...)
		}
		// A node that is slow as a whole leaves its Unix sockets unanswered too, to which no packet goes.
		c.Against = append(c.Against,
			diagnose.Suggests(diagnose.Keep(f.Failed(bgp.BirdSocket.ID), diagnose.Because("timeout")))...)
		return []diagnose.Case{c}
	},
}

// elsewhere are the addresses at which Felix's port is open, other than the one that
// was asked: a port that opens meanwhile is none.
func elsewhere(r diagnose.Finding) []string {
	return slices.DeleteFunc(slices.Clone(diagnose.ListOf(r, probe.FactListening)),
		func(at string) bool { return at == r.Facts.Str(probe.FactAddress) })
}

// components are the names of those Felix calls bad, over all answers of a check.
func components(fs []diagnose.Finding) []string {
	var out []string
	for _, r := range fs {
		for _, of := range diagnose.ListOf(r, felix.FactBad) {
			name, _, _ := strings.Cut(of, " ")
			out = append(out, name)
		}
	}
	return out
}

// felixWaits is a Felix that lives and has no data from the datastore yet.
var felixWaits = &diagnose.Rule{
	ID: "felix-waits", Layer: diagnose.LayerCalico, Symptom: true, Title: "Felix waits for the datastore, or for Typha",
	Doc: `Felix answers as soon as it has read its own configuration: alive and not ready, until it has heard everything once. Readiness 503 with good liveness, of FelixStartup or CalculationGraph, is a Felix that waits for the datastore or for Typha.
Told from a data plane that hangs by liveness and by the component's name; why it waits, datastore-latency and typha-reach say.`,
	Fix: probe.Fix{
		Says:     "Mend the way to the datastore, or to Typha; Felix goes on by itself.",
		Manifest: []string{"kubectl -n {namespace} logs {pod} -c calico-node --tail=50 | grep -iE 'typha|datastore|unauthorized'"},
		Radius:   evidence.OnlyReads,
	},
	Match: func(f diagnose.Findings) []diagnose.Case {
		unready := f.Failed(felix.FelixReady.ID)
		waiting := slices.DeleteFunc(components(unready), func(name string) bool {
			return name != "FelixStartup" && name != "CalculationGraph" && name != "felix-startup" && name != "async_calc_graph"
		})
		if len(waiting) == 0 || !f.Fine(felix.FelixLive.ID) {
			return nil
		}
		return []diagnose.Case{{
			Says:   fmt.Sprintf("Felix lives and is not ready: %s has not heard everything from the datastore yet", waiting[0]),
			For:    append(diagnose.Suggests(unready), diagnose.Shows(f.Of(felix.FelixLive.ID))...),
			Covers: diagnose.Covers(facts.CheckCalicoPod, felix.FelixReady.ID),
		}}
	},
}

// felixDataplaneLate is a part of Felix that has not reported in time.
var felixDataplaneLate = &diagnose.Rule{
	ID: "felix-dataplane-late", Layer: diagnose.LayerCalico, Title: "a component of Felix has not reported in time",
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
	Match: func(f diagnose.Findings) []diagnose.Case {
		late := f.With(felix.FelixLive.ID, probe.FactCode, 503)
		which := components(late)
		if len(which) == 0 {
			return nil
		}
		c := diagnose.Case{Says: fmt.Sprintf("%s of Felix has not reported in time, so its liveness is 503",
			strings.Join(slices.Compact(which), " and ")), For: diagnose.Suggests(late), Covers: evidence.FelixIll}
		c.For = append(c.For, diagnose.Hints(unwell(f))...)
		return []diagnose.Case{c}
	},
}

// felixStuck is a Felix that takes connections and answers none.
var felixStuck = &diagnose.Rule{
	ID: "felix-stuck", Layer: diagnose.LayerCalico, Title: "Felix accepts connections but does not respond",
	Doc: `The kernel takes connections for a process that is stopped, starved of CPU or deadlocked; the kubelet sees "context deadline exceeded". An answer comes within a millisecond otherwise.
Told from a dead Felix, which refuses; from a loopback that is cut off by the other daemons on it, which answer.`,
	Fix: probe.Fix{
		Says: "Keep what Felix logged last and look at the node's load and calico-node's CPU limit; then start calico-node on this node anew.",
		Manifest: []string{
			"kubectl logs -n {namespace} {pod} -c calico-node --tail 100  # a new pod takes it away",
			"ssh {node} top -b -n1 -o %CPU | head -20",
			evidence.RestartCalico,
		},
		Radius: evidence.RestartRadius,
	},
	RuledOut: []string{host.NodeLoad.ID, kubelet.KubeletHealth.ID, service.KubeProxyHealth.ID},
	Explains: []string{"start-outlasts-budget"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		silent := slices.DeleteFunc(evidence.OfLiveness(f, "timeout"),
			func(r diagnose.Finding) bool { return !diagnose.IsBad(r.Status) })
		if len(silent) == 0 {
			return nil
		}
		c := diagnose.Case{Says: "Felix is frozen: " + silent[0].Saw, For: diagnose.Suggests(silent),
			Covers: evidence.FelixIll}
		if silent[0].Facts[probe.FactTaken] == false {
			c.For[0].Weight = diagnose.Hint // see loopback-dropped
		}
		if kubelet := evidence.KubeletAnswers(f); len(kubelet) > 0 { // on the same loopback, and in time
			c.For = append(c.For, diagnose.Hints(kubelet)...)
		} else if load := evidence.Loads(f.Bad(host.NodeLoad.ID)); len(load) > 0 {
			c.Against = diagnose.Hints(load)
		}
		return []diagnose.Case{c}
	},
}

// felixLog is the way to why Felix ends where calico-log has no line of it.
var felixLog = probe.Fix{
	Says:     "Correct what calico-node logs as FATAL, PANIC or ERROR before Felix ends, then restart calico-node. This run has seen no such line.",
	Manifest: []string{"kubectl -n {namespace} logs {pod} -c calico-node --tail=100 | grep -E 'FATAL|PANIC|ERROR|Health endpoint failed'"},
	OnlyIf:   []probe.Conditional{{If: "its reason is gone, or the log has none", Manifest: []string{evidence.RestartCalico}}},
	Radius:   evidence.RestartRadius,
}

// felixDown is a Felix that does not run in a container that does.
var felixDown = &diagnose.Rule{
	ID: "felix-down", Layer: diagnose.LayerCalico, Symptom: true, Title: "Felix is not running, or cannot open its health port",
	Doc: `Nothing listens on Felix's port at any address, start-up is over, and the node has time enough: Felix ends again and again and runit starts it anew ("Restarting to avoid leaking datastore connections", a setting it does not accept, a loose RPF check before v3.12), or it cannot bind the port.
Told from a start that is still at work by startup-budget, from a port elsewhere by what listens, from one that is off by the setting.`,
	Fix:      felixLog,
	RuledOut: []string{host.NodeLoad.ID, datastore.DatastoreLatency.ID},
	Match: func(f diagnose.Findings) []diagnose.Case {
		refused := slices.DeleteFunc(evidence.OfLiveness(f, "refused"), func(r diagnose.Finding) bool {
			return !diagnose.IsBad(r.Status) || len(elsewhere(r)) > 0
		})
		if len(refused) == 0 {
			return nil
		}
		c := diagnose.Case{Says: "Felix does not run: nothing listens on its health port", For: diagnose.Suggests(refused),
			Covers: evidence.FelixIll}
		if over := f.With(start.StartupBudget.ID, start.FactOver, true); len(over) > 0 {
			c.Says = fmt.Sprintf("Felix does not answer although start-up is over: %s", over[0].Saw)
			c.For = append(c.For, diagnose.Hints(over)...)
		}
		if short := evidence.CutShort(f); len(short) > 0 { // perhaps it never was started
			c.Against = diagnose.Hints(short)
		}
		if wrote := evidence.LastError(f); len(wrote) > 0 {
			c.Says += "; the last error in its log: " + wrote[0].Facts.Str(logs.FactLine)
			c.For = append(c.For, diagnose.Shows(wrote)...)
			c.Fix = &probe.Fix{Says: "Correct what the quoted line names, then restart calico-node. Felix logs a panic or a missing dependency before it exits.",
				Manifest: felixLog.Manifest, OnlyIf: felixLog.OnlyIf, Radius: felixLog.Radius}
		}
		return []diagnose.Case{c}
	},
}
