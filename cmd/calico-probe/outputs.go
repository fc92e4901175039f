package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/report"
)

// outputs are the -o flags of a verb: FORMAT for stdout, FORMAT=FILE for a file, or
// FORMAT=EXPR. Something always goes to stdout: the first format of the list, unless
// another is named. A verb uses it so:
//
//	var out outputs
//	out.flag(cmd, report.Formats())         // -o, its help and its completion
//	if err := out.open(a.Out); err != nil { // wrong usage, before anything is asked
//		return err
//	}
//	sink, err := out.sink()                 // of one run: what takes its events
//	...
//	return out.close(err)                   // puts files in place; err is what the verb came to
//
// A verb that has formats of its own lists them without a Sink, and writes to each of
// out.to as its Name says; one Write with everything makes a document.
type outputs struct {
	formats []report.Format
	typed   []string
	to      []*output
}

// output is one place something is written to. What is written to a file of a format that
// does not live reaches it when all is closed, whole or not at all.
type output struct {
	report.Format
	colour bool
	expr   string
	file   string // "" = stdout
	w      io.Writer
	ready  *bytes.Buffer // of a document for a file, nil = nothing was written
	err    error         // the first
}

// flag adds -o to a verb. The first of the formats is what stdout gets by default.
func (o *outputs) flag(cmd *cobra.Command, formats []report.Format) {
	o.formats = formats
	cmd.Flags().StringArrayVarP(&o.typed, "output", "o", nil, "output format, by default "+formats[0].Name+": "+strings.Join(report.Spelled(formats), ", ")+
		"; FORMAT=FILE writes a file beside what is on stdout; may be repeated")
	err := cmd.RegisterFlagCompletionFunc("output", func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		if name, _, ok := strings.Cut(typed, "="); ok {
			if f, err := report.Find(formats, name); err == nil && f.Expr == "" {
				return nil, cobra.ShellCompDirectiveDefault // the shell knows its files
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var out []string
		for i, name := range report.Spelled(formats) {
			out = append(out, cobra.CompletionWithDesc(name, formats[i].For))
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil { // the flag exists, and has no completion yet
		panic(err)
	}
}

// open says what cannot be done before anything is asked, and creates or empties the files
// that are written as answers come.
func (o *outputs) open(stdout io.Writer) error {
	if err := o.parse(stdout); err != nil {
		return err
	}
	var living []*os.File
	for _, out := range o.to {
		if out.Sink != nil { // an expression that cannot be read is found by making it
			if _, err := out.Sink(io.Discard, report.Options{Expr: out.expr}); err != nil {
				return usageError{err}
			}
		}
		if out.file == "" {
			continue
		}
		f, err := out.openFile()
		if err != nil {
			return badUsage("-o %s=%s cannot be written: %w", out.Name, out.file, err)
		}
		if f != nil {
			out.w, living = f, append(living, f)
		}
	}
	for _, f := range living {
		if err := emptied(f); err != nil {
			return badUsage("-o: %w", err)
		}
	}
	return nil
}

// parse reads what was typed.
func (o *outputs) parse(stdout io.Writer) error {
	o.to = nil
	var onStdout *output
	files := map[string]bool{}
	for _, typed := range o.typed {
		name, rest, more := strings.Cut(typed, "=")
		f, err := report.Find(o.formats, name)
		if err != nil {
			return usageError{err}
		}
		out := &output{Format: f}
		switch {
		case f.Expr != "" && rest == "":
			return badUsage("-o %s takes an expression: -o %s=%s", name, name, f.Expr)
		case f.Expr != "":
			out.expr = rest
		case more && (rest == "" || rest == "-"):
			return badUsage("-o %s names no file: -o %s writes to stdout, -o %s=FILE to a file", typed, name, name)
		case more:
			if out.file = filepath.Clean(rest); files[out.file] {
				return badUsage("two formats for the file %s: name one file for each", rest)
			}
			files[out.file] = true
		}
		if out.file == "" {
			if onStdout != nil {
				return badUsage("-o %s and -o %s would both go to stdout: write one to a file, as -o FORMAT=FILE, or leave it out", onStdout.Name, name)
			}
			onStdout = out
		}
		o.to = append(o.to, out)
	}
	if onStdout == nil {
		onStdout = &output{Format: o.formats[0]}
		o.to = slices.Insert(o.to, 0, onStdout)
	}
	onStdout.w, onStdout.colour = stdout, colourful(stdout)
	return nil
}

// openFile tries whether a file can be written. It comes back open when it is written as
// answers come, and when it is none that something could be put in the place of: a device,
// or a pipe, which has to have a reader already.
func (out *output) openFile() (*os.File, error) {
	info, err := os.Stat(out.file)
	switch {
	case err == nil && info.IsDir():
		return nil, errors.New("it is a folder: name a file in it")
	case err == nil && !info.Mode().IsRegular():
		return os.OpenFile(out.file, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case out.Lives:
		return os.OpenFile(out.file, os.O_WRONLY|os.O_CREATE, 0o666)
	case err == nil: // it may be a link, which stays one
		if out.file, err = filepath.EvalSymlinks(out.file); err != nil {
			return nil, err
		}
	}
	f, err := out.beside()
	if err != nil {
		return nil, err
	}
	return nil, errors.Join(f.Close(), os.Remove(f.Name()))
}

// beside creates the file that will take the place of the one named. Its mode is that of
// a file a shell redirects to.
func (out *output) beside() (*os.File, error) {
	name := filepath.Join(filepath.Dir(out.file), "."+filepath.Base(out.file)+"."+newRunID())
	return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
}

// emptied takes away what an earlier run left in a file.
func emptied(f *os.File) error {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	return f.Truncate(0)
}

// Write takes what a format makes of a run. After an error this output is silent, and the
// others go on.
func (out *output) Write(b []byte) (int, error) {
	if out.w == nil {
		if out.ready == nil {
			out.ready = &bytes.Buffer{}
		}
		return out.ready.Write(b)
	}
	n, err := out.w.Write(b)
	if err != nil {
		out.fail(err)
	}
	return n, err
}

func (out *output) fail(err error) {
	where := cmp.Or(out.file, "stdout")
	if out.err == nil {
		out.err = fmt.Errorf("-o %s to %s: %w", out.Name, where, err)
	}
}

// errUnheard ends a run whose every output is broken; close says how they broke.
var errUnheard = errors.New("nothing takes the report any more")

// sink gives what takes the events of one run for all outputs. Its error is that nobody
// hears any more.
func (o *outputs) sink() (report.Sink, error) {
	sinks := make([]report.Sink, len(o.to))
	for i, out := range o.to {
		var err error
		if sinks[i], err = out.Sink(out, report.Options{Colour: out.colour, Expr: out.expr}); err != nil {
			return nil, usageError{err}
		}
	}
	return sinkFunc(func(ev probe.Event) error {
		heard := false
		for i, out := range o.to {
			if out.err != nil {
				continue
			}
			if err := sinks[i].Event(ev); err != nil {
				out.fail(err)
			}
			heard = heard || out.err == nil
		}
		if !heard {
			return errUnheard
		}
		return nil
	}), nil
}

// close puts the files in place and returns what the verb came to: an output that was lost
// makes it exit code 1, whatever was found, for whoever reads only the file.
func (o *outputs) close(came error) error {
	var lost []string
	for _, out := range o.to {
		out.put()
		if out.err != nil {
			lost = append(lost, out.err.Error())
		}
	}
	switch said := strings.Join(lost, "; "); {
	case said == "":
		return came
	case came == nil, errors.As(came, new(exit)), errors.Is(came, errUnheard):
		return errors.New(said)
	default:
		return fmt.Errorf("%w; %s", came, said)
	}
}

// put closes a file, or puts a document in its place.
func (out *output) put() {
	if f, ok := out.w.(*os.File); ok && out.file != "" {
		if err := f.Close(); err != nil {
			out.fail(err)
		}
	}
	if out.ready == nil || out.err != nil {
		return
	}
	f, err := out.beside()
	if err != nil {
		out.fail(err)
		return
	}
	_, err = f.Write(out.ready.Bytes())
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), out.file)
	}
	if err != nil {
		out.fail(errors.Join(err, os.Remove(f.Name())))
	}
}

// severalReports tells whether several reports can stand below one another, and else the
// format that is the form of one.
func (o *outputs) severalReports() (report.Format, bool) {
	for _, out := range o.to {
		if !out.Many {
			return out.Format, false
		}
	}
	return report.Format{}, true
}

// between parts a report from the next one, where people read them.
func (o *outputs) between() {
	for _, out := range o.to {
		if out.Name != "name" {
			_, _ = out.Write([]byte("\n")) // its error is kept
		}
	}
}
