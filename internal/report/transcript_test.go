package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

// recorded writes a session: node-a is broken, is asked again and is not; node-b is fine.
func recorded(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "incident.ndjson")
	tr := must.Get(Record(name))(t)
	do := func(node, typed, came string, lines ...string) {
		events := []probe.Event{{Type: probe.EventTyped, Node: node, Text: typed}}
		for _, ev := range told(lines...) {
			if ev.Node == "node-a" {
				ev.Node = node
			}
			events = append(events, ev)
		}
		for _, ev := range append(events, probe.Event{Type: probe.EventDone, Node: node, Text: came}) {
			must.Do(t, tr.Add(ev))
		}
	}
	do("node-a", "run", "exit code 3", "asked neighbour a b", "start pod", "pod a fail", "pod b ok", "end pod",
		"start node-b", "node-b a ok", "end node-b")
	do("node-a", "ping 10.0.0.9", "exit code 3", "tool pod ping", "outcome pod")
	do("node-b", "run a b", "", "asked pod a b", "start pod", "pod a ok", "pod b ok", "end pod")
	do("node-a", "run a", "", "asked pod a", "start pod", "pod a ok", "end pod")
	must.Do(t, tr.Close())
	return name
}

// TestDeedsHaveATime requires a command's duration beside its outcome, not in it.
func TestDeedsHaveATime(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := WriteDeeds(&b, []Deed{{Node: "node-a", Typed: "ping 10.0.0.9", Came: "tries again",
		Took: 16200 * time.Millisecond}}); err != nil || !strings.Contains(b.String(), "  16s     tries again\n") {
		t.Errorf("%v %s", err, b.String())
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	b := must.Get(os.ReadFile(name))(t)
	return b
}

func TestTranscript(t *testing.T) {
	t.Parallel()
	name := recorded(t)
	got, err := Load(bytes.NewReader(read(t, name)))
	if err != nil || len(got.Runs) != 2 || got.Runs[0].Node != "node-a" || got.Runs[1].Node != "node-b" {
		t.Fatalf("%v %+v", err, got)
	}
	for _, run := range got.Runs {
		tally := NewTally()
		for _, ev := range run.Events {
			if ev.Node == run.Node {
				tally.Add(ev)
			}
		}
		if v := tally.Verdict(false); v.Word != "healthy" || v.Counts[probe.OK] != 2 {
			t.Errorf("%s: %+v", run.Node, v)
		}
	}
	var b strings.Builder
	must.Do(t, WriteDeeds(&b, got.Deeds))
	if lines := strings.Split(b.String(), "\n"); len(lines) != 6 ||
		!strings.Contains(lines[2], "node-a  ping 10.0.0.9") || !strings.HasSuffix(lines[2], "exit code 3") ||
		!strings.HasSuffix(lines[3], "  ok") {
		t.Errorf("%s", b.String())
	}
	if info, err := os.Stat(name); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", err, info.Mode())
	}
}

// TestTranscriptTellsWhere requires that a node's answers have the cluster and time of the last query.
func TestTranscriptTellsWhere(t *testing.T) {
	t.Parallel()
	asked := func(context string, at int64) probe.Event {
		return probe.Event{Type: probe.EventRecheck, Node: "node-a",
			Start: &probe.Start{Time: time.Unix(at, 0).UTC(), Cluster: &probe.Cluster{Context: context,
				Server: "https://10.0.0.1"}}}
	}
	l := Latest{Node: "node-a"}
	for _, ev := range []probe.Event{asked("lab", 0), asked("prod", 60)} {
		l.Add(ev)
	}
	run := l.Run()
	if at := run.begun(); at.Cluster == nil || Head("node-a", at.Cluster,
		at.Time) != "node-a of prod (https://10.0.0.1), 1970-01-01 00:01:00 UTC" {
		t.Errorf("%+v", at)
	}
}

// TestTranscriptGoesOn writes a second session into the file of one that was killed.
func TestTranscriptGoesOn(t *testing.T) {
	t.Parallel()
	name := recorded(t)
	whole := read(t, name)
	last := bytes.LastIndex(whole, []byte(`{"seq"`))
	if err := os.WriteFile(name, whole[:last+20], 0o600); err != nil { // in the line that says how the last command ended
		t.Fatal(err)
	}
	tr, err := Record(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range told("asked pod a", "start pod", "pod a warn", "end pod") {
		must.Do(t, tr.Add(ev))
	}
	must.Do(t, tr.Close())
	got, err := Load(bytes.NewReader(read(t, name)))
	if err != nil || len(got.Runs) != 2 || len(got.Deeds) != 4 || got.Deeds[3].Came != unended {
		t.Fatalf("%v %+v", err, got)
	}
	warned := false
	for _, ev := range got.Runs[0].Events {
		warned = warned || ev.Result != nil && ev.Result.Status == probe.Warn
	}
	if !warned {
		t.Errorf("what came later is not there: %+v", got.Runs[0].Events)
	}
}

// TestTranscriptOfTwo requires that a second session learns that the first one writes, and that neither loses a line.
// The file must be private to its owner, even if another user created it.
func TestTranscriptOfTwo(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "incident")
	if err := os.WriteFile(name, nil, 0o644); err != nil { // as of a client that was killed at once, or mktemp
		t.Fatal(err)
	}
	one := must.Get(Record(name))(t)
	if info, err := os.Stat(name); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", err, info.Mode())
	}
	if _, err := Record(name); !errors.Is(err, errRecording) {
		t.Errorf("the second: %v", err)
	}
	if _, err := Load(bytes.NewReader(read(t, name))); err != nil {
		t.Errorf("while it is written: %v", err)
	}
	must.Do(t, one.Close())
	two := must.Get(Record(name))(t)
	must.Do(t, os.WriteFile(name, append(read(t, name), "\n"...), 0o600))
	must.Do(t, errors.Join(two.Add(probe.Event{Type: probe.EventTyped, Node: "node-a", Text: "why"}),
		two.Close()))
	if got := string(read(t, name)); strings.Count(got, `"type":"session"`) != 2 || !strings.Contains(got, "why") ||
		strings.Contains(got, "\x00") {
		t.Error(got)
	}
}

