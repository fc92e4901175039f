package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// row is an answer that a wide table has not yet printed.
type row struct {
	node string
	probe.Result
}

// Rows returns a sink that prints each answer as it arrives, for a session's prompt.
func Rows(w io.Writer, colour bool) Sink {
	t := &table{paper: paper{colour: colour}, w: w, wide: true}
	return SinkFunc(func(ev probe.Event) error {
		if ev.Result == nil {
			return nil
		}
		var b strings.Builder
		t.row(&b, *ev.Result)
		if _, err := io.WriteString(t.w, b.String()); err != nil {
			return fmt.Errorf("writing the answers: %w", err)
		}
		return nil
	})
}

// family holds the answers of one family of checks about the node, or those of one baseline node.
type family struct {
	name     string
	baseline bool
	worst    int
	rows     []row
}

// grouped prints the answers family by family. Families with bad answers come first. In each family, bad answers come
// first, then the order is by check and target. Baseline nodes' answers come last.
func (t *table) grouped(b *strings.Builder) {
	var all []*family
	for _, r := range t.waiting {
		name, baseline := cmp.Or(t.family(r.Check), "other"), r.node != t.node
		if baseline {
			name = "baseline " + r.node
		}
		at := slices.IndexFunc(all, func(f *family) bool { return f.name == name && f.baseline == baseline })
		if at < 0 {
			at, all = len(all), append(all, &family{name: name, baseline: baseline, worst: urgency(probe.Skip)})
		}
		all[at].worst, all[at].rows = min(all[at].worst, urgency(r.Status)), append(all[at].rows, r)
	}
	t.waiting = nil
	slices.SortStableFunc(all, func(a, b *family) int {
		switch {
		case a.baseline != b.baseline && a.baseline:
			return 1
		case a.baseline != b.baseline:
			return -1
		}
		return cmp.Or(cmp.Compare(a.worst, b.worst), cmp.Compare(a.name, b.name))
	})
	for _, f := range all {
		slices.SortStableFunc(f.rows, func(a, b row) int {
			return cmp.Or(cmp.Compare(urgency(a.Status), urgency(b.Status)), cmp.Compare(a.Check, b.Check),
				cmp.Compare(a.Target, b.Target), cmp.Compare(a.From, b.From))
		})
		t.header(b)
		fmt.Fprintf(b, "%s:\n", printable(f.name))
		for _, r := range f.rows {
			t.row(b, r.Result)
		}
	}
}

// urgency returns a status's importance to the reader.
func urgency(s probe.Status) int {
	return slices.Index([]probe.Status{probe.Fail, probe.Unknown, probe.Warn, probe.Info, probe.OK, probe.Skip}, s)
}
