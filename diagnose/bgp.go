package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checks"
)

func birdRules() []*Rule {
	return []*Rule{BirdUnfed, BirdPortTaken, BirdDead, BirdProbe, BGPRestartHold, BGPPeersMissing}
}

// startAnew is the fix of what a start of calico-node puts right.
var startAnew = probe.Fix{
	Says:     "See what it wrote last, then start calico-node of this node anew.",
	Manifest: []string{"kubectl -n {namespace} logs {pod} -c calico-node --tail=100", restartCalico},
	Radius:   "this node: its BGP sessions restart, and its peers keep its routes for the two minutes of a graceful restart; pods keep running",
}

// birdOf are the results of a check about the BIRD of one family.
func birdOf(f Findings, check string, family int) []Finding {
	return keep(f.Of(check), func(r Finding) bool { return familyOf(r) == family })
}

// deaf are the families whose BIRD does not answer.
func deaf(f Findings) []Finding {
	return keep(f.Failed(checks.BirdSocket.ID), func(r Finding) bool { return familyOf(r) != 0 })
}

// BirdDead is a BIRD that is not there, whatever ended it.
var BirdDead = &Rule{
	ID: "bird-dead", Title: "BIRD does not run on this node, or hangs",
	Doc: `The socket is there and nobody listens: BIRD ended and left it behind; or it takes the connection and says nothing: it is frozen, or starved of CPU. The routes it wrote stay in the kernel (persist), so pods are often still reached while calico-node is not ready, until a route changes. Peers see "Connection refused" or "Connection closed", and their sessions are well as soon as it lives again.
Told from a BIRD that was never configured by confd's file, from a port that another program holds by who listens on it, and from a firewall by its own socket, which no packet takes part in.`,
	Fix: startAnew, Wants: []string{checks.BirdSocket.ID}, RuledOut: []string{checks.NodeUplink.ID, checks.NodePing.ID, checks.FelixLive.ID},
	Match: func(f Findings) []Case {
		var out []Case
		for _, socket := range deaf(f) {
			family := familyOf(socket)
			says := "BIRD for " + familyName(family) + " does not run on {node}: its socket is there and nobody listens"
			switch reasonOf(socket) {
			case "refused":
			case "timeout":
				says = "BIRD for " + familyName(family) + " on {node} hangs: it takes connections and does not speak"
			case "missing":
				says = "BIRD for " + familyName(family) + " has not started on {node}"
			default:
				continue
			}
			c := Case{About: familyName(family), Says: says, For: clues(strong, []Finding{socket}), Covers: pathFollows(f, family, "")}
			c.Covers = append(c.Covers, Covers(checks.BirdConfig.ID, checks.BGPExpected.ID)...)
			pod := keep(f.Bad(cluster.CheckCalicoPod), func(r Finding) bool { return r.Facts.Str(cluster.FactAPIReason) == "" })
			ended := keep(birdOf(f, checks.BirdConfig.ID, family), func(r Finding) bool { return r.Facts[checks.FactRuns] == false })
			if len(ended) > 0 {
				c.For = append(c.For, clues(hint, ended)...)
			} else {
				c.For = append(c.For, clues(hint, pod)...)
			}
			if late := starved(f); len(late) > 0 { // whoever asks is late
				c.Against = clues(strong, late[:1])
			}
			out = append(out, c)
		}
		return out
	},
}

// BirdUnfed is a BIRD without a configuration.
var BirdUnfed = &Rule{
	ID: "bird-unfed", Title: "confd has not written BIRD's configuration",
	Doc: `BIRD ends at every start ("Unable to open configuration file"), for confd has not finished its first rendering: it waits for Typha or for the API server. BIRD is blamed and is well. Look at what confd waits for: typha-reach, datastore-latency, and the log of calico-node.`,
	Fix: probe.Fix{
		Says:     "See what confd waits for, and mend that: Typha or the API server, as this node reaches it.",
		Manifest: []string{"kubectl -n {namespace} logs {pod} -c calico-node --tail=200 | grep -i -e confd -e typha", "kubectl -n {namespace} get pods,endpoints -l k8s-app=calico-typha -o wide"},
		Radius:   "nothing: both only read",
	},
	RuledOut: []string{checks.NodeUplink.ID}, Explains: []string{"bird-dead", "bgp-peers-missing"},
	Match: func(f Findings) []Case {
		var out []Case
		for _, file := range keep(f.Failed(checks.BirdConfig.ID), func(r Finding) bool { return reasonOf(r) == "missing" || reasonOf(r) == "empty" }) {
			out = append(out, Case{
				About: familyName(familyOf(file)), Says: "confd on {node} has not written what BIRD is to do, so BIRD cannot run or has no peers",
				For: clues(proof, []Finding{file}), Covers: append(pathFollows(f, familyOf(file), ""), Covers(checks.BirdSocket.ID, checks.BGPExpected.ID, checks.TyphaReach.ID)...),
			})
		}
		return out
	},
}

