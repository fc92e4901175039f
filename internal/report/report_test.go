package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/must"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func fixed() []probe.Event {
	result := func(method string, r probe.Result) probe.Event {
		return probe.Event{Type: probe.EventResult, Node: "node-a", Method: method, Result: &r}
	}
	start := func(method string, access ...string) probe.Event {
		return probe.Event{Type: probe.EventStart, Node: "node-a", Method: method, Start: &probe.Start{
			V: 1, Version: "0.0.0", Run: "7f3a", Time: time.Unix(0, 0).UTC(), Access: access,
		}}
	}
	end := func(method string) probe.Event {
		return probe.Event{Type: probe.EventEnd, Node: "node-a", Method: method, End: &probe.End{}}
	}
	// What a peer answers, to compare.
	peer := func(of probe.EventType) probe.Event {
		ev := map[probe.EventType]probe.Event{
			probe.EventStart: start("neighbour"), probe.EventEnd: end("neighbour"),
			probe.EventResult: result("neighbour", probe.Result{Check: "bgp-session", Status: probe.OK, Saw: "Established",
				Facts: probe.Facts{"as": 64512}}),
		}[of]
		ev.Node = "node-b"
		return ev
	}
	return []probe.Event{
		{Type: probe.EventRun, Node: "node-a", Start: &probe.Start{
			V: 1, Version: "0.0.0", Run: "7f3a", Time: time.Unix(60, 0).UTC(),
			Cluster: &probe.Cluster{Context: "prod\x1b-eu", Server: "https://10.0.0.1:6443"},
		}},
		start("api"),
		result("api", probe.Result{Check: "node-ready", Status: probe.OK, Saw: "Ready for 3m"}),
		end("api"),
		start("pod", "NET_RAW"),
		{Type: probe.EventBeat, Method: "pod"},
		{Type: probe.EventLog, Method: "pod", Text: "request not understood"},
		result("pod", probe.Result{
			Check: "bgp-session", Target: "Mesh_10_0_0_2", Status: probe.Fail,
			Saw:   "Active for 5m, last error: Socket: Connection refused",
			Facts: probe.Facts{"bgp_state": "Active", "as": 64512}, Lines: strings.Split("a\x1b[31m b c d e f g h", " "),
		}),
		result("pod", probe.Result{Check: "pod-ping", Target: "default/web 10.244.1.2", Status: probe.OK,
			Saw: "5 of 5 packets came back"}),
		result("pod", probe.Result{Check: "pod-ping", Target: "default/web 10.244.1.2", From: "default/here",
			Status: probe.OK, Saw: "5 of 5 packets came back"}),
		result("pod", probe.Result{Check: "node-swap", Status: probe.OK, Saw: "no swap device in use",
			Lines: []string{"not shown"}}),
		end("pod"),
		peer(probe.EventStart), peer(probe.EventResult), peer(probe.EventEnd),
		{Type: probe.EventComparison, Node: "node-a", Text: "compared with baseline node node-b:"},
		{Type: probe.EventComparison, Node: "node-a", Text: "bgp-session\x1b  ok on node-b: Established"},
		{Type: probe.EventCause, Node: "node-a", Cause: &probe.Cause{
			ID: "peer-refuses", About: "node-b", Title: "the peer refuses BGP connections", Says: "BIRD does not run on node-b", Confidence: probe.Medium,
			For: []probe.Clue{{Check: "bgp-session", Target: "Mesh_10_0_0_2", Status: probe.Fail, Saw: "Active for 5m"},
				{Check: "bird-socket", Node: "node-b", Status: probe.Fail, Saw: "nobody\x1b listens"}},
			Against:  []probe.Clue{{Check: "node-ping", Status: probe.OK, Saw: "5 of 5"}},
			RuledOut: []string{"bgp-port"}, Missing: []string{"bird-config was not asked"},
			Explains: []probe.Follows{{Check: "pod-ping", Count: 2}, {Cause: "routes-missing"}},
			Fix: probe.Fix{Says: "Start it.", Manifest: []string{"kubectl a"}, Operator: []string{"kubectl b"},
				Radius: "node-b"},
		}},
	}
}

