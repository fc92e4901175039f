package session

import (
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe/tools"
)

// TestNobodyTypesFrames requires that a user cannot request the wire format of a capture in any tool: it could contain
// payload, which the annotations of the probe's pod would not show.
func TestNobodyTypesFrames(t *testing.T) {
	t.Parallel()
	for _, option := range []string{"--frames", "-frames", "--frames=true"} {
		args := []string{option, "--payload", "10.244.7.9"}
		for where, check := range map[string]func() error{
			"at the prompt": func() error { return (&Session{}).tool(tools.Capture).Check(args) },
			"in a pod":      func() error { return checkInside(append([]string{"default/web", "capture"}, args...)) },
			"watch":         func() error { _, err := watchingOf(append([]string{"capture"}, args...)); return err },
		} {
			if err := check(); err == nil || !strings.Contains(err.Error(), "no option --frames") {
				t.Errorf("%s %s: %v", where, option, err)
			}
		}
	}
	if err := checkInside([]string{"default/web", "capture", "10.244.7.9"}); err != nil {
		t.Error(err)
	}
}
