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

// table prints rows in columns as wide as they have to be. It holds them all.
type table struct{ w *tabwriter.Writer }

func newTable(j *probe.Job, heads ...string) table {
	t := table{tabwriter.NewWriter(j.Out, 0, 8, 2, ' ', 0)}
	t.row(heads...)
	return t
}

// row adds one, in which nothing steers the terminal; an empty cell is a dash, so that
// columns stay columns for awk too.
func (t table) row(cells ...string) {
	for i, c := range cells {
		if c = probe.Plain(strings.Join(strings.Fields(c), " ")); c == "" {
			c = "-"
		}
		if i > 0 {
			c = "\t" + c
		}
		_, _ = io.WriteString(t.w, c) // kept until the end
	}
	_, _ = io.WriteString(t.w, "\n")
}

func (t table) end() { _ = t.w.Flush() } // a session that is gone ends the tool

// buffered is a job whose lines are kept until they are flushed, for those that say many.
func buffered(j *probe.Job) (_ *probe.Job, flush func() error) {
	out, own := bufio.NewWriter(j.Out), *j
	own.Out = out
	return &own, out.Flush
}

// several is a number of things, in words: "1 packet", "3 packets".
func several(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// unread is the result of something of the node's that could not be asked.
func unread(err error) probe.Result {
	if errors.Is(err, probe.ErrNotVisible) || errors.Is(err, errors.ErrUnsupported) {
		return probe.Found(probe.Skip, "%v", err)
	}
	return probe.Failed(err).With(probe.FactReason, probe.Reason(err))
}

// short is a time as long as one has to know it.
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