// BirdPortTaken is another routing daemon on the node.
var BirdPortTaken = &Rule{
	ID: "bird-port-taken", Title: "another program holds BGP's port on this node",
	Doc: `BIRD ends at every start because it cannot listen on port 179: FRR, a BIRD of the distribution's, MetalLB's speaker or another BGP daemon of the node has it. Calico's socket refuses while something listens on the port all the same.`,
	Fix: probe.Fix{
		Says:     "See who listens, and stop it or give it another address or port.",
		Manifest: []string{"ssh {node} sudo ss -ltnp 'sport = :179'"},
		Radius:   "nothing: it only looks; stopping the other daemon ends the sessions that one has",
	},
	Explains: []string{"bird-dead"},
	Match: func(f Findings) []Case {
		var out []Case
		for _, socket := range deaf(f) {
			family := familyOf(socket)
			holds := keep(f.Of(checks.BGPPort.ID), func(r Finding) bool {
				return slices.ContainsFunc(listOf(r, checks.FactListening), func(at string) bool { return strings.HasPrefix(at, "[") == (family == 6) })
			})
			if reasonOf(socket) != "refused" || len(holds) == 0 {
				continue
			}
			c := Case{
				About: familyName(family), For: clues(strong, []Finding{socket}), Covers: append(pathFollows(f, family, ""), Covers(checks.BirdConfig.ID, checks.BGPExpected.ID)...),
				Says: fmt.Sprintf("Calico's BIRD for %s does not run on {node}, and another program listens on %s", familyName(family), strings.Join(listOf(holds[0], checks.FactListening), ", ")),
			}
			ended := keep(birdOf(f, checks.BirdConfig.ID, family), func(r Finding) bool { return r.Facts[checks.FactRuns] == false })
			c.For = append(c.For, append(clues(0, holds), clues(hint, ended)...)...) // else BIRD may have come back in between
			out = append(out, c)
		}
		return out
	},
}

// BirdProbe is a probe that asks for what is not meant to run.
var BirdProbe = &Rule{
	ID: "bird-probe", Title: "calico-node's probe asks for a BIRD that is not meant to run",
	Doc: `The networking backend is vxlan or none, so calico-node runs no BIRD, and its readiness or liveness probe still has -bird-ready or -bird-live, as in a manifest that was changed in one of the two places only. The pod is never ready, or is killed again and again, while pods' traffic is well.`,
	Fix: probe.Fix{
		Says:     "Take -bird-ready and -bird-live out of the probes, or set the backend back to bird.",
		Manifest: []string{"kubectl -n {namespace} edit daemonset calico-node   # readinessProbe and livenessProbe: leave -felix-ready and -felix-live"},
		Operator: []string{"kubectl get installation default -o jsonpath='{.spec.calicoNetwork.bgp}'   # the operator writes the probes by this"},
		Radius:   "every node: calico-node restarts on one after the other; pods keep running",
	},
	Match: func(f Findings) []Case {
		pod := keep(f.Bad(cluster.CheckCalicoPod), func(r Finding) bool { return reasonOf(r) == cluster.ReasonBirdProbe })
		if len(pod) == 0 {
			return nil
		}
		return []Case{{Says: "calico-node of {node} is not ready because its probe asks for a BIRD, which this networking backend does not run", For: clues(proof, pod)}}
	},
}

