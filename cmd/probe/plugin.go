package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// Exit codes of 'probe run --plugin'. node-problem-detector defines them for custom plugins.
const (
	pluginOK      = 0
	pluginFault   = 1
	pluginUnknown = 2
)

// exit is an error with its own exit code. Its message was already written.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// A plugin reduces a whole run to one line. The line starts with the failed checks. By default node-problem-detector
// keeps 80 bytes of a plugin's message.
type plugin struct {
	broken, unknown []string // in the form "CHECK: OBSERVATION"
	well, warned    int
	ended           bool
}

func (p *plugin) add(ev probe.Event) {
	if ev.Type == probe.EventEnd {
		p.ended = true
	}
	r := ev.Result
	if r == nil {
		return
	}
	line := probe.OneLine(r.Check + ": " + strings.TrimPrefix(r.Target+" "+r.Saw, " "))
	switch r.Status {
	case probe.Fail:
		p.broken = append(p.broken, line)
	case probe.Unknown:
		p.unknown = append(p.unknown, line)
	case probe.Warn:
		p.warned++
	case probe.OK:
		p.well++
	}
}

// end writes the line. It returns an exit error if the node is unhealthy or its health is unknown.
func (p *plugin) end(out io.Writer) error {
	code, line := pluginOK, fmt.Sprintf("%d ok, %d warnings", p.well, p.warned)
	switch {
	case len(p.broken) > 0:
		code, line = pluginFault, strings.Join(p.broken, "; ")
	case !p.ended:
		code, line = pluginUnknown, "the run was cut off"
	case len(p.unknown) > 0:
		code, line = pluginUnknown, "unknown: "+strings.Join(p.unknown, "; ")
	case p.well == 0:
		code, line = pluginUnknown, "no check could run here"
	}
	if _, err := fmt.Fprintln(out, line); err != nil {
		return exit(pluginUnknown)
	}
	if code != pluginOK {
		return exit(code)
	}
	return nil
}
