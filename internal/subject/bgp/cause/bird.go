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
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/internal/subject/start"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// deaf are the families whose BIRD does not answer.
func deaf(f diagnose.Findings) []diagnose.Finding {
	return diagnose.Keep(f.Failed(bgp.BirdSocket.ID), func(r diagnose.Finding) bool { return diagnose.FamilyOf(r) != 0 })
}

// unsettled tells whether calico-node starts, or is killed before its start is over:
// then no daemon of it that is not there is a fault of its own.
func unsettled(f diagnose.Findings) bool {
	return len(evidence.CutShort(f)) > 0 || len(f.With(start.StartupBudget.ID, start.FactOver, false)) > 0
}

// birdSocketGone is a BIRD that works and that nobody can ask.
var birdSocketGone = &diagnose.Rule{
	ID: "bird-socket-gone", Layer: diagnose.LayerCalico, Title: "BIRD runs, but its control socket is gone",
	Doc: `Somebody or something deleted bird.ctl or bird6.ctl below /var/run/calico: a clean-up of /run, another calico-node that was started beside it, a volume that was unmounted. BIRD runs on and keeps its sessions and routes; but calico-node's readiness probe asks by that socket, so the pod is not ready, and nobody can ask BIRD for its state. It makes the socket when it starts, never later.
Told from a BIRD that does not run by its process, and by a session that is up.`,
	Fix: evidence.StartAnew, RuledOut: []string{link.NodeUplink.ID, felix.FelixLive.ID}, Explains: []string{"bird-dead"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		var out []diagnose.Case
		for _, socket := range deaf(f) {
			family := diagnose.FamilyOf(socket)
			up := diagnose.Keep(f.Of(bgp.BGPPort.ID), func(r diagnose.Finding) bool {
				return diagnose.FamilyOf(r) == family && r.Facts[probe.FactSessionUp] == true
			})
			runs := diagnose.Keep(evidence.BirdOf(f, bgp.BirdConfig.ID, family), func(r diagnose.Finding) bool {
				pid, _ := r.Facts.Num(probe.FactPID)
				return r.Status == probe.OK && pid > 0 && r.Facts[bgp.FactRuns] != false
			})
			if diagnose.ReasonOf(socket) != "missing" || len(up) == 0 || len(runs) == 0 {
				continue
			}
			out = append(out, diagnose.Case{
				About: diagnose.FamilyName(family), Family: family, For: append(diagnose.Suggests([]diagnose.Finding{socket}),
					diagnose.Hints(up[:1])...),
				Says: "BIRD for " + diagnose.FamilyName(family) + " runs on {node} and has sessions, and its control socket is gone: calico-node " +
					"is not ready for that alone",
				Covers: append(diagnose.Covers(bgp.BGPExpected.ID, bgp.BGPSession.ID), evidence.Unready(f)...),
			})
		}
		return out
	},
}

