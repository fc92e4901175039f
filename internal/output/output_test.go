package output

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

// fullDisk is a disk without room.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// TestALostOutputLosesNoOther has one output break after another.
func TestALostOutputLosesNoOther(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("has no /dev/full")
	}
	opened := func(stdout io.Writer, typed ...string) (*Set, report.Sink) {
		o := &Set{}
		o.Flag(&cobra.Command{}, report.Formats())
		o.typed = typed
		must.Do(t, o.Open(stdout))
		sink := must.Get(o.Sink())(t)
		return o, sink
	}
	verdict := probe.Event{Type: probe.EventVerdict, Node: "node-a", Verdict: &probe.Verdict{Word: "fault", Exit: 3}}
	file := filepath.Join(t.TempDir(), "report.json")
	var out bytes.Buffer
	o, sink := opened(&out, "ndjson=/dev/full", "json="+file)
	if err := sink.Event(verdict); err != nil {
		t.Error(err)
	}
	err := o.Close(ui.Exit(3))
	if err == nil || errors.As(err, new(ui.Exit)) || !strings.Contains(err.Error(), "-o ndjson to /dev/full: ") ||
		!strings.Contains(out.String(), "fault") || !strings.Contains(read(t, file), `"fault"`) {
		t.Errorf("%v, %q", err, out.String())
	}
	o, sink = opened(fullDisk{}, "json="+file)
	if err := sink.Event(verdict); err != nil {
		t.Error(err)
	}
	if err := o.Close(ui.Exit(3)); err == nil || errors.As(err, new(ui.Exit)) ||
		!strings.Contains(read(t, file), `"fault"`) {
		t.Error(err)
	}
	o, sink = opened(fullDisk{})
	err = sink.Event(verdict)
	if err == nil { // without a reader, the run can end
		t.Error("a run goes on for nobody")
	}
	if err := o.Close(err); err == nil || err.Error() != "-o table to stdout: no space left on device" {
		t.Error(err)
	}
}

// stuck is a reader that has stopped, as a pager does.
type stuck chan struct{}

func (s stuck) Write([]byte) (int, error) { <-s; return 0, io.ErrClosedPipe }

// TestWhoDoesNotReadHoldsNothingUp beyond the end of the run.
func TestWhoDoesNotReadHoldsNothingUp(t *testing.T) {
	t.Parallel()
	never := make(stuck)
	defer close(never)
	file := filepath.Join(t.TempDir(), "report.json")
	o := &Set{}
	o.Flag(&cobra.Command{}, report.Formats())
	o.typed = []string{"json=" + file}
	must.Do(t, o.Open(never))
	ctx, cancel := context.WithCancel(t.Context())
	o.Until(ctx)
	sink, err := o.Sink()
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	err = sink.Event(probe.Event{
		Type: probe.EventVerdict, Node: "node-a", Verdict: &probe.Verdict{Word: "fault", Exit: 3},
	})
	if err = errors.Join(err, o.Close(ui.Exit(3))); err == nil || err.Error() != "-o table to stdout: its reader is stuck" || !strings.Contains(read(t, file), `"fault"`) {
		t.Error(err)
	}
}

// TestBytes go past what cleans text, and not to a terminal; a reader that is gone breaks nothing.
func TestBytes(t *testing.T) {
	t.Parallel()
	formats := []report.Format{{Name: "lines"}, {Name: "pcapng", Bytes: true}}
	opened := func(stdout io.Writer) *Set {
		o := &Set{}
		o.Flag(&cobra.Command{}, formats)
		o.Named("pcapng")
		must.Do(t, o.Open(stdout))
		return o
	}
	write := func(to *Place) error {
		_, err := to.Write([]byte("\x1b[2J\x00"))
		return err
	}
	var out bytes.Buffer
	o := opened(ui.NewScreen(&out, nil))
	if err := o.Close(o.Each(write)); err != nil || out.String() != "\x1b[2J\x00" {
		t.Errorf("%v, %q", err, out.String())
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	must.Do(t, r.Close())
	defer w.Close()
	o = opened(ui.NewScreen(w, nil))
	if err := o.Close(o.Each(write)); !errors.Is(err, ui.ErrReaderGone) {
		t.Error(err)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	b := must.Get(os.ReadFile(file))(t)
	return string(b)
}
