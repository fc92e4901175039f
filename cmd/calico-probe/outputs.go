package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/prompt"
	"github.com/calico-probe/calico-probe/report"
	"github.com/calico-probe/calico-probe/ui"
)

// outputs are the -o flags of a verb: FORMAT for stdout, FORMAT=FILE for a file, or
// FORMAT=EXPR. Something always goes to stdout: the first format of the list, unless
// another is named. A verb uses it so:
//
//	var out outputs
//	out.flag(cmd, report.Formats())                // -o, its help and its completion
//	if err := out.open(a.Out, ...); err != nil {   // wrong usage, before anything is asked
//		return err
//	}
//	sink, err := out.sink()                        // of one run: what takes its events
//	...
//	return out.close(err)                          // closes the files; err is what the verb came to
//
// A verb that has formats of its own lists them without a Sink, and writes to each as its
// Name says; one Write with everything makes a document.
//
// A file tells of what was asked now and of nothing before: it is emptied when that begins.
// It is written where it lies, and so keeps its mode, its owner and its links.
type outputs struct {
	formats []report.Format
	typed   []string
	to      []*output
	ctx     context.Context // who does not read what is written holds nothing up when it is done
	begun   bool
}

// output is one place something is written to.
type output struct {
	report.Format
	colour bool
	width  int // of the terminal, 0 = it is none
	expr   string
	file   string // "" = stdout
	made   bool   // by us: there was none
	w      io.Writer
	over   func() <-chan struct{}
	takes  report.Sink       // the events of a run
	docs   []report.Document // of a format that joins them
	err    error             // the first
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

// open says what cannot be done before anything is asked. What is read, or written by
// another output, is not written; of what a file holds nothing is lost yet.
func (o *outputs) open(stdout io.Writer, inputs ...fs.FileInfo) (err error) {
	if err := o.parse(stdout); err != nil {
		return err
	}
	o.ctx, o.begun = context.Background(), false
	defer func() {
		if err != nil {
			o.shut()
		}
	}()
	for i, out := range o.to {
		out.over = func() <-chan struct{} { return o.ctx.Done() }
		if out.Sink != nil { // an expression that cannot be read is found by making it
			if _, err := out.Sink(io.Discard, report.Options{Expr: out.expr}); err != nil {
				return badUsage("%w", err)
			}
		}
		if out.file != "" {
			if err := out.openFile(); err != nil {
				return badUsage("-o %s=%s cannot be written: %w", out.Name, out.file, err)
			}
		}
		info := infoOf(out.w)
		if info == nil {
			continue
		}
		if slices.ContainsFunc(inputs, func(in fs.FileInfo) bool { return os.SameFile(in, info) }) {
			return badUsage("%s is what is read, and -o %s would write to it: name another file", cmp.Or(out.file, "stdout"), out.Name)
		}
		if j := slices.IndexFunc(o.to[:i], func(other *output) bool { o := infoOf(other.w); return o != nil && os.SameFile(o, info) }); j >= 0 {
			return badUsage("-o %s and -o %s would both be written to %s: name one file for each", o.to[j].Name, out.Name, cmp.Or(out.file, o.to[j].file))
		}
	}
	return nil
}

// parse reads what was typed.
func (o *outputs) parse(stdout io.Writer) error {
	o.to = nil
	var onStdout *output
	for _, typed := range o.typed {
		name, rest, more := strings.Cut(typed, "=")
		f, err := report.Find(o.formats, name)
		if err != nil {
			return badUsage("%w", err)
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
			out.file = rest
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
	onStdout.w, onStdout.colour, onStdout.width = stdout, ui.Colourful(stdout), ui.Width(stdout)
	return nil
}

// openFile opens a file, and changes nothing of one that is there. A pipe has to have a
// reader already.
func (out *output) openFile() error {
	how := os.O_WRONLY
	info, err := os.Stat(out.file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		_, err = os.Lstat(out.file) // a link that leads nowhere yet stays
		out.made = err != nil
		how |= os.O_CREATE
	case err != nil:
		return err
	case info.IsDir():
		return errors.New("it is a folder: name a file in it")
	case !info.Mode().IsRegular():
		how |= syscall.O_NONBLOCK
	}
	f, err := os.OpenFile(out.file, how, 0o666)
	if err != nil {
		out.made = false
		return err
	}
	out.w = f
	return nil
}

// infoOf tells files and pipes from one another, by whatever names; nil of what takes
// anything from anybody, as terminals and /dev/null do.
func infoOf(x any) fs.FileInfo {
	if w, ok := x.(io.Writer); ok {
		x = prompt.Bare(w)
	}
	f, ok := x.(*os.File)
	if !ok {
		return nil
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&fs.ModeCharDevice != 0 {
		return nil
	}
	return info
}

// inputs are the files that a verb reads, - for stdin. Of one that cannot be read the verb
// tells.
func (a *app) inputs(names ...string) []fs.FileInfo {
	var out []fs.FileInfo
	for _, name := range names {
		info, err := os.Stat(name)
		switch {
		case name == "-":
			info = infoOf(a.In)
		case err != nil:
			info = nil
		}
		if info != nil {
			out = append(out, info)
		}
	}
	return out
}

// until has nothing wait longer for who does not read an output than slack after ctx
// has ended.
func (o *outputs) until(ctx context.Context) { o.ctx = ctx }

// slack is for a reader that is only slow, and for what is written after a limit.
const slack = 2 * time.Second

// begin takes away what an earlier run left in the files.
func (o *outputs) begin() {
	if o.begun {
		return
	}
	o.begun = true
	for _, out := range o.to {
		if f, ok := out.w.(*os.File); ok && out.file != "" {
			info, err := f.Stat()
			if err == nil && info.Mode().IsRegular() {
				err = f.Truncate(0)
			}
			if err != nil {
				out.fail(err)
			}
		}
	}
}

// Write takes what a format makes of a run. After an error this output is silent, and the
// others go on.
func (out *output) Write(b []byte) (int, error) {
	if out.err != nil {
		return 0, out.err
	}
	wrote := make(chan error, 1)
	text := bytes.Clone(b) // which may be written when nobody waits any more
	go func() {
		_, err := out.w.Write(text)
		wrote <- err
	}()
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

func (out *output) fail(err error) {
	if pe, ok := errors.AsType[*fs.PathError](err); ok { // the name is said already
		err = pe.Err
	}
	if out.err == nil {
		out.err = fmt.Errorf("-o %s to %s: %w", out.Name, cmp.Or(out.file, "stdout"), err)
	}
}

// errUnheard ends a run whose every output is broken; close says how they broke.
var errUnheard = errors.New("nothing takes the report any more")

// each writes to every output that still takes something. Its error is that none does.
func (o *outputs) each(write func(*output) error) error {
	o.begin()
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
		return errUnheard
	}
	return nil
}

// sink begins, and gives what takes the events of one run for all outputs. Its error is that
// nobody hears any more.
func (o *outputs) sink() (report.Sink, error) {
	for _, out := range o.to {
		if out.Joined != nil {
			out.takes = report.Collect(&out.docs)
			continue
		}
		var err error
		if out.takes, err = out.Sink(out, report.Options{Colour: out.colour, Width: out.width, Expr: out.expr}); err != nil {
			return nil, badUsage("%w", err)
		}
	}
	o.begin()
	return sinkFunc(func(ev probe.Event) error {
		return o.each(func(out *output) error { return out.takes.Event(ev) })
	}), nil
}

// inFiles takes more of the same run, for the files alone.
func (o *outputs) inFiles() report.Sink {
	return sinkFunc(func(ev probe.Event) error {
		return o.each(func(out *output) error {
			if out.file == "" {
				return nil
			}
			return out.takes.Event(ev)
		})
	})
}

// close closes the files and returns what the verb came to: an output that was lost makes
// it exit code 1, whatever was found, for whoever reads only the file.
func (o *outputs) close(came error) error {
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

// shut closes the files. One that was made here for something that never began goes again.
func (o *outputs) shut() {
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

// severalReports tells whether several reports can stand below one another, and else the
// format that is the form of one.
func (o *outputs) severalReports() (report.Format, bool) {
	for _, out := range o.to {
		if !out.Many && out.Joined == nil {
			return out.Format, false
		}
	}
	return report.Format{}, true
}

// between parts a report from the next one, where people read them.
func (o *outputs) between() {
	for _, out := range o.to {
		if out.Name != "name" && out.Joined == nil {
			_, _ = out.Write([]byte("\n")) // its error is kept
		}
	}
}
