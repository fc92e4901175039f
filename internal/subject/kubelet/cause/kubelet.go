package cause

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/internal/subject/kubelet"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/runtime"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// kubeletCertificate is a kubelet that the API server no longer knows.
var kubeletCertificate = &diagnose.Rule{
	ID: "kubelet-certificate", Layer: diagnose.LayerKubelet, Title: "the kubelet's client certificate has expired",
	Doc: `The kubelet shows a client certificate to the API server and renews it itself. The certificate expires where the node was off when it was due, or where no controller signs it. Then the API server answers every call with 401, or the kubelet ends at its start: to the API it looks like a dead kubelet.
Told from a cut network by the certificate itself; from a wrong clock, which makes a good certificate look old, by node-clock.`,
	Fix: probe.Fix{
		Says: "Have a new certificate issued for this node.",
		Manifest: []string{
			pendingCertificate,
			"ssh {node} sudo openssl x509 -noout -enddate -in /var/lib/kubelet/pki/kubelet-client-current.pem",
		},
		OnlyIf: []probe.Conditional{
			kubeadmCertificate,
			{If: "the new certificate, or that file, is on {node}",
				Manifest: []string{"ssh {node} sudo systemctl restart {kubelet}"}},
		},
		Radius: "this node's kubelet; running pods stay{together}",
	},
	Apart: true, RuledOut: []string{host.NodeClock.ID}, Explains: []string{"kubelet-dead", "kubelet-silent",
		"kubelet-cut-off", "kubelet-refused"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		expired := f.With(kubelet.KubeletHealth.ID, probe.FactReason, kubelet.CertificateExpired)
		if len(expired) == 0 {
			return nil
		}
		return []diagnose.Case{{
			Says: "the API server refuses {node}'s kubelet: " + expired[0].Saw,
			For: slices.Concat(diagnose.Suggests(expired), diagnose.Hints(f.Failed(facts.CheckNodeLease)),
				diagnose.Suggests(evidence.ServiceEnds(f, logs.ServiceKubelet, logs.SaysCertificate, logs.SaysNoKubeconfig))),
			// The kubelet may have renewed it elsewhere.
			Against: slices.Concat(diagnose.Suggests(diagnose.Good(f, facts.CheckNodeLease)),
				diagnose.Suggests(f.Failed(host.NodeClock.ID))),
			Covers: evidence.KubeletGone,
		}}
	},
}

// kubeletDead is a kubelet that does not run, whatever keeps it from that.
var kubeletDead = &diagnose.Rule{
	ID: "kubelet-dead", Layer: diagnose.LayerKubelet, Symptom: true, Title: "the kubelet is not running",
	Doc: `A kubelet that ended stops renewing its lease at once; 40 s later the lease has run out and the node is NotReady ("Kubelet stopped posting node status"), while its pods keep running and are still shown as Running. Its ports refuse connections, which tells it from a frozen kubelet and one that is cut from the API (connections are taken) and from a node that is cut off or off (no answer at all). Why it ended stands in its journal; swap-on, kubelet-certificate and disk-full are the reasons that can be seen from outside it.`,
	Fix: probe.Fix{
		Says: "Start the kubelet. If it exits again, its journal ends with the reason: a bad flag or configuration, an expired certificate, swap, or no runtime.",
		Manifest: []string{"ssh {node} sudo journalctl -u {kubelet} -n 50 --no-pager",
			"ssh {node} sudo systemctl restart {kubelet}"},
		Radius: "this node only; a kubelet that starts does not restart running pods{together}",
	},
	Wants: []string{kubelet.KubeletHealth.ID}, RuledOut: []string{host.NodeSwap.ID, runtime.CRIHealth.ID,
		host.NodeDisk.ID}, Explains: []string{"kubelet-silent"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		here, there := evidence.KubeletHere(f), evidence.FromOutside(f, evidence.KubeletPort)
		if !here.Dead() && len(there.Refused) == 0 {
			return nil
		}
		c := diagnose.Case{
			Says: "the kubelet does not run on {node}",
			For: slices.Concat(diagnose.Suggests(there.Refused), diagnose.Hints(f.Failed(facts.CheckNodeLease)),
				diagnose.Shows(f.Failed(facts.CheckNodeReady))),
			// A probe it has just started is of a kubelet that lives.
			Against: slices.Concat(diagnose.Proves(here.Ok), diagnose.Hints(diagnose.Good(f, facts.CheckNodeLease)),
				diagnose.Suggests(slices.DeleteFunc(evidence.NotPlaced(f, facts.ReasonAttach), evidence.SilentExec))),
			Covers: evidence.KubeletGone,
		}
		if here.Dead() {
			// One that has just ended has a lease yet.
			c.For, c.Against = append(diagnose.Proves(here.Refused), c.For...), nil
		} else {
			c.Fix = whyKubeletDead
		}
		c.Says += evidence.Since(f)
		for _, r := range f.With(logs.DaemonLog.ID, logs.FactStopped, true) {
			if r.Target == logs.ServiceKubelet {
				c.Says, c.For = c.Says+"; "+r.Saw, append(c.For, diagnose.Shows([]diagnose.Finding{r})...)
			}
		}
		return []diagnose.Case{c}
	},
}