// birdDead is a BIRD that is not there, whatever ended it.
var birdDead = &diagnose.Rule{
	ID: "bird-dead", Layer: diagnose.LayerCalico, Symptom: true, Title: "BIRD is not running on this node, or hangs",
	Doc: `The socket is there and nobody listens: BIRD ended and left it behind; or it takes the connection and says nothing: it is frozen, or starved of CPU. The routes it wrote stay in the kernel (persist), so pods are often still reached while calico-node is not ready, until a route changes. Peers see "Connection refused" or "Connection closed", and their sessions are well as soon as it lives again.
Told from a BIRD that was never configured by confd's file, from a port that another program holds by who listens on it, and from a firewall by its own socket, which no packet takes part in.`,
	Fix: evidence.StartAnew, Wants: []string{bgp.BirdSocket.ID}, RuledOut: []string{link.NodeUplink.ID, link.NodePing.ID,
		felix.FelixLive.ID},
	Match: func(f diagnose.Findings) []diagnose.Case {
		var out []diagnose.Case
		for _, socket := range deaf(f) {
			family := diagnose.FamilyOf(socket)
			says := "BIRD for " + diagnose.FamilyName(family) + " does not run on {node}: its socket is there and nobody listens"
			switch diagnose.ReasonOf(socket) {
			case "refused":
			case "timeout":
				says = "BIRD for " + diagnose.FamilyName(family) + " on {node} hangs: it takes connections and does not speak"
			case "missing":
				says = "BIRD for " + diagnose.FamilyName(family) + " has not started on {node}"
			default:
				continue
			}
			c := diagnose.Case{About: diagnose.FamilyName(family), Family: family, Says: says,
				For:    diagnose.Suggests([]diagnose.Finding{socket}),
				Covers: evidence.PathFollows(f, family, "")}
			c.Covers = append(c.Covers, diagnose.Covers(bgp.BirdConfig.ID, bgp.BGPExpected.ID)...)
			pod := diagnose.Keep(f.Bad(facts.CheckCalicoPod),
				func(r diagnose.Finding) bool { return r.Facts.Str(facts.APIReason) == "" })
			ended := diagnose.Keep(evidence.BirdOf(f, bgp.BirdConfig.ID, family),
				func(r diagnose.Finding) bool { return r.Facts[bgp.FactRuns] == false })
			sure := diagnose.Hint
			if unsettled(f) {
				sure = 0
			}
			if len(ended) > 0 {
				c.For = append(c.For, diagnose.Clues(sure, ended)...)
			} else {
				c.For = append(c.For, diagnose.Clues(sure, pod)...)
			}
			if late := evidence.Starved(f); len(late) > 0 { // the client itself is slow
				c.Against = diagnose.Suggests(late[:1])
			}
			out = append(out, c)
		}
		return out
	},
}

// birdUnfed is a BIRD without a configuration.
var birdUnfed = &diagnose.Rule{
	ID: "bird-unfed", Layer: diagnose.LayerCalico, Symptom: true, Title: "confd has not written BIRD's configuration",
	Doc: `BIRD ends at every start ("Unable to open configuration file"), for confd has not finished its first rendering: it waits for Typha or for the API server. BIRD is blamed and is well. Look at what confd waits for: typha-reach, datastore-latency, and the log of calico-node. While calico-node starts, or is killed before its start is over, this is no more than a part of that.`,
	Fix: probe.Fix{
		Says: "Restore what confd waits for: Typha or the API server, as this node reaches it.",
		Manifest: []string{"kubectl -n {namespace} logs {pod} -c calico-node --tail=200 | grep -i -e confd -e typha",
			"kubectl -n {namespace} get pods,endpoints -l k8s-app=calico-typha -o wide"},
		Radius: evidence.OnlyReads,
	},
	RuledOut: []string{link.NodeUplink.ID}, Explains: []string{"bird-dead", "bgp-peers-missing"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		var out []diagnose.Case
		for _, file := range diagnose.Keep(f.Failed(bgp.BirdConfig.ID), func(r diagnose.Finding) bool {
			return diagnose.ReasonOf(r) == "missing" ||
				diagnose.ReasonOf(r) == "empty"
		}) {
			// Seconds of this are part of every start; then why the start does not end is the cause.
			weight := diagnose.Proof
			if unsettled(f) || len(f.Bad(felix.FelixReady.ID)) > 0 {
				weight = diagnose.Strong // Felix does not get what confd waits for either
			}
			out = append(out, diagnose.Case{
				About: diagnose.FamilyName(diagnose.FamilyOf(file)), Family: diagnose.FamilyOf(file),
				Says: "confd on {node} has not written what BIRD is to do, so BIRD cannot run or has no peers",
				For:  diagnose.Clues(weight, []diagnose.Finding{file}),
				Covers: append(evidence.PathFollows(f, diagnose.FamilyOf(file), ""),
					diagnose.Covers(bgp.BirdSocket.ID, bgp.BGPExpected.ID, datastore.TyphaReach.ID)...),
			})
		}
		return out
	},
}

