package cause

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/overlay"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// afterAddress are the causes that come of a wrong address.
var afterAddress = []string{
	"address-will-change", "bgp-filtered", "bgp-rejected", "bgp-unknown-peer", "bgp-password", "bgp-waits",
	"bgp-one-way", "peer-bird-dead", "peer-down", "node-cut-off", "bgp-restart-hold",
	"tunnel-filtered", "tunnel-refused", "tunnel-source-unknown",
}

// addressSecondNIC is incident 003b.
var addressSecondNIC = &diagnose.Rule{
	ID: "address-second-nic", Layer: diagnose.LayerCalico, Title: "Calico uses the wrong NIC",
	Doc: `calico-node looks for its address at every start, and from v3.16 every minute. first-found walks the interfaces from the newest to the oldest, so a NIC that was added wins over the one the nodes talk by. Peers then open sessions and tunnels to an address they have no route to. Of two ends the one whose address is the smaller text waits (Passive) and says nothing; the other one dials in vain, so the error, if any, is at the other end.
Mistaken for kube-proxy (NodePorts answer on one node only), for a firewall (port 179 gives no answer) and for a dead peer. Told from them by the registered address: it is not the InternalIP and not near the other nodes' addresses; from a bridge by the kind of the interface; from an address that was changed by being on an interface still. Where all nodes differ from their InternalIPs in the same manner it is meant so, and where sessions stand, or pods of other nodes answer, the odd address is reached.`,
	Fix: evidence.SetMethod, Wants: []string{link.IPAutodetect.ID}, RuledOut: []string{service.KubeProxyHealth.ID,
		bgp.BirdSocket.ID}, Explains: afterAddress,
	Match: func(f diagnose.Findings) []diagnose.Case { return misregistered(f, false) },
}

// addressBridge is incident 004a.
var addressBridge = &diagnose.Rule{
	ID: "address-bridge", Layer: diagnose.LayerCalico, Title: "Calico uses the address of a bridge as the node's address",
	Doc: `As with another NIC, and the interface is a bridge that only this node has: br-<12 hex digits> from 'docker network create', docker0, virbr0, a bridge of a CNI plugin. first-found leaves out docker* and virbr* in every version, cni* since v3.15, br-* and podman* since v3.25.0 (it walks from the newest interface to the oldest, so the bridge wins); other names, such as br0, never. The same bridge address on two nodes makes the second calico-node end with "is already using the IPv4 address".
Peers report "Network unreachable", or nothing at all, for an address like 172.18.0.1.`,
	Fix: evidence.SetMethod, Wants: []string{link.IPAutodetect.ID}, RuledOut: []string{service.KubeProxyHealth.ID,
		bgp.BirdSocket.ID}, Explains: afterAddress,
	Match: func(f diagnose.Findings) []diagnose.Case { return misregistered(f, true) },
}

// misregistered are the families in which a wrong address is registered, on a bridge
// or on another kind of interface.
func misregistered(f diagnose.Findings, bridge bool) []diagnose.Case {
	var out []diagnose.Case
	for _, reg := range registeredElsewhere(f) {
		family := diagnose.FamilyOf(reg)
		address, internal := reg.Facts.Str(facts.Registered), reg.Facts.Str(facts.Internal)
		auto, looked := diagnose.Answer(f, link.IPAutodetect.ID, reg.Target)
		_, knows := auto.Facts[link.FactKeptOn]
		on, kind := auto.Facts.Str(link.FactKeptOn), auto.Facts.Str(link.FactKeptOnKind)
		if knows && on == "" || isBridge(on, kind, address) != bridge {
			continue
		}
		c := diagnose.Case{About: diagnose.FamilyName(family), Family: family,
			Args: evidence.MethodFor(family, internal, auto),
			For:  diagnose.Proves([]diagnose.Finding{reg})}
		if looked && !knows || reg.Status == probe.Info { // set by hand, or kept: on which interface is unknown
			c.For[0].Weight = diagnose.Strong
		}
		where := ""
		if on != "" {
			where = " of " + on
		}
		method := cmp.Or(auto.Facts.Str(link.FactMethod), "its autodetection")
		c.Says = fmt.Sprintf("Calico registered %s%s for {node}, and its InternalIP is %s", address, where, internal)
		togetherElsewhere(f, reg, &c)
		switch picked := auto.Facts.Str(link.FactPicked); {
		case picked == address:
			c.Says += fmt.Sprintf(": %s picks it", method)
		case picked != "":
			c.Says += fmt.Sprintf("; %s of Calico %s would pick %s now", method, auto.Facts.Str(link.FactCalico), picked)
		}
		if bridge {
			c.Says += bridgeNote(on)
		}
		if looked {
			c.For = append(c.For, diagnose.Shows([]diagnose.Finding{auto})...)
			if method := c.Args["method"].Said(); diagnose.TextsOf(auto, link.FactAlternatives)[method] != "" {
				c.Says += fmt.Sprintf("; %s would pick %s", method, internal)
			}
		}
		withSessions(f, &c, address)
		c.Covers = append(evidence.PathFollows(f, family, ""), diagnose.Covers(link.NodeUplink.ID, overlay.OverlayTunnels.ID,
			overlay.IPSetHosts.ID)...)
		out = append(out, c)
	}
	return out
}