// kubeletRestarts is kubernetes-sigs/kubespray#8535.
var kubeletRestarts = &diagnose.Rule{
	ID: "kubelet-restarts", Layer: diagnose.LayerKubelet, Title: "the kubelet keeps exiting and starting again",
	Doc: `A kubelet that exits some seconds after its start renews its lease each time, so the node stays Ready or flaps, while no pod starts and logs and exec are refused. Usual reasons are a state file that contradicts a changed configuration (cpu_manager_state after a switch of cpuManagerPolicy, memory_manager_state), a container runtime that refuses it, and a certificate that it may not write. Those that end it before it registers, such as a wrong flag or swap, let the lease run out instead.
Told from a runtime that hangs by the kubelet's own events: one for each start.`,
	Fix: probe.Fix{
		Says:     "Read why it exits: its log ends with the reason each time, for example a saved state of the CPU manager that contradicts a changed configuration, or a port that another process has.",
		Manifest: append([]string{"ssh {node} sudo journalctl -u {kubelet} -n 50 --no-pager"}, managerState.Manifest...),
		Radius:   evidence.OnlyReads,
	},
	RuledOut: []string{facts.CheckNodeLease},
	Explains: []string{"kubelet-dead", "kubelet-silent", "runtime-stuck"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		starts := diagnose.Keep(restarted(f), func(r diagnose.Finding) bool { // else it may have been stopped since
			age, known := r.Facts.Num(facts.Age)
			return known && age < stillStarting
		})
		refused := evidence.FromOutside(f, evidence.KubeletPort).Refused
		if len(starts) == 0 || len(refused)+len(evidence.NotPlaced(f, facts.ReasonKubelet)) == 0 {
			return nil
		}
		weight := diagnose.Strong
		if len(refused) > 0 {
			weight = diagnose.Proof
		}
		return []diagnose.Case{{
			Says: "the kubelet on {node} exits soon after each start: it" + strings.TrimPrefix(starts[0].Saw, "the kubelet"),
			For: slices.Concat(diagnose.Clues(weight, starts), diagnose.Hints(refused),
				diagnose.Hints(evidence.NotPlaced(f, facts.ReasonKubelet))),
			// It may have recovered since.
			Against: diagnose.Suggests(evidence.KubeletHere(f).Ok), Covers: append(diagnose.Covers(facts.CheckNodeReady),
				evidence.KubeletGone...),
		}}
	},
}

// stillStarting is how many seconds ago a kubelet that keeps exiting has started at most: systemd waits ten, and more
// each time on some distributions.
const stillStarting = 120

// restarted is the API's answer that the kubelet has started too often lately.
func restarted(f diagnose.Findings) []diagnose.Finding {
	return diagnose.Keep(f.Bad(facts.CheckNodeReady), diagnose.About("kubelet"))
}