// birdProbe is a probe that asks for what is not meant to run.
var birdProbe = &diagnose.Rule{
	ID: "bird-probe", Layer: diagnose.LayerCalico, Title: "calico-node's probe checks BIRD, which is not meant to run here",
	Doc: `The networking backend is vxlan or none, so calico-node runs no BIRD, and its readiness or liveness probe still has -bird-ready or -bird-live, as in a manifest that was changed in one of the two places only. The pod is never ready, or is killed again and again, while pods' traffic is well.`,
	Fix: probe.Fix{
		Says:     "Take -bird-ready and -bird-live out of the probes, or set the backend back to bird.",
		Manifest: []string{"kubectl -n {namespace} edit daemonset {daemonset}   # readinessProbe and livenessProbe: leave -felix-ready and -felix-live"},
		Operator: []string{"kubectl get installation default -o jsonpath='{.spec.calicoNetwork.bgp}'   # the operator writes the probes by this"},
		Radius:   "every node: calico-node restarts on one after the other; pods keep running",
	},
	Match: func(f diagnose.Findings) []diagnose.Case {
		pod := diagnose.Keep(f.Bad(facts.CheckCalicoPod),
			func(r diagnose.Finding) bool { return diagnose.ReasonOf(r) == facts.ReasonBirdProbe })
		if len(pod) == 0 {
			return nil
		}
		return []diagnose.Case{{Says: "calico-node of {node} is not ready because its probe asks for a BIRD, which this networking backend does not run", For: diagnose.Proves(pod)}}
	},
}

// dropBlocker is the fix where one of the peers is a Node whose kubelet is silent.
var dropBlocker = &probe.Fix{
	Says:     "Wait the time that is left; then take away what it waited for: bring {gone} back, or delete its Node if its machine is gone for good.",
	Manifest: []string{"kubectl describe node {gone}"},
	OnlyIf: []probe.Conditional{
		{If: "the machine of {gone} is gone for good", Manifest: []string{"kubectl delete node {gone}"}},
	},
	Radius: "waiting: nothing. Deleting the Node takes its pods out of the API and its peer out of every BIRD; the other sessions stay",
}