// exprs are expressions for the formats that take one.
var exprs = map[string]string{
	"jsonpath":    `{.verdict} {.elapsed_ns}{"\n"}{range .results[?(@.status=="fail")]}{.check} {.target} {.facts.as}{"\n"}{end}{.ways[?(@.version=="none")].version}`,
	"go-template": `{{.node}} exits with {{.exit}}{{if eq .exit 3}}, a fault{{end}}{{range .causes}} {{.cause}}: {{index .fix.manifest 0}}{{end}}{{"\n"}}`,
}

// familyOf is the family of the checks in fixed.
func familyOf(check string) string {
	return map[string]string{"bgp-session": "bgp", "pod-ping": "network", "node-swap": "host"}[check]
}

func play(t *testing.T, format string, colour bool) string {
	t.Helper()
	var out bytes.Buffer
	f := must.Get(Find(Formats(), format))(t)
	sink := must.Get(f.Sink(&out, Options{Colour: colour, Expr: exprs[format], Family: familyOf}))(t)
	tally := NewTally()
	for _, ev := range fixed() {
		if ev.Node != "node-b" { // it does not count
			tally.Add(ev)
		}
		must.Do(t, sink.Event(ev))
	}
	v := tally.Verdict(false)
	v.Elapsed, v.Unexplained = 1234*time.Millisecond, []string{"node-disk"}
	must.Do(t, sink.Event(probe.Event{Type: probe.EventVerdict, Node: "node-a", Verdict: &v}))
	return out.String()
}

// own is what every page has: its style, its script, and their sums.
var own = regexp.MustCompile(`(?s)<style>.*?</style>|<script>.*?</script>|<meta http-equiv.*?>`)

func TestGolden(t *testing.T) {
	for _, f := range Formats() {
		format := f.Name
		got, file := own.ReplaceAllString(play(t, format, false), ""), filepath.Join("testdata", format+".golden")
		if *update {
			must.Do(t, os.WriteFile(file, []byte(got), 0o644))
		}
		want := must.Get(os.ReadFile(file))(t)
		if got != string(want) {
			t.Errorf("%s:\n%s\nwant:\n%s", format, got, want)
		}
	}
}

func TestWhatANodeSendsCannotSteerTheTerminal(t *testing.T) {
	if out := play(t, "table", false); strings.ContainsRune(out, '\x1b') {
		t.Errorf("an escape sequence came through: %q", out)
	}
	if out := play(t, "table", true); !strings.Contains(out, "\x1b[1;31mfault") {
		t.Errorf("no colour where there should be: %q", out)
	}
}

func TestASavedStreamGivesTheSameReport(t *testing.T) {
	var out bytes.Buffer
	sink := must.Get(New("json", &out, false))(t)
	d := probe.NewDecoder(strings.NewReader(play(t, "ndjson", false)))
	for {
		ev, err := d.Next()
		if err != nil {
			break
		}
		must.Do(t, sink.Event(ev))
	}
	if live := play(t, "json", false); out.String() != live {
		t.Errorf("replayed:\n%s\nlive:\n%s", out.String(), live)
	}
	if !json.Valid(out.Bytes()) {
		t.Error("not JSON")
	}
}

func TestVerdict(t *testing.T) {
	start, end := probe.Event{Type: probe.EventStart, Start: &probe.Start{}}, probe.Event{Type: probe.EventEnd,
		End: &probe.End{}}
	for _, c := range []struct {
		statuses string
		strict   bool
		lost     bool
		word     string
		exit     int
	}{
		{"ok info skip", false, false, "healthy", ExitHealthy},
		{"ok warn", false, false, "warnings", ExitHealthy},
		{"ok warn", true, false, "warnings", ExitWarnings},
		{"ok unknown", false, false, "incomplete", ExitIncomplete},
		{"ok unknown warn", true, false, "incomplete", ExitIncomplete},
		{"ok fail unknown", false, false, "fault", ExitFault},
		{"ok", false, true, "incomplete", ExitIncomplete},
		{"fail", false, true, "fault", ExitFault},
		{"skip", false, false, "incomplete", ExitIncomplete},
		{"", false, false, "incomplete", ExitIncomplete},
	} {
		tally := NewTally()
		// What the client says about its own way is no answer about the node.
		tally.Add(probe.Event{Type: probe.EventResult, Result: &probe.Result{Status: probe.OK}})
		tally.Add(start)
		for s := range strings.FieldsSeq(c.statuses) {
			tally.Add(probe.Event{Type: probe.EventResult, Result: &probe.Result{Status: probe.Status(s)}})
		}
		if !c.lost {
			tally.Add(end)
		}
		if v := tally.Verdict(c.strict); v.Word != c.word || v.Exit != c.exit {
			t.Errorf("%+v: got %s, exit %d", c, v.Word, v.Exit)
		}
	}
}

