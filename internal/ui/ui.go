// Package ui is the program's side of the terminal: messages on stderr (Say), the text that a
// terminal may show (Screen), Ctrl-C (Interrupts), and the errors that a verb exits with. It has
// no notion of nodes, checks or clusters, so every package of the client may import it.
//
// Results go to stdout. Everything else goes to stderr. A message starts in lower case and ends without a full stop. An
// error is one line: what failed, and what to do.
// Progress is shown only on terminals. What the user must know afterwards is written to any stream.
//
//	ui.Say(stderr, "%s: putting a probe on %s", method, node)
//	return ui.BadUsage("no node given: use --node NODE") // exit code 2
//	return ui.Exit(report.ExitFault)                        // everything is already printed
package ui

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/calico-probe/calico-probe/internal/prompt"
	"github.com/calico-probe/calico-probe/probe"
)

// Exit is the exit code of a verb that has already printed everything.
type Exit int

func (e Exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// UsageError is an error about bad input: one line, exit code 2.
type UsageError struct{ text string }

func (e UsageError) Error() string { return e.text }

// BadUsage returns a UsageError, formatted as by fmt.Errorf.
func BadUsage(format string, args ...any) error {
	return UsageError{fmt.Errorf(format, args...).Error()}
}

// DeclinedError means that the user declined. This is not a failure of the tool.
type DeclinedError string

func (e DeclinedError) Error() string { return string(e) }

// Sentence marks the text as written for the user.
func (e DeclinedError) Sentence() {}

// Say prints one line. It ignores errors, because it has no other place to report errors.
func Say(w io.Writer, format string, args ...any) {
	line := "calico-probe: " + Advised(probe.OneLine(fmt.Sprintf(format, args...)))
	if on := watching.Load(); on != nil && IsTerminal(w) {
		on.above(line)
		return
	}
	if rawTerminal.Load() {
		w, line = prompt.Bare(w), "\r\n"+line+"\r"
	}
	_, _ = fmt.Fprintln(w, line)
}

// rawTerminal is true if the terminal is in raw mode. In this mode \n does not return to the first column.
var rawTerminal atomic.Bool

// SetRaw records whether the terminal is in raw mode.
func SetRaw(raw bool) { rawTerminal.Store(raw) }

// AsPlugin reports whether the program runs as a kubectl plugin, which the program's name on the PATH shows.
var AsPlugin = strings.HasPrefix(filepath.Base(os.Args[0]), "kubectl-")

// Advised rewrites the commands in help and messages for users of the kubectl plugin, because the PATH
// may have the program only under the plugin's name. Reports are data, and the same under both
// names.
func Advised(text string) string {
	if !AsPlugin {
		return text
	}
	return strings.NewReplacer(
		"'calico-probe ", "'kubectl calico-probe ",
		"$ calico-probe ", "$ kubectl calico-probe ",
		"  calico-probe ", "  kubectl calico-probe ",
	).Replace(text)
}

// IsTerminal reports whether a reader or writer is a terminal, or wraps one.
func IsTerminal(w any) bool {
	if to, ok := w.(io.Writer); ok {
		w = prompt.Bare(to)
	}
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// When is the value of --color.
type When string

// Colour is the user's choice. The zero value is auto.
var Colour When

func (c *When) String() string { return string(cmp.Or(*c, "auto")) }

// Type returns the name of the flag's value in help.
func (c *When) Type() string { return "when" }

// Set parses one of the three words.
func (c *When) Set(typed string) error {
	if !slices.Contains([]string{"auto", "always", "never"}, typed) {
		return errors.New("use auto, always or never")
	}
	*c = When(typed)
	return nil
}

// Colourful reports whether to colour the output to w (https://no-color.org).
func Colourful(w io.Writer) bool {
	switch Colour {
	case "always":
		return true
	case "never":
		return false
	}
	return IsTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// Width returns the width of w's terminal; 0 = no terminal.
func Width(w io.Writer) int {
	f, ok := prompt.Bare(w).(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// Cut shortens a line to a width in characters; 0 = no limit.
func Cut(line string, width int) string {
	if width <= 1 || utf8.RuneCountInString(line) <= width {
		return line
	}
	return string([]rune(line)[:width-1]) + "…"
}
