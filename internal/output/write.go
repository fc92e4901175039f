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

// Write writes the output of a format. After an error this output is not written any more, but the other outputs are.
func (out *Place) Write(b []byte) (int, error) {
	if out.err != nil {
		return 0, out.err
	}
	text := bytes.Clone(b) // it may be written after the caller has stopped waiting
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
			err = errors.New("its reader is stuck")
		}
	}
	if err != nil {
		out.fail(err)
		return 0, out.err
	}
	return len(b), nil
}

func (out *Place) fail(err error) {
	if pe, ok := errors.AsType[*fs.PathError](err); ok && !errors.Is(err, ui.ErrReaderGone) { // the message has the name
		err = pe.Err
	}
	if out.err == nil {
		out.err = fmt.Errorf("-o %s to %s: %w", out.Name, cmp.Or(out.file, "stdout"), err)
	}
}

// ErrAllBroken ends a run if every output failed. Close returns the errors of the outputs.
var ErrAllBroken = errors.New("every output failed")

// Each writes to every working output. It returns an error if every output has failed.
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

// Sink truncates the files, and returns the sink that writes the events of one run to all outputs. The
// only error of the sink is ErrAllBroken.
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

// EachFile writes to every working file. It returns an error if every output has failed.
func (o *Set) EachFile(write func(*Place) error) error {
	return o.Each(func(out *Place) error {
		if out.file == "" {
			return nil
		}
		return write(out)
	})
}

// FilesSink returns a sink that writes further events of the same run only to the files.
func (o *Set) FilesSink() report.Sink {
	return report.SinkFunc(func(ev probe.Event) error {
		return o.EachFile(func(out *Place) error { return out.takes.Event(ev) })
	})
}

// Close closes the files and returns the verb's error. If an output failed, the exit code is 1 whatever the verdict is,
// because a user may read only that file. A closed stdout is not a failure. If there was no other output, the error is
// then ui.ErrReaderGone.
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

// shut closes the files. If the run never began, it removes those that it created.
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

// SeveralReports reports whether every output can contain several reports. If not, it returns the format that can
// contain only one.
func (o *Set) SeveralReports() (report.Format, bool) {
	for _, out := range o.to {
		if !out.Many && out.Joined == nil {
			return out.Format, false
		}
	}
	return report.Format{}, true
}

// Between separates two reports in formats for people.
func (o *Set) Between() {
	for _, out := range o.to {
		if out.Name != "name" && out.Joined == nil {
			_, _ = out.Write([]byte("\n")) // its error is kept
		}
	}
}
