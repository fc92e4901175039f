package examine

import (
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestGoldenScreens compares the report of each fault of the lab, and of each culprit on Calico itself (real-*), with
// the screen that a person has read. 'make faults' and FAULTS=write 'make real' save the documents; -update writes
// the screens.
func TestGoldenScreens(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/screens/*.json.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("no saved documents: %v", err)
	}
	page, err := os.ReadFile("../../docs/faults.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range faultRow.FindAllStringSubmatch(string(page), -1) {
		if !slices.Contains(files, "testdata/screens/"+row[1]+".json.gz") {
			t.Errorf("no document of the fault %s: 'make faults' saves it", row[1])
		}
	}
	for _, name := range files {
		screen := replayed(t, savedRun(t, name))
		if n := strings.Count(screen, "\n"); n > maxLines {
			t.Errorf("%s: %d lines", name, n)
		}
		golden := strings.TrimSuffix(name, ".json.gz") + ".txt"
		if *update {
			must.Do(t, os.WriteFile(golden, []byte(screen), 0o644))
			continue
		}
		want := must.Get(os.ReadFile(golden))(t)
		if screen != string(want) {
			t.Errorf("%s differs:\n%s\nwant\n%s", golden, screen, want)
		}
	}
}

// faultRow is a row of docs/faults.md.
var faultRow = regexp.MustCompile("(?m)^\\| `([a-z0-9-]+)` \\|")

// savedRun is the run of a compressed JSON document.
func savedRun(t *testing.T, name string) report.Run {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	saved, err := report.Load(r)
	if err != nil || len(saved.Runs) != 1 {
		t.Fatalf("%s: %d runs: %v", name, len(saved.Runs), err)
	}
	return saved.Runs[0]
}

// replayed is the report of a run as a terminal of 80 columns shows it.
func replayed(t *testing.T, run report.Run) string {
	t.Helper()
	var out bytes.Buffer
	sink := must.Get(report.New("table", &out, false))(t)
	c := must.Get(Replay(run, sink))(t)
	if err := c.Conclude(); err != nil && !errors.As(err, new(ui.Exit)) {
		t.Fatal(err)
	}
	return out.String()
}
