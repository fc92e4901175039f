package examine

import (
	"fmt"
	"slices"
	"time"

	"github.com/calico-probe/calico-probe/internal/compare"
	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/suite/cause"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
)

// Collector receives the events of one run, live or saved. It cleans the events and adds the node and method. It counts
// them for the verdict, keeps them for the causes, and passes them to the report.
type Collector struct {
	Node    string
	Sink    report.Sink
	Tally   *report.Tally
	Seen    diagnose.Findings
	Strict  bool           // warnings have their own exit code
	Elapsed *time.Duration // of a saved run
	Causes  []probe.Cause  // once concluded

	suite diagnose.Suite
}

// NewCollector returns a Collector for a node. theirs are an operator's causes, in addition to the program's causes.
func NewCollector(node string, sink report.Sink, theirs ...*diagnose.Rule) *Collector {
	return &Collector{Node: node, Sink: sink, Tally: report.NewTally(), Seen: diagnose.Findings{Node: node},
		suite: cause.All().With(theirs)}
}

// Add receives an event of the node.
func (c *Collector) Add(method string, ev probe.Event) error {
	ev = ev.Cleaned()
	ev.Node, ev.Method, ev.For = c.Node, method, "" // a node must not choose the run to which its answer belongs
	c.Tally.Add(ev)
	c.Seen.Add(ev)
	return c.Sink.Event(ev)
}

// AddOf receives an event of another node. Causes may use it, but this node's verdict ignores it.
func (c *Collector) AddOf(node, method string, ev probe.Event) error {
	ev = ev.Cleaned()
	ev.Node, ev.Method, ev.For = node, method, ""
	c.Seen.Add(ev)
	return c.Sink.Event(ev)
}

// Conclude reports the comparison with baseline nodes, the causes and the verdict. Its error holds the exit code.
func (c *Collector) Conclude() error {
	show := func(ev probe.Event) error {
		ev.Node = c.Node
		return c.Sink.Event(ev)
	}
	compared, found, failed := conclusions(c.Seen, c.suite)
	for _, why := range failed {
		ev := crashed(why)
		c.Tally.Add(ev)
		if err := show(ev); err != nil {
			return err
		}
	}
	for _, line := range compared {
		if err := show(probe.Event{Type: probe.EventComparison, Text: line}); err != nil {
			return err
		}
	}
	c.Causes = found.Causes
	for _, cause := range found.Causes {
		ev := probe.Event{Type: probe.EventCause, Cause: &cause}
		c.Tally.Add(ev)
		if err := show(ev); err != nil {
			return err
		}
	}
	v := c.Tally.Verdict(c.Strict)
	v.Unexplained = found.Unexplained
	if v.Word == report.WordHealthy || v.Word == report.WordWarnings {
		v.Outside = evidence.Unseen(c.Seen)
	}
	if c.Elapsed != nil {
		v.Elapsed = *c.Elapsed
	}
	if err := show(probe.Event{Type: probe.EventVerdict, Verdict: &v}); err != nil {
		return err
	}
	if v.Exit != report.ExitHealthy {
		return ui.Exit(v.Exit)
	}
	return nil
}

// conclusions applies the comparison and the rules to all findings. failed lists the parts that crashed.
func conclusions(seen diagnose.Findings, suite diagnose.Suite) (compared []string, found diagnose.Diagnosis,
	failed []string,
) {
	crash := probe.Recovered(func() error { compared = compare.Nodes(seen); return nil })
	if crash != nil {
		failed = append(failed, fmt.Sprintf("the comparison with other nodes failed: it %v", crash))
	}
	crash = probe.Recovered(func() error { found = diagnose.Explain(seen, suite); return nil })
	if crash != nil {
		failed = append(failed, fmt.Sprintf("the search for causes failed: it %v", crash))
	}
	return compared, found, append(failed, found.Failed...)
}

// crashed returns the result for a part of this client that panicked. The findings of that part are unknown.
func crashed(why string) probe.Event {
	r := probe.Found(probe.Unknown, "%s", why).With(probe.FactReason, probe.ReasonCrashed)
	r.Check = probe.CheckAnswered
	return probe.Event{Type: probe.EventResult, Result: &r}
}

// Replay reports the events of a saved run, and returns the Collector, which can then find causes.
func Replay(run report.Run, sink report.Sink, theirs ...*diagnose.Rule) (*Collector, error) {
	c := NewCollector(run.Node, sink, theirs...)
	events := run.Events
	if run.Lacks != "" {
		r := probe.Found(probe.Unknown, "the saved run is incomplete: %s", run.Lacks)
		r.Check = probe.CheckAnswered
		events = append(slices.Clone(events), probe.Event{Type: probe.EventResult, Node: run.Node, Result: &r})
	}
	for _, ev := range events {
		if r := ev.Result; r != nil && ev.Method == "" && r.Check == probe.CheckAnswered &&
			r.Facts.Str(probe.FactReason) == probe.ReasonCrashed {
			continue // skip conclusions: this version draws its own
		}
		if ev.Node == run.Node {
			c.Tally.Add(ev)
		}
		c.Seen.Add(ev)
		if err := sink.Event(ev); err != nil {
			return nil, err
		}
	}
	if v := run.Verdict; v != nil {
		c.Elapsed, c.Strict = &v.Elapsed, v.Strict || v.Exit == report.ExitWarnings // older versions did not record Strict
	}
	return c, nil
}

// Recorder is a sink that keeps a run in the form of a saved run.
type Recorder struct {
	Run    report.Run
	Others []report.Sink // receive each event as it comes
}

// Event keeps an event.
func (r *Recorder) Event(ev probe.Event) error {
	r.Run.Add(ev)
	for _, s := range r.Others {
		if err := s.Event(ev); err != nil {
			return err
		}
	}
	return nil
}