// TestTranscriptIsLong reads one of more than the limit of a saved run, and keeps of it
// what stands in the end only.
func TestTranscriptIsLong(t *testing.T) {
	t.Parallel()
	short := read(t, recorded(t))
	session, rest, _ := bytes.Cut(short, []byte("\n"))
	out, err := json.Marshal(probe.Event{Type: probe.EventOut, Node: "node-a", Text: strings.Repeat("x", 4000)})
	if err != nil {
		t.Fatal(err)
	}
	const limit = 1 << 20
	long := slices.Concat(session, []byte("\n"), bytes.Repeat(append(out, '\n'), limit/len(out)+1), rest)
	got, err := load(bytes.NewReader(long), limit)
	if err != nil || len(got.Runs) != 2 || len(got.Deeds) != 4 {
		t.Errorf("%v, %d runs, %d deeds", err, len(got.Runs), len(got.Deeds))
	}
	if _, err := load(bytes.NewReader(long[len(session)+1:]), limit); err == nil ||
		!strings.Contains(err.Error(), "more than 1 MB") {
		t.Errorf("what is no transcript: %v", err)
	}
}

// TestTranscriptIsNobodyElses requires that no other file is overwritten.
func TestTranscriptIsNobodyElses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"diary\n", `{"seq":0,"type":"start","start":{"v":1}}` + "\n"} {
		name := filepath.Join(t.TempDir(), "file")
		must.Do(t, os.WriteFile(name, []byte(text), 0o600))
		if _, err := Record(name); !errors.Is(err, errNoTranscript) {
			t.Errorf("%q: %v", text, err)
		}
		if got := read(t, name); string(got) != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	if _, err := Record(t.TempDir()); !errors.Is(err, errNoTranscript) {
		t.Errorf("a folder: %v", err)
	}
	if _, err := Record(filepath.Join(t.TempDir(), "no", "folder")); err == nil {
		t.Error("a folder that is not there")
	}
}

// TestTranscriptCut cuts the record at any place. The rest must be readable, and must not look better than the
// original.
func TestTranscriptCut(t *testing.T) {
	t.Parallel()
	whole := read(t, recorded(t))
	first := bytes.IndexByte(whole, '\n')
	for range 200 {
		at := first + rand.IntN(len(whole)-first)
		got, err := Load(bytes.NewReader(whole[:at]))
		if err != nil {
			t.Fatalf("cut at %d: %v", at, err)
		}
		for _, run := range got.Runs {
			tally := NewTally()
			for _, ev := range run.Events {
				if ev.Node == run.Node {
					tally.Add(ev)
				}
			}
			// Of node-a both checks stand in the end, and are healthy after the third command only.
			v := tally.Verdict(false)
			if v.Word == "healthy" && (v.Counts[probe.OK] != 2 || run.Node == "node-a" && len(got.Deeds) < 4) {
				t.Errorf("cut at %d: %s is %+v", at, run.Node, v)
			}
		}
	}
}

// TestTranscriptOfAHostileNode requires that a node's excessive output loses no other part of the record, which must
// stay readable.
func TestTranscriptOfAHostileNode(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "incident.ndjson")
	tr, err := Record(name)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("<", 6000)
	counts := probe.Counts{}
	for i := range 1000 {
		counts[probe.Status(long[:i])] = i
	}
	add := func(events ...probe.Event) {
		for _, ev := range events {
			ev.Node, ev.Method = "node-a", "pod"
			must.Do(t, tr.Add(ev))
		}
	}
	r := probe.Result{Check: "bgp-session", Status: probe.Fail, From: long, Saw: "down"}
	add(probe.Event{Type: probe.EventTyped, Text: "run bgp-session"},
		probe.Event{Type: probe.EventRecheck, Start: &probe.Start{V: probe.Version, Checks: []string{"bgp-session"}}},
		probe.Event{Type: probe.EventStart, Start: &probe.Start{V: 99, Version: long,
			Access: slices.Repeat([]string{long}, 500)}},
		probe.Event{Type: probe.EventResult, Result: &r},
		probe.Event{Type: probe.EventOut, Data: bytes.Repeat([]byte{0xff}, 4000)},
		probe.Event{Type: probe.EventOut, Data: make([]byte, 4000), Sealed: true},
		probe.Event{Type: probe.EventEnd, End: &probe.End{Counts: counts, Outcome: nil}},
		probe.Event{Type: probe.EventDone, Text: "fault (exit code 3)"},
		probe.Event{Type: probe.EventTyped, Text: "exit"})
	must.Do(t, tr.Close())
	got, err := Load(bytes.NewReader(read(t, name)))
	if err != nil || len(got.Runs) != 1 || len(got.Deeds) != 2 || got.Deeds[1].Typed != "exit" {
		t.Fatalf("%v %+v", err, got)
	}
	if !slices.ContainsFunc(got.Runs[0].Events, func(ev probe.Event) bool {
		return ev.Result != nil &&
			ev.Result.Saw == "down"
	}) {
		t.Errorf("%+v", got.Runs[0])
	}
	if !bytes.Contains(read(t, name), []byte("left out: an event (out) of ")) {
		t.Error("what could not be written is not missed")
	}
}