// bgpRestartHold is the trap of graceful restart.
var bgpRestartHold = &diagnose.Rule{
	ID: "bgp-restart-hold", Layer: diagnose.LayerPeers,
	Title: "BIRD withholds all routes until every peer is up (graceful restart)",
	Doc:   `Calico starts BIRD in recovery (-R): until every peer is up and has sent all its routes, or 240 s have passed, not one BGP route enters the kernel, though sessions are Established and BIRD knows the routes. One peer that never comes up (a Node whose machine is gone, a wrong address) costs every restart of calico-node the whole time: after a reboot the node has no routes to pods for four minutes. Where the machine of a peer that it waits for answers and its session does not come up all the same (a firewall, a password, an AS number), that is the reason, and this follows from it. Told from routes that were lost by BIRD's own word for it, and by the clock: it ends by itself.`,
	Fix: probe.Fix{
		Says: "Wait the time that is left; then mend the sessions it waited for, or the next start waits as long.",
		Manifest: []string{"kubectl get nodes -o wide", "kubectl get bgppeers.crd.projectcalico.org -o wide",
			"calico-probe run --node {node} --checks bgp,node-ping"},
		Radius: evidence.OnlyReads,
	},
	Explains: []string{"peer-down", "route-not-in-kernel"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		var out []diagnose.Case
		for _, whole := range diagnose.Keep(f.Bad(bgp.BGPSession.ID), func(r diagnose.Finding) bool {
			_,
				held := r.Facts.Num(bgp.FactWaitLeft)
			return held
		}) {
			left, _ := whole.Facts.Num(bgp.FactWaitLeft)
			var names []string
			weight, blockers := diagnose.Proof, diagnose.ListOf(whole, bgp.FactBlockers)
			if slices.ContainsFunc(downSessions(f), func(s session) bool {
				return s.answers() && slices.Contains(blockers, s.Facts.Str(bgp.FactPeer))
			}) {
				weight = diagnose.Strong // that machine lives: why its session does not come up is the reason
			}
			if len(evidence.WrongAddresses(f, diagnose.FamilyOf(whole))) > 0 {
				weight = diagnose.Strong // sessions are opened to an address that the other node does not use
			}
			c := diagnose.Case{About: diagnose.FamilyName(diagnose.FamilyOf(whole)), Family: diagnose.FamilyOf(whole),
				For:    diagnose.Clues(weight, []diagnose.Finding{whole}),
				Covers: evidence.PathFollows(f, diagnose.FamilyOf(whole), "")}
			for _, blocker := range blockers {
				name := blocker
				for _, s := range f.Of(bgp.BGPSession.ID) {
					if s.Facts.Str(bgp.FactPeer) == blocker && s.Target != "" {
						name = s.Target
						if s.Facts.Str(probe.FactNodeState) == probe.NodeSilent {
							c.Args, c.Fix = map[string]diagnose.Arg{"gone": diagnose.NodeArg(diagnose.NodeOf(s))}, dropBlocker
						}
						if diagnose.IsBad(s.Status) {
							c.For = append(c.For, diagnose.Shows([]diagnose.Finding{s})...)
						}
					}
				}
				names = append(names, name)
			}
			c.Says = fmt.Sprintf("BIRD on {node} restarted and keeps every BGP route out of the kernel for up to %.0f s more",
				left)
			if len(names) > 0 {
				c.Says += ", waiting for " + strings.Join(names, ", ")
			}
			c.For = append(c.For, diagnose.Shows(diagnose.Keep(f.Bad(route.RouteBlocks.ID),
				func(r diagnose.Finding) bool { return len(diagnose.ListOf(r, route.FactInBIRD)) > 0 }))...)
			out = append(out, c)
		}
		return out
	},
}

// bgpPeersMissing are peers BIRD was never told of.
var bgpPeersMissing = &diagnose.Rule{
	ID: "bgp-peers-missing", Layer: diagnose.LayerCalico, Title: "BIRD lacks peers that Calico's resources configure",
	Doc: `A peer BIRD does not have is in no list of sessions that are down. Either confd has not received it (it lost Typha or the API server, or it hangs) and the file is old, or the file is new and BIRD has not loaded it.`,
	Fix: evidence.StartAnew, Wants: []string{bgp.BirdConfig.ID},
	Match: func(f diagnose.Findings) []diagnose.Case {
		var out []diagnose.Case
		for _, r := range f.Failed(bgp.BGPExpected.ID) {
			lacks := diagnose.ListOf(r, probe.FactMissing)
			if len(lacks) == 0 {
				continue
			}
			c := diagnose.Case{
				About: diagnose.FamilyName(diagnose.FamilyOf(r)), Family: diagnose.FamilyOf(r),
				For:    diagnose.Suggests([]diagnose.Finding{r}),
				Covers: evidence.PathFollows(f, diagnose.FamilyOf(r), ""),
				Says: fmt.Sprintf("BIRD on {node} was not told of %s: confd does not follow Calico's resources",
					strings.Join(lacks, ", ")),
			}
			if old := diagnose.Keep(f.Failed(bgp.BirdConfig.ID), func(b diagnose.Finding) bool {
				return diagnose.ReasonOf(b) == "not-loaded" &&
					diagnose.FamilyOf(b) == diagnose.FamilyOf(r)
			}); len(old) > 0 {
				c.For = append(c.For, diagnose.Hints(old)...)
				c.Says = fmt.Sprintf("BIRD on {node} has not loaded the configuration that confd wrote, and lacks %s",
					strings.Join(lacks, ", "))
			}
			c.For = append(c.For, diagnose.Hints(f.Failed(datastore.TyphaReach.ID))...)
			out = append(out, c)
		}
		return out
	},
}
