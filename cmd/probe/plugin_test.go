package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestPlugin checks the line and the exit code for node-problem-detector.
func TestPlugin(t *testing.T) {
	result := func(s probe.Status, check, saw string) probe.Event {
		r := probe.Found(s, "%s", saw)
		r.Check = check
		return probe.Event{Type: probe.EventResult, Result: &r}
	}
	end := probe.Event{Type: probe.EventEnd}
	fine := result(probe.OK, "a", "well")
	for name, c := range map[string]struct {
		events []probe.Event
		code   int
		line   string
	}{
		"well": {[]probe.Event{fine, result(probe.Warn, "b", "odd"), end},
			pluginOK, "1 ok, 1 warnings"},
		"broken": {[]probe.Event{fine, result(probe.Fail, "b", "a\nb\x1b[31m"), result(probe.Fail, "c", "d"), end},
			pluginFault, "b: a b"},
		"unknown": {[]probe.Event{fine, result(probe.Unknown, "b", "silence"), end},
			pluginUnknown, "unknown: b: silence"},
		"cut":                   {[]probe.Event{fine}, pluginUnknown, "cut off"},
		"cut, a fault was seen": {[]probe.Event{result(probe.Fail, "b", "x")}, pluginFault, "b: x"},
		"nothing": {[]probe.Event{result(probe.Skip, "b", "not here"), end},
			pluginUnknown, "no check could run"},
	} {
		t.Run(name, func(t *testing.T) {
			var p plugin
			for _, ev := range c.events {
				p.add(ev)
			}
			var out bytes.Buffer
			holdPlugin(t, p.end(&out), out.String(), c.code, c.line)
		})
	}
}

// TestPluginRuns runs on the proc file system of a machine that does not forward packets.
func TestPluginRuns(t *testing.T) {
	proc := t.TempDir()
	must.Do(t, os.MkdirAll(filepath.Join(proc, "sys/net/ipv4"), 0o700))
	must.Do(t, os.WriteFile(filepath.Join(proc, "sys/net/ipv4/ip_forward"), []byte("0\n"), 0o600))
	var out bytes.Buffer
	args := []string{"run", "--plugin", "--root", proc, "--proc", proc, "--checks", "node-sysctl"}
	err := command(t.Context(), args, nil, &out)
	holdPlugin(t, err, out.String(), pluginFault, "node-sysctl: net/ipv4/ip_forward 0: ")
	err = command(t.Context(), []string{"run", "--plugin", "--text"}, nil, &out)
	if !errors.As(err, new(usageError)) {
		t.Errorf("--plugin with --text: %v", err)
	}
}

func holdPlugin(t *testing.T, err error, line string, code int, want string) {
	t.Helper()
	ended := exit(pluginOK)
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	if int(ended) != code || !strings.Contains(line, want) || strings.Count(line, "\n") != 1 ||
		strings.ContainsRune(line, '\x1b') {
		t.Errorf("exit code %d, %q; want %d, %q in one line", ended, line, code, want)
	}
}
