package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/fleet"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
)

// Found is the result of one run in a bundle.
type Found struct {
	File    string
	Node    string // "" = several nodes
	Word    string // the verdict's word
	Causes  []string
	several bool
}

// forms lists the files to create from each run. Formats that this program does not have are skipped.
func forms() []struct{ format, file, suffix string } {
	return []struct{ format, file, suffix string }{
		{"ndjson", "run", ".ndjson"}, {"json", "report", ".json"}, {"markdown", "report", ".md"}, {"html", "report", ".html"},
	}
}

// addRuns adds the files of runs: single-node runs, and runs over several nodes.
func (b *Bundle) addRuns(all []report.Saved) error {
	for _, saved := range all {
		if saved.Fleet != nil {
			if err := b.addRun(saved); err != nil {
				return err
			}
			continue
		}
		for _, run := range saved.Runs {
			if err := b.addRun(report.Saved{Runs: []report.Run{run}}); err != nil {
				return err
			}
		}
	}
	return nil
}

// addRun adds the files of one run. It computes causes and reports from the redacted run, so a replay of that run has
// the same result.
func (b *Bundle) addRun(saved report.Saved) error {
	saved.Runs = slices.Clone(saved.Runs)
	var in []Object
	if saved.Fleet != nil {
		begun, count, err := cleaned(*saved.Fleet)
		if err != nil {
			return fmt.Errorf("redacting a saved run: %w", err)
		}
		saved.Fleet = &begun
		in = append(in, Object{"how the run began", slices.Repeat([]Removal{{ruleToken, "run"}}, count)})
	}
	for i := range saved.Runs {
		out, err := masked(&saved.Runs[i])
		if err != nil {
			return err
		}
		in = append(in, Object{Name: "the answers about " + probe.Line(saved.Runs[i].Node), Removed: out})
	}
	number := ""
	if n := len(b.Runs); n > 0 {
		number = fmt.Sprintf("-%d", n+1)
	}
	found := &Found{File: "run" + number + ".ndjson", several: saved.Fleet != nil}
	sinks := []report.Sink{found}
	var names []string
	var texts []*bytes.Buffer
	for _, form := range forms() {
		f, err := report.Find(report.Formats(), form.format)
		if err != nil {
			continue
		}
		text := &bytes.Buffer{}
		sink, err := f.Sink(text, report.Options{Fleet: saved.Fleet != nil})
		if err != nil {
			return err
		}
		sinks, texts = append(sinks, sink), append(texts, text)
		names = append(names, form.file+number+form.suffix)
	}
	if err := replay(saved, sinks); err != nil {
		return err
	}
	for i, name := range names {
		file := File{Name: name, Data: texts[i].Bytes()}
		if name == found.File {
			file.Objects = in
		}
		b.add(file)
	}
	b.Runs = append(b.Runs, *found)
	return nil
}

// replay sends a saved run to sinks, and recomputes its causes.
func replay(saved report.Saved, sinks []report.Sink) error {
	all := report.SinkFunc(func(ev probe.Event) error {
		for _, s := range sinks {
			if err := s.Event(ev); err != nil {
				return err
			}
		}
		return nil
	})
	err := fleetOrNode(saved, all)
	if errors.As(err, new(ui.Exit)) { // its report has the verdict
		return nil
	}
	return err
}

func fleetOrNode(saved report.Saved, to report.Sink) error {
	if saved.Fleet != nil {
		return fleet.Replay(saved, to)
	}
	c, err := examine.Replay(saved.Runs[0], to)
	if err != nil {
		return err
	}
	return c.Conclude()
}

// Event records the verdict and causes of a run.
func (f *Found) Event(ev probe.Event) error {
	switch {
	case ev.Type == probe.EventVerdict:
		f.Word, f.Node = ev.Verdict.Word, probe.Line(ev.Node) // the last event holds the verdict of the whole run
	case ev.Type == probe.EventCause && !f.several:
		name := strings.TrimSpace(ev.Cause.ID + " " + probe.Line(ev.Cause.About))
		f.Causes = append(f.Causes, fmt.Sprintf("%s (%s)", name, ev.Cause.Confidence))
	case ev.Type == probe.EventGroup && ev.Group.Cause != "":
		g := ev.Group
		f.Causes = append(f.Causes, fmt.Sprintf("%s (%s) of %d of %d nodes", g.Cause, g.Confidence, len(g.Nodes), g.Of))
	}
	return nil
}

// String returns the run's result in one line.
func (f *Found) String() string {
	of, causes := f.Node, strings.Join(f.Causes, ", ")
	if f.several {
		of = "several nodes"
	}
	if causes == "" {
		causes = "no cause"
	}
	return fmt.Sprintf("%s: %s, %s", of, f.Word, causes)
}

// masked redacts unmistakable secrets in a run. Checks already omit the secrets that they recognize. masked covers the
// places where checks do not look for secrets.
func masked(run *report.Run) ([]Removal, error) {
	var out []Removal
	events := make([]probe.Event, 0, len(run.Events))
	for _, ev := range run.Events {
		clean, count, err := cleaned(ev)
		if err != nil {
			return nil, fmt.Errorf("redacting a saved run: %w", err)
		}
		what := string(ev.Type)
		if ev.Result != nil {
			what = ev.Result.Check
		}
		for range count {
			out = append(out, Removal{ruleToken, probe.Line(what)})
		}
		events = append(events, clean)
	}
	run.Events = events
	return out, nil
}

// cleaned returns a value without unmistakable secrets, and how many texts contained one. It examines unencoded texts,
// because JSON escapes some characters and would hide the start of a word.
func cleaned[T any](v T) (clean T, count int, err error) {
	text, err := json.Marshal(v)
	if err != nil {
		return v, 0, err
	}
	var tree any
	read := json.NewDecoder(bytes.NewReader(text))
	read.UseNumber()
	if err := read.Decode(&tree); err != nil {
		return v, 0, err
	}
	if tree, count = withoutSure(tree); count == 0 {
		return v, 0, nil
	}
	if text, err = json.Marshal(tree); err != nil {
		return v, 0, err
	}
	return clean, count, json.Unmarshal(text, &clean)
}

// withoutSure returns a value without unmistakable secrets, and how many texts contained one.
func withoutSure(v any) (any, int) {
	count := 0
	switch v := v.(type) {
	case string:
		if clean, had := probe.WithoutSecrets(v, false); had {
			return clean, 1
		}
		return v, 0
	case []any:
		for i := range v {
			clean, n := withoutSure(v[i])
			v[i], count = clean, count+n
		}
	case map[string]any:
		for name := range v {
			clean, n := withoutSure(v[name])
			v[name], count = clean, count+n
		}
	}
	return v, count
}