// BGPRestartHold is the trap of graceful restart.
var BGPRestartHold = &Rule{
	ID: "bgp-restart-hold", Title: "BIRD holds all routes back after its start, until every peer is up",
	Doc: `Calico starts BIRD in recovery (-R): until every peer is up and has sent all its routes, or 240 s have passed, not one BGP route enters the kernel, though sessions are Established and BIRD knows the routes. One peer that never comes up (a Node whose machine is gone, a wrong address) costs every restart of calico-node the whole time: after a reboot the node has no routes to pods for four minutes. Told from routes that were lost by BIRD's own word for it, and by the clock: it ends by itself.`,
	Fix: probe.Fix{
		Says:     "Wait the time that is left; then take away what it waited for: delete Nodes and BGPPeers whose machines are gone, or mend those sessions.",
		Manifest: []string{"kubectl get nodes -o wide", "kubectl delete node NAME   # of a machine that is gone for good"},
		Radius:   "waiting: nothing. Deleting a Node takes its pods out of the API and its peer out of every BIRD; the other sessions stay",
	},
	Explains: []string{"peer-down", "route-not-in-kernel"},
	Match: func(f Findings) []Case {
		var out []Case
		for _, whole := range keep(f.Bad(checks.BGPSession.ID), func(r Finding) bool { _, held := r.Facts.Num(checks.FactWaitLeft); return held }) {
			left, _ := whole.Facts.Num(checks.FactWaitLeft)
			var names []string
			c := Case{About: familyName(familyOf(whole)), For: clues(proof, []Finding{whole}), Covers: pathFollows(f, familyOf(whole), "")}
			for _, blocker := range listOf(whole, checks.FactBlockers) {
				name := blocker
				for _, s := range f.Of(checks.BGPSession.ID) {
					if s.Facts.Str(checks.FactPeer) == blocker && s.Target != "" {
						name = s.Target
						if bad(s.Status) {
							c.For = append(c.For, clues(0, []Finding{s})...)
						}
					}
				}
				names = append(names, name)
			}
			c.Says = fmt.Sprintf("BIRD on {node} restarted and keeps every BGP route out of the kernel for up to %.0f s more", left)
			if len(names) > 0 {
				c.Says += ", waiting for " + strings.Join(names, ", ")
			}
			c.For = append(c.For, clues(0, keep(f.Bad(checks.RouteBlocks.ID), func(r Finding) bool { return len(listOf(r, checks.FactInBIRD)) > 0 }))...)
			out = append(out, c)
		}
		return out
	},
}

// BGPPeersMissing are peers BIRD was never told of.
var BGPPeersMissing = &Rule{
	ID: "bgp-peers-missing", Title: "BIRD lacks peers that Calico's resources ask for",
	Doc: `A peer BIRD does not have is in no list of sessions that are down. Either confd has not heard of it (it lost Typha or the API server, or it hangs) and the file is old, or the file is new and BIRD has not loaded it.`,
	Fix: startAnew, Wants: []string{checks.BirdConfig.ID},
	Match: func(f Findings) []Case {
		var out []Case
		for _, r := range f.Failed(checks.BGPExpected.ID) {
			lacks := listOf(r, checks.FactMissing)
			if len(lacks) == 0 {
				continue
			}
			c := Case{
				About: familyName(familyOf(r)), For: clues(strong, []Finding{r}), Covers: pathFollows(f, familyOf(r), ""),
				Says: fmt.Sprintf("BIRD on {node} was not told of %s: confd does not follow Calico's resources", strings.Join(lacks, ", ")),
			}
			if old := keep(f.Failed(checks.BirdConfig.ID), func(b Finding) bool { return reasonOf(b) == "not-loaded" && familyOf(b) == familyOf(r) }); len(old) > 0 {
				c.For = append(c.For, clues(hint, old)...)
				c.Says = fmt.Sprintf("BIRD on {node} has not loaded the configuration that confd wrote, and lacks %s", strings.Join(lacks, ", "))
			}
			c.For = append(c.For, clues(hint, f.Failed(checks.TyphaReach.ID))...)
			out = append(out, c)
		}
		return out
	},
}

func sessionRules() []*Rule {
	return []*Rule{BGPRejected, BGPFiltered, BGPWrongAS, BGPPassword, PeerBirdDead, BGPUnknownPeer, BGPOneWay, BGPWaits, PeerDown, NodeCutOff, PeerPods}
}

// session is one that is down, and what else is known of its peer.
type session struct {
	Finding
	port, ping        Finding   // of the same address
	ported, pinged    bool      // whether these were asked
	there, theirBirds []Finding // what the peer itself says: about its session with this node, and its BIRD
	outside           []Finding // how a firewall answered the peer when it was asked to look at this node
}

// downSessions are those that are not established.
func downSessions(f Findings) []session {
	var out []session
	for _, r := range f.Bad(checks.BGPSession.ID) {
		if r.Facts.Str(checks.FactPeer) == "" {
			continue
		}
		s := session{Finding: r}
		s.port, s.ported = at(f, checks.BGPPort.ID, r.Target)
		s.ping, s.pinged = at(f, checks.NodePing.ID, r.Target)
		if peer := nodeOf(r); peer != "" {
			of := f.At(peer)
			s.there = keep(of.Of(checks.BGPSession.ID), func(o Finding) bool { return nodeOf(o) == f.Node && familyOf(o) == familyOf(r) })
			s.theirBirds = birdOf(of, checks.BirdSocket.ID, familyOf(r))
			s.outside = keep(of.Of(checks.NeighbourReach.ID), func(o Finding) bool {
				return strings.HasPrefix(o.Target, f.Node+" ") && strings.Contains(o.Target, " tcp ") && familyOf(o) == familyOf(r) && reasonOf(o) == "rejected"
			})
		}
		out = append(out, s)
	}
	return out
}

