package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/probe"
)

// birdPortTaken is another routing daemon on the node.
var birdPortTaken = &Rule{
	ID: "bird-port-taken", Layer: LayerCalico, Title: "another program holds the BGP port on this node",
	Doc: `BIRD cannot listen on port 179: FRR, a BIRD of the distribution's, MetalLB's speaker or another BGP daemon of the node has it. Calico's BIRD runs then and answers, every session of it is down with "No listening socket", and it does not try again by itself; or it does not run at all, and its socket refuses while something listens on the port all the same.`,
	Fix: probe.Fix{
		Says:     "See who listens, and stop it or give it another address or port.",
		Manifest: []string{"ssh {node} sudo ss -ltnp 'sport = :179'"},
		OnlyIf: []probe.Conditional{{If: "the port is free again: BIRD opens it at its start alone",
			Manifest: []string{restartCalico}}},
		Radius: "reading changes nothing; stopping the other daemon ends the sessions that one has; " + restartRadius,
	},
	Explains: []string{"bird-dead", "bgp-waits", "bgp-restart-hold", "bgp-unknown-peer"},
	Match: func(f Findings) []Case {
		out := append(withoutListener(f), peersWithoutListener(f)...)
		for _, socket := range deaf(f) {
			family := familyOf(socket)
			holds := keep(f.Of(bgp.BGPPort.ID), func(r Finding) bool {
				return slices.ContainsFunc(listOf(r, probe.FactListening),
					func(at string) bool { return strings.HasPrefix(at, "[") == (family == 6) })
			})
			if reasonOf(socket) != "refused" || len(holds) == 0 {
				continue
			}
			c := Case{
				About: familyName(family), Family: family, For: Suggests([]Finding{socket}),
				Covers: append(pathFollows(f, family, ""), Covers(bgp.BirdConfig.ID, bgp.BGPExpected.ID)...),
				Says: fmt.Sprintf("Calico's BIRD for %s does not run on {node}, and another program listens on %s",
					familyName(family), strings.Join(listOf(holds[0], probe.FactListening), ", ")),
			}
			if who := holds[0].Facts.Str(probe.FactHeldBy); who != "" {
				c.Says += ": " + who
			}
			ended := keep(birdOf(f, bgp.BirdConfig.ID, family),
				func(r Finding) bool { return r.Facts[bgp.FactRuns] == false })
			c.For = append(c.For, append(Shows(holds), Hints(ended)...)...) // else BIRD may have come back in between
			out = append(out, c)
		}
		return out
	},
}

// freePeersPort is the fix of a port that another program holds on the other node.
var freePeersPort = &probe.Fix{
	Says:     "Stop the program that holds the port on {other}, or give it another address or port. Then restart calico-node there: BIRD opens its port at its start alone.",
	Manifest: []string{"ssh {other} sudo ss -ltnp 'sport = :179'"},
	OnlyIf: []probe.Conditional{{If: "the port is free again",
		Manifest: []string{"kubectl -n {namespace} delete pod -l k8s-app=calico-node --field-selector spec.nodeName={other}"}}},
	Radius: "reading changes nothing; stopping the other daemon ends the sessions that one has; " + restartRadius,
}

// peersWithoutListener are the cases of another node's BIRD that could not open its port. The program that has it
// takes this node's connection and closes it.
func peersWithoutListener(f Findings) []Case {
	var out []Case
	for _, r := range f.Elsewhere(bgp.BGPSession.ID) {
		if !bad(r.Status) || reasonOf(r) != "no-listener" || nodeOf(r) != f.Node {
			continue
		}
		here := keep(f.Bad(bgp.BGPSession.ID), func(o Finding) bool {
			return nodeOf(o) == r.Node && familyOf(o) == familyOf(r)
		})
		out = append(out, Case{
			About: r.Node, Peer: r.Node, Family: familyOf(r), Fix: freePeersPort, Args: map[string]Arg{"other": nodeArg(r.Node)},
			For:    append(Suggests(here), Suggests([]Finding{r})...),
			Covers: pathFollows(f, familyOf(r), r.Node),
			Says: fmt.Sprintf("BIRD on %s could not open BGP's port, which another program holds there: it reports %q for its session with {node}",
				r.Node, r.Facts.Str(bgp.FactLastError)),
		})
	}
	return out
}

// withoutListener are the cases of a BIRD that runs and says that it could not open the port.
func withoutListener(f Findings) []Case {
	var out []Case
	for _, family := range []int{4, 6} {
		down := keep(f.Bad(bgp.BGPSession.ID), func(r Finding) bool {
			return reasonOf(r) == "no-listener" && familyOf(r) == family
		})
		if len(down) == 0 {
			continue
		}
		holds := keep(f.Of(bgp.BGPPort.ID), func(r Finding) bool { return len(listOf(r, probe.FactListening)) > 0 })
		c := Case{About: familyName(family), Family: family, For: append(Suggests(down), Hints(holds)...),
			Covers: append(pathFollows(f, family, ""), Covers(bgp.BGPExpected.ID)...),
			Says:   fmt.Sprintf("Calico's BIRD for %s on {node} could not open its port when it began, so it has no session", familyName(family))}
		if len(holds) > 0 {
			c.Says += fmt.Sprintf(": %s listens on %s", cmp.Or(holds[0].Facts.Str(probe.FactHeldBy), "another program, perhaps a second BIRD,"),
				strings.Join(listOf(holds[0], probe.FactListening), ", "))
		}
		out = append(out, c)
	}
	return out
}

// birdOldPort is a BIRD that listens on another port than the one that is configured.
var birdOldPort = &Rule{
	ID: "bird-old-port", Layer: LayerCalico, Title: "BIRD listens on a port other than BGPConfiguration's listenPort",
	Doc: `BIRD opens its port when it starts, and keeps it when its configuration is read again. Where listenPort of the BGPConfiguration "default" or "node.NAME" is changed or taken away, BIRD stays on the old port until calico-node restarts. Sessions that are up stay up; a peer that connects to the new port is refused, so after the next interruption the session only comes back if this side connects.
Told from a BIRD that is down by its socket, which answers, and by the port that its process holds.`,
	Fix: probe.Fix{
		Says: "If the configured port is the wanted one, restart calico-node on {node}, which opens it. If not, correct listenPort.",
		Manifest: []string{"kubectl get bgpconfigurations.crd.projectcalico.org -o yaml  # listenPort of default and of node.{node}",
			"ssh {node} sudo ss -ltnp"},
		OnlyIf: []probe.Conditional{{If: "the configured port is the wanted one", Manifest: []string{restartCalico}}},
		Radius: "reading changes nothing; " + restartRadius,
	},
	RuledOut: []string{bgp.BirdSocket.ID},
	Match: func(f Findings) []Case {
		for _, r := range f.Failed(bgp.BGPPort.ID) {
			at := listOf(r, bgp.FactListensAt)
			if len(at) == 0 {
				continue
			}
			port, _ := r.Facts.Num(probe.FactPort)
			return []Case{{
				Says: fmt.Sprintf("BIRD on {node} listens on %s, and the configured BGP port is %.0f: it opens its port only when it starts",
					strings.Join(at, ", "), port),
				For: Proves([]Finding{r}), Covers: Covers(bgp.BGPPort.ID),
			}}
		}
		return nil
	},
}
