package cause

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// bgpOneWay is a session that opens and dies of silence.
var bgpOneWay = &diagnose.Rule{
	ID: "bgp-one-way", Layer: diagnose.LayerPeers, Title: "a BGP connection opens, but no message arrives on it",
	Doc: `The connection stands, and the messages of one side do not come through: the session hangs in OpenSent or ends with "Hold timer expired". Packets of one direction are lost, or only large ones are (MTU): the first messages are small, a table of routes is not.`,
	Fix: probe.Fix{
		Says:     "Look for what loses packets between the two: try large ones that may not be fragmented, both ways.",
		Manifest: []string{"ssh {node} ping -M do -s 1472 -c 3 {peer}", "calico-probe run --node {node} --profile deep"},
		Radius:   "nothing: three packets, and a second probe on another node",
	},
	RuledOut: []string{bgp.BirdSocket.ID, facts.CheckIPRegistered},
	Match: func(f diagnose.Findings) []diagnose.Case {
		return perSession(f, func(s session, c *diagnose.Case) bool {
			state := s.Facts.Str(bgp.FactBGPState)
			hangs := (state == "OpenSent" || state == "OpenConfirm") && diagnose.ReasonOf(s.Finding) == ""
			if diagnose.ReasonOf(s.Finding) != "hold-expired" && !hangs || s.refusal() != "" || !s.answers() {
				return false
			}
			c.For = append(diagnose.Suggests([]diagnose.Finding{s.Finding}),
				diagnose.Shows([]diagnose.Finding{s.ping}, s.there)...)
			c.Says = fmt.Sprintf("the session with %s opens and then hears nothing: packets of one direction, or large ones, are lost", s.Target)
			return true
		})
	},
}

// bgpWaits is the end of a session that can only wait.
var bgpWaits = &diagnose.Rule{
	ID: "bgp-waits", Layer: diagnose.LayerPeers, Symptom: true,
	Title: "this node waits for a BGP connection that the peer never makes",
	Doc:   `Of two nodes the one whose address is the smaller text is passive: it never dials and has no error to show. A connection from here to the peer's port works, so the peer's BIRD lives; why it does not get through to here only the other end can say.`,
	Fix: probe.Fix{
		Says: "Let {other} connect to TCP port 179 of {node}. A firewall on {node} or a missing route back is the usual reason. The sessions of {other} show the error of each try.",
		Manifest: []string{"calico-probe run --node {other} --checks bgp,node-ping",
			"ssh {node} sudo nft list ruleset | grep -n -e 179 -e bgp", "ssh {node} sudo iptables-save | grep -n -e 179"},
		Radius: "all only read; a rule that lets 179 in opens BGP to whom the rule names",
	},
	Match: func(f diagnose.Findings) []diagnose.Case {
		return perSession(f, func(s session, c *diagnose.Case) bool {
			if s.Facts.Str(bgp.FactBGPState) != "Passive" || s.refusal() != "" ||
				diagnose.ReasonOf(s.Finding) == "unknown-peer" ||
				!s.ported {
				return false
			}
			c.For, c.Fix = diagnose.Hints([]diagnose.Finding{s.Finding}), s.where()
			c.Says = fmt.Sprintf("{node} waits for %s to dial (Passive), and nothing here says why it does not get through",
				s.Target)
			for _, theirs := range s.there {
				if diagnose.IsBad(theirs.Status) {
					c.For = append(c.For, diagnose.Hints([]diagnose.Finding{theirs})...)
					c.Says = fmt.Sprintf("{node} waits for %s to dial (Passive), and that end says: %s", s.Target, theirs.Saw)
				}
			}
			return true
		})
	},
}

// bgpPeerSilent is a peer that is no node, and that nobody hears of.
var bgpPeerSilent = &diagnose.Rule{
	ID: "bgp-peer-silent", Layer: diagnose.LayerPeers, Title: "an external BGP peer does not answer",
	Doc: `A BGPPeer names a switch, a route reflector or another router, and at its address nobody takes a connection: it is off, gone, has another address, or a firewall keeps it apart. Where the mesh of nodes is off (nodeToNodeMeshEnabled: false) all routes to other nodes' pods come from such peers: without them no node reaches another's pods. A restart of BIRD holds routes back for such a peer for up to four minutes.
Told from a node that does not answer by the API, which has no node of that address; from other passwords (MD5), which look like silence, by the session's own. Where nothing comes back at all, a firewall before port 179 looks the same, so that is no more than medium.`,
	Fix: probe.Fix{
		Says: "See whether that peer lives and has that address; where it is gone, give the BGPPeer another one, or have the nodes peer with each other.",
		Manifest: []string{"kubectl get bgppeers.crd.projectcalico.org -o yaml | grep -n -B8 -A8 -F {peer}",
			"ssh {node} 'ip route get {peer}; ping -c 2 {peer}; ip neigh show {peer}'",
			"kubectl get bgpconfigurations.crd.projectcalico.org -o yaml | grep -n -i mesh"},
		OnlyIf: []probe.Conditional{{If: "no such peer is meant any more, and all nodes may peer with each other",
			Manifest: []string{`kubectl patch bgpconfigurations.crd.projectcalico.org default --type merge -p '{"spec":{"nodeToNodeMeshEnabled":true}}'`}}},
		Radius: "reading changes nothing; the mesh gives every node a session with every other one",
	},
	RuledOut: []string{bgp.BirdSocket.ID, link.NodePing.ID, facts.CheckIPRegistered},
	Explains: []string{"bgp-restart-hold", "peer-pods"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		return perSession(f, func(s session, c *diagnose.Case) bool {
			silent := []string{"timeout", "host-unreachable", "net-unreachable"}
			said := cmp.Or(s.refusal(), diagnose.ReasonOf(s.Finding))
			secret := s.port.Facts[probe.FactPassword] == true || diagnose.ReasonOf(s.Finding) == "password" || s.forPassword(f)
			if diagnose.NodeOf(s.Finding) != "" || !s.ported || s.answers() || secret || !slices.Contains(silent, said) {
				return false
			}
			c.For = append(diagnose.Suggests([]diagnose.Finding{s.port}), diagnose.Shows([]diagnose.Finding{s.Finding})...)
			other := diagnose.Keep(f.Elsewhere(bgp.BGPPort.ID),
				func(r diagnose.Finding) bool { return r.Target == s.port.Target && diagnose.IsBad(r.Status) })
			if len(other) > 0 && said != "timeout" { // which a firewall makes too
				c.For = append(c.For, diagnose.Hints(other[:1])...)
			}
			c.Says = fmt.Sprintf("%s, which is no node of the cluster, takes no BGP connection: %s", s.Target, s.port.Saw)
			return true
		})
	},
}