// answers tells whether the peer's machine answered a ping at the session's address.
func (s session) answers() bool { return s.pinged && !bad(s.ping.Status) && answered(s.ping.Status) }

// refusal is why a connection to the peer's BGP port failed, "" when it did not or
// nobody tried.
func (s session) refusal() string {
	if !s.ported || !bad(s.port.Status) {
		return ""
	}
	return reasonOf(s.port)
}

// perSession makes one case for each session that is down and fits.
func perSession(f Findings, fits func(session, *Case) bool) []Case {
	var out []Case
	for _, s := range downSessions(f) {
		c := Case{About: s.Target, Args: map[string]string{"peer": s.Facts.Str(checks.FactPeer), "other": nodeOf(s.Finding)}, Covers: pathFollows(f, familyOf(s.Finding), nodeOf(s.Finding))}
		if fits(s, &c) {
			out = append(out, c)
		}
	}
	return out
}

// BGPFiltered is port 179 dropped on the way.
var BGPFiltered = &Rule{
	ID: "bgp-filtered", Title: "TCP to BGP's port is dropped between two nodes",
	Doc: `The machines reach each other (a ping comes back) and a connection to port 179 gets no answer at all: a security group, a firewall between the nodes or on one of them drops it, there or on the way back. BIRD stays in Connect, without an error. Told from a peer whose BIRD is dead (that refuses), from a firewall that rejects (that says so), from a node that is down (that answers no ping) and from a wrong address (ip-registered). A password (MD5) looks the same to anybody who connects without it, so where the session has one this is not claimed.`,
	Fix: probe.Fix{
		Says:     "Let TCP port 179 through between the nodes, both ways, at whatever filters there: the cloud's security group, or the host's firewall.",
		Manifest: []string{"ssh {node} sudo nft list ruleset | grep -n -e 179 -e bgp", "ssh {node} sudo iptables-save | grep -n -e 179"},
		Radius:   "both only read; a rule that lets 179 in opens BGP to whom the rule names",
	},
	RuledOut: []string{checks.BirdSocket.ID, checks.NodePing.ID, cluster.CheckIPRegistered},
	Match: func(f Findings) []Case {
		return perSession(f, func(s session, c *Case) bool {
			if s.refusal() != "timeout" || !s.answers() || s.port.Facts[checks.FactPassword] == true || reasonOf(s.Finding) == "password" {
				return false
			}
			c.For = append(clues(strong, []Finding{s.port}), append(clues(hint, []Finding{s.ping}), clues(0, []Finding{s.Finding}, s.there)...)...)
			c.Says = fmt.Sprintf("TCP port %v from {node} to %s is dropped on the way there or back: the machine answers a ping and no connection", s.port.Facts[checks.FactPort], s.Target)
			return true
		})
	},
}

// BGPRejected is a firewall that says no.
var BGPRejected = &Rule{
	ID: "bgp-rejected", Title: "a firewall rejects BGP's port",
	Doc: `A connection to port 179 is answered with ICMP: "prohibited" is what firewalld and iptables' REJECT say, and no machine says it by itself. BIRD reads it as "Host is unreachable" (or "No route to host"), which looks like a dead link, while a ping comes back. Told from a peer whose BIRD is dead, which refuses by TCP.`,
	Fix: probe.Fix{
		Says:     "Let TCP port 179 in at the firewall that answers, with firewalld also protocol 4 (IPIP) or UDP 4789 (VXLAN) if Calico's pools use them; or turn firewalld off, which Calico asks for.",
		Manifest: []string{"ssh {other} sudo firewall-cmd --add-port=179/tcp --permanent", "ssh {other} sudo firewall-cmd --reload"},
		Radius:   "that host's firewall; 'reload' takes rules away that others put in by hand, and Felix puts its own back within 90 s",
	},
	RuledOut: []string{checks.BirdSocket.ID, cluster.CheckIPRegistered}, Explains: []string{"bgp-filtered"},
	Match: func(f Findings) []Case {
		return perSession(f, func(s session, c *Case) bool {
			lives := keep(s.theirBirds, func(r Finding) bool { return r.Status == probe.OK })
			switch reason := s.refusal(); {
			case reason == "rejected", reason == "denied":
				c.For = clues(proof, []Finding{s.port})
			case reason == "host-unreachable" && s.answers():
				c.For = append(clues(strong, []Finding{s.port}), clues(hint, []Finding{s.ping})...)
			case reason == "refused" && len(lives) > 0:
				c.For = append(clues(strong, []Finding{s.port}), clues(hint, lives)...)
			case reason == "timeout" && len(s.outside) > 0: // kernels answer so only once a second
				c.For = append(clues(proof, s.outside), clues(hint, []Finding{s.port})...)
				c.For = append(c.For, clues(0, []Finding{s.Finding}, s.there)...)
				c.Says = fmt.Sprintf("a firewall on {node} or before it rejects BGP from %s, while the machines ping each other", s.outside[0].Node)
				c.Args["other"] = f.Node
				return true
			default:
				return false
			}
			c.For = append(c.For, clues(0, []Finding{s.Finding}, s.there)...)
			c.Says = fmt.Sprintf("a firewall rejects BGP from {node} to %s, whose machine answers otherwise", s.Target)
			return true
		})
	},
}

