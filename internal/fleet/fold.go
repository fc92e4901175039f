package fleet

import (
	"cmp"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/internal/subject/nodestate"
	"github.com/calico-probe/calico-probe/internal/subject/suite/cause"
	"github.com/calico-probe/calico-probe/probe"
)

// A blamed node has a fault that explains other nodes' findings about that node.
type blamed struct {
	cause      string // the ID of the cause with the highest confidence
	confidence probe.Confidence
}

// folding decides which causes on nodes follow from another node's fault. A cause follows only from a cause with the
// same or a higher confidence:
//
//	a cause about another node  from the fault of that node, unless it is a fault of this node (diagnose.Here)
//	the two ends of one cause   from the end that alone shows why, or that more nodes agree with
//	any unproven cause          from a proven fault of the node to which its failed paths lead
type folding struct {
	all    []judged
	blamed map[string]blamed
	proven map[string]bool     // the blamed nodes that other nodes report as lost (see proven)
	into   map[string][]string // by node: for each cause, the node with the underlying fault; "" = none
}

func fold(all []judged) *folding {
	f := &folding{all: all, blamed: map[string]blamed{}, into: map[string][]string{}}
	for _, n := range all {
		f.into[n.name] = make([]string, len(n.causes))
	}
	for _, n := range all {
		f.blame(n)
	}
	f.foldPairs()
	f.each(diagnose.There, func(n judged, at int, of string) {
		if b, is := f.blamed[of]; is && !surer(n.causes[at].Confidence, b.confidence) {
			f.into[n.name][at] = of
		}
	})
	f.proven = proven(all, f.blamed)
	f.foldPaths()
	f.settle()
	return f
}

// about returns the other node that a cause is about, or "" if there is none.
func (f *folding) about(n judged, at int) string {
	if of := nodeIn(n.causes[at].About, f.into); of != n.name {
		return of
	}
	return ""
}

// own reports whether a cause is a fault of the node that has it.
func (f *folding) own(n judged, at int) bool {
	return f.about(n, at) == "" || cause.All().SideOf(n.causes[at].ID) == diagnose.Here
}

// blame blames a node for its most certain cause that no other node's fault explains.
func (f *folding) blame(n judged) {
	delete(f.blamed, n.name)
	for at, c := range n.causes {
		b, is := f.blamed[n.name]
		if f.own(n, at) && f.into[n.name][at] == "" && (!is || surer(c.Confidence, b.confidence)) {
			f.blamed[n.name] = blamed{c.ID, c.Confidence}
		}
	}
}

// each calls do for every cause that is about another node and has its fault on the given side.
func (f *folding) each(side diagnose.Side, do func(n judged, at int, of string)) {
	for _, n := range f.all {
		for at, c := range n.causes {
			if of := f.about(n, at); of != "" && cause.All().SideOf(c.ID) == side {
				do(n, at, of)
			}
		}
	}
}

// foldPairs folds the causes between two nodes. If neither end has a fault with that confidence, it blames the node
// with the cause, or the other end if that is the culprit.
func (f *folding) foldPairs() {
	own, ends := map[string]blamed{}, f.ends()
	for name, b := range f.blamed {
		own[name] = b
	}
	asSure := func(name string, c probe.Cause) bool {
		b, is := own[name]
		return is && !surer(c.Confidence, b.confidence)
	}
	f.each(diagnose.Between, func(n judged, at int, of string) {
		c := n.causes[at]
		switch b, is := f.blamed[n.name]; {
		case asSure(of, c), !asSure(n.name, c) && ends.culprit(c.ID, of, n.name):
			f.into[n.name][at] = of
		case !is || surer(c.Confidence, b.confidence):
			f.blamed[n.name] = blamed{c.ID, c.Confidence}
		}
	})
}

// An end is a node that has causes of one rule about other nodes, or that is the subject of such causes.
type end struct {
	others map[string]bool // the nodes at the other end, for causes on both ends
	rule   bool            // this node's own answers show what drops the packets (findRule)
	sure   probe.Confidence
}