// withSessions adds what the BGP sessions of the family say of the address that Calico registered.
func withSessions(f diagnose.Findings, c *diagnose.Case, address string) {
	sessions := diagnose.Keep(f.Of(bgp.BGPSession.ID), func(r diagnose.Finding) bool {
		return diagnose.FamilyOf(r) == c.Family && r.Facts.Str(bgp.FactPeer) != ""
	})
	down := diagnose.Keep(sessions, func(r diagnose.Finding) bool { return diagnose.IsBad(r.Status) })
	if len(down) == 0 { // routes outlive a session
		c.Against = diagnose.Suggests(slices.Concat(sessions, crossing(f, c.Family))) // the others do reach it
	}
	c.For = append(c.For, diagnose.Shows(down)...)
	if slices.ContainsFunc(down, func(r diagnose.Finding) bool { return r.Facts.Str(bgp.FactBGPState) == "Passive" }) {
		c.Says += fmt.Sprintf("; sessions wait as Passive here because the other ends have to dial, and dial %s in vain", address)
	}
	c.For = append(c.For, diagnose.Shows(diagnose.Keep(f.Elsewhere(bgp.BGPSession.ID), func(r diagnose.Finding) bool {
		return diagnose.IsBad(r.Status) && r.Facts.Str(bgp.FactPeer) == address
	}))...)
}

// crossing is what shows that packets pass between this node's address and other nodes,
// where nothing says that some do not.
func crossing(f diagnose.Findings, family int) []diagnose.Finding {
	var out []diagnose.Finding
	for _, check := range []string{overlay.EncapProof.ID, pod.PodPing.ID, pod.PodTCP.ID} {
		of := diagnose.Keep(f.Of(check), func(r diagnose.Finding) bool {
			return diagnose.FamilyOf(r) == family && diagnose.NodeOf(r) != f.Node && r.Facts[overlay.FactUsed] != false &&
				(check == overlay.EncapProof.ID || diagnose.NodeOf(r) != "")
		})
		if slices.ContainsFunc(of, func(r diagnose.Finding) bool { return diagnose.IsBad(r.Status) }) {
			return nil
		}
		out = append(out, diagnose.Keep(of, func(r diagnose.Finding) bool { return r.Status == probe.OK })...)
	}
	return out
}

// dockerBridge is how docker names the bridges of its networks.
var dockerBridge = regexp.MustCompile(`^br-[0-9a-f]{12}$`)

// isBridge tells by the interface, or where nobody looked at it by the address: docker
// gives its bridges the first one of 172.17.0.0/16 and those after it.
func isBridge(name, kind, address string) bool {
	if name != "" {
		return kind == "bridge"
	}
	a, err := netip.ParseAddr(address)
	if err != nil || !a.Is4() {
		return false
	}
	b := a.As4()
	return b[0] == 172 && b[1] >= 17 && b[1] <= 31 && b[2] == 0 && b[3] == 1
}

// bridgeNote says whose bridge it is, and which version of Calico leaves it out.
func bridgeNote(name string) string {
	switch {
	case name == "":
		return "; that is the address docker gives a bridge"
	case dockerBridge.MatchString(name):
		return fmt.Sprintf("; %s is a bridge that 'docker network create' made, which first-found skips since Calico v3.25.0", name)
	case strings.HasPrefix(name, "podman"), strings.HasPrefix(name, "br-"):
		return fmt.Sprintf("; %s is a bridge, which first-found skips since Calico v3.25.0", name)
	case strings.HasPrefix(name, "cni"):
		return fmt.Sprintf("; %s is a bridge, which first-found skips since Calico v3.15", name)
	case strings.HasPrefix(name, "docker"), strings.HasPrefix(name, "virbr"):
		return fmt.Sprintf("; %s is a bridge, which first-found skips: another method picked it", name)
	}
	return fmt.Sprintf("; %s is a bridge, which first-found skips in no version", name)
}

