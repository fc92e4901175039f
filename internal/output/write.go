package output

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
)

// Write takes what a format makes of a run. After an error this output is silent, and the
// others go on.
func (out *Place) Write(b []byte) (int, error) {
	if out.err != nil {
		return 0, out.err
	}
	text := bytes.Clone(b) // which may be written when nobody waits any more
	wrote := probe.Async(func() error {
		_, err := out.w.Write(text)
		return err
	})
	var err error
	select {
	case err = <-wrote:
	case <-out.over():
		select {
		case err = <-wrote:
		case <-time.After(slack):
			err = errors.New("nobody reads it")
		}
	}
	if err != nil {
		out.fail(err)
		return 0, out.err
	}
	return len(b), nil
}

func (out *Place) fail(err error) {
	if pe, ok := errors.AsType[*fs.PathError](err); ok && !errors.Is(err, ui.ErrReaderGone) { // the name is said already
		err = pe.Err
	}
	if out.err == nil {
		out.err = fmt.Errorf("-o %s to %s: %w", out.Name, cmp.Or(out.file, "stdout"), err)
	}
}

// ErrAllBroken ends a run whose every output is broken; Close says how they broke.
var ErrAllBroken = errors.New("nothing takes the report any more")

// Each writes to every output that still takes something. Its error is that none does.
func (o *Set) Each(write func(*Place) error) error {
	o.Begin()
	heard := false
	for _, out := range o.to {
		if out.err == nil {
			if err := write(out); err != nil {
				out.fail(err)
			}
		}
		heard = heard || out.err == nil
	}
	if !heard {
		return ErrAllBroken
	}
	return nil
}

// Sink begins, and returns the sink that writes the events of one run to all outputs. The
// sink's error is ErrAllBroken.
func (o *Set) Sink() (report.Sink, error) {
	for _, out := range o.to {
		if out.Joined != nil {
			out.takes = report.Collect(&out.docs)
			if o.Fleet {
				out.takes = report.CollectEach(&out.docs)
			}
			continue
		}
		var err error
		opts := report.Options{Colour: out.colour, Width: out.width, Expr: out.expr, Family: o.Family,
			Fleet: o.Fleet}
		if out.takes, err = out.Sink(out, opts); err != nil {
			return nil, ui.BadUsage("%w", err)
		}
	}
	o.Begin()
	return report.SinkFunc(func(ev probe.Event) error {
		return o.Each(func(out *Place) error { return out.takes.Event(ev) })
	}), nil
}

// EachFile writes to every file that still takes something. Its error is that no output does.
func (o *Set) EachFile(write func(*Place) error) error {
	return o.Each(func(out *Place) error {
		if out.file == "" {
			return nil
		}
		return write(out)
	})
}

// FilesSink writes more of the same run, to the files only.
func (o *Set) FilesSink() report.Sink {
	return report.SinkFunc(func(ev probe.Event) error {
		return o.EachFile(func(out *Place) error { return out.takes.Event(ev) })
	})
}

// Close closes the files and returns the verb's error. A broken output makes it exit code 1,
// whatever was found: somebody may read only that file. A reader of stdout that is gone breaks
// nothing; where nothing else was written the error is ui.ErrReaderGone.
func (o *Set) Close(came error) error {
	for _, out := range o.to {
		if len(out.docs) > 0 && out.err == nil {
			if err := out.Joined(out, out.docs); err != nil {
				out.fail(err)
			}
		}
	}
	o.shut()
	var lost []string
	for _, out := range o.to {
		if out.err != nil && !errors.Is(out.err, ui.ErrReaderGone) {
			lost = append(lost, out.err.Error())
		}
	}
	switch said := strings.Join(lost, "; "); {
	case said == "" && errors.Is(came, ErrAllBroken):
		return ui.ErrReaderGone
	case said == "":
		return came
	case came == nil, errors.As(came, new(ui.Exit)), errors.Is(came, ErrAllBroken):
		return errors.New(said)
	default:
		return fmt.Errorf("%w; %s", came, said)
	}
}

// shut closes the files. One that was made here for something that never began goes again.
func (o *Set) shut() {
	for _, out := range o.to {
		f, ok := out.w.(*os.File)
		if !ok || out.file == "" {
			continue
		}
		if err := f.Close(); err != nil {
			out.fail(err)
		}
		if out.made && !o.begun {
			if err := os.Remove(out.file); err != nil {
				out.fail(err)
			}
		}
	}
}

// SeveralReports tells whether several reports can stand below one another, and else the
// format that is the form of one.
func (o *Set) SeveralReports() (report.Format, bool) {
	for _, out := range o.to {
		if !out.Many && out.Joined == nil {
			return out.Format, false
		}
	}
	return report.Format{}, true
}

// Between parts a report from the next one, where people read them.
func (o *Set) Between() {
	for _, out := range o.to {
		if out.Name != "name" && out.Joined == nil {
			_, _ = out.Write([]byte("\n")) // its error is kept
		}
	}
}
