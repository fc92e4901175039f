package checks

import (
	"regexp"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// The levels of a line of Calico's, and of one that has none.
const (
	levelNone = iota - 1
	levelInfo
	levelWarning
	levelError
	levelFatal
)

// calicoLine is how Calico's parts write: time, [LEVEL][process], where in the source, text.
var calicoLine = regexp.MustCompile(`^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ \[(DEBUG|INFO|WARNING|ERROR|FATAL|PANIC)\]\[\d+\] (.*)$`)

// levelOf takes level and text out of a line. BIRD's lines, and those of programs that end
// without a logger (a panic of Go's), have no level of that form.
func levelOf(line string) (level int, text string) {
	m := calicoLine.FindStringSubmatch(line)
	if m == nil {
		switch {
		case strings.HasPrefix(line, "panic: "), strings.HasPrefix(line, "fatal error: "), strings.HasPrefix(line,
			"runtime: out of memory"):
			return levelFatal, line
		case strings.HasPrefix(line, "bird") && (strings.Contains(line, "Fatal") || strings.Contains(line, "syntax error")):
			return levelError, line
		}
		return levelNone, line
	}
	switch m[1] {
	case "WARNING":
		level = levelWarning
	case "ERROR":
		level = levelError
	case "FATAL", "PANIC":
		level = levelFatal
	}
	return level, m[2]
}

// endsRun tells whether a line is the last that start-up writes before it ends in vain.
func endsRun(text string) bool {
	return strings.HasSuffix(text, ": Terminating") || strings.HasSuffix(text, " Terminating") ||
		text == "Calico node failed to start"
}

// quoted is a line as it may be shown.
func quoted(line string) string {
	line = probe.Masked(line)
	if runes := []rune(line); len(runes) > logQuote { // the reason stands at the end: error=...
		line = string(runes[:logQuote/3]) + " ... " + string(runes[len(runes)-logQuote*2/3:])
	}
	return line
}