// PeerBirdDead is a peer whose machine lives and whose BIRD does not.
var PeerBirdDead = &Rule{
	ID: "peer-bird-dead", Title: "the peer's BIRD does not run",
	Doc: `The peer's machine refuses the connection: nothing listens on its port 179. Its calico-node has not started, crashes, or its BIRD ended; nothing is wrong on this node. A firewall that rejects with a TCP reset looks the same from here: what the peer itself says of its BIRD settles it.`,
	Fix: probe.Fix{
		Says:     "Look at the other node.",
		Manifest: []string{"calico-probe run --node {other}", "kubectl -n {namespace} get pods -o wide -l k8s-app=calico-node --field-selector spec.nodeName={other}"},
		Radius:   "nothing: both only look",
	},
	RuledOut: []string{checks.BirdSocket.ID, checks.NodePing.ID, cluster.CheckIPRegistered},
	Match: func(f Findings) []Case {
		return perSession(f, func(s session, c *Case) bool {
			said := s.refusal()
			if !s.ported {
				said = reasonOf(s.Finding)
			}
			if said != "refused" {
				return false
			}
			dead := keep(s.theirBirds, func(r Finding) bool { return r.Status == probe.Fail })
			if s.ported {
				c.For = clues(strong, []Finding{s.port})
			}
			c.For = append(c.For, clues(map[bool]int{true: 0, false: strong}[s.ported], []Finding{s.Finding})...)
			c.For = append(c.For, clues(hint, dead)...)
			if len(dead) == 0 {
				c.Against = clues(strong, keep(s.theirBirds, func(r Finding) bool { return r.Status == probe.OK }))
			}
			c.Says = fmt.Sprintf("%s refuses BGP: its machine answers and nothing listens there", s.Target)
			if len(dead) > 0 {
				c.Says = fmt.Sprintf("%s refuses BGP: %s there says that its BIRD is not up (%s)", s.Target, checks.BirdSocket.ID, dead[0].Saw)
			}
			return true
		})
	},
}

// BGPWrongAS is a disagreement about AS numbers.
var BGPWrongAS = &Rule{
	ID: "bgp-wrong-as", Title: "the two ends do not agree about an AS number",
	Doc: `Each end tells its AS number when a session opens, and the other one ends it when that is not what it was set to expect ("Bad peer AS"). "Received" means that the other end says so of us, "BGP Error" that we say so of it. The numbers come from BGPConfiguration default (asNumber, 64512 unless set), the annotation projectcalico.org/ASNumber of a Node, and asNumber of a BGPPeer.`,
	Fix: probe.Fix{
		Says: "Compare the numbers and set the wrong one right; all nodes of a mesh share one unless they were given their own.",
		Manifest: []string{
			`kubectl get nodes -o custom-columns='NAME:.metadata.name,AS:.metadata.annotations.projectcalico\.org/ASNumber'`,
			"kubectl get bgpconfigurations.crd.projectcalico.org,bgppeers.crd.projectcalico.org -o yaml | grep -n -e 'name:' -e asNumber -e peerIP",
		},
		Radius: "both only read; a changed number restarts the sessions of every node it is for",
	},
	RuledOut: []string{checks.BirdSocket.ID, checks.NodePing.ID, cluster.CheckIPRegistered},
	Match: func(f Findings) []Case {
		return perSession(f, func(s session, c *Case) bool {
			theirs := keep(s.there, func(r Finding) bool { return reasonOf(r) == "bad-as" })
			who := "{node} and " + s.Target + " do not agree about an AS number"
			switch {
			case reasonOf(s.Finding) == "bad-as":
				c.For = append(clues(proof, []Finding{s.Finding}), clues(0, s.there)...)
			case len(theirs) > 0: // only one end says so, and the session is tried again meanwhile
				c.For = append(clues(proof, theirs), clues(0, []Finding{s.Finding})...)
				c.Says = fmt.Sprintf("%s; %s expects %s of {node}", who, theirs[0].Node, theirs[0].Facts.Str(checks.FactASNumber))
				return true
			default:
				return false
			}
			if strings.Contains(s.Facts.Str(checks.FactLastError), "Received") {
				who = s.Target + " expects another AS number of {node} than it has"
				for _, theirs := range s.there {
					if as := theirs.Facts.Str(checks.FactASNumber); as != "" {
						who += " (it expects " + as + ")"
						break
					}
				}
			}
			c.Says = who + fmt.Sprintf("; {node} expects %s there", s.Facts.Str(checks.FactASNumber))
			return true
		})
	},
}

