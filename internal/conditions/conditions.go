// Package conditions turns the results of a run over nodes into a condition on each Node. Controllers, alerts and users
// of 'kubectl describe node' read it.
//
//	report of a node -> Of -> Condition
//	Conditions of a round + what earlier rounds left -> Plan -> Round: which nodes change, and which are held back
//
// Plan is the entry point of a round. The package only decides: package cluster reads conditions, and the verb
// 'conditions' writes them.
package conditions

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// Type is the type of the condition.
const Type = facts.ConditionHealthy

// The values of a condition's status.
const (
	True    = "True"
	False   = "False"
	Unknown = "Unknown"
)

// Condition is a node's state as the node's condition reports it.
type Condition struct {
	Status    string    // True, False or Unknown
	Reason    string    // the cause in one word: SwapOn
	Message   string    // the cause's sentence for this node, and the run that found it
	Heartbeat time.Time // the time of the last write
	Since     time.Time // the time of the last change of status
}

// maxMessage is the maximum size of a message in bytes. It is small because every list of nodes contains the message.
const maxMessage = 400

// Of returns a node's condition from a run: True if there is no fault, False if there is one, and Unknown if too few
// checks could run.
func Of(n report.FleetNode, run string) Condition {
	c, says := Condition{Status: Unknown, Reason: "NotKnown"}, "too few checks could run"
	switch n.Word {
	case report.WordHealthy, report.WordWarnings:
		c.Status, c.Reason, says = True, "NothingBroken", "no fault found"
	case report.WordFault:
		c.Status, c.Reason, says = False, "NoKnownCause", "the fault has no known cause"
	}
	if len(n.Causes) > 0 && c.Status != True {
		first := n.Causes[0]
		c.Reason, says = inOneWord(first.ID), fmt.Sprintf("%s (%s)", first.Says, first.Confidence)
	}
	c.Message = probe.Cut(probe.OneLine(says), maxMessage) + ": run " + probe.OneLine(run)
	return c
}

// inOneWord converts an ID to the form of a condition's reason: swap-on becomes SwapOn.
func inOneWord(id string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(id, "-") {
		b.WriteString(strings.ToUpper(part[:min(1, len(part))]) + part[min(1, len(part)):])
	}
	return cmp.Or(b.String(), "NotKnown")
}

// same reports whether two conditions are equal, apart from the run that found them.
func (c Condition) same(other Condition) bool {
	text := func(c Condition) string { return c.Message[:max(0, strings.LastIndex(c.Message, ": run "))] }
	return c.Status == other.Status && c.Reason == other.Reason && text(c) == text(other)
}

// A Pending is a status that one round found and that a second round has not yet confirmed.
type Pending struct {
	Status string    // False or Unknown; empty = nothing is pending
	Since  time.Time // when a round first found it
}

// PendingKey is the Node annotation that stores a Pending between rounds. Unlike with a condition, controllers do not
// act on an annotation. Every later round can read it from any machine.
const PendingKey = facts.PendingCondition

// String returns the annotation's value.
func (p Pending) String() string {
	if p.Status == "" {
		return ""
	}
	return p.Status + " since " + p.Since.UTC().Format(time.RFC3339)
}

// ParsePending parses an annotation's value. If the text does not have the form that String writes, it returns the zero
// value.
func ParsePending(text string) Pending {
	status, at, _ := strings.Cut(text, " since ")
	since, err := time.Parse(time.RFC3339, at)
	if err != nil || status != False && status != Unknown {
		return Pending{}
	}
	return Pending{status, since}
}

// Two rounds can agree only if they are at least minApart apart: two answers within a second may both come from one bad
// moment of the API server. After maxApart, the first round no longer counts.
const (
	minApart = 30 * time.Second
	maxApart = 48 * time.Hour
)

// isConfirmed reports whether a round that finds this status now confirms the pending status.
func (p Pending) isConfirmed(status string, now time.Time) bool {
	age := now.Sub(p.Since)
	return p.Status == status && age >= minApart && age <= maxApart
}

