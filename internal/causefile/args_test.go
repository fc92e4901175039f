package causefile

import (
	"slices"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/probe"
)

// argFile is a cause with a single value in its fix; the test inserts the type.
const argFile = `---
layer: kubelet
find:
  late: node-lease fail
cases:
- if: late
  says: late
  for: proof late
  args: {VALUE}
---
# a title

A doc.

## Fix

Do it.

Touches: nothing
`

// TestArgForms checks that a malformed value is replaced by its word.
func TestArgForms(t *testing.T) {
	t.Parallel()
	shared := Shared{Args: map[string]Args{"twice": {Names: []string{"a"},
		Of: func(_ diagnose.Findings, of ...string) map[string]diagnose.Arg {
			return map[string]diagnose.Arg{"a": diagnose.OwnArg(strings.Join(of, "+"))}
		}}}}
	for _, c := range []struct{ arg, saw, want string }{
		{"a: 'name:POOL {late.saw}'", "a-pool", "a-pool"},
		{"a: 'name:POOL {late.saw}'", "a/pool", "POOL"},
		{"a: 'name:KIND/NAME {late.saw}'", "webhook/one", "webhook/one"},
		{"a: 'name:KIND/NAME {late.saw}'", "webhook/one;reboot", "KIND/NAME"},
		{"a: 'name:NAMESPACE:NAME {late.saw}'", "one", "NAMESPACE:NAME"},
		{"a: 'word:MODULE {late.saw}'", "ip_set", "ip_set"},
		{"a: 'word:MODULE {late.saw}'", "a=b", "MODULE"},
		{"a: 'word:KEY=VALUE {late.saw}'", "a.b/c=d", "a.b/c=d"},
		{"a: 'word:KEY=VALUE {late.saw}'", "a=b=c", "KEY=VALUE"},
		{"'@twice': '{late.saw} two'", "o ne", "o ne+two"},
	} {
		rule, err := readCause("late", strings.Replace(argFile, "VALUE", c.arg, 1), shared, nil)
		if err != nil || len(slices.Concat(rule.Uses.Args, rule.Uses.ArgsTogether)) != 1 {
			t.Fatalf("%s: %v, %v", c.arg, rule.Uses.Args, err)
		}
		f := diagnose.Findings{Node: "n", All: []diagnose.Finding{{Node: "n", Result: probe.Result{
			Check: "node-lease", Status: probe.Fail, Saw: c.saw}}}}
		if got := rule.Match(f)[0].Args["a"].Typed(); got != c.want {
			t.Errorf("%s of %q: %q, want %q", c.arg, c.saw, got, c.want)
		}
	}
	for _, wrong := range []string{"'@other': x", "a: 'nothing x'", "a: 'name x'", "a: 'own {late.saw}'"} {
		if _, err := readCause("late", strings.Replace(argFile, "VALUE", wrong, 1), shared, nil); err == nil {
			t.Errorf("%s: no error", wrong)
		}
	}
}