// BGPPassword is a password that only one end has, or another one.
var BGPPassword = &Rule{
	ID: "bgp-password", Title: "the session's password (TCP MD5) does not fit",
	Doc: `With a password on a session the kernels sign every segment and drop what is not signed rightly, without a word: the end that dials gets no answer, as if a firewall dropped it. Calico takes the password from a Secret that the BGPPeer or BGPConfiguration names, in calico-node's namespace; where calico-node has no right to read it the session is made without.`,
	Fix: probe.Fix{
		Says:     "Compare the two ends' passwords, and whether calico-node may read the Secret; no firewall has to be changed.",
		Manifest: []string{"kubectl get bgppeers.crd.projectcalico.org,bgpconfigurations.crd.projectcalico.org -o yaml | grep -n -A4 -i password", "kubectl auth can-i get secrets -n {namespace} --as system:serviceaccount:{namespace}:calico-node"},
		Radius:   "nothing: both only read",
	},
	Match: func(f Findings) []Case {
		return perSession(f, func(s session, c *Case) bool {
			switch {
			case reasonOf(s.Finding) == "password":
				c.For = clues(proof, []Finding{s.Finding})
			case s.refusal() == "timeout" && s.port.Facts[checks.FactPassword] == true && s.answers():
				c.For = append(clues(strong, []Finding{s.Finding}), clues(0, []Finding{s.port, s.ping})...)
			default:
				return false
			}
			c.Says = fmt.Sprintf("the session with %s has a password, and the two ends do not have the same one, or its port is dropped", s.Target)
			return true
		})
	},
}

// BGPUnknownPeer is a peer that does not know this node.
var BGPUnknownPeer = &Rule{
	ID: "bgp-unknown-peer", Title: "the peer does not know this node's address",
	Doc: `The peer takes the connection and closes it at once, or says "Connection rejected": its BIRD has no peer with the address this node comes from. The mesh is off there, its confd is behind, its BGPPeer names another address, or this node comes from an address that is not the registered one.`,
	Fix: probe.Fix{
		Says:     "See at the other end which peers it has.",
		Manifest: []string{"calico-probe run --node {other} --checks bgp", "kubectl get bgppeers.crd.projectcalico.org -o wide"},
		Radius:   "nothing: both only look",
	},
	RuledOut: []string{checks.NodePing.ID},
	Match: func(f Findings) []Case {
		return perSession(f, func(s session, c *Case) bool {
			taken := s.ported && !bad(s.port.Status) && answered(s.port.Status)
			closed := reasonOf(s.Finding) == "closed" && taken
			if reasonOf(s.Finding) != "unknown-peer" && !closed {
				return false
			}
			c.For = clues(strong, []Finding{s.Finding})
			if taken {
				c.For = append(c.For, clues(0, []Finding{s.port})...)
			}
			c.Says = fmt.Sprintf("%s takes the connection and closes it: its BIRD has no peer with the address that {node} comes from", s.Target)
			return true
		})
	},
}

// BGPOneWay is a session that opens and dies of silence.
var BGPOneWay = &Rule{
	ID: "bgp-one-way", Title: "a session opens and then hears nothing",
	Doc: `The connection stands, and the messages of one side do not come through: the session hangs in OpenSent or ends with "Hold timer expired". Packets of one direction are lost, or only large ones are (MTU): the first messages are small, a table of routes is not.`,
	Fix: probe.Fix{
		Says:     "Look for what loses packets between the two: try large ones that may not be fragmented, both ways.",
		Manifest: []string{"ssh {node} ping -M do -s 1472 -c 3 {peer}", "calico-probe run --node {node} --profile deep"},
		Radius:   "nothing: three packets, and a second probe on another node",
	},
	RuledOut: []string{checks.BirdSocket.ID, cluster.CheckIPRegistered},
	Match: func(f Findings) []Case {
		return perSession(f, func(s session, c *Case) bool {
			state := s.Facts.Str(checks.FactBGPState)
			hangs := (state == "OpenSent" || state == "OpenConfirm") && reasonOf(s.Finding) == ""
			if reasonOf(s.Finding) != "hold-expired" && !hangs || s.refusal() != "" || !s.answers() {
				return false
			}
			c.For = append(clues(strong, []Finding{s.Finding}), clues(0, []Finding{s.ping}, s.there)...)
			c.Says = fmt.Sprintf("the session with %s opens and then hears nothing: packets of one direction, or large ones, are lost", s.Target)
			return true
		})
	},
}

