//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
)

// ownCause is an operator's cause for a node where swap returns.
const ownCause = `---
layer: machine
find:
  swap: node-swap warn
cases:
- if: swap
  says: "our image of {node} has swap in fstab: {swap.saw}"
  for: proof swap
---
# our base image enables swap

Images before June have it.

## Fix

Build the node from the image of June.

` + "```sh\nssh {node} cat /etc/image-version\n```" + `

Touches: only what you change yourself
`

// namesOwnCause requires that a run marks an operator's cause, with medium confidence at most, beside the program's
// causes. A folder with a mistake must be rejected in one line.
func namesOwnCause(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("image-has-swap.md", ownCause)
	args := []string{"run", "--node", "node-b", "--checks", "node-swap", "--causes", dir, "-o", "json"}
	a := call(t, args...)
	var d struct{ Causes []probe.Cause }
	if err := json.Unmarshal([]byte(a.stdout), &d); err != nil {
		t.Fatalf("%v\n%s%s", err, a.stdout, a.stderr)
	}
	at := func(id string) int {
		return slices.IndexFunc(d.Causes, func(c probe.Cause) bool { return c.ID == id })
	}
	if at("swap-returns") < 0 || at("image-has-swap") < 0 {
		t.Fatalf("causes %+v, want swap-returns and the operator's", d.Causes)
	}
	own := d.Causes[at("image-has-swap")]
	if own.Source != dir || own.Confidence != probe.Medium ||
		!strings.HasPrefix(own.Title, "operator's cause: ") || !strings.Contains(own.Says, "our image of node-b") {
		t.Errorf("the operator's cause is %+v", own)
	}
	write("bad-fix.md", strings.Replace(ownCause, "cat /etc/image-version", "cat $(ls)", 1))
	if a := call(t, args...); a.exit != 2 || strings.Count(strings.TrimSpace(a.stderr), "\n") > 0 ||
		!strings.Contains(a.stderr, "bad-fix.md") {
		t.Errorf("exit %d, want 2 and one line about bad-fix.md:\n%s", a.exit, a.stderr)
	}
}
