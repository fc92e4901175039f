package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/internal/subject/kubelet"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/runtime"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// kubeletGone is what a kubelet that does not run leaves behind.
var kubeletGone = append(aboutService(logs.ServiceKubelet), Covers(facts.CheckNodeReady, facts.CheckNodeLease,
	facts.CheckNodeTaints, facts.CheckCalicoPod, facts.CheckControllers, facts.CheckPodsStart, facts.CheckPodsEnd,
	kubelet.KubeletHealth.ID)...)

// kubeletCertificate is a kubelet that the API server no longer knows.
var kubeletCertificate = &Rule{
	ID: "kubelet-certificate", Layer: LayerKubelet, Title: "the kubelet's client certificate has expired",
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
	Match: func(f Findings) []Case {
		expired := f.With(kubelet.KubeletHealth.ID, probe.FactReason, kubelet.CertificateExpired)
		if len(expired) == 0 {
			return nil
		}
		return []Case{{
			Says: "the API server refuses {node}'s kubelet: " + expired[0].Saw,
			For: slices.Concat(Suggests(expired), Hints(f.Failed(facts.CheckNodeLease)),
				Suggests(serviceEnds(f, logs.ServiceKubelet, logs.SaysCertificate, logs.SaysNoKubeconfig))),
			// The kubelet may have renewed it elsewhere.
			Against: slices.Concat(Suggests(good(f, facts.CheckNodeLease)), Suggests(f.Failed(host.NodeClock.ID))),
			Covers:  kubeletGone,
		}}
	},
}

// kubeletDead is a kubelet that does not run, whatever keeps it from that.
var kubeletDead = &Rule{
	ID: "kubelet-dead", Layer: LayerKubelet, Symptom: true, Title: "the kubelet is not running",
	Doc: `A kubelet that ended stops renewing its lease at once; 40 s later the lease has run out and the node is NotReady ("Kubelet stopped posting node status"), while its pods keep running and are still shown as Running. Its ports refuse connections, which tells it from a frozen kubelet and one that is cut from the API (connections are taken) and from a node that is cut off or off (no answer at all). Why it ended stands in its journal; swap-on, kubelet-certificate and disk-full are the reasons that can be seen from outside it.`,
	Fix: probe.Fix{
		Says: "Start the kubelet. If it exits again, its journal ends with the reason: a bad flag or configuration, an expired certificate, swap, or no runtime.",
		Manifest: []string{"ssh {node} sudo journalctl -u {kubelet} -n 50 --no-pager",
			"ssh {node} sudo systemctl restart {kubelet}"},
		Radius: "this node only; a kubelet that starts does not restart running pods{together}",
	},
	Wants: []string{kubelet.KubeletHealth.ID}, RuledOut: []string{host.NodeSwap.ID, runtime.CRIHealth.ID,
		host.NodeDisk.ID}, Explains: []string{"kubelet-silent"},
	Match: func(f Findings) []Case {
		here, there := kubeletHere(f), fromOutside(f, kubeletPort)
		if !here.dead() && len(there.refused) == 0 {
			return nil
		}
		c := Case{
			Says: "the kubelet does not run on {node}",
			For: slices.Concat(Suggests(there.refused), Hints(f.Failed(facts.CheckNodeLease)),
				Shows(f.Failed(facts.CheckNodeReady))),
			// A probe it has just started is of a kubelet that lives.
			Against: slices.Concat(Proves(here.ok), Hints(good(f, facts.CheckNodeLease)),
				Suggests(slices.DeleteFunc(notPlaced(f, facts.ReasonAttach), silentExec))), Covers: kubeletGone,
		}
		if here.dead() {
			// One that has just ended has a lease yet.
			c.For, c.Against = append(Proves(here.refused), c.For...), nil
		} else {
			c.Fix = whyKubeletDead
		}
		c.Says += since(f)
		for _, r := range f.With(logs.DaemonLog.ID, logs.FactStopped, true) {
			if r.Target == logs.ServiceKubelet {
				c.Says, c.For = c.Says+"; "+r.Saw, append(c.For, Shows([]Finding{r})...)
			}
		}
		return []Case{c}
	},
}

