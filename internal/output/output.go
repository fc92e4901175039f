// Package output writes what a verb found to stdout and to files, as its -o flags say.
//
//	var out output.Set
//	out.Flag(cmd, report.Formats())             // -o, its help and its completion
//	if err := out.Open(stdout); err != nil {    // wrong usage, before anything is asked
//		return err
//	}
//	sink, err := out.Sink()                     // takes the events of one run
//	...
//	return out.Close(err)                       // closes the files; err is the verb's own
//
// A verb with formats of its own lists them without a Sink, and writes to each Place as its
// Name says; one Write with everything makes a document.
//
// A file holds only what was asked in this run: it is emptied when the run begins. It is
// written in place, and so keeps its mode, its owner and its links.
package output

import (
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

	"github.com/calico-probe/calico-probe/internal/prompt"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
)

// Set is what the -o flags of one verb name: FORMAT for stdout, FORMAT=FILE for a file, or
// FORMAT=EXPR. Something always goes to stdout: the first format of the list, unless another
// is named.
type Set struct {
	Family func(check string) string // by which a wide table groups checks, nil = it does not
	Fleet  bool                      // what is written is of several nodes

	formats []report.Format
	typed   []string
	to      []*Place
	ctx     context.Context // once it has ended a reader that does not read is not waited for
	begun   bool
}

// Place is one place something is written to.
type Place struct {
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

// Flag adds -o to a verb. The first of the formats is what stdout gets by default.
func (o *Set) Flag(cmd *cobra.Command, formats []report.Format) {
	o.formats = formats
	cmd.Flags().StringArrayVarP(&o.typed, "output", "o", nil, "output format, by default "+formats[0].Name+": "+
		strings.Join(report.Spelled(formats), ", ")+"; FORMAT=FILE writes a file beside what is on stdout; may be repeated")
	complete := func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
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
	}
	if err := cmd.RegisterFlagCompletionFunc("output", complete); err != nil { // the flag is new
		panic(err)
	}
}

// Open opens the files, and refuses what cannot work before anything is asked: a file that
// is also an input, or that two outputs would write. No file loses anything yet.
func (o *Set) Open(stdout io.Writer, inputs ...fs.FileInfo) (err error) {
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
				return ui.BadUsage("%w", err)
			}
		}
		if out.file != "" {
			if err := out.openFile(); err != nil {
				return fmt.Errorf("-o %s=%s cannot be written: %w", out.Name, out.file, err)
			}
		}
		info := infoOf(out.w)
		if info == nil {
			continue
		}
		if slices.ContainsFunc(inputs, func(in fs.FileInfo) bool { return os.SameFile(in, info) }) {
			return ui.BadUsage("%s is what is read, and -o %s would write to it: name another file", cmp.Or(out.file, "stdout"), out.Name)
		}
		same := func(other *Place) bool { at := infoOf(other.w); return at != nil && os.SameFile(at, info) }
		if j := slices.IndexFunc(o.to[:i], same); j >= 0 {
			return ui.BadUsage("-o %s and -o %s would both be written to %s: name one file for each", o.to[j].Name, out.Name, cmp.Or(out.file, o.to[j].file))
		}
	}
	return nil
}

// parse reads what was typed.
func (o *Set) parse(stdout io.Writer) error {
	o.to = nil
	var onStdout *Place
	for _, typed := range o.typed {
		name, rest, more := strings.Cut(typed, "=")
		f, err := report.Find(o.formats, name)
		if err != nil {
			return ui.BadUsage("%w", err)
		}
		out := &Place{Format: f}
		switch {
		case f.Expr != "" && rest == "":
			return ui.BadUsage("-o %s takes an expression: -o %s=%s", name, name, f.Expr)
		case f.Expr != "":
			out.expr = rest
		case more && (rest == "" || rest == "-"):
			return ui.BadUsage("-o %s names no file: -o %s writes to stdout, -o %s=FILE to a file", typed, name, name)
		case more:
			out.file = rest
		}
		if out.file == "" {
			if onStdout != nil {
				return ui.BadUsage("-o %s and -o %s would both go to stdout: write one to a file, as -o FORMAT=FILE, or leave it out", onStdout.Name, name)
			}
			onStdout = out
		}
		o.to = append(o.to, out)
	}
	if onStdout == nil {
		onStdout = &Place{Format: o.formats[0]}
		o.to = slices.Insert(o.to, 0, onStdout)
	}
	onStdout.w, onStdout.colour, onStdout.width = stdout, ui.Colourful(stdout), ui.Width(stdout)
	if !onStdout.Bytes {
		return nil
	}
	if ui.IsTerminal(stdout) {
		name := onStdout.Name
		return ui.BadUsage("-o %s is not for a terminal: write it to a file, -o %s=FILE, or give it to a program by |", name, name)
	}
	onStdout.w = asItIs{prompt.Bare(stdout)}
	return nil
}

// asItIs writes past what cleans text.
type asItIs struct{ io.Writer }

func (w asItIs) Write(b []byte) (int, error) {
	n, err := w.Writer.Write(b)
	if errors.Is(err, syscall.EPIPE) {
		err = fmt.Errorf("%w: %w", ui.ErrReaderGone, err)
	}
	return n, err
}

// Unwrap is the writer itself.
func (w asItIs) Unwrap() io.Writer { return w.Writer }

// Named adds what another flag of the verb names, as -o takes it.
func (o *Set) Named(format string) { o.typed = append(o.typed, format) }

// openFile opens a file, and changes nothing of one that is there. A pipe has to have a
// reader already.
func (out *Place) openFile() error {
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

// Inputs are the files that a verb reads, - for stdin. The verb itself reports one that
// cannot be read.
func Inputs(stdin io.Reader, names ...string) []fs.FileInfo {
	var out []fs.FileInfo
	for _, name := range names {
		info, err := os.Stat(name)
		switch {
		case name == "-":
			info = infoOf(stdin)
		case err != nil:
			info = nil
		}
		if info != nil {
			out = append(out, info)
		}
	}
	return out
}

// Width is that of the terminal it leads to, 0 = none.
func (out *Place) Width() int { return out.width }

// Lives reports whether stdout shows answers as they arrive.
func (o *Set) Lives() bool {
	return slices.ContainsFunc(o.to, func(out *Place) bool { return out.file == "" && out.Format.Lives })
}

// Until bounds the waiting for a reader that does not read, such as a pager left open: once
// ctx has ended, a write is given slack and no more.
func (o *Set) Until(ctx context.Context) { o.ctx = ctx }

// slack is for a reader that is only slow, and for what is written after a limit.
const slack = 2 * time.Second

// Begin empties the files: they hold nothing of an earlier run from here on.
func (o *Set) Begin() {
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