// ends maps a cause's ID and a node to the end of a cause between two nodes.
type ends map[string]map[string]*end

func (f *folding) ends() ends {
	out := ends{}
	says := map[[3]string]bool{} // whether a node has a cause with this ID about another node
	f.each(diagnose.Between, func(n judged, i int, of string) {
		c := n.causes[i]
		if out[c.ID] == nil {
			out[c.ID] = map[string]*end{}
		}
		here := out[c.ID][n.name]
		if here == nil {
			here = &end{others: map[string]bool{}, sure: c.Confidence}
			out[c.ID][n.name] = here
		}
		if surer(c.Confidence, here.sure) {
			here.sure = c.Confidence
		}
		here.rule = here.rule || showsRule(c)
		says[[3]string{c.ID, n.name, of}] = true
		if says[[3]string{c.ID, of, n.name}] {
			here.others[of], out[c.ID][of].others[n.name] = true, true
		}
	})
	return out
}

// lead is the number of additional nodes that the culprit must have at its other end. It is above 1 because a single
// hostile node can accuse any node.
const lead = 2

// culprit reports whether the first of two nodes that accuse each other is at fault. It is at fault if only its own
// results show what drops the packets. It is also at fault if no results show that and clearly more nodes are at its
// other end.
func (e ends) culprit(id, first, second string) bool {
	a, b := e[id][first], e[id][second]
	if a == nil || b == nil || surer(b.sure, a.sure) || b.rule {
		return false
	}
	return a.rule || len(a.others) >= len(b.others)+lead
}

// findRule lists the checks that name a node's packet filter. A cause with such evidence belongs to that node.
var findRule = []string{nodestate.NodeState.ID, firewall.PacketDrops.ID}

// showsRule reports whether a cause's evidence includes the node's own result about what drops the packets.
func showsRule(c probe.Cause) bool {
	return slices.ContainsFunc(c.For, func(clue probe.Clue) bool {
		return clue.Node == "" && slices.Contains(findRule, clue.Check)
	})
}

// between returns both ends of a group's cause if the fault may be at either end, otherwise nil.
func (f *folding) between(g *probe.Group) []string {
	if g.Example.Cause == nil || cause.All().SideOf(g.Cause) != diagnose.Between || len(g.Nodes) > 2 {
		return nil
	}
	shown := slices.ContainsFunc(g.Example.Cause.For, func(clue probe.Clue) bool {
		return slices.Contains(findRule, clue.Check)
	})
	out := slices.Clone(g.Nodes)
	for _, about := range g.Abouts {
		of := nodeIn(about, f.into)
		if of == "" {
			return nil
		}
		if !slices.Contains(out, of) {
			out = append(out, of)
		}
	}
	if shown || len(g.Abouts) == 0 || len(out) != 2 {
		return nil
	}
	slices.Sort(out)
	return out
}

// foldPaths folds unproven causes into a proven fault of the node to which their failed paths lead, or of the node that
// runs the missing servers.
func (f *folding) foldPaths() {
	for _, n := range f.all {
		lost := slices.DeleteFunc(n.lost(f.blamed), func(peer string) bool {
			return f.blamed[peer].confidence != probe.High
		})
		for at, c := range n.causes {
			if f.into[n.name][at] == "" && f.about(n, at) == "" && c.Confidence != probe.High {
				f.into[n.name][at] = cmp.Or(n.explained(c, lost, f.proven), f.unserving(n, c))
			}
		}
	}
}

// unserving returns the faulty node that runs a cause's missing servers, if all of the cause's failed results point to
// that node. Otherwise it returns "". A Service loses its endpoints on a node whose kubelet is silent.
func (f *folding) unserving(n judged, c probe.Cause) string {
	of := ""
	for _, clue := range c.For {
		if clue.Node != "" || !bad(clue.Status) {
			continue
		}
		r := n.answer(clue)
		if r == nil {
			return ""
		}
		name := r.Facts.Str(probe.FactServersOn)
		b, is := f.blamed[name]
		if !is || name == n.name || of != "" && of != name || surer(c.Confidence, b.confidence) {
			return ""
		}
		of = name
	}
	return of
}