// addressWillChange is the second NIC or the bridge before it does harm.
var addressWillChange = &diagnose.Rule{
	ID: "address-will-change", Layer: diagnose.LayerCalico, Later: true,
	Title: "Calico will pick another address at its next detection",
	Doc:   `The registered address is right, and the method that calico-node uses picks another one on this node as it is now: a NIC, a bridge or an address was added after the last look. From v3.16 calico-node looks every minute, before only at its next start, which may be weeks away: then an upgrade or a reboot gets the blame.`,
	Fix:   evidence.SetMethod, Wants: []string{facts.CheckIPRegistered},
	Match: func(f diagnose.Findings) []diagnose.Case {
		var out []diagnose.Case
		for _, auto := range f.Failed(link.IPAutodetect.ID) {
			picked, registered := auto.Facts.Str(link.FactPicked), auto.Facts.Str(probe.FactRegistered)
			reg, ok := diagnose.Answer(f, facts.CheckIPRegistered, auto.Target)
			if picked == "" || registered == "" || ok && diagnose.IsBad(reg.Status) {
				continue
			}
			out = append(out, diagnose.Case{
				About: auto.Target, Family: diagnose.FamilyOf(auto), For: diagnose.Proves([]diagnose.Finding{auto}),
				Args: evidence.MethodFor(diagnose.FamilyOf(auto), registered, auto),
				Says: fmt.Sprintf("%s picks %s on %s when calico-node of {node} looks again; %s is registered still, so nothing is broken yet", auto.Facts.Str(link.FactMethod), picked, auto.Facts.Str(probe.FactInterface), registered),
			})
		}
		return out
	},
}

// addressGone is an address that was taken off the node.
var addressGone = &diagnose.Rule{
	ID: "address-gone", Layer: diagnose.LayerCalico, Title: "the node's registered address is missing from its interfaces",
	Doc: `The node was renumbered, or its interface lost its address, while calico-node ran or could not find another one. BIRD says "Address not available" (or "Cannot assign requested address"), for it binds to the registered address before it dials. Told from a wrong NIC by the address being on no interface.`,
	Fix: probe.Fix{
		Says:     "If the node's address was changed on purpose, let calico-node find it again; else give the interface its address back.",
		Manifest: []string{"ssh {node} ip -br addr"},
		OnlyIf: []probe.Conditional{{If: "the address was changed on purpose",
			Manifest: []string{"kubectl -n {namespace} delete pod {pod}"}}},
		Radius: "this node: its sessions drop until calico-node is up again; pods keep running",
	},
	Explains: append([]string{"address-second-nic", "address-bridge"}, afterAddress...),
	Match: func(f diagnose.Findings) []diagnose.Case {
		var out []diagnose.Case
		for _, auto := range f.Of(link.IPAutodetect.ID) {
			on, knows := auto.Facts[link.FactKeptOn]
			registered := auto.Facts.Str(probe.FactRegistered)
			if !knows || on != "" || registered == "" {
				continue
			}
			family := diagnose.FamilyOf(auto)
			lost := func(r diagnose.Finding) bool {
				return diagnose.ReasonOf(r) == "no-address" && diagnose.FamilyOf(r) == family
			}
			c := diagnose.Case{
				About: auto.Target, Family: family, For: diagnose.Proves([]diagnose.Finding{auto}),
				Covers: evidence.PathFollows(f, family, ""),
				Says:   fmt.Sprintf("%s, which Calico registered for {node}, is on none of its interfaces", registered),
			}
			c.For = append(c.For, diagnose.Shows(diagnose.Keep(f.Bad(bgp.BGPPort.ID), lost),
				diagnose.Keep(f.Bad(bgp.BGPSession.ID), lost))...)
			c.Covers = append(c.Covers, diagnose.Cover{Check: facts.CheckIPRegistered, About: auto.Target})
			out = append(out, c)
		}
		return out
	},
}