// kubeletRestarts is kubernetes-sigs/kubespray#8535.
var kubeletRestarts = &Rule{
	ID: "kubelet-restarts", Layer: LayerKubelet, Title: "the kubelet keeps exiting and starting again",
	Doc: `A kubelet that exits some seconds after its start renews its lease each time, so the node stays Ready or flaps, while no pod starts and logs and exec are refused. Usual reasons are a state file that contradicts a changed configuration (cpu_manager_state after a switch of cpuManagerPolicy, memory_manager_state), a container runtime that refuses it, and a certificate that it may not write. Those that end it before it registers, such as a wrong flag or swap, let the lease run out instead.
Told from a runtime that hangs by the kubelet's own events: one for each start.`,
	Fix: probe.Fix{
		Says:     "Read why it exits: its log ends with the reason each time, for example a saved state of the CPU manager that contradicts a changed configuration, or a port that another process has.",
		Manifest: append([]string{"ssh {node} sudo journalctl -u {kubelet} -n 50 --no-pager"}, managerState.Manifest...),
		Radius:   onlyReads,
	},
	RuledOut: []string{facts.CheckNodeLease},
	Explains: []string{"kubelet-dead", "kubelet-silent", "runtime-stuck"},
	Match: func(f Findings) []Case {
		starts := keep(restarted(f), func(r Finding) bool { // else it may have been stopped since
			age, known := r.Facts.Num(facts.Age)
			return known && age < stillStarting
		})
		refused := fromOutside(f, kubeletPort).refused
		if len(starts) == 0 || len(refused)+len(notPlaced(f, facts.ReasonKubelet)) == 0 {
			return nil
		}
		weight := strong
		if len(refused) > 0 {
			weight = proof
		}
		return []Case{{
			Says: "the kubelet on {node} exits soon after each start: it" + strings.TrimPrefix(starts[0].Saw, "the kubelet"),
			For:  slices.Concat(clues(weight, starts), Hints(refused), Hints(notPlaced(f, facts.ReasonKubelet))),
			// It may have recovered since.
			Against: Suggests(kubeletHere(f).ok), Covers: append(Covers(facts.CheckNodeReady), kubeletGone...),
		}}
	},
}

// stillStarting is how many seconds ago a kubelet that keeps exiting has started at most: systemd waits ten, and more
// each time on some distributions.
const stillStarting = 120

// restarted is the API's answer that the kubelet has started too often lately.
func restarted(f Findings) []Finding { return keep(f.Bad(facts.CheckNodeReady), about("kubelet")) }

// kubeletFrozen is a kubelet whose process is there and does nothing.
var kubeletFrozen = &Rule{
	ID: "kubelet-frozen", Layer: LayerKubelet, Title: "the kubelet runs but is frozen",
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
	Match: func(f Findings) []Case {
		here, there := kubeletHere(f), fromOutside(f, kubeletPort)
		lease := f.Failed(facts.CheckNodeLease)
		contradicted, _ := witnesses(f)
		lives, mute := kubeletLives(f), speaks(there.open, false)
		c := Case{Covers: kubeletGone}
		switch {
		case len(here.silent) > 0 && len(here.ok) == 0:
			if len(lives) > 0 {
				return nil
			}
			c.Says = "the kubelet on {node} accepts connections and answers no request: it is frozen" + since(f)
			c.For = slices.Concat(Proves(here.silent), Hints(lease),
				Suggests(notPlaced(f, facts.ReasonKubelet)))
			c.Against = slices.Concat(Suggests(good(f, facts.CheckNodeLease)), Hints(f.Failed(host.NodeLoad.ID)))
		case len(here.ill) > 0:
			c.Says = "the kubelet on {node} runs, and says itself that it is not well: " + here.ill[0].Saw
			c.For = Suggests(here.ill)
		case here.answered() || len(there.open) == 0 || len(lease) == 0 || len(lives) > 0:
			return nil
		case len(mute) > 0:
			c.Says = "the kubelet's port on {node} accepts connections and answers no request" + saying(mute) +
				", and the kubelet has not reported" + since(f) + ": it is frozen"
			c.For, c.Against = slices.Concat(Suggests(lease), Suggests(mute)), Hints(contradicted)
		default:
			c.Says = "the kubelet's port on {node} accepts connections" + saying(there.open) +
				" and the kubelet has not reported" + since(f) + ": it is frozen, or cut off from the API"
			c.For, c.Against = slices.Concat(Suggests(lease), Hints(there.open)), Hints(contradicted)
		}
		return []Case{c}
	},
}