// answer returns this node's failed result that a clue quotes, or nil if the result was not kept.
func (n judged) answer(clue probe.Clue) *probe.Result {
	at := slices.IndexFunc(n.bad, func(r probe.Result) bool {
		target := r.Target
		if r.From != "" {
			target = strings.TrimSpace(target + " from " + r.From)
		}
		return r.Check == clue.Check && target == clue.Target && r.Saw == clue.Saw
	})
	if at < 0 {
		return nil
	}
	return &n.bad[at]
}

// explained returns the lost peer whose cause explains all failed results of a cause on this node, or "" if there is
// none.
func (n judged) explained(c probe.Cause, lost []string, proven map[string]bool) string {
	of := ""
	for _, clue := range c.For {
		if clue.Node != "" || !bad(clue.Status) {
			continue
		}
		r := n.answer(clue)
		if r == nil {
			return ""
		}
		peer := n.followsFrom(*r, lost, proven)
		if peer == "" {
			return ""
		}
		of = peer
	}
	return of
}

// settle assigns blame again after causes were folded. A cause folded into a fault without a group becomes a separate
// group.
func (f *folding) settle() {
	for _, n := range f.all {
		if b, is := f.blamed[n.name]; is && !f.leads(n, b.cause) {
			f.blame(n)
		}
	}
	for _, into := range f.into {
		for at, of := range into {
			if _, is := f.blamed[of]; !is {
				into[at] = ""
			}
		}
	}
	f.proven = proven(f.all, f.blamed)
}

// leads reports whether a node has a cause with this ID that no other node's fault explains.
func (f *folding) leads(n judged, id string) bool {
	for at, c := range n.causes {
		if c.ID == id && f.into[n.name][at] == "" {
			return true
		}
	}
	return false
}

// proven returns the blamed nodes that two other nodes report as lost. If there is only one other node, two of its
// checks are enough. Two are required because a single node could drop another node's packets to fake a fault there,
// and thus hide a broken service.
func proven(all []judged, blamed map[string]blamed) map[string]bool {
	by := map[string]map[string]bool{}
	for _, n := range all {
		lost := n.lost(blamed)
		for _, r := range n.bad {
			peer, witness := r.Facts.Str(probe.FactNode), n.name
			if len(all) == 2 {
				witness = r.Check
			}
			if slices.Contains(lost, peer) {
				if by[peer] == nil {
					by[peer] = map[string]bool{}
				}
				by[peer][witness] = true
			}
		}
	}
	out := map[string]bool{}
	for peer, witnesses := range by {
		out[peer] = len(witnesses) >= 2
	}
	return out
}

// nodeIn returns the node in a cause's subject, "NODE" or "NODE ADDRESS", if it is one of the given nodes, otherwise
// "".
func nodeIn[T any](about string, nodes map[string]T) string {
	name, _, _ := strings.Cut(about, " ")
	if _, is := nodes[name]; is {
		return name
	}
	return ""
}

func surer(a, b probe.Confidence) bool { return rank(a) < rank(b) }

// rank sorts confidences: the highest first, no confidence last.
func rank(c probe.Confidence) int {
	if i := slices.Index(probe.Confidences(), c); i >= 0 {
		return i
	}
	return len(probe.Confidences())
}

// lost returns the peers in this node's failed results that have a cause themselves. The peer's cause has at least the
// confidence of this node's cause, because a proven cause never follows from a peer's symptom.
func (n judged) lost(all map[string]blamed) []string {
	least := min(rank(probe.Medium), rank(all[n.name].confidence))
	var out []string
	for _, r := range n.bad {
		peer := r.Facts.Str(probe.FactNode)
		known := peer != n.name && rank(all[peer].confidence) <= least
		if known && !slices.Contains(out, peer) && evidence.FollowsFrom(peer, n.name, r) {
			out = append(out, peer)
		}
	}
	return out
}