// kubeletFrozen is a kubelet whose process is there and does nothing.
var kubeletFrozen = &diagnose.Rule{
	ID: "kubelet-frozen", Layer: diagnose.LayerKubelet, Title: "the kubelet runs but is frozen",
	Doc: `The process is there, so the kernel takes connections to its ports, and nobody answers: it is stopped, starved of CPU, or all its threads wait for a disk. Its lease runs out as if it were dead. Where only its loop hangs it still answers, with 500 and "syncloop": mostly it waits for the container runtime then.
Told from a kubelet that is well and cut off from the API by any answer of it: on the node, to another node, or a session with a probe that leads through it. Where none of these was tried both are named.`,
	Fix: probe.Fix{
		Says: "Restart the kubelet. In state D it waits for a disk: restore that first, because it cannot be killed until then.",
		Manifest: []string{"ssh {node} ps -o pid,stat,wchan:32,etime -C kubelet  # T: stopped; D: waits for a disk",
			"ssh {node} sudo systemctl restart {kubelet}"},
		Radius: "this node only; a kubelet that starts does not restart running pods{together}",
	},
	Wants: []string{kubelet.KubeletHealth.ID}, RuledOut: []string{runtime.CRIHealth.ID, host.NodeLoad.ID},
	Explains: []string{"kubelet-silent"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		here, there := evidence.KubeletHere(f), evidence.FromOutside(f, evidence.KubeletPort)
		lease, over := f.Bad(facts.CheckNodeLease), f.Failed(facts.CheckNodeLease)
		contradicted, _ := evidence.Witnesses(f)
		lives, mute := kubeletLives(f), speaks(there.Open, false)
		c := diagnose.Case{Covers: evidence.KubeletGone}
		switch {
		case len(here.Silent) > 0 && len(here.Ok) == 0:
			if len(lives) > 0 {
				return nil
			}
			c.Says = "the kubelet on {node} accepts connections and answers no request: it is frozen" + evidence.Since(f)
			c.For = slices.Concat(diagnose.Proves(here.Silent), diagnose.Hints(over),
				diagnose.Suggests(evidence.NotPlaced(f, facts.ReasonKubelet)))
			c.Against = slices.Concat(diagnose.Suggests(diagnose.Good(f, facts.CheckNodeLease)),
				diagnose.Hints(f.Failed(host.NodeLoad.ID)))
		case len(here.Ill) > 0:
			c.Says = "the kubelet on {node} runs, and says itself that it is not well: " + here.Ill[0].Saw
			c.For = diagnose.Suggests(here.Ill)
		case here.Answered() || len(there.Open) == 0 || len(over)+min(len(lease), len(mute)) == 0 || len(lives) > 0:
			return nil
		case len(mute) > 0:
			c.Says = "the kubelet's port on {node} accepts connections and answers no request" + saying(mute) +
				", and the kubelet has not reported" + evidence.Since(f) + ": it is frozen"
			c.For, c.Against = slices.Concat(diagnose.Suggests(lease), diagnose.Suggests(mute)), diagnose.Hints(contradicted)
		default:
			c.Says = "the kubelet's port on {node} accepts connections" + saying(there.Open) +
				" and the kubelet has not reported" + evidence.Since(f) + ": it is frozen, or cut off from the API"
			c.For, c.Against = slices.Concat(diagnose.Suggests(lease), diagnose.Hints(there.Open)), diagnose.Hints(contradicted)
		}
		return []diagnose.Case{c}
	},
}

// kubeletCutOff is a kubelet that is well and whose reports do not arrive.
var kubeletCutOff = &diagnose.Rule{
	ID: "kubelet-cut-off", Layer: diagnose.LayerKubelet, Open: true, Title: "the kubelet runs but cannot reach the API server",
	Doc: `The kubelet answers on its own ports and its lease runs out all the same: the kubelet starts no new pod either, and its way to the API server is broken (firewall, load balancer, DNS of the server's name, route), or it is refused there (its client certificate has expired, its credentials are of another cluster). The node is NotReady with everything on it well.
Told from a dead or frozen kubelet by what it answers on the node itself; from a node that is cut off altogether by its neighbours, whom it answers. Where the API servers answer a probe on the same node, what is broken is particular to the kubelet: the server in its kubeconfig, a proxy, its certificate.`,
	Fix: probe.Fix{
		Says: "Restore the kubelet's connection to the API server, or renew its certificate. Its log shows which of the two fails.",
		Manifest: []string{
			"ssh {node} sudo journalctl -u {kubelet} -n 50 --no-pager",
			"ssh {node} sudo openssl x509 -noout -enddate -in /var/lib/kubelet/pki/kubelet-client-current.pem",
			"ssh {node} sudo grep server: /etc/kubernetes/kubelet.conf  # then from the node: curl -sk --max-time 5 THAT/readyz",
		},
		Radius: evidence.OnlyReads,
	},
	Apart: true, Wants: []string{kubelet.KubeletHealth.ID}, RuledOut: []string{link.NodeUplink.ID, host.NodeClock.ID},
	Explains: []string{"kubelet-silent", "api-cut-off"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		here, there := evidence.KubeletHere(f), evidence.FromOutside(f, evidence.KubeletPort)
		lease := f.Failed(facts.CheckNodeLease)
		contradicted, _ := evidence.Witnesses(f)
		lives := kubeletLives(f)
		unreached := evidence.ToServers(f.Failed(datastore.DatastoreLatency.ID))
		c := diagnose.Case{Covers: append(diagnose.Covers(datastore.DatastoreLatency.ID), evidence.KubeletGone...)}
		switch {
		case len(lease) == 0, len(evidence.StartsPods(f)) > 0: // then see kubelet-refused
			return nil
		case len(here.Ok) > 0 && len(here.Silent) == 0 && len(here.Refused) == 0:
			c.Says = "the kubelet on {node} works, and the API server has had no report of it" + evidence.Since(f)
			if len(unreached) > 0 {
				c.Says += "; from this node, " + unreached[0].Target + ": " + unreached[0].Saw
			}
			if says := evidence.ServiceWrites(f, logs.ServiceKubelet, logs.SaysNoAPI, logs.SaysUnauthorized,
				logs.SaysCertificate, logs.SaysAuthority); len(says) > 0 {
				c.Says += "; " + says[0].Saw
				c.For = diagnose.Hints(says)
			}
			c = deadConnection(f, c)
			// That it is cut off is known where its way is seen broken; else the API may refuse what it writes.
			c.For = slices.Concat(diagnose.Suggests(here.Ok[:1]), diagnose.Shows(lease), diagnose.Hints(unreached),
				diagnose.Hints(evidence.NotPlaced(f, facts.ReasonKubelet)), c.For)
			c.Against = diagnose.Suggests(f.Failed(host.NodeClock.ID)) // then each certificate looks old to the other
		case len(lives) > 0 && len(here.Ill)+len(here.Refused)+len(there.Refused) == 0:
			c.Says = "the kubelet on {node} answers, and the API server has had no report of it" + evidence.Since(f) +
				": its way to the API server is broken, or its certificate or credentials are refused there"
			c.For = slices.Concat(diagnose.Suggests(lives), diagnose.Suggests(lease), diagnose.Hints(unreached))
		case !here.Answered() && len(there.Open) > 0 && len(speaks(there.Open, false)) == 0:
			c.Says = "the kubelet's port on {node} accepts connections" + saying(there.Open) +
				" and the kubelet has not reported" + evidence.Since(f) + ": it is cut off from the API, or frozen"
			c.For, c.Against = slices.Concat(diagnose.Suggests(lease), diagnose.Hints(there.Open)), diagnose.Hints(contradicted)
		default:
			return nil
		}
		return []diagnose.Case{c}
	},
}

