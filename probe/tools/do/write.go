package do

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// table prints rows in columns that are as wide as necessary. It buffers all rows.
type table struct{ w *tabwriter.Writer }

func newTable(j *probe.Job, heads ...string) table {
	t := table{tabwriter.NewWriter(j.Out, 0, 8, 2, ' ', 0)}
	t.row(heads...)
	return t
}

// row adds a row, and removes terminal control characters. It replaces an empty cell with a dash, so that awk
// sees the same columns.
func (t table) row(cells ...string) {
	for i, c := range cells {
		if c = probe.Plain(strings.Join(strings.Fields(c), " ")); c == "" {
			c = "-"
		}
		if i > 0 {
			c = "\t" + c
		}
		_, _ = io.WriteString(t.w, c) // buffered until the end
	}
	_, _ = io.WriteString(t.w, "\n")
}

func (t table) end() { _ = t.w.Flush() } // if the session is gone, the tool stops

// buffered returns a job that buffers its lines until flush. It is for tools that print many lines.
func buffered(j *probe.Job) (_ *probe.Job, flush func() error) {
	out, own := bufio.NewWriter(j.Out), *j
	own.Out = out
	return &own, out.Flush
}

// several formats a number of things: "1 packet", "3 packets".
func several(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// unread returns the result for something on the node that could not be queried.
func unread(err error) probe.Result {
	if errors.Is(err, probe.ErrNotVisible) || errors.Is(err, errors.ErrUnsupported) {
		return probe.Found(probe.Skip, "%v", err)
	}
	return probe.Failed(err).With(probe.FactReason, probe.Reason(err))
}

// short rounds a duration for display.
func short(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= 10*time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond).String()
}