// isFresh reports whether the same status was found so recently that this round neither confirms nor replaces it.
func (p Pending) isFresh(status string, now time.Time) bool {
	age := now.Sub(p.Since)
	return p.Status == status && age >= 0 && age < minApart
}

// Standing is the state that earlier rounds left on a node.
type Standing struct {
	Condition // the zero value if the node has none
	Pending   Pending
}

// isReached reports whether controllers that act on the condition already treat the node as bad.
func (s Standing) isReached() bool { return s.Status != "" && s.Status != True }

// Reached counts the nodes that are False or Unknown.
func Reached(had map[string]Standing) int {
	n := 0
	for _, was := range had {
		if was.isReached() {
			n++
		}
	}
	return n
}

// A Change is the result of a round for one node.
type Change struct {
	Condition      // the condition that this round found
	Write     bool // whether to write it to the node; if false, the old condition is kept
	Pending   Pending
}

// Round lists the changes that a round writes and the nodes that it holds back.
type Round struct {
	Changes map[string]Change
	Held    []string // nodes with a confirmed status that Limits.Most holds back
	Fresh   []string // nodes with a pending status that is too young to be confirmed
	Pending int      // nodes that turn if the next round agrees: those in Fresh, and those with a new pending status
	Above   bool     // whether these nodes exceed Limits.Most; the next round would then hold them back
	Turning int      // number of these nodes that are True or have no condition
}

// pend counts a node with a pending status.
func (r *Round) pend(was Standing) {
	r.Pending++
	if !was.isReached() {
		r.Turning++
	}
}

// Limits limit the changes that a round writes.
type Limits struct {
	Beat time.Duration // age at which a round rewrites an unchanged condition
	Most int           // maximum number of False or Unknown nodes in the whole cluster
}

// Plan decides what a round writes. had contains every node in the cluster. found contains the nodes that this round
// judged.
//
//   - A node turns True at once. It turns False or Unknown only if two rounds agree (isConfirmed); the first of them
//     leaves a Pending.
//   - Nodes that are False or Unknown already count towards Most together with those that would turn. If they are more,
//     no node turns, and Held names those that would have. A controller that requires True treats False and Unknown
//     alike, so they share the limit. Nodes that turn True in this round make room for the next one only: writing
//     them may fail.
//   - An unchanged condition is written again after Beat, so that a reader can recognize an old one. Since
//     changes with the status alone.
func Plan(had map[string]Standing, found map[string]Condition, limits Limits, now time.Time) Round {
	changes, r := map[string]Change{}, Round{}
	var held []string
	for _, node := range slices.Sorted(maps.Keys(found)) {
		was, is := had[node], found[node]
		if is.Heartbeat, is.Since = now, was.Since; is.Status != was.Status {
			is.Since = now
		}
		old := now.Sub(was.Heartbeat).Abs() >= limits.Beat // Abs: a heartbeat may come from a clock that is ahead
		switch {
		case is.Status == True || is.Status == was.Status:
			if old || !is.same(was.Condition) || was.Pending != (Pending{}) {
				changes[node] = Change{Condition: is, Write: true}
			}
		case was.Pending.isFresh(is.Status, now):
			r.Fresh = append(r.Fresh, node)
			r.pend(was)
		case !was.Pending.isConfirmed(is.Status, now):
			changes[node] = Change{Condition: is, Pending: Pending{is.Status, now}}
			r.pend(was)
		case was.isReached(): // from Unknown to False, or back: this does not affect another node
			changes[node] = Change{Condition: is, Write: true}
		default:
			held = append(held, node)
			changes[node] = Change{Condition: is, Write: true}
		}
	}
	r.Changes = changes
	r.Above = Reached(had)+len(held)+r.Turning > limits.Most
	if Reached(had)+len(held) <= limits.Most {
		return r
	}
	for _, node := range held {
		delete(changes, node)
		if now.Sub(had[node].Pending.Since) >= limits.Beat { // otherwise it would expire while the node is held back
			changes[node] = Change{Condition: found[node], Pending: Pending{found[node].Status, now}}
		}
	}
	r.Held = held
	return r
}