// BGPWaits is the end of a session that can only wait.
var BGPWaits = &Rule{
	ID: "bgp-waits", Title: "this side of the session waits, and the other end does not get through",
	Doc: `Of two nodes the one whose address is the smaller text is passive: it never dials and has no error to show. A connection from here to the peer's port works, so the peer's BIRD lives; why it does not get through to here only the other end can say.`,
	Fix: probe.Fix{
		Says:     "Look at the other end.",
		Manifest: []string{"calico-probe run --node {other} --checks bgp,node-ping"},
		Radius:   "nothing: it only looks",
	},
	Match: func(f Findings) []Case {
		return perSession(f, func(s session, c *Case) bool {
			if s.Facts.Str(checks.FactBGPState) != "Passive" || s.refusal() != "" || reasonOf(s.Finding) == "unknown-peer" || !s.ported {
				return false
			}
			c.For = clues(hint, []Finding{s.Finding})
			c.Says = fmt.Sprintf("{node} waits for %s to dial (Passive), and nothing here says why it does not get through", s.Target)
			for _, theirs := range s.there {
				if bad(theirs.Status) {
					c.For = append(c.For, clues(hint, []Finding{theirs})...)
					c.Says = fmt.Sprintf("{node} waits for %s to dial (Passive), and that end says: %s", s.Target, theirs.Saw)
				}
			}
			return true
		})
	},
}

// pinged sorts the nodes that were pinged into those that answer nothing and others.
func pinged(f Findings) (silent, lives []string, seen map[string][]Finding) {
	seen = map[string][]Finding{}
	var order []string
	for _, r := range f.Of(checks.NodePing.ID) {
		if node := nodeOf(r); node != "" && r.From == "" && answered(r.Status) {
			if len(seen[node]) == 0 {
				order = append(order, node)
			}
			seen[node] = append(seen[node], r)
		}
	}
	for _, node := range order {
		if slices.ContainsFunc(seen[node], func(r Finding) bool { n, _ := r.Facts.Num(checks.FactReceived); return n > 0 }) {
			lives = append(lives, node)
		} else {
			silent = append(silent, node)
		}
	}
	return silent, lives, seen
}

// touched are the results that prove that a node answers something.
func touched(f Findings, node string) []Finding {
	var out []Finding
	for _, check := range []string{checks.BGPPort.ID, checks.PodPing.ID, checks.PodTCP.ID, checks.ServiceNodePort.ID} {
		out = append(out, keep(f.Of(check), func(r Finding) bool {
			_, sent := r.Facts[checks.FactSource]
			return nodeOf(r) == node && (r.Status == probe.OK && (check != checks.BGPPort.ID || sent) || bad(r.Status) && reasonOf(r) == "refused")
		})...)
	}
	return out
}

// unanswered are TCP connections to a node, or to its pods, that got no answer.
func unanswered(f Findings, node string) []Finding {
	var out []Finding
	for _, check := range []string{checks.BGPPort.ID, checks.PodTCP.ID, checks.ServiceNodePort.ID} {
		out = append(out, keep(f.Bad(check), func(r Finding) bool {
			return nodeOf(r) == node && r.From == "" && (reasonOf(r) == "timeout" || reasonOf(r) == "host-unreachable")
		})...)
	}
	return out
}

// PeerDown is another node that answers nothing.
var PeerDown = &Rule{
	ID: "peer-down", Title: "another node does not answer",
	Doc: `One node answers no ping and nothing else that was asked of it: it is powered off, cut off, or its machine was taken away while its Node stayed in the API. Every session, ping and route that leads there is down for this one reason, and nothing is wrong on this node. Told from a node with a wrong address, which answers at its InternalIP; from a firewall, behind which something still answers; and from a cut on this side, where no node answers. A Node that nobody deletes stays a BGP peer of every node for ever, keeps calico-node from being ready for its first 30 s, and holds every restart's routes back for up to 240 s.`,
	Fix: probe.Fix{
		Says:     "Bring {other} back; or if its machine is gone for good delete its Node.",
		Manifest: []string{"kubectl describe node {other}", "kubectl delete node {other}   # only when the machine is gone for good"},
		Radius:   "describe: nothing. Deleting the Node takes its pods out of the API, frees their addresses and takes the peer out of every BIRD",
	},
	Explains: []string{"bgp-waits", "bgp-one-way"},
	Match: func(f Findings) []Case {
		silent, lives, seen := pinged(f)
		if len(lives) == 0 && len(silent) > 1 {
			return nil // it is this node, or pings are forbidden
		}
		var out []Case
		for _, node := range silent {
			c := Case{About: node, Args: map[string]string{"other": node}, For: clues(strong, seen[node]), Against: clues(strong, touched(f, node)), Covers: pathFollows(f, 0, node)}
			c.Says = fmt.Sprintf("%s does not answer from {node}", node)
			theirs := keep(f.All, func(r Finding) bool {
				return r.Node == f.Node && nodeOf(r) == node && r.Facts.Str(checks.FactNodeState) != ""
			})
			if len(theirs) > 0 {
				c.For = append(c.For, clues(hint, theirs[:1])...)
				c.Says += fmt.Sprintf(", and the API calls it %s: powered off, cut off, or taken away with its Node left behind", theirs[0].Facts.Str(checks.FactNodeState))
			} else if len(lives) > 0 {
				c.Says += ", while other nodes do"
			}
			// Where a network lets no ping through, TCP answers still.
			c.For = append(c.For, clues(hint, unanswered(f, node))...)
			c.Against = append(c.Against, clues(hint, keep(f.Of(checks.BGPSession.ID), func(r Finding) bool { return nodeOf(r) == node && r.Status == probe.OK }))...)
			out = append(out, c)
		}
		return out
	},
}

