package examine

import (
	"errors"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
)

// TestBaselineFails requires that a failed API request about a baseline node is reported as such, not as an incomplete
// probe answer.
func TestBaselineFails(t *testing.T) {
	t.Parallel()
	broke, unread := errors.New("broke off"), errors.New("no leader")
	for name, c := range map[string]struct {
		err    error
		placed bool
		unread error
		check  string // "" = nothing failed
		saw    string
	}{
		"nothing":          {nil, true, nil, "", ""},
		"not placed":       {broke, false, nil, probe.CheckPlaced, "broke off"},
		"broke off":        {broke, true, nil, probe.CheckAnswered, "broke off"},
		"the API not read": {nil, true, unread, probe.CheckPlaced, "the API objects of this baseline node were not read: no leader"},
	} {
		var out baseline
		out.fail(c.err, c.placed, c.unread)
		if (out.err != nil) != (c.check != "") || len(out.events) != len(strings.Fields(c.check)) {
			t.Fatalf("%s: %+v", name, out)
		}
		for _, ev := range out.events {
			if ev.Result.Check != c.check || !strings.Contains(ev.Result.Saw, c.saw) {
				t.Errorf("%s: %s %q, want %s %q", name, ev.Result.Check, ev.Result.Saw, c.check, c.saw)
			}
		}
	}
}
