package cause

import (
	"regexp"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/kubelet"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// kubeletPortBlocked is what makes kubectl exec, logs and attach hang too.
var kubeletPortBlocked = &diagnose.Rule{
	ID: "kubelet-port-blocked", Layer: diagnose.LayerKernel, Title: "the API server cannot reach the kubelet's port",
	Doc: `The probe's pod runs, so API and kubelet do speak, by the connection the kubelet opened. The other direction, from the API server to the kubelet's port 10250, does not work: kubectl exec, logs, attach and port-forward of this node's pods fail with it, and metrics are missing. A firewall or security group between control plane and node, a konnectivity or other tunnel that is down, or the wrong address of the node (the API server dials its InternalIP).
Told from a dead kubelet by the lease and by the pod that was started.`,
	Fix: probe.Fix{
		Says: "Let the API servers in to TCP 10250 of the node's InternalIP; look at the tunnel where there is one.",
		Manifest: []string{"kubectl get --raw /api/v1/nodes/{node}/proxy/healthz  # the API server's own words",
			"kubectl get node {node} -o wide  # the address it dials"},
		Radius: evidence.OnlyReads,
	},
	RuledOut: []string{facts.CheckNodeLease, facts.CheckNodeReady},
	Match: func(f diagnose.Findings) []diagnose.Case {
		attach := evidence.NotPlaced(f, facts.ReasonAttach)
		if len(attach) == 0 || len(rejected(f)) > 0 {
			return nil
		}
		weight, other := diagnose.Strong, diagnose.Keep(attach,
			func(r diagnose.Finding) bool { return r.Facts[facts.Answered] == true })
		if !slices.ContainsFunc(attach, func(r diagnose.Finding) bool { return !evidence.SilentExec(r) }) {
			weight = diagnose.Hint
		}
		c := diagnose.Case{
			Says: "pods start on {node} and the API server cannot talk to them: " + attach[0].Saw,
			For:  diagnose.Clues(weight, attach),
			// A kubelet that died in between, or that keeps exiting.
			Against: slices.Concat(diagnose.Suggests(f.Failed(facts.CheckNodeLease)), diagnose.Suggests(restarted(f))),
		}
		refused := diagnose.Keep(attach, func(r diagnose.Finding) bool { return saysRefused.MatchString(r.Saw) })
		// Where other nodes get an answer, a connection that hangs may also be one that the kubelet does not serve, because
		// its own connection to the API server hangs.
		open := diagnose.Hint
		if len(refused)+len(other) == 0 {
			open = 0
		}
		c.For = append(c.For, diagnose.Clues(open, evidence.FromOutside(f, evidence.KubeletPort).Open)...)
		switch {
		case len(other) > 0:
			c = answeredByOther(c, other)
		case len(refused) > 0:
			c.Says, c.Fix = "pods start on {node}, and its kubelet's port refuses the API server: "+refused[0].Saw, portRefused
		}
		if here := evidence.KubeletHere(f); len(here.Ok) > 0 { // a firewall on the node stands before its own questions too
			for _, r := range slices.Concat(here.Refused, here.Silent) {
				c.Covers = append(c.Covers, diagnose.Cover{Check: r.Check, About: r.Target})
			}
		}
		return []diagnose.Case{c}
	},
}

// saysUnauthorized is how a kubelet answers whom it does not know, by way of the API server.
var saysUnauthorized = regexp.MustCompile(`unable to upgrade connection: Unauthorized`)

// rejected is where the kubelet turned the API server away.
func rejected(f diagnose.Findings) []diagnose.Finding {
	return evidence.InWords(evidence.NotPlaced(f, facts.ReasonAttach), saysUnauthorized)
}

// kubeletRejectsServer is a kubelet that does not know the API server.
var kubeletRejectsServer = &diagnose.Rule{
	ID: "kubelet-rejects-api-server", Layer: diagnose.LayerKubelet,
	Title: "the kubelet rejects the API server's client certificate",
	Doc: `For logs, exec, attach and metrics the API server connects to the kubelet and shows a client certificate. The kubelet accepts one of the CA in its clientCAFile. With another cluster's or an old CA there, or with an API server whose certificate has expired, it answers 401: "Unauthorized", "the server has asked for the client to provide credentials". Pods start and run.
Told from a blocked port by the answer, which comes from the kubelet; from a user without rights there by the code: Forbidden, 403, is an answer to a certificate that it accepts. Where one node alone does it, it is that node's CA; where all do, it is the API server's certificate.`,
	Fix: probe.Fix{
		Says: "Compare the kubelet's clientCAFile with the CA that the cluster's clients are of, and put the cluster's there; then restart the kubelet.",
		Manifest: []string{
			"kubectl -n kube-system get configmap extension-apiserver-authentication -o jsonpath='{.data.client-ca-file}' | openssl x509 -noout -fingerprint -subject -dates",
			"ssh {node} 'sudo grep -n -A1 -e clientCAFile -e webhook -e anonymous /var/lib/kubelet/config.yaml; date -u'",
			"kubectl get --raw /api/v1/nodes/{node}/proxy/healthz  # on another node too: the same there is the API server's certificate",
		},
		OnlyIf: []probe.Conditional{{If: "the file is right now", Manifest: []string{"ssh {node} sudo systemctl restart {kubelet}"}}},
		Radius: "looking touches nothing; a kubelet that starts does not restart running pods{together}",
	},
	RuledOut: []string{facts.CheckNodeLease, facts.CheckNodeReady},
	Explains: []string{"kubelet-silent"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		says := rejected(f)
		if len(says) == 0 {
			return nil
		}
		return []diagnose.Case{{
			Says: "pods start on {node}, and its kubelet turns the API server away: " + says[0].Saw,
			For:  diagnose.Proves(says), Covers: diagnose.Covers(probe.CheckPlaced, probe.CheckAnswered),
		}}
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
	Radius: evidence.OnlyReads,
}

// answeredByOther is a port that is not blocked: a connection opens there, and what answers is not what the
// API server wants.
func answeredByOther(c diagnose.Case, answered []diagnose.Finding) diagnose.Case {
	c.Says = "pods start on {node}, and what answers the API server at the kubelet's port is not that kubelet, or not trusted: " +
		answered[0].Saw
	c.For = append(diagnose.Hints(answered), c.For[1:]...)
	c.Fix = &probe.Fix{
		Says: "Find out what answers there: a Service with the node's address, something else that listens, or a certificate that the API server does not take.",
		Manifest: []string{"kubectl get --raw /api/v1/nodes/{node}/proxy/healthz  # the API server's own words",
			"kubectl get services -A -o wide | grep -w 10250",
			"kubectl get node {node} -o wide  # the address it dials"},
		Radius: evidence.OnlyReads,
	}
	return c
}

// kubeletSilent is as much as the API alone can say.
var kubeletSilent = &diagnose.Rule{
	ID: "kubelet-silent", Layer: diagnose.LayerKubelet, Symptom: true, Title: "the kubelet has stopped reporting: it is dead, frozen or cut off",
	Doc: `A kubelet renews its lease every 10 s. That it has stopped is all that the API knows: the kubelet may be dead, frozen or cut from the API, the node cut off or off. What the pods' states say is the kubelet's last word and no longer known. The ways that need no kubelet, ssh and the node's neighbours, tell these apart; their answers are causes of their own.`,
	Fix: probe.Fix{
		Says: "Find out which it is: ask from a neighbour, over ssh, or on the node.",
		Manifest: []string{
			"ping -c 3 {node}; nc -vz {node} 22; nc -vz {node} 10250  # from another node: refused is a dead kubelet, no answer a dead node",
			"ssh {node} sudo systemctl status {kubelet} --no-pager",
			"calico-probe run --via local  # on the node itself",
		},
		Radius: evidence.OnlyReads,
	},
	Wants: []string{kubelet.KubeletHealth.ID},
	Match: func(f diagnose.Findings) []diagnose.Case {
		lease := f.Failed(facts.CheckNodeLease)
		late, placed := f.Bad(facts.CheckNodeLease), evidence.NotPlaced(f, facts.ReasonKubelet)
		if evidence.KubeletHere(f).Answered() || len(lease) == 0 && len(placed) == 0 {
			return nil
		}
		c := diagnose.Case{
			Says: "{node}'s kubelet has not reported" + evidence.Since(f) + ": it is dead, frozen or cut off, or the node is",
			For: slices.Concat(diagnose.Suggests(lease), diagnose.Hints(placed),
				diagnose.Hints(f.With(facts.CheckNodeReady, facts.APIReason, "NodeStatusUnknown"))), Covers: evidence.KubeletGone,
		}
		if len(lease) == 0 {
			c.Says = "{node}'s kubelet starts no pods"
			c.For = slices.Concat(diagnose.Hints(placed), diagnose.Hints(late))
		}
		return []diagnose.Case{c}
	},
}

// saying names the neighbours that say something of the kubelet's port.
func saying(fs []diagnose.Finding) string {
	verb := " say)"
	all := evidence.Askers(fs)
	if len(all) == 1 {
		verb = " says)"
	}
	return " (as " + strings.Join(all, " and ") + verb
}
