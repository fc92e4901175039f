package report

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestLoad requires that a run saved in either format equals the displayed run.
func TestLoad(t *testing.T) {
	live := NewTally()
	for _, ev := range fixed() {
		if ev.Node != "node-b" {
			live.Add(ev)
		}
	}
	for _, format := range []string{"json", "ndjson"} {
		text := play(t, format, false)
		run, err := loadOne(strings.NewReader(text))
		if err != nil || run.Node != "node-a" || run.Lacks != "" || len(run.Causes) != 1 || run.Verdict == nil ||
			run.Version != "0.0.0" && format == "ndjson" {
			t.Fatalf("%s: %v %+v", format, err, run)
		}
		tally := NewTally()
		var again bytes.Buffer
		sink, err := New("json", &again, false)
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range run.Events {
			if ev.Node == run.Node {
				tally.Add(ev)
			}
			must.Do(t, sink.Event(ev))
		}
		if got, want := tally.Verdict(false), live.Verdict(false); got.Word != want.Word ||
			got.Counts.Total() != want.Counts.Total() {
			t.Errorf("%s: %+v, live %+v", format, got, want)
		}
		for _, text := range []string{"compared with baseline node node-b:", "bgp-session\x1b  ok on node-b: Established"} {
			must.Do(t, sink.Event(probe.Event{Type: probe.EventComparison, Text: text}))
		}
		for _, c := range run.Causes {
			must.Do(t, sink.Event(probe.Event{Type: probe.EventCause, Cause: &c}))
		}
		must.Do(t, sink.Event(probe.Event{Type: probe.EventVerdict, Verdict: run.Verdict, Node: run.Node}))
		// What ended must be called complete, and stand in its order. Texts are cleaned.
		if want := strings.NewReplacer(`a\u001b[31m`, "a?[31m", `prod\u001b`,
			"prod?").Replace(play(t, "json", false)); again.String() != want {
			t.Errorf("%s, as json:\n%s\nlive:\n%s", format, again.String(), want)
		}
	}
}

