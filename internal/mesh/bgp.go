package mesh

import (
	"maps"
	"net/netip"
	"slices"
)

// SessionReport is a BGP session as one of its ends reports it.
type SessionReport struct {
	Node int // the index of the reporting node in a list of nodes
	Peer netip.Addr
	Up   bool
	Saw  string
}

// Sessions matches both ends of all sessions. A path in this plane is a session as reported by the node at the path's
// start. A session with an external peer has one end. at maps addresses to nodes. whole lists the nodes that reported
// all their sessions. If such a node lacks a session that the other end reports, the session fails at this node's end.
func Sessions(nodes []Node, reports []SessionReport, at map[netip.Addr]int, whole map[int]bool) Plane {
	nodes = slices.Clone(nodes)
	outside := map[netip.Addr]int{}
	trials := map[Path]Trial{}
	for _, t := range reports {
		to, known := at[t.Peer]
		if !known {
			if to, known = outside[t.Peer]; !known {
				to = len(nodes)
				outside[t.Peer] = to
				nodes = append(nodes, Node{Name: t.Peer.String(), Outside: true})
			}
		}
		p := Path{t.Node, to}
		// If there is a session for each address family, the worse session counts.
		if had, is := trials[p]; p.From != p.To && (!is || !had.Failed && !t.Up) {
			trials[p] = Trial{From: nodes[p.From].Name, To: nodes[p.To].Name, Failed: !t.Up, Saw: t.Saw}
		}
	}
	missing := map[Path]Trial{}
	for p, t := range trials {
		back := Path{p.To, p.From}
		switch _, is := trials[back]; {
		case is || !whole[p.To]:
		case t.Failed:
			t.Saw += "; " + t.To + " has no session with it"
			trials[p] = t
		default:
			missing[back] = Trial{From: t.To, To: t.From, Failed: true,
				Saw: "it has no session with " + t.From + ", which reports " + t.Saw}
		}
	}
	maps.Copy(trials, missing)
	out := PlaneOf(PlaneBGP, nodes, trials)
	for addr := range outside {
		out.Outside = append(out.Outside, addr.String())
	}
	slices.Sort(out.Outside)
	return out
}