// NodeCutOff is this node, which reaches no other.
var NodeCutOff = &Rule{
	ID: "node-cut-off", Title: "this node reaches no other node",
	Doc: `Not one of the other nodes answers, and nothing else over the network does: it is this node's link, its switch port, VLAN or security group, or its own firewall, and not every other node at once. Where a network lets no ping through all else is well, and this is not claimed.`,
	Fix: probe.Fix{
		Says:     "Look at this node's link, addresses, neighbours and firewall.",
		Manifest: []string{"ssh {node} ip -s link", "ssh {node} ip neigh", "ssh {node} sudo nft list ruleset | head -50"},
		Radius:   "nothing: all only read",
	},
	Explains: []string{"peer-down", "bgp-waits", "bgp-one-way"},
	Match: func(f Findings) []Case {
		silent, lives, seen := pinged(f)
		if len(lives) > 0 || len(silent) == 0 || f.Fine(checks.DatastoreLatency.ID) {
			return nil
		}
		c := Case{Says: fmt.Sprintf("{node} reaches none of %d other nodes", len(silent)), Covers: append(pathFollows(f, 0, ""), Covers(checks.DatastoreLatency.ID, checks.TyphaReach.ID)...)}
		for _, node := range silent {
			c.For = append(c.For, clues(0, seen[node][:1])...)
			c.Against = append(c.Against, clues(strong, touched(f, node))...)
		}
		c.For[0].Weight = hint
		if lost := f.Bad(checks.DatastoreLatency.ID); apart(f.Of(checks.DatastoreLatency.ID)) {
			c.For = append(c.For, clues(strong, lost)...)
		}
		return []Case{c}
	},
}

// PeerPods is a fault of another node's, as this one feels it.
var PeerPods = &Rule{
	ID: "peer-pods", Title: "the pods of one other node are not reached, and this node has the way there",
	Doc: `The other node answers a ping, this node has the routes to its pods and the session with it, and none of its pods answers. What is asked goes out from here, so what is wrong is there: a firewall's policy that drops what is forwarded, a missing route back, its tunnel; or pods that do not live.`,
	Fix: probe.Fix{
		Says:     "Look at the other node.",
		Manifest: []string{"calico-probe run --node {other}"},
		Radius:   "a probe on that node",
	},
	RuledOut: []string{checks.RouteBlocks.ID, checks.BGPSession.ID, checks.NodePing.ID},
	Match: func(f Findings) []Case {
		if !f.Fine(checks.RouteBlocks.ID) {
			return nil
		}
		_, lives, seen := pinged(f)
		pods := map[string][]Finding{}
		answer := map[string]bool{} // nodes some of whose pods do, in a family
		for _, r := range f.Of(checks.PodPing.ID) {
			switch node := nodeOf(r); {
			case r.From != "" || node == "" || node == f.Node:
			case r.Status == probe.Fail && reasonOf(r) == "":
				pods[node] = append(pods[node], r)
			case r.Status == probe.OK:
				answer[node+familyName(familyOf(r))] = true
			}
		}
		var out []Case
		for _, node := range lives {
			lost := pods[node]
			down := keep(f.Bad(checks.BGPSession.ID), func(r Finding) bool { return nodeOf(r) == node })
			if len(lost) == 0 || len(down) > 0 || answer[node+familyName(familyOf(lost[0]))] {
				continue
			}
			out = append(out, Case{
				About: node, Args: map[string]string{"other": node}, For: append(clues(strong, lost), clues(0, seen[node])...), Covers: pathFollows(f, familyOf(lost[0]), node),
				Says: fmt.Sprintf("%s answers a ping and none of its pods does, while {node} has the routes there: the fault is on %s or between", node, node),
			})
		}
		return out
	},
}