// addressTaken is one address registered for two nodes.
var addressTaken = &diagnose.Rule{
	ID: "address-taken", Layer: diagnose.LayerCalico, Title: "two nodes are registered with the same address",
	Doc: `The API has the same address for two nodes. No node peers with its own address, so the two have no session, and all others reach one of them or the other. calico-node that meets it at its start ends with "is already using the IPv4 address". It comes of a bridge that is on both nodes, of a machine that was installed anew under another name while its old Node stayed, of cloned machines, and of annotations copied by hand.`,
	Fix: probe.Fix{
		Says:     "See which of the two has the address; delete the Node of a machine that is no more, or set how addresses are found ({method}).",
		Manifest: []string{"kubectl get nodes {node} {other} -o wide"},
		OnlyIf: []probe.Conditional{{If: "both machines live", Manifest: evidence.SetMethod.Manifest,
			Operator: evidence.SetMethod.Operator},
			{If: "{other} is a Node whose machine is gone, or has another name now", Manifest: []string{"kubectl delete node {other}"}}},
		Radius: evidence.SetMethod.Radius,
	},
	Explains: append([]string{"address-second-nic", "address-bridge", "address-gone", "peer-address",
		"bgp-peers-missing", "calico-ends"}, afterAddress...),
	Match: func(f diagnose.Findings) []diagnose.Case {
		var out []diagnose.Case
		for _, reg := range f.With(facts.CheckIPRegistered, probe.FactReason, facts.ReasonTaken) {
			address, internal := reg.Facts.Str(facts.Registered), reg.Facts.Str(facts.Internal)
			other := reg.Facts.Str(probe.FactNode)
			says := fmt.Sprintf("%s is registered for {node} and for %s", address, other)
			if state := reg.Facts.Str(probe.FactNodeState); state != "" {
				says = fmt.Sprintf("%s, which {node} has, is registered for %s, a Node that is %s: perhaps this machine's name of before",
					address, other, state)
			}
			if internal != "" && internal != address {
				says += fmt.Sprintf("; {node} itself has %s", internal)
			}
			auto, _ := diagnose.Answer(f, link.IPAutodetect.ID, reg.Target)
			args := evidence.MethodFor(diagnose.FamilyOf(reg), internal, auto)
			args["other"] = diagnose.NodeArg(other)
			out = append(out, diagnose.Case{
				About: reg.Target, Family: diagnose.FamilyOf(reg), Says: says, Args: args,
				For: diagnose.Proves([]diagnose.Finding{reg}),
				Covers: append(evidence.PathFollows(f, diagnose.FamilyOf(reg), ""),
					diagnose.Covers(link.IPAutodetect.ID, bgp.BGPExpected.ID)...),
			})
		}
		return out
	},
}

// peerAddress is a wrong address of another node, seen from here.
var peerAddress = &diagnose.Rule{
	ID: "peer-address", Layer: diagnose.LayerPeers, Title: "another node is registered with an unreachable address",
	Doc: `What is wrong is not this node: Calico registered for the other one an address that is not its InternalIP, of a second NIC or a bridge, and this node's sessions and tunnels lead there. The other node answers a ping at its InternalIP and not at the registered address, which tells it from a node that is down.`,
	Fix: evidence.SetMethod, Wants: []string{link.NodePing.ID},
	Explains: []string{"bgp-filtered", "bgp-rejected", "bgp-password", "bgp-waits", "bgp-one-way", "peer-bird-dead",
		"peer-down", "tunnel-filtered", "bgp-restart-hold"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		var out []diagnose.Case
		for _, reg := range f.With(facts.CheckIPRegistered, probe.FactReason, facts.ReasonPeer) {
			peer := reg.Facts.Str(probe.FactNode)
			address, internal := reg.Facts.Str(facts.Registered), reg.Facts.Str(facts.Internal)
			family := diagnose.FamilyOf(reg)
			c := diagnose.Case{
				About: peer, Peer: peer, Family: family, For: diagnose.Suggests([]diagnose.Finding{reg}),
				Args: evidence.MethodFor(family, internal, diagnose.Finding{}), Covers: evidence.PathFollows(f, family, peer),
				Says: fmt.Sprintf("%s is registered with %s, and its InternalIP is %s: what {node} sends to it for BGP and tunnels goes nowhere", peer, address, internal),
			}
			if isBridge("", "", address) {
				c.Says += bridgeNote("")
			}
			silent, lives := diagnose.Finding{}, false
			for _, ping := range f.Of(link.NodePing.ID) {
				switch ping.Target {
				case peer + " " + address:
					silent = ping
				case peer + " " + internal:
					lives = ping.Status == probe.OK
				}
			}
			if diagnose.IsBad(silent.Status) && lives {
				c.For = append(c.For, diagnose.Hints([]diagnose.Finding{silent})...)
			}
			for _, s := range f.Of(bgp.BGPSession.ID) {
				switch {
				case s.Facts.Str(bgp.FactPeer) != address:
				case diagnose.IsBad(s.Status):
					c.For = append(c.For, diagnose.Shows([]diagnose.Finding{s})...)
				default:
					c.Against = append(c.Against, diagnose.Suggests([]diagnose.Finding{s})...)
				}
			}
			c.For = append(c.For,
				diagnose.Shows(diagnose.Keep(f.Elsewhere(facts.CheckIPRegistered), func(r diagnose.Finding) bool {
					return r.Node == peer && diagnose.ReasonOf(r) == facts.ReasonOutside
				}))...)
			out = append(out, c)
		}
		return out
	},
}
