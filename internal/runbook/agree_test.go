package runbook_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/runbook"
)

// TestAgree requires consent for a step's nodes before it runs, and after a resume only for nodes without an answer.
func TestAgree(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "journal")
	rb := loaded(t, "  - run: {on: {names: [n1, n2]}}\n  - run: {on: {names: [n1, n2, n3]}}\n")
	follow := func(w *world, most int) (*runbook.Record, []string) {
		t.Helper()
		j, err := runbook.OpenJournal(file, true)
		if err != nil {
			j, err = runbook.CreateJournal(file, headerOf(rb))
		}
		if err != nil {
			t.Fatal(err)
		}
		var about []string
		e := &runbook.Engine{Runbook: rb, Journal: j, World: w.functions()}
		e.World.Agree = func(_ context.Context, _ runbook.Run, nodes []string) error {
			about = append(about, strings.Join(nodes, " "))
			if len(nodes) > most {
				return errors.New("probes on too many nodes")
			}
			return nil
		}
		r, err := e.Do(t.Context())
		if err = errors.Join(err, j.Close()); err != nil {
			t.Fatal(err)
		}
		return r, about
	}
	w := &world{}
	r, about := follow(w, 2)
	wantOutcome(t, r, "incomplete", report.ExitIncomplete, "step 2: probes on too many nodes")
	if !slices.Equal(about, []string{"n1 n2", "n1 n2 n3"}) || w.did["run n1"] != 1 || w.did["run n3"] != 0 {
		t.Errorf("agreed to %q, did %v", about, w.did)
	}
	r, about = follow(w, 3)
	if !slices.Equal(about, []string{"n1 n2 n3"}) || w.did["run n1"] != 2 || w.did["run n3"] != 1 {
		t.Errorf("resumed: agreed to %q, did %v: %+v", about, w.did, r.Outcome)
	}
}

// TestTooManyNames requires the same limit for named nodes as for a selector.
func TestTooManyNames(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range 51 {
		names = append(names, fmt.Sprintf("n%d", i))
	}
	step := "  - run: {on: {names: [" + strings.Join(names, ", ") + "]}}\n"
	if _, err := runbook.Load("test.yaml", []byte(written(step)), known()); err == nil ||
		!strings.Contains(err.Error(), "51 nodes are named, but a run takes at most 50") {
		t.Errorf("%v", err)
	}
}
