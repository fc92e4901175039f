package cause

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/nightfile"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestMissingRightComesLast adds a refused access method to every recorded night: what its API results lead to stays
// ahead of the missing right.
func TestMissingRightComesLast(t *testing.T) {
	files := nightfile.All()
	if len(files) == 0 {
		t.Fatal("no recorded nights")
	}
	refused := probe.Found(probe.Unknown, "no permission to create pods").On("pod").
		With(probe.FactReason, string(facts.ReasonRBAC)) // as it is read from a stream
	refused.Check = probe.CheckPlaced
	checked := 0
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var seen diagnose.Findings
		for _, section := range txtar.Parse(b).Files {
			if section.Name != "stream" {
				continue
			}
			all := read(t, section.Data)
			seen.Node = all.Node
			for _, r := range all.All {
				if r.Method == "api" && r.Node == all.Node { // no probe runs without the right
					seen.All = append(seen.All, r)
				}
			}
		}
		before := diagnose.Explain(seen, All()).Causes
		seen.All = append(seen.All, diagnose.Finding{Node: seen.Node, Method: "pod", Result: refused})
		after := diagnose.Explain(seen, All()).Causes
		if len(before) == 0 || len(after) == 0 {
			continue
		}
		checked++
		if first := after[0].ID; first == "probe-rights" {
			t.Errorf("%s: %s comes before %s", filepath.Base(name), first, before[0].ID)
		}
	}
	if checked < 50 {
		t.Errorf("only %d nights have a cause that the API alone shows", checked)
	}
}
