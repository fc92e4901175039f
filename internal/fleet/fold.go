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

// A blamed node has a fault of its own: what others find wrong with that node follows from it.
type blamed struct {
	cause      string // the ID of the surest
	confidence probe.Confidence
}

// folding says which causes of nodes follow from the fault of another node. A cause follows from one that is at least
// as sure, never the other way round:
//
//	a cause about another node  from the fault of that node, unless it is a fault of this node (diagnose.Here)
//	the two ends of one cause   from the end that alone shows why, or that more nodes agree with
//	any cause that is no proof  from a proven fault of the node to which its failed paths lead
type folding struct {
	all    []judged
	blamed map[string]blamed
	proven map[string]bool     // the blamed nodes that others find lost (proven)
	into   map[string][]string // by node: of each of its causes, the node whose fault it follows from, "" = none
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

// about is the other node that a cause is about, "" = none.
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

// blame blames a node for the surest of its own causes that follow from no other node's fault.
func (f *folding) blame(n judged) {
	delete(f.blamed, n.name)
	for at, c := range n.causes {
		b, is := f.blamed[n.name]
		if f.own(n, at) && f.into[n.name][at] == "" && (!is || surer(c.Confidence, b.confidence)) {
			f.blamed[n.name] = blamed{c.ID, c.Confidence}
		}
	}
}

// each calls do with the causes about another node whose fault lies on a side.
func (f *folding) each(side diagnose.Side, do func(n judged, at int, of string)) {
	for _, n := range f.all {
		for at, c := range n.causes {
			if of := f.about(n, at); of != "" && cause.All().SideOf(c.ID) == side {
				do(n, at, of)
			}
		}
	}
}

// foldPairs folds the causes that lie between two nodes. Where no end has a fault of its own that is as sure, the node
// that has the cause is blamed for it, or the other end where that is the culprit.
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

// An end is a node that has causes of one rule about other nodes, or that they are about.
type end struct {
	others map[string]bool // at the other end, of causes that both ends have
	rule   bool            // this node's own answers show what drops the packets (findRule)
	sure   probe.Confidence
}

// ends are the ends of causes between two nodes, by the cause's ID and the node.
type ends map[string]map[string]*end

func (f *folding) ends() ends {
	out := ends{}
	says := map[[3]string]bool{} // of the cause with an ID, a node has one about another node
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

// lead is how many more nodes a culprit has at the other end: one hostile node can be that of any other one.
const lead = 2

// culprit reports whether of two nodes the first is at fault, both with the same cause about the other one: its own
// answers alone show what drops the packets, or where none do, clearly more nodes are at the other end of it.
func (e ends) culprit(id, first, second string) bool {
	a, b := e[id][first], e[id][second]
	if a == nil || b == nil || surer(b.sure, a.sure) || b.rule {
		return false
	}
	return a.rule || len(a.others) >= len(b.others)+lead
}

// findRule are the checks that name what on a node drops packets: a cause that rests on one of them lies there.
var findRule = []string{nodestate.NodeState.ID, firewall.PacketDrops.ID}

// showsRule reports whether a cause rests on what its node says itself of what drops the packets.
func showsRule(c probe.Cause) bool {
	return slices.ContainsFunc(c.For, func(clue probe.Clue) bool {
		return clue.Node == "" && slices.Contains(findRule, clue.Check)
	})
}

// between are the two ends of a group's cause if it lies at either of them and nothing shows at which, nil otherwise.
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

// foldPaths folds causes that are no proof into the proven fault of the node to which their failed paths lead, or into
// that of the node on which the missing servers run.
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

// unserving is the node at fault on which the servers run that a cause misses, by each bad answer that it rests on;
// "" = none. A Service loses the endpoints of a node whose kubelet is silent.
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

// answer is the bad answer of this node that a clue is, nil = it was not kept.
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

// explained is the lost peer whose cause explains all that is bad of a cause's evidence on this node, "" = none.
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

// settle blames nodes again, as some of their causes follow from others now. What was folded into a fault that is no
// group is a group of its own.
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

// leads reports whether a node has a cause of a rule that follows from no other node's fault.
func (f *folding) leads(n judged, id string) bool {
	for at, c := range n.causes {
		if c.ID == id && f.into[n.name][at] == "" {
			return true
		}
	}
	return false
}

// proven are the blamed nodes that two other nodes find lost; of a run with one other node, by two of its checks. A
// node can make a fault and drop the packets of one other node, and would hide what is wrong with a service there.
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

// nodeIn is the node that a cause is about, as "NODE" or "NODE ADDRESS", where it is one of some; "" = none of them.
func nodeIn[T any](about string, nodes map[string]T) string {
	name, _, _ := strings.Cut(about, " ")
	if _, is := nodes[name]; is {
		return name
	}
	return ""
}

func surer(a, b probe.Confidence) bool { return rank(a) < rank(b) }

// rank is the place of a confidence among all, the surest first; none comes last.
func rank(c probe.Confidence) int {
	if i := slices.Index(probe.Confidences(), c); i >= 0 {
		return i
	}
	return len(probe.Confidences())
}

// lost are the peers with a cause of their own that a bad answer of this node names. That cause is no less sure than
// this node's own: a proven cause never follows from a neighbour's symptom.
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
