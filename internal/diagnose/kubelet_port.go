package diagnose

import (
	"regexp"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/subject/kubelet"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// kubeletPortBlocked is what makes kubectl exec, logs and attach hang too.
var kubeletPortBlocked = &Rule{
	ID: "kubelet-port-blocked", Layer: LayerKernel, Title: "the API server cannot reach the kubelet's port",
	Doc: `The probe's pod runs, so API and kubelet do speak, by the connection the kubelet opened. The other direction, from the API server to the kubelet's port 10250, does not work: kubectl exec, logs, attach and port-forward of this node's pods fail with it, and metrics are missing. A firewall or security group between control plane and node, a konnectivity or other tunnel that is down, or the wrong address of the node (the API server dials its InternalIP).
Told from a dead kubelet by the lease and by the pod that was started.`,
	Fix: probe.Fix{
		Says: "Let the API servers in to TCP 10250 of the node's InternalIP; look at the tunnel where there is one.",
		Manifest: []string{"kubectl get --raw /api/v1/nodes/{node}/proxy/healthz  # the API server's own words",
			"kubectl get node {node} -o wide  # the address it dials"},
		Radius: onlyReads,
	},
	RuledOut: []string{facts.CheckNodeLease, facts.CheckNodeReady},
	Match: func(f Findings) []Case {
		attach := notPlaced(f, facts.ReasonAttach)
		if len(attach) == 0 {
			return nil
		}
		weight, other := strong, keep(attach, func(r Finding) bool { return r.Facts[facts.Answered] == true })
		if !slices.ContainsFunc(attach, func(r Finding) bool { return !silentExec(r) }) {
			weight = hint
		}
		c := Case{
			Says: "pods start on {node} and the API server cannot talk to them: " + attach[0].Saw,
			For:  clues(weight, attach),
			// A kubelet that died in between, or that keeps exiting.
			Against: slices.Concat(Suggests(f.Failed(facts.CheckNodeLease)), Suggests(restarted(f))),
		}
		refused := keep(attach, func(r Finding) bool { return saysRefused.MatchString(r.Saw) })
		// Where other nodes get an answer, a connection that hangs may also be one that the kubelet does not serve, because
		// its own connection to the API server hangs.
		open := hint
		if len(refused)+len(other) == 0 {
			open = 0
		}
		c.For = append(c.For, clues(open, fromOutside(f, kubeletPort).open)...)
		switch {
		case len(other) > 0:
			c = answeredByOther(c, other)
		case len(refused) > 0:
			c.Says, c.Fix = "pods start on {node}, and its kubelet's port refuses the API server: "+refused[0].Saw, portRefused
		}
		if here := kubeletHere(f); len(here.ok) > 0 { // a firewall on the node stands before its own questions too
			for _, r := range slices.Concat(here.refused, here.silent) {
				c.Covers = append(c.Covers, Cover{Check: r.Check, About: r.Target})
			}
		}
		return []Case{c}
	},
}

// saysRefused is the API server's word that the connection was refused, rather than lost.
var saysRefused = regexp.MustCompile(`:10250: connect: connection refused`)

// portRefused is the fix of a port that is closed, or that a firewall rejects.
var portRefused = &probe.Fix{
	Says: "Check whether the kubelet listens at that address and port, whether the address is this node's, and which firewall rule rejects the connection.",
	Manifest: []string{"kubectl get node {node} -o wide  # the address that the API server dials",
		"ssh {node} sudo ss -ltnp sport = :10250",
		"ssh {node} 'sudo iptables-save | grep -e 10250 -e REJECT; sudo nft list ruleset | grep -n -e 10250 -e reject'"},
	Radius: onlyReads,
}

// answeredByOther is a port that is not blocked: a connection opens there, and what answers is not what the
// API server wants.
func answeredByOther(c Case, answered []Finding) Case {
	c.Says = "pods start on {node}, and what answers the API server at the kubelet's port is not that kubelet, or not trusted: " +
		answered[0].Saw
	c.For = append(Hints(answered), c.For[1:]...)
	c.Fix = &probe.Fix{
		Says: "Find out what answers there: a Service with the node's address, something else that listens, or a certificate that the API server does not take.",
		Manifest: []string{"kubectl get --raw /api/v1/nodes/{node}/proxy/healthz  # the API server's own words",
			"kubectl get services -A -o wide | grep -w 10250",
			"kubectl get node {node} -o wide  # the address it dials"},
		Radius: onlyReads,
	}
	return c
}

// kubeletSilent is as much as the API alone can say.
var kubeletSilent = &Rule{
	ID: "kubelet-silent", Layer: LayerKubelet, Symptom: true, Title: "the kubelet has stopped reporting: it is dead, frozen or cut off",
	Doc: `A kubelet renews its lease every 10 s. That it has stopped is all that the API knows: the kubelet may be dead, frozen or cut from the API, the node cut off or off. What the pods' states say is the kubelet's last word and no longer known. The ways that need no kubelet, ssh and the node's neighbours, tell these apart; their answers are causes of their own.`,
	Fix: probe.Fix{
		Says: "Find out which it is: ask from a neighbour, over ssh, or on the node.",
		Manifest: []string{
			"ping -c 3 {node}; nc -vz {node} 22; nc -vz {node} 10250  # from another node: refused is a dead kubelet, no answer a dead node",
			"ssh {node} sudo systemctl status {kubelet} --no-pager",
			"calico-probe run --via local  # on the node itself",
		},
		Radius: onlyReads,
	},
	Wants: []string{kubelet.KubeletHealth.ID},
	Match: func(f Findings) []Case {
		lease := f.Failed(facts.CheckNodeLease)
		late, placed := f.Bad(facts.CheckNodeLease), notPlaced(f, facts.ReasonKubelet)
		if kubeletHere(f).answered() || len(lease) == 0 && len(placed) == 0 {
			return nil
		}
		c := Case{
			Says: "{node}'s kubelet has not reported" + since(f) + ": it is dead, frozen or cut off, or the node is",
			For: slices.Concat(Suggests(lease), Hints(placed),
				Hints(f.With(facts.CheckNodeReady, facts.APIReason, "NodeStatusUnknown"))), Covers: kubeletGone,
		}
		if len(lease) == 0 {
			c.Says = "{node}'s kubelet starts no pods"
			c.For = slices.Concat(Hints(placed), Hints(late))
		}
		return []Case{c}
	},
}

// saying names the neighbours that say something of the kubelet's port.
func saying(fs []Finding) string {
	verb := " say)"
	all := askers(fs)
	if len(all) == 1 {
		verb = " says)"
	}
	return " (as " + strings.Join(all, " and ") + verb
}

// askers are the nodes that findings come from.
func askers(fs []Finding) []string {
	var out []string
	for _, r := range fs {
		if !slices.Contains(out, r.Node) {
			out = append(out, r.Node)
		}
	}
	return out
}

// notPlaced are the access methods that failed for a reason, those among them that
// got a probe there and no word from it. What was not tried for that reason shows no
// more than the one that was.
func notPlaced(f Findings, why facts.Reason) []Finding {
	tried := append(f.With(probe.CheckPlaced, probe.FactReason, string(why)),
		f.With(probe.CheckAnswered, probe.FactReason, string(why))...)
	return slices.DeleteFunc(tried, func(r Finding) bool { return r.Status == probe.Skip })
}

// silentExec tells whether a finding is of the way that goes into a running container.
// That no word came of it may be the API server's line, the kubelet or the runtime.
func silentExec(r Finding) bool { return r.Way == "exec" }

// since says for how long the kubelet has been silent, "" where the lease has not
// run out.
func since(f Findings) string {
	for _, r := range f.Failed(facts.CheckNodeLease) {
		if age, ok := r.Facts.Num(facts.Age); ok {
			return " for " + lasting(age)
		}
	}
	return ""
}

// witnesses are what neighbours say that got no answer at all from this node, and what those
// say that got one.
func witnesses(f Findings) (silent, heard []Finding) {
	all := fromOutside(f, anyPort)
	heard = slices.Concat(all.open, all.refused)
	return keep(all.silent, func(r Finding) bool { return !slices.Contains(askers(heard), r.Node) }), heard
}
