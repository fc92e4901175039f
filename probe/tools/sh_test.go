package tools

import (
	"strings"
	"testing"
)

func TestParseSh(t *testing.T) {
	t.Parallel()
	for typed, wrong := range map[string]string{
		"":                                   "",
		"--toolbox":                          "",
		"--term xterm-256color --quiet":      "",
		"--toolbox --term xterm -c uptime":   "",
		"-- ip -s link":                      "",
		"-- sh -c exit":                      "",
		"-c":                                 "-c takes one command",
		"-c ip link":                         "-c takes one command",
		"--":                                 `does not take "--"`,
		"uptime":                             `does not take "uptime"`,
		"--term":                             `does not take "--term"`,
		"--toolbox uptime":                   `does not take "uptime"`,
		"--term ../../../etc/shadow -c true": "", // not a terminal type, and not forwarded
	} {
		_, err := ParseSh(strings.Fields(typed))
		if (err == nil) != (wrong == "") || err != nil && !strings.Contains(err.Error(), wrong) {
			t.Errorf("sh %s: %v, want %q", typed, err, wrong)
		}
	}
}