func TestAProvenCauseIsAFault(t *testing.T) {
	seen := []probe.Clue{{Status: probe.Fail}}
	fine := []probe.Clue{{Status: probe.OK}}
	for cause, want := range map[*probe.Cause]int{
		{Confidence: probe.High, For: seen}: ExitFault, {Confidence: probe.Medium, For: seen}: ExitIncomplete,
		// a probe that was refused, and lost full-size packets
		{Confidence: probe.High, For: []probe.Clue{{Status: probe.Unknown}}}:         ExitIncomplete,
		{Confidence: probe.High, Fault: true, For: []probe.Clue{{Status: probe.OK}}}: ExitFault,
		{Confidence: probe.Medium, Fault: true, For: fine}:                           ExitIncomplete,
	} {
		tally := NewTally()
		tally.Add(probe.Event{Type: probe.EventResult, Result: &probe.Result{Status: probe.Unknown}})
		tally.Add(probe.Event{Type: probe.EventCause, Cause: cause})
		if v := tally.Verdict(false); v.Exit != want {
			t.Errorf("%+v: got %s, exit %d", cause, v.Word, v.Exit)
		}
	}
}

func TestAFullDiskIsSaid(t *testing.T) {
	want := errors.New("no space left on device")
	for _, f := range Formats() {
		sink := must.Get(f.Sink(broken{want}, Options{Expr: exprs[f.Name]}))(t)
		var got error
		for _, ev := range append(fixed(), probe.Event{Type: probe.EventVerdict, Verdict: &probe.Verdict{}}) {
			if err := sink.Event(ev); err != nil {
				got = err
			}
		}
		if !errors.Is(got, want) {
			t.Errorf("%s: %v", f.Name, got)
		}
	}
	if _, err := New("xml", nil, false); err == nil || !strings.Contains(err.Error(),
		"table, wide, markdown, name, json") {
		t.Errorf("an unknown format: %v", err)
	}
}

type broken struct{ err error }

func (b broken) Write([]byte) (int, error) { return 0, b.err }

// TestFolded requires that table lines fit the terminal, except commands, which are copied, and unbreakable names. A
// pipe must get every word, in order.
func TestFolded(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"table", "wide"} {
		f := must.Get(Find(Formats(), format))(t)
		shown := func(width int) string {
			var out bytes.Buffer
			sink := must.Get(f.Sink(&out, Options{Width: width}))(t)
			text := strings.Repeat("no answer came ", 12) + "in the end"
			long := probe.Result{Check: "route-can-reach", Target: "default/web " + text, Status: probe.Fail, Saw: text,
				Lines: []string{text}}
			cause := probe.Cause{ID: "long", Fix: probe.Fix{Says: text, Radius: text,
				OnlyIf: []probe.Conditional{{If: text, Manifest: []string{"kubectl get nodes"}}}}}
			events := fixed()
			events[0].Start.Cluster = &probe.Cluster{
				Context: "arn:aws:eks:eu-central-1:123456789012:cluster/prod",
				Server:  "https://0123456789ABCDEF0123456789ABCDEF.gr7.eu-central-1.eks.amazonaws.com",
			}
			for _, ev := range append([]probe.Event{events[0], {Type: probe.EventCause, Node: "node-a", Cause: &cause},
				{Type: probe.EventResult, Node: "node-a", Method: "pod", Result: &long}}, events[1:]...) {
				must.Do(t, sink.Event(ev))
			}
			v := probe.Verdict{Word: WordFault, Counts: probe.Counts{probe.Fail: 2, probe.OK: 4},
				Unexplained: slices.Repeat([]string{"node-disk"}, 12)}
			must.Do(t, sink.Event(probe.Event{Type: probe.EventVerdict, Node: "node-a", Verdict: &v}))
			return out.String()
		}
		folded, whole := shown(80), shown(110)
		for line := range strings.Lines(folded) {
			if len(line) > 81 && !strings.HasPrefix(strings.TrimSpace(line), "kubectl ") {
				t.Errorf("%d columns: %s", len(line)-1, line)
			}
		}
		if !slices.Equal(strings.Fields(folded), strings.Fields(whole)) {
			t.Errorf("other words than without a width:\n%s", folded)
		}
	}
}

