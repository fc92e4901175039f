package examine

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/tools/txtar"

	"github.com/calico-probe/calico-probe/internal/nightfile"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

// maxLines is the maximum length of a broken node's report at 80 columns. Commands are never wrapped, and count once.
const maxLines = 30

// TestScreens requires the report of each recorded night on one screen, with the first cause in its first and last
// line.
func TestScreens(t *testing.T) {
	t.Parallel()
	files := nightfile.All()
	if len(files) == 0 {
		t.Fatal("no recorded nights")
	}
	for _, name := range files {
		b := must.Get(os.ReadFile(name))(t)
		want, screen := screenOf(t, b)
		lines := strings.Split(strings.TrimSuffix(screen, "\n"), "\n")
		if len(lines) > maxLines {
			t.Errorf("%s: %d lines:\n%s", filepath.Base(name), len(lines), screen)
		}
		what := sentence(lines)
		if room := longestSentence - len(what); len(what) > 0 && room > 0 && len(lines)+room <= maxLines &&
			strings.HasSuffix(what[len(what)-1], "…") {
			t.Errorf("%s: the first cause is shortened although it fits:\n%s", filepath.Base(name), screen)
		}
		for _, l := range lines {
			if utf8.RuneCountInString(l) > 80 && len(strings.Fields(l)) > 1 && !isCommand.MatchString(l) {
				t.Errorf("%s: %d columns: %s", filepath.Base(name), len(l), l)
			}
		}
		first, confidence, ok := strings.Cut(want, ": ")
		if !ok || !slices.Contains(probe.Confidences(), probe.Confidence(confidence)) {
			continue // a near miss that has no cause
		}
		head, _, _ := strings.Cut(screen, "\n\n")
		if says := fmt.Sprintf("[%s, %s confidence]", first, confidence); !strings.Contains(oneLine(head), says) {
			t.Errorf("%s: the first line has no %s:\n%s", filepath.Base(name), says, screen)
		}
		last := oneLine(strings.Join(lines[max(0, len(lines)-4):], " "))
		if says := fmt.Sprintf("[%s, %s];", first, confidence); !strings.Contains(last, says) {
			t.Errorf("%s: the last line has no %s:\n%s", filepath.Base(name), says, screen)
		}
	}
}

// longestSentence is the maximum number of lines of a cause's sentence.
const longestSentence = 6

// sentence returns the lines of the first cause's sentence.
func sentence(lines []string) []string {
	from := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "  what ") })
	if from < 0 {
		return nil
	}
	n := slices.IndexFunc(lines[from+1:], func(l string) bool { return !strings.HasPrefix(l, strings.Repeat(" ", 14)) })
	return lines[from : from+1+max(0, n)]
}

// isCommand matches a line with a command, which is never wrapped, or with a comment beside commands.
var isCommand = regexp.MustCompile(`^ {14}(#|(kubectl|ssh|calicoctl|calico-probe|ping|curl) )`)

// oneLine is a text without its line breaks.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// screenOf returns the report of a recorded night on a terminal of 80 columns, and its expected first cause.
func screenOf(t *testing.T, night []byte) (want, screen string) {
	t.Helper()
	var stream []byte
	for _, f := range txtar.Parse(night).Files {
		switch f.Name {
		case "stream":
			stream = f.Data
		case "want":
			want, _, _ = strings.Cut(string(f.Data), "\n")
		}
	}
	var run report.Run
	for d := probe.NewDecoder(bytes.NewReader(stream)); ; {
		ev, err := d.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		ev.Node = cmp.Or(ev.Node, "node-a") // as package diagnose reads them
		run.Node = cmp.Or(run.Node, ev.Node)
		run.Events = append(run.Events, ev)
	}
	return want, replayed(t, run)
}
