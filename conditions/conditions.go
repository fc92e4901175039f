// Package conditions makes what a run over nodes found a condition of each Node, for what acts on conditions: a
// scheduler's controller, an alert, a person at 'kubectl describe node'. It decides which are written, and writes none.
package conditions

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/report"
)

// Type is the condition's.
const Type = "CalicoHealthy"

// The values of a condition's status.
const (
	True    = "True"
	False   = "False"
	Unknown = "Unknown"
)

// Condition is what a node is said to be.
type Condition struct {
	Status    string    // True, False or Unknown
	Reason    string    // the cause in one word: SwapOn
	Message   string    // what the cause says of this node, and in which run that was found
	Heartbeat time.Time // when it was last written
	Since     time.Time // when its status was last another one
}

// longestMessage bounds a message, in bytes: it is in every list of nodes.
const longestMessage = 400

// Of is the condition of a node of a run: True while nothing is broken, Unknown where too little could be asked.
func Of(n report.FleetNode, run string) Condition {
	c, says := Condition{Status: Unknown, Reason: "NotKnown"}, "too little could be asked"
	switch n.Word {
	case report.WordHealthy, report.WordWarnings:
		c.Status, c.Reason, says = True, "NothingBroken", "nothing is broken"
	case report.WordFault:
		c.Status, c.Reason, says = False, "NoKnownCause", "something is broken, and no known cause fits"
	}
	if len(n.Causes) > 0 && c.Status != True {
		first := n.Causes[0]
		c.Reason, says = inOneWord(first.ID), fmt.Sprintf("%s (%s)", first.Says, first.Confidence)
	}
	c.Message = probe.Cut(probe.OneLine(says), longestMessage) + ": run " + probe.OneLine(run)
	return c
}

// inOneWord writes an ID as conditions have their reasons: swap-on is SwapOn.
func inOneWord(id string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(id, "-") {
		b.WriteString(strings.ToUpper(part[:min(1, len(part))]) + part[min(1, len(part)):])
	}
	return cmp.Or(b.String(), "NotKnown")
}

// same tells whether two conditions say the same, whichever run found it.
func (c Condition) same(other Condition) bool {
	said := func(c Condition) string { return c.Message[:max(0, strings.LastIndex(c.Message, ": run "))] }
	return c.Status == other.Status && c.Reason == other.Reason && said(c) == said(other)
}

// Plan is what is written: of each node the condition that it does not have yet, and after beat the one it has, so
// that a reader can tell an old one. More than most nodes never turn False together: then none of them does, and held
// names them. Something is wrong with what all have in common, or with what was asked, and who acts on conditions
// must not take a whole cluster out of use.
func Plan(had, found map[string]Condition, beat time.Duration, most int, now time.Time) (write map[string]Condition,
	held []string) {
	write = map[string]Condition{}
	for _, node := range slices.Sorted(maps.Keys(found)) {
		was, is := had[node], found[node]
		if is.Heartbeat, is.Since = now, was.Since; is.Status != was.Status {
			is.Since = now
		}
		switch {
		case is.Status == False && was.Status != False:
			held = append(held, node)
			write[node] = is
		case !is.same(was) || now.Sub(was.Heartbeat).Abs() >= beat: // by a clock that is ahead, too
			write[node] = is
		}
	}
	if len(held) <= most {
		return write, nil
	}
	for _, node := range held {
		delete(write, node)
	}
	return write, held
}