// kubeletCutOff is a kubelet that is well and whose reports do not arrive.
var kubeletCutOff = &Rule{
	ID: "kubelet-cut-off", Layer: LayerKubelet, Open: true, Title: "the kubelet runs but cannot reach the API server",
	Doc: `The kubelet answers on its own ports and its lease runs out all the same: the kubelet starts no new pod either, and its way to the API server is broken (firewall, load balancer, DNS of the server's name, route), or it is refused there (its client certificate has expired, its credentials are of another cluster). The node is NotReady with everything on it well.
Told from a dead or frozen kubelet by what it answers on the node itself; from a node that is cut off altogether by its neighbours, whom it answers. Where the API servers answer a probe on the same node, what is broken is particular to the kubelet: the server in its kubeconfig, a proxy, its certificate.`,
	Fix: probe.Fix{
		Says: "Restore the kubelet's connection to the API server, or renew its certificate. Its log shows which of the two fails.",
		Manifest: []string{
			"ssh {node} sudo journalctl -u {kubelet} -n 50 --no-pager",
			"ssh {node} sudo openssl x509 -noout -enddate -in /var/lib/kubelet/pki/kubelet-client-current.pem",
			"ssh {node} sudo grep server: /etc/kubernetes/kubelet.conf  # then from the node: curl -sk --max-time 5 THAT/readyz",
		},
		Radius: onlyReads,
	},
	Apart: true, Wants: []string{kubelet.KubeletHealth.ID}, RuledOut: []string{link.NodeUplink.ID, host.NodeClock.ID},
	Explains: []string{"kubelet-silent", "api-cut-off"},
	Match: func(f Findings) []Case {
		here, there := kubeletHere(f), fromOutside(f, kubeletPort)
		lease := f.Failed(facts.CheckNodeLease)
		contradicted, _ := witnesses(f)
		lives := kubeletLives(f)
		unreached := toServers(f.Failed(datastore.DatastoreLatency.ID))
		c := Case{Covers: append(Covers(datastore.DatastoreLatency.ID), kubeletGone...)}
		switch {
		case len(lease) == 0, len(startsPods(f)) > 0: // then see kubelet-refused
			return nil
		case len(here.ok) > 0 && len(here.silent) == 0 && len(here.refused) == 0:
			c.Says = "the kubelet on {node} works, and the API server has had no report of it" + since(f)
			if len(unreached) > 0 {
				c.Says += "; from this node, " + unreached[0].Target + ": " + unreached[0].Saw
			}
			if says := serviceWrites(f, logs.ServiceKubelet, logs.SaysNoAPI, logs.SaysUnauthorized,
				logs.SaysCertificate, logs.SaysAuthority); len(says) > 0 {
				c.Says += "; " + says[0].Saw
				c.For = Hints(says)
			}
			c = deadConnection(f, c)
			// That it is cut off is known where its way is seen broken; else the API may refuse what it writes.
			c.For = slices.Concat(Suggests(here.ok[:1]), Shows(lease), Hints(unreached),
				Hints(notPlaced(f, facts.ReasonKubelet)), c.For)
			c.Against = Suggests(f.Failed(host.NodeClock.ID)) // then each certificate looks old to the other
		case len(lives) > 0 && len(here.ill)+len(here.refused)+len(there.refused) == 0:
			c.Says = "the kubelet on {node} answers, and the API server has had no report of it" + since(f) +
				": its way to the API server is broken, or its certificate or credentials are refused there"
			c.For = slices.Concat(Suggests(lives), Suggests(lease), Hints(unreached))
		case !here.answered() && len(there.open) > 0 && len(speaks(there.open, false)) == 0:
			c.Says = "the kubelet's port on {node} accepts connections" + saying(there.open) +
				" and the kubelet has not reported" + since(f) + ": it is cut off from the API, or frozen"
			c.For, c.Against = slices.Concat(Suggests(lease), Hints(there.open)), Hints(contradicted)
		default:
			return nil
		}
		return []Case{c}
	},
}

// nodeUnreachable is a node that is off, or as good as off.
var nodeUnreachable = &Rule{
	ID: "node-unreachable", Layer: LayerMachine, Symptom: true, Title: "the node is off, or cut off from the network",
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
	Match: func(f Findings) []Case {
		silent, heard := witnesses(f)
		if len(silent) == 0 || len(askers(heard)) > 1 {
			return nil
		}
		weight := strong
		if len(silent) == len(keep(silent, because("host-unreachable", "net-unreachable"))) &&
			len(f.Failed(facts.CheckNodeLease)) > 0 {
			weight = proof
		}
		c := Case{
			Says: fmt.Sprintf("{node} answers none of its neighbours (%s)%s: the machine is off, or cut off from the network", strings.Join(askers(silent), ", "), since(f)),
			For: slices.Concat(clues(weight, silent), Shows(f.Failed(facts.CheckNodeLease)),
				Shows(f.Failed(facts.CheckNodeReady))),
			Against: slices.Concat(Suggests(good(f, facts.CheckNodeLease)), Proves(good(f, probe.CheckPlaced))),
			Covers:  kubeletGone,
		}
		if len(heard) > 0 { // one of them is wrong, or something lies between
			c.For[0].Weight, c.Against = strong, append(c.Against, Hints(heard)...)
			c.Says = fmt.Sprintf("{node} does not answer %s%s, and %s says that it does: it is cut off from a part of the network, or one of them does not say the truth",
				strings.Join(askers(silent), ", "), since(f), heard[0].Node)
		}
		return []Case{c}
	},
}