// nodeUnreachable is a node that is off, or as good as off.
var nodeUnreachable = &diagnose.Rule{
	ID: "node-unreachable", Layer: diagnose.LayerMachine, Symptom: true, Title: "the node is off, or cut off from the network",
	Doc: `No neighbour gets any answer from the node: not to a ping, and no port takes or refuses a connection. Even a node whose kubelet, runtime and BIRD are all dead answers a ping and refuses connections, so it is the machine, its NIC, its switch port or a firewall before all of it. Whether it is off cannot be told from outside; its console tells.
"Unreachable" from a neighbour on the same link means that nobody answers for the address there; silence alone could be a firewall between the nodes, together with a kubelet that ended, and is believed less.`,
	Fix: probe.Fix{
		Says: "Start the machine if its console or cloud shows it as off. If it runs, restore its link: switch port, VLAN or virtual NIC.",
		Manifest: []string{
			"kubectl describe node {node}  # its addresses, its provider's name for it",
		},
		OnlyIf: []probe.Conditional{
			{If: "the machine is gone for good: its pods start elsewhere then, and its peers forget it",
				Manifest: []string{"kubectl delete node {node}"}},
		},
		Radius: "reading changes nothing; deleting the Node object deletes its pods from the API and starts them elsewhere: only when the machine is surely off, or two of each will run",
	},
	Explains: []string{"kubelet-silent", "kubelet-dead"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		silent, heard := evidence.Witnesses(f)
		if len(silent) == 0 || len(evidence.Askers(heard)) > 1 {
			return nil
		}
		weight := diagnose.Strong
		if len(silent) == len(diagnose.Keep(silent, diagnose.Because("host-unreachable", "net-unreachable"))) &&
			len(f.Failed(facts.CheckNodeLease)) > 0 {
			weight = diagnose.Proof
		}
		c := diagnose.Case{
			Says: fmt.Sprintf("{node} answers none of its neighbours (%s)%s: the machine is off, or cut off from the network", strings.Join(evidence.Askers(silent), ", "), evidence.Since(f)),
			For: slices.Concat(diagnose.Clues(weight, silent), diagnose.Shows(f.Failed(facts.CheckNodeLease)),
				diagnose.Shows(f.Failed(facts.CheckNodeReady))),
			Against: slices.Concat(diagnose.Suggests(diagnose.Good(f, facts.CheckNodeLease)),
				diagnose.Proves(diagnose.Good(f, probe.CheckPlaced))),
			Covers: evidence.KubeletGone,
		}
		if len(heard) > 0 { // one of them is wrong, or something lies between
			c.For[0].Weight, c.Against = diagnose.Strong, append(c.Against, diagnose.Hints(heard)...)
			c.Says = fmt.Sprintf("{node} does not answer %s%s, and %s says that it does: it is cut off from a part of the network, or one of them does not say the truth",
				strings.Join(evidence.Askers(silent), ", "), evidence.Since(f), heard[0].Node)
		}
		return []diagnose.Case{c}
	},
}