// TestWideOrder requires the rows of a family worst first, then by check and target, in any order of arrival.
func TestWideOrder(t *testing.T) {
	t.Parallel()
	row := func(check, target string, status probe.Status) probe.Result {
		return probe.Result{Check: check, Target: target, Status: status, Saw: "seen"}
	}
	got := shownAs(t, "wide", Options{Family: func(string) string { return "network" }}, []probe.Result{
		row("pod-ping", "10.0.0.2", probe.OK), row("node-ping", "b", probe.OK), row("pod-ping", "10.0.0.1", probe.OK),
		row("route-blocks", "", probe.Fail), row("node-ping", "a", probe.OK), row("bgp-port", "z", probe.Fail),
	})
	var order []string
	for line := range strings.Lines(got) {
		if f := strings.Fields(line); len(f) == 4 && f[3] == "seen" && f[0] != "seen" {
			order = append(order, f[1]+" "+f[2])
		}
	}
	if want := "bgp-port z, route-blocks -, node-ping a, node-ping b, pod-ping 10.0.0.1, pod-ping 10.0.0.2"; strings.Join(order, ", ") != want {
		t.Errorf("%v\n%s", order, got)
	}
}

// TestRightsTogether requires all refusals of the API server in one sentence.
func TestRightsTogether(t *testing.T) {
	t.Parallel()
	var all []probe.Result
	for _, right := range []string{"list ippools", "list felixconfigurations", "get leases", "list felixconfigurations"} {
		all = append(all, probe.Result{Check: fmt.Sprint("check-", len(all)), Status: probe.Unknown,
			Saw: "no right to " + right, Facts: probe.Facts{facts.LacksRight: "no right to " + right}})
	}
	got := strings.Join(strings.Fields(shownAs(t, "table", Options{}, all)), " ")
	want := "rights no right to list ippools, list felixconfigurations, get leases; 'calico-probe preflight'"
	if !strings.Contains(got, want) || strings.Contains(got, "check-1") {
		t.Errorf("no line %q in\n%s", want, got)
	}
}

// TestBlocks requires that groups without a cause on the same nodes share a block, without any group that has a cause.
func TestBlocks(t *testing.T) {
	t.Parallel()
	group := func(cause, check string, nodes ...string) probe.Group {
		return probe.Group{Cause: cause, Check: check, Nodes: nodes, Of: 3, Example: probe.Example{Node: nodes[0]}}
	}
	f := Fleet{Groups: []probe.Group{
		group("disk-full", "", "a"), group("", "pod-ping", "b", "c"), group("", "node-disk", "a"),
		group("", "pod-tcp", "b", "c"),
	}}
	var got []string
	for _, of := range blocks(f.Groups) {
		got = append(got, f.answer(of...))
	}
	want := []string{"a: [disk-full, ]", "2 of 3 nodes: no known cause explains pod-ping, pod-tcp",
		"a: no known cause explains node-disk"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// shownAs is what a format makes of answers about node-a.
func shownAs(t *testing.T, format string, o Options, answers []probe.Result) string {
	t.Helper()
	f := must.Get(Find(Formats(), format))(t)
	var out bytes.Buffer
	sink := must.Get(f.Sink(&out, o))(t)
	tally := NewTally()
	for i := range answers {
		ev := probe.Event{Type: probe.EventResult, Node: "node-a", Result: &answers[i]}
		tally.Add(ev)
		must.Do(t, sink.Event(ev))
	}
	v := tally.Verdict(false)
	must.Do(t, sink.Event(probe.Event{Type: probe.EventVerdict, Node: "node-a", Verdict: &v}))
	return out.String()
}

// TestUnasked tells nodes without a probe from those that have one.
func TestUnasked(t *testing.T) {
	t.Parallel()
	f := Fleet{Nodes: []FleetNode{{Methods: []string{"api"}}, {Methods: []string{"api", "pod"}}, {}}}
	if n := f.unasked(); n != 1 {
		t.Errorf("%d", n)
	}
}
