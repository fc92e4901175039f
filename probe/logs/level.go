package logs

import (
	"strings"

	"github.com/calico-probe/calico-probe/probe/lazy"
)

// The levels of Calico's log lines. levelNone is for a line without a level.
const (
	levelNone = iota
	levelDebug
	levelInfo
	levelWarning
	levelError
	levelFatal
)

// calicoLine is the format of Calico's lines: the time, [LEVEL][process], the place in the source code, and the text.
var calicoLine = lazy.New(`^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ \[(DEBUG|INFO|WARNING|ERROR|FATAL|PANIC)\](?:\[(\d+)\])? (.*)$`)

// endedWithout matches the last lines of programs that have no logger: a Go panic, or a program that the kernel
// cannot start.
var endedWithout = lazy.New(`^(?:panic: |fatal error: |runtime: out of memory|(?:exec |standard_init_linux\.go:\d+: ).*exec format error)`)

// levelOf splits a line into its level, process and text. Lines from BIRD, and from programs without a logger, have
// no such level.
func levelOf(line string) (level int, process, text string) {
	m := calicoLine.FindStringSubmatch(line)
	if m == nil {
		switch {
		case endedWithout.MatchString(line):
			return levelFatal, "", line
		case strings.HasPrefix(line, "bird") && (strings.Contains(line, "Fatal") || strings.Contains(line, "syntax error")):
			return levelError, "", line
		}
		return levelNone, "", line
	}
	level = map[string]int{"DEBUG": levelDebug, "INFO": levelInfo, "WARNING": levelWarning, "ERROR": levelError,
		"FATAL": levelFatal, "PANIC": levelFatal}[m[1]]
	return level, m[2], m[3]
}

// endsRun reports whether a line is the last line that start-up logs before it gives up.
func endsRun(text string) bool {
	return strings.HasSuffix(text, ": Terminating") || strings.HasSuffix(text, " Terminating") ||
		text == "Calico node failed to start"
}