func TestLoadWhatIsNotWhole(t *testing.T) {
	stream := play(t, "ndjson", false)
	lines := strings.SplitAfter(stream, "\n")
	for name, c := range map[string]struct{ text, lacks string }{
		"cut between lines": {strings.Join(lines[:5], ""), "it ends before its verdict"},
		"cut in a line":     {stream[:len(stream)/2], "it ends before its verdict"},
		"a line is missing": {strings.Join(append(append([]string{}, lines[:3]...), lines[4:]...), ""),
			"missing or damaged"},
		"the first is missing":   {strings.Join(lines[1:], ""), "missing or damaged"},
		"something is in it":     {lines[0] + "oops\n" + strings.Join(lines[1:], ""), "missing or damaged"},
		"whole, nothing changed": {stream, ""},
	} {
		run, err := loadOne(strings.NewReader(c.text))
		if err != nil || !strings.Contains(run.Lacks, c.lacks) || c.lacks == "" && run.Lacks != "" {
			t.Errorf("%s: %v %q", name, err, run.Lacks)
		}
	}
	document := play(t, "json", false)
	for name, c := range map[string]struct {
		text string
		says string
	}{
		"nothing": {"", errNoRun.Error()}, "words": {"hello\n", errNoRun.Error()},
		"other JSON": {`{"kind":"List"}`, errNoRun.Error()},
		"a list":     {`[1]`, errNoRun.Error()}, "an empty report": {`{"kind":"Report","v":1}`, errNoRun.Error()},
		"a cut report":     {document[:len(document)-20], "is a truncated JSON report"},
		"a newer report":   {strings.Replace(document, `"v": 1`, `"v": 2`, 1), "newer calico-probe"},
		"a newer stream":   {strings.Replace(stream, `"v":1`, `"v":2`, 1), "newer calico-probe"},
		"a report's fault": {strings.Replace(document, `"causes": [`, `"causes": 7, "x": [`, 1), "is not a JSON report"},
	} {
		if _, err := loadOne(strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := loadOne(failing{}); err == nil || errors.Is(err, errNoRun) {
		t.Errorf("a disk that fails: %v", err)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("input/output error") }

// loadOne reads a saved run.
func loadOne(r io.Reader) (Run, error) {
	s, err := Load(r)
	if len(s.Runs) != 1 || s.Deeds != nil {
		return Run{}, errors.Join(err, errors.New("is not one run"))
	}
	return s.Runs[0], err
}

// TestVersionsThatRefuseAFile requires that a file of a newer client is refused, but not because of a node's text in
// our own file.
func TestVersionsThatRefuseAFile(t *testing.T) {
	t.Parallel()
	const rest = `{"seq":1,"type":"start","node":"a","start":{"v":99}}` + "\n" +
		`{"seq":2,"type":"result","node":"a","result":{"check":"node-swap","status":"ok"}}` + "\n"
	for begin, readable := range map[string]bool{
		`{"seq":0,"type":"run","node":"a","start":{"v":1}}`: true, `{"seq":0,"type":"run","node":"a","start":{"v":2}}`: false,
		`{"seq":0,"type":"session","start":{"v":1}}`: true, `{"seq":0,"type":"session","start":{"v":2}}`: false,
	} {
		if got, err := Load(strings.NewReader(begin + "\n" + rest)); (err == nil) != readable || readable &&
			len(got.Runs) != 1 {
			t.Errorf("%s: %+v, %v", begin, got, err)
		}
	}
}

// TestLoadIsBounded has a file of a few megabytes that would take hundreds in memory.
func TestLoadIsBounded(t *testing.T) {
	t.Parallel()
	line := `{"type":"result","node":"a","result":{"check":"node-swap","status":"ok","facts":{"x":[` +
		strings.Repeat("0,", 30000) + "0]}}}\n"
	if _, err := Load(strings.NewReader(strings.Repeat(line, 250))); err == nil ||
		!strings.Contains(err.Error(), "MiB of answers") {
		t.Error(err)
	}
}

// TestHostileFleet requires that foreign text in a file of several nodes cannot control a terminal.
func TestHostileFleet(t *testing.T) {
	t.Parallel()
	for _, text := range hostile {
		var file bytes.Buffer
		enc := probe.NewEncoder(&file)
		enc.Encode(probe.Event{Type: probe.EventRun, Start: &probe.Start{V: 1, Version: text, Run: text,
			Checks: []string{text}, Cluster: &probe.Cluster{Context: text, Server: text}}})
		enc.Encode(probe.Event{Type: probe.EventRun, Node: "n" + text, Start: &probe.Start{V: 1, Attributes: []string{text}}})
		enc.Encode(probe.Event{Type: probe.EventVerdict, Node: "n" + text, Verdict: &probe.Verdict{Word: text}})
		saved, err := Load(&file)
		if err != nil || saved.Fleet == nil || len(saved.Runs) != 1 {
			t.Fatalf("%v, %+v", err, saved)
		}
		s := saved.Fleet
		for _, got := range slices.Concat([]string{s.Version, s.Run, s.Cluster.Context, s.Cluster.Server, saved.Runs[0].Node},
			s.Checks, saved.Runs[0].Events[0].Start.Attributes) {
			steers := func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }
			if strings.ContainsFunc(got, steers) {
				t.Errorf("%q came through as %q", text, got)
			}
		}
	}
}

// TestFleetNamesANodeTwice requires one run per node, by the displayed name, and an error for a duplicate.
func TestFleetNamesANodeTwice(t *testing.T) {
	t.Parallel()
	verdict := func(node string) probe.Event {
		return probe.Event{Type: probe.EventVerdict, Node: node, Verdict: &probe.Verdict{Word: WordHealthy}}
	}
	var file bytes.Buffer
	enc := probe.NewEncoder(&file)
	for _, ev := range []probe.Event{{Type: probe.EventRun, Start: &probe.Start{V: 1}},
		{Type: probe.EventRun, Node: "a", Start: &probe.Start{V: 1}}, verdict("a"),
		{Type: probe.EventRun, Node: "b", Start: &probe.Start{V: 1}}, verdict("b"),
		{Type: probe.EventRun, Node: "a\r", Start: &probe.Start{V: 1}}, verdict("a\r")} {
		enc.Encode(ev)
	}
	saved, err := Load(&file)
	if err != nil || len(saved.Runs) != 2 || saved.Runs[0].Lacks == "" || saved.Runs[1].Lacks != "" {
		t.Errorf("%v, %+v", err, saved.Runs)
	}
}

// TestFleetKeepsBaselines keeps a baseline node's answers with the node that was compared with it.
func TestFleetKeepsBaselines(t *testing.T) {
	t.Parallel()
	verdict := func(node string) probe.Event {
		return probe.Event{Type: probe.EventVerdict, Node: node, Verdict: &probe.Verdict{Word: WordHealthy}}
	}
	answer := probe.Found(probe.OK, "up")
	answer.Check = "bgp-session"
	var file bytes.Buffer
	enc := probe.NewEncoder(&file)
	for _, ev := range []probe.Event{{Type: probe.EventRun, Start: &probe.Start{V: 1}},
		{Type: probe.EventRun, Node: "a", Start: &probe.Start{V: 1}}, verdict("a"),
		{Type: probe.EventRun, Node: "b", Start: &probe.Start{V: 1}},
		{Type: probe.EventResult, Node: "a", For: "b", Method: probe.MethodBaseline, Result: &answer}, verdict("b")} {
		enc.Encode(ev)
	}
	saved, err := Load(&file)
	if err != nil || len(saved.Runs) != 2 || saved.Runs[0].Lacks != "" || len(saved.Runs[0].Events) != 1 {
		t.Fatalf("%v, %+v", err, saved.Runs)
	}
	if b := saved.Runs[1]; b.Node != "b" || len(b.Events) != 2 || b.Events[1].Node != "a" || b.Events[1].For != "" {
		t.Errorf("%+v", b)
	}
}
