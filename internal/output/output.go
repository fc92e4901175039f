// Package output writes the results of a verb to stdout and to the files of its -o flags.
//
//	var out output.Set
//	out.Flag(cmd, report.Formats())             // -o, its help and its completion
//	if err := out.Open(stdout); err != nil {    // wrong usage, before the first request
//		return err
//	}
//	sink, err := out.Sink()                     // takes the events of one run
//	...
//	return out.Close(err)                       // closes the files; err is the verb's own
//
// Set is the entry point. A verb with its own formats lists them without a Sink, and writes to each Place in the format
// that the Place's Name specifies. A document must be written with a single Write.
//
// A file contains only results of this run, because it is truncated when the run begins. It is
// written in place, so it keeps its mode, its owner and its links.
//
// The package does not format reports: the sinks in package report do.
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

// Set holds the outputs of one verb's -o flags: FORMAT for stdout, FORMAT=FILE for a file, or FORMAT=EXPR. There is
// always an output on stdout. By default it has the first format in the list.
type Set struct {
	Family func(check string) string // groups the checks of a wide table; nil = no groups
	Fleet  bool                      // the run is over several nodes

	formats []report.Format
	typed   []string
	to      []*Place
	ctx     context.Context // when it ends, stop waiting for a blocked reader
	begun   bool
}

// Place is one output: stdout or a file.
type Place struct {
	report.Format
	colour bool
	width  int // width of the terminal; 0 = no terminal
	expr   string
	file   string // "" = stdout
	made   bool   // created by this run
	w      io.Writer
	over   func() <-chan struct{}
	takes  report.Sink       // receives the events of a run
	docs   []report.Document // reports for a format that joins several into one
	err    error             // the first
}

// Flag adds -o to a verb. The first format is the default on stdout.
func (o *Set) Flag(cmd *cobra.Command, formats []report.Format) {
	o.formats = formats
	cmd.Flags().StringArrayVarP(&o.typed, "output", "o", nil, "output format, by default "+formats[0].Name+": "+
		strings.Join(report.Spelled(formats), ", ")+"; FORMAT=FILE also writes a file; may be repeated")
	complete := func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		if name, _, ok := strings.Cut(typed, "="); ok {
			if f, err := report.Find(formats, name); err == nil && f.Expr == "" {
				return nil, cobra.ShellCompDirectiveDefault // the shell completes files
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

// Before the first request, Open opens the files and rejects what cannot work: a file that is
// also an input, or to which two outputs would write. It does not truncate files yet.
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
		if out.Sink != nil { // creating the sink detects an invalid expression
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
			return ui.BadUsage("%s is the input, and -o %s would overwrite it: name another file", cmp.Or(out.file, "stdout"), out.Name)
		}
		same := func(other *Place) bool { at := infoOf(other.w); return at != nil && os.SameFile(at, info) }
		if j := slices.IndexFunc(o.to[:i], same); j >= 0 {
			return ui.BadUsage("-o %s and -o %s would both be written to %s: use a separate file for each", o.to[j].Name, out.Name, cmp.Or(out.file, o.to[j].file))
		}
	}
	return nil
}

// parse parses the values of the flags.
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
			return ui.BadUsage("-o %s has no file name: -o %s writes to stdout, -o %s=FILE to a file", typed, name, name)
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
		return ui.BadUsage("-o %s is not for a terminal: write it to a file with -o %s=FILE, or pipe it to a program", name, name)
	}
	onStdout.w = asItIs{prompt.Bare(stdout)}
	return nil
}

// asItIs bypasses the screen that cleans text. Binary formats use it.
type asItIs struct{ io.Writer }

func (w asItIs) Write(b []byte) (int, error) {
	n, err := w.Writer.Write(b)
	if errors.Is(err, syscall.EPIPE) {
		err = fmt.Errorf("%w: %w", ui.ErrReaderGone, err)
	}
	return n, err
}

// Unwrap returns the writer itself.
func (w asItIs) Unwrap() io.Writer { return w.Writer }

// Named adds the output of another flag, in the syntax of -o.
func (o *Set) Named(format string) { o.typed = append(o.typed, format) }

// openFile opens a file. It does not change an existing file. A pipe must already have a
// reader.
func (out *Place) openFile() error {
	how := os.O_WRONLY
	info, err := os.Stat(out.file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		_, err = os.Lstat(out.file) // do not remove a dangling link later
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

// infoOf identifies a file or a pipe under any name. It returns nil for terminals and devices such as /dev/null, which
// several outputs may share.
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

// Inputs returns the files that a verb reads; - is stdin. It skips unreadable files, because the verb itself reports
// them.
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

// Width returns the width of the output's terminal; 0 = no terminal.
func (out *Place) Width() int { return out.width }

// Lives reports whether stdout shows answers as they arrive.
func (o *Set) Lives() bool {
	return slices.ContainsFunc(o.to, func(out *Place) bool { return out.file == "" && out.Format.Lives })
}

// Until limits the wait for a reader that stopped reading, such as an open pager. After ctx ends, a write may take at
// most slack.
func (o *Set) Until(ctx context.Context) { o.ctx = ctx }

// slack is for slow readers, and for reports that are written after a timeout.
const slack = 2 * time.Second

// Begin truncates the files. This removes the results of an earlier run.
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
