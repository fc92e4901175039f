package prompt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe/must"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]Line{
		"":                 nil,
		" ;; \n # nothing": nil,
		"ping 10.1.2.3":    {{Words: []string{"ping", "10.1.2.3"}, Text: "ping 10.1.2.3"}},
		"a b; c\r\nd": {{Words: []string{"a", "b"}, Text: "a b"}, {Words: []string{"c"}, Text: "c"},
			{Words: []string{"d"}, Text: "d"}},
		`a 'b c' "d;e" f\ g`: {{Words: []string{"a", "b c", "d;e", "f g"}, Text: `a 'b c' "d;e" f\ g`}},
		`a "" ''`:            {{Words: []string{"a", "", ""}, Text: `a "" ''`}},
		`a "\d\"\\" '\d'`:    {{Words: []string{"a", `\d"\`, `\d`}, Text: `a "\d\"\\" '\d'`}},
		`a b\`:               {{Words: []string{"a", `b\`}, Text: `a b\`}},
		"a \\\nb":            {{Words: []string{"a", "b"}, Text: "a \\\nb"}},
		"a#b # c; d":         {{Words: []string{"a#b"}, Text: "a#b"}},
		"a # c; d\nb":        {{Words: []string{"a"}, Text: "a"}, {Words: []string{"b"}, Text: "b"}},
		"a|less; b": {{Words: []string{"a"}, Pipe: "less", Text: "a|less"}, {Words: []string{"b"},
			Text: "b"}},
		`a b | grep "x;y" | tee >f &`: {{Words: []string{"a", "b"}, Pipe: `grep "x;y" | tee >f &`,
			Text: `a b | grep "x;y" | tee >f &`}},
		"a | sed 's/#.*//'": {{Words: []string{"a"}, Pipe: "sed 's/#.*//'", Text: "a | sed 's/#.*//'"}},
		`a '|' ">"`:         {{Words: []string{"a", "|", ">"}, Text: `a '|' ">"`}},
	} {
		got, err := Parse(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	for text, says := range map[string]string{
		"a 'b": "quote", `a "b`: "quote", "a |": "|", "| a": "|", "a || b": "|", "a; | b": "|",
		"a > f": "cat >FILE", "a && b": "&", "a < f": "<",
	} {
		if got, err := Parse(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %q, %v, want an error about %s", text, got, err, says)
		}
	}
}

// FuzzParse requires quoted words to survive parsing, and completion never to panic.
func FuzzParse(f *testing.F) {
	f.Add("a 'b c' | less; d # e", 3)
	f.Add("a \\\n\"\\x\"", 9)
	f.Fuzz(func(t *testing.T, text string, at int) {
		lines, err := Parse(text)
		if err == nil {
			for _, l := range lines {
				if len(l.Words) == 0 {
					t.Fatalf("%q: a line without words", text)
				}
				var quoted []string
				for _, w := range l.Words {
					quoted = append(quoted, "'"+strings.ReplaceAll(w, "'", `'\''`)+"'")
				}
				again, err := Parse(strings.Join(quoted, " "))
				if err != nil || len(again) != 1 || !slices.Equal(again[0].Words, l.Words) {
					t.Fatalf("%q: %q quoted gives %q, %v", text, l.Words, again, err)
				}
			}
		}
		runes := []rune(text)
		if at < 0 || at > len(runes) {
			at = len(runes)
		}
		if _, _, start, _ := unfinished(runes[:at]); start < 0 || start > at {
			t.Fatalf("%q: a word begins at %d", text, start)
		}
	})
}

// testShell returns a shell that writes to a buffer.
func testShell(commands ...*Command) (*Shell, *bytes.Buffer) {
	var out bytes.Buffer
	s := &Shell{Out: &out, ErrOut: &out}
	s.Commands = append(commands, s.Help())
	return s, &out
}

func says(name, text string) *Command {
	return &Command{Name: name, Check: func([]string) error { return nil }, Run: func(_ context.Context, c *Call) error {
		_, err := fmt.Fprintln(c.Out, text, strings.Join(c.Args, ","))
		return err
	}}
}

func TestComplete(t *testing.T) {
	t.Parallel()
	node := says("node", "")
	node.Complete = func(_ context.Context, before []string) []string {
		if len(before) > 0 {
			return []string{"second"}
		}
		return []string{"node-a", "node-b", "other", "Ünode"}
	}
	s, _ := testShell(node, says("nope", ""))
	complete := s.completer(t.Context())
	for line, want := range map[string]string{
		"":                   "|help,node,nope|",
		"n":                  "|node,nope|",
		"no":                 "|node,nope|",
		"h":                  "|help |",
		"help no":            "help |node,nope|",
		"node ":              "node |node-a,node-b,other,Ünode|",
		"node node-":         "node |node-a,node-b|",
		"node the":           "node |other |", // the only match
		"node a; node o":     "node a; node |other |",
		"node a;n":           "node a;|node,nope|",
		"node x ":            "node x |second |",
		"node 'o":            "||",
		"node | o":           "||",
		"node o # n":         "||",
		"node >o":            "||",
		"what ":              "what ||",
		"ü; node Ü":          "ü; node |Ünode |",
		"node node-x nobody": "node node-x ||",
	} {
		head, found, tail := complete(line, len([]rune(line)))
		if got := head + "|" + strings.Join(found, ",") + "|" + tail; got != want {
			t.Errorf("%q: got %q, want %q", line, got, want)
		}
	}
	if head, found, tail := complete("node o rest", 6); head != "node " || !slices.Equal(found, []string{"other"}) ||
		tail != " rest" {
		t.Errorf("within a line: %q %q %q", head, found, tail)
	}
}

// TestCompletionsAreWords offers any name that a node may give its interfaces: completion inserts one word or nothing.
func TestCompletionsAreWords(t *testing.T) {
	t.Parallel()
	offered := []string{
		"eth0|touch${IFS}/tmp/owned\x1b[8m", "eth0;sh", "eth0\nexit", "eth0 exit", "eth0\texit", "eth0'", `eth0"`, `eth0\`, "eth0>x", "eth0&x",
		"eth0\x1b[8m", "eth0\u202e", "eth0\u200b", "#eth0", "", "eth0\x9b", "eth0.100", "eth0@if3", "$(eth0)", "ethü",
	}
	links := says("links", "")
	links.Complete = func(context.Context, []string) []string { return offered }
	s, _ := testShell(links)
	for _, text := range offered {
		head, found, tail := s.completer(t.Context())("links "+text[:min(len(text), 3)], 6+min(len(text), 3))
		for _, one := range found {
			one, _, _ = strings.Cut(one, " (") // a description is listed, and not typed
			lines, err := Parse(head + one + tail)
			if err != nil || len(lines) != 1 || lines[0].Pipe != "" || !slices.Equal(lines[0].Words, []string{"links",
				strings.TrimSpace(one)}) {
				t.Errorf("%q is put in as %q, %v", one, lines, err)
			}
		}
	}
	if _, found, _ := s.completer(t.Context())("links ", 6); !slices.Equal(found, []string{"$(eth0)", "eth0 (exit)",
		"eth0.100", "eth0@if3", "ethü"}) {
		t.Errorf("%q", found)
	}
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	ping, bird := says("ping", ""), says("bird", "")
	bird.Check = nil
	own := says("sh", "")
	own.Terminal = true
	s, out := testShell(ping, bird, own)
	for text, want := range map[string]string{
		"pnig":        `did you mean "ping"?`,
		"brd":         `did you mean "bird"?`,
		"xyzzy":       "'help' lists them",
		"bird x":      "takes no arguments",
		"help pin":    `did you mean "ping"?`,
		"help a b":    "one command",
		"ping; sh":    "sh needs a terminal",
		"ping 'x":     "quote",
		"ping; nosuc": "unknown command",
	} {
		err := s.Script(t.Context(), text, func(Line, error) {})
		if err == nil || !strings.Contains(err.Error(), want) || !errors.As(err, new(UsageError)) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	if out.Len() > 0 {
		t.Errorf("a script with a mistake has run: %s", out)
	}
	if err := s.Script(t.Context(), "help; help ping", func(_ Line, err error) { t.Error(err) }); err != nil ||
		!strings.Contains(out.String(), "Ctrl-D") {
		t.Errorf("%v, %s", err, out)
	}
}

func TestScript(t *testing.T) {
	t.Parallel()
	bad := &Command{Name: "bad", Run: func(context.Context, *Call) error { return errors.New("it is bad") }}
	leave := &Command{Name: "exit", Run: func(context.Context, *Call) error { return ErrExit }}
	s, out := testShell(says("say", "hello"), bad, leave)
	var failed []string
	err := s.Script(t.Context(), "say a 'b c'; bad\nsay d; exit; say never", func(l Line, err error) { failed = append(failed, l.Text+": "+err.Error()) })
	if got := strings.Join(failed, ";"); err != nil || got != "bad: it is bad" ||
		out.String() != "hello a,b c\nhello d\n" {
		t.Errorf("%v, %q, %q", err, got, out)
	}
}

func TestPipe(t *testing.T) {
	t.Parallel()
	endless := &Command{Name: "endless", Run: func(ctx context.Context, c *Call) error {
		for ctx.Err() == nil {
			if _, err := fmt.Fprintln(c.Out, "again"); err != nil {
				return fmt.Errorf("writing: %w", err)
			}
		}
		return ctx.Err()
	}}
	silent := &Command{Name: "silent", Run: func(ctx context.Context, _ *Call) error { <-ctx.Done(); return ctx.Err() }}
	bad := &Command{Name: "bad", Run: func(context.Context, *Call) error { return errors.New("it is bad") }}
	var code PipeError
	for text, want := range map[string]struct {
		out  string
		code int
		err  string
	}{
		"say a | cat":                 {out: "hello a\n"},
		"say a | grep -c hello | cat": {out: "1\n"},
		"say a | grep nothing":        {code: 1},
		"say a | exit 7":              {code: 7},
		"endless | head -n 1":         {out: "again\n"},
		"silent | true":               {},
		"bad | cat":                   {err: "it is bad"},
		`bad | sh -c "cat; exit 2"`:   {err: "it is bad", code: 2},
	} {
		s, out := testShell(says("say", "hello"), endless, silent, bad)
		var failed error
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		err := s.Script(ctx, text, func(_ Line, err error) { failed = err })
		cancel()
		code.Code = 0
		errors.As(failed, &code)
		if err != nil || out.String() != want.out || code.Code != want.code || want.err != "" != (failed != nil &&
			strings.Contains(failed.Error(), "bad")) {
			t.Errorf("%s: %v, %q, %v, want %+v", text, err, out, failed, want)
		}
		if want.code == 0 && want.err == "" && failed != nil {
			t.Errorf("%s: %v", text, failed)
		}
	}
}

func TestInterrupts(t *testing.T) {
	t.Parallel()
	s, _ := testShell()
	s.Editor = &Editor{}
	s.Commands = []*Command{{Name: "stubborn", Run: func(ctx context.Context, _ *Call) error {
		if Abandoned(ctx) == nil {
			t.Error("it cannot be abandoned")
		}
		if s.interrupt(); ctx.Err() == nil {
			t.Error("the first Ctrl-C did not stop the command")
		}
		select {
		case <-Abandoned(ctx):
			t.Error("abandoned by the first Ctrl-C")
		default:
		}
		s.interrupt()
		<-Abandoned(ctx)
		s.interrupt() // an impatient user
		return ctx.Err()
	}}}
	if stopped, err := s.attended(t.Context(), Line{Words: []string{"stubborn"}}); !stopped || !errors.Is(err,
		context.Canceled) {
		t.Errorf("stopped %v, %v", stopped, err)
	}
	s.interrupt() // between a command and the prompt
	if Abandoned(t.Context()) != nil {
		t.Error("nobody abandons what nobody attends")
	}
}

func TestHistory(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state", "history")
	one, lines, err := OpenHistory(path)
	if err != nil || len(lines) != 0 {
		t.Fatal(lines, err)
	}
	for i := range remembered + 10 {
		must.Do(t, one.Add(fmt.Sprint("line ", i)))
	}
	two, lines, err := OpenHistory(path)
	if err != nil || len(lines) != remembered || lines[0] != "line 10" {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	// Both go on, and a third shortens the file between them.
	for _, h := range []*History{one, two} {
		must.Do(t, h.Add("a line\nof two"))
	}
	if _, lines, err = OpenHistory(path); err != nil || len(lines) != remembered ||
		lines[remembered-1] != "a line of two" || lines[remembered-2] != "a line of two" {
		t.Errorf("%d lines, the last %q, %v", len(lines), lines[len(lines)-1], err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); err != nil || len(left) != 1 {
		t.Errorf("besides the history there is %q, %v", left, err)
	}
	must.Do(t, os.WriteFile(path+"-none", nil, 0o600))
	if _, _, err := OpenHistory(filepath.Join(path+"-none", "history")); err == nil {
		t.Error("a history within a file")
	}
}

// TestHistoryOfOthers opens a foreign file as a history: it becomes private and is shortened, and nothing in it
// controls the terminal.
func TestHistoryOfOthers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history")
	if err := os.WriteFile(path, []byte(strings.Repeat("x", maxHistory)+"half a line\nping \x1b[2Ja\nping a\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	h, lines, err := OpenHistory(path)
	if err != nil || !slices.Equal(lines, []string{"ping a"}) {
		t.Errorf("%d lines, %v", len(lines), err)
	}
	if err := errors.Join(h.Add(" sh -c secret"), h.Add("ping b")); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "ping a\nping b\n" {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// TestHistoryKeepsWhatIsAddedMeanwhile appends between reading and replacing.
func TestHistoryKeepsWhatIsAddedMeanwhile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history")
	h, _, err := OpenHistory(path)
	if err != nil {
		t.Fatal(err)
	}
	must.Do(t, h.Add("before"))
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, size, err := linesOf(f)
	if err != nil {
		t.Fatal(err)
	}
	must.Do(t, h.Add("meanwhile"))
	must.Do(t, h.replace(f, size, []string{"kept"}))
	if _, lines, err := OpenHistory(path); err != nil || !slices.Equal(lines, []string{"kept", "meanwhile"}) {
		t.Errorf("%q, %v", lines, err)
	}
}

// TestLineNumbers requires the line number of a mistake in a script of several lines.
func TestLineNumbers(t *testing.T) {
	t.Parallel()
	s := &Shell{Commands: []*Command{{Name: "ping"}}}
	for text, want := range map[string]string{
		"pong\n":                          `pong: `,
		"# a comment\n\nping; ping\npong": `line 4: pong: `,
		"ping\nping |\nping":              `line 2: | needs a command before it`,
		"ping\nping\n\"ping":              `line 3: a quote is not closed`,
		"ping\nping >f":                   `line 2: > means nothing here`,
	} {
		if err := s.Check(text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
