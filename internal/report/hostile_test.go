package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/joshdk/go-junit"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
	"sigs.k8s.io/yaml"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

// hostile is what a node may say to the reader of a report: escape sequences, the end of a
// block of code, of a CDATA section or of a table's cell, a mention, a link, a tag.
var hostile = []string{
	"\x1b]52;c;ZXZpbA==\x07", "\u009b2J\u202egnp.exe", "a\x00b\xff\ufffe\r\n# head\n---\n", "| a | b |\n|---|---|\n", "`code` ``` ~~~ \\",
	"[click](http://evil.example) ![x](http://evil.example/x.png) http://evil.example @oncall #1", "<script>alert(1)</script><!-- <img src=x onerror=y>",
	"]]><testcase name='forged'/>&amp;&lt;", "{{.x}} ${IFS} $(reboot) !!python/object", "```\nrm -rf /\n```sh\nreboot\n```", "- yes: &a *b ? %TAG", "`\r``",
}

// played are the events of a run in which everything a node may say is text.
func played(text string, statuses ...probe.Status) []probe.Event {
	clue := probe.Clue{Check: "bgp-session", Target: text, Node: text, Status: probe.Fail, Saw: text}
	out := []probe.Event{{Type: probe.EventStart, Node: "node-" + text, Method: "pod",
		Start: &probe.Start{V: 1, Version: text, Run: text, Time: time.Unix(0, 0), Access: []string{text}}}}
	for _, s := range statuses {
		out = append(out, probe.Event{Type: probe.EventResult, Node: "node-" + text, Method: "pod", Result: &probe.Result{
			Check: "bgp-session", Target: string(s) + " " + text, From: text, Status: s, Saw: text, Lines: []string{text},
			Facts: probe.Facts{probe.Fact(text): text}, Elapsed: time.Second,
		}})
	}
	return append(out,
		probe.Event{Type: probe.EventLog, Node: "node-" + text, Method: "pod", Text: text},
		probe.Event{Type: probe.EventEnd, Node: "node-" + text, Method: "pod", End: &probe.End{}},
		probe.Event{Type: probe.EventComparison, Node: "node-" + text, Text: text},
		probe.Event{Type: probe.EventCause, Node: "node-" + text, Cause: &probe.Cause{
			ID: "of-a-test", About: text, Says: text, Confidence: probe.High, For: []probe.Clue{clue},
			Against: []probe.Clue{clue}, RuledOut: []string{text}, Missing: []string{text},
			Explains: []probe.Follows{{Check: "bgp-session", Count: 1}, {Cause: text}},
			Fix:      probe.Fix{Says: text, Manifest: []string{text}, Radius: text},
		}})
}

// written gives what a format makes of events and the verdict over them.
func written(t *testing.T, format string, strict bool, events []probe.Event) string {
	t.Helper()
	f := must.Get(Find(Formats(), format))(t)
	var out bytes.Buffer
	sink := must.Get(f.Sink(&out, Options{Expr: map[string]string{"jsonpath": "{.results} {.causes} {.node}",
		"go-template": "{{.results}} {{.causes}} {{.node}}"}[format]}))(t)
	tally := NewTally()
	for _, ev := range events {
		tally.Add(ev)
		must.Do(t, sink.Event(ev))
	}
	v := tally.Verdict(strict)
	must.Do(t, sink.Event(probe.Event{Type: probe.EventVerdict, Node: events[0].Node, Verdict: &v}))
	return out.String()
}

// TestNoFormatSteersATerminal requires that node texts cannot move the cursor in any format, and that JSON keeps its
// meaning.
func TestNoFormatSteersATerminal(t *testing.T) {
	t.Parallel()
	for _, said := range hostile {
		for _, f := range Formats() {
			got := written(t, f.Name, false, played(said, probe.Fail))
			if i := strings.IndexFunc(got, func(r rune) bool {
				return r != '\n' && r != '\t' &&
					!unicode.IsGraphic(r)
			}); i >= 0 {
				t.Errorf("%s of %q has %q", f.Name, said, got[i:min(i+20, len(got))])
			}
		}
		var doc Document
		if err := json.Unmarshal([]byte(written(t, "json", false, played(said, probe.Fail))), &doc); err != nil ||
			doc.Results[0].Saw != strings.ToValidUTF8(said, "\ufffd") {
			t.Errorf("json of %q: %q, %v", said, doc.Results[0].Saw, err)
		}
		var tree map[string]any
		if err := yaml.UnmarshalStrict([]byte(written(t, "yaml", false, played(said, probe.Fail))), &tree); err != nil {
			t.Errorf("yaml of %q: %v", said, err)
		} else if got := tree["results"].([]any)[0].(map[string]any)["saw"]; got != probe.Plain(said) {
			t.Errorf("yaml of %q: %q", said, got)
		}
	}
}

// TestMarkdownIsCode has a Markdown parser read what nodes said: all of it is code.
func TestMarkdownIsCode(t *testing.T) {
	t.Parallel()
	parser := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser()
	for _, said := range hostile {
		source := []byte(written(t, "markdown", false, played(said, probe.Fail, probe.Warn, probe.Unknown)))
		cells, fences := 0, 0
		err := ast.Walk(parser.Parse(text.NewReader(source)), func(n ast.Node, in bool) (ast.WalkStatus, error) {
			if !in {
				return ast.WalkContinue, nil
			}
			switch n := n.(type) {
			case *ast.Link, *ast.Image, *ast.AutoLink, *ast.RawHTML, *ast.HTMLBlock, *ast.ThematicBreak, *ast.List:
				t.Errorf("%q became a %s in\n%s", said, n.Kind(), source)
			case *extast.TableCell:
				cells++
			case *ast.FencedCodeBlock:
				fences++
			case *ast.CodeSpan:
				return ast.WalkSkipChildren, nil
			case *ast.Text:
				for _, word := range []string{"evil", "@oncall", "script", "reboot", "forged"} {
					if strings.Contains(string(n.Segment.Value(source)), word) {
						t.Errorf("%q stands outside code: %s", said, n.Segment.Value(source))
					}
				}
			}
			return ast.WalkContinue, nil
		})
		if err != nil || cells != 4*4 || fences != 3 {
			t.Errorf("%q: %d cells, %d blocks of code, %v in\n%s", said, cells, fences, err, source)
		}
	}
}

// TestJUnitIsRead requires that a JUnit reader reports the right cases as passed, with any node texts.
func TestJUnitIsRead(t *testing.T) {
	t.Parallel()
	for _, said := range append(hostile, "plain") {
		for _, strict := range []bool{false, true} {
			out := written(t, "junit", strict, played(said, probe.Statuses()...))
			suites, err := junit.IngestReader(strings.NewReader(out))
			if err != nil || len(suites) != 1 || len(suites[0].Tests) != len(probe.Statuses()) {
				t.Fatalf("%q: %v, %v in\n%s", said, suites, err, out)
			}
			warned := junit.StatusPassed
			if strict {
				warned = junit.StatusFailed
			}
			want := []junit.Status{junit.StatusFailed, junit.StatusError, warned, junit.StatusSkipped, junit.StatusPassed,
				junit.StatusPassed}
			var got []junit.Status
			for _, c := range suites[0].Tests {
				got = append(got, c.Status)
				if c.Classname != printable("node-"+said) || !strings.HasPrefix(c.Name, "bgp-session ") ||
					c.Duration != time.Second {
					t.Errorf("%q: %+v", said, c)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%q, strict %v: %v, want %v", said, strict, got, want)
			}
			if p := suites[0].Properties; p["verdict"] != "fault" || p["way"] != "pod" ||
				!strings.HasPrefix(p["cause.1"], "of-a-test") {
				t.Errorf("%q: %v", said, p)
			}
			if !strings.Contains(suites[0].SystemOut, "[of-a-test") ||
				!strings.Contains(suites[0].Tests[0].Error.Error(), printable(said)) {
				t.Errorf("%q: no cause in %q, or in %v", said, suites[0].SystemOut, suites[0].Tests[0].Error)
			}
			asJenkinsHasIt(t, out)
		}
	}
}

// TestJUnitIsNeverGreenUnasked requires that a run without a verdict has no green file.
func TestJUnitIsNeverGreenUnasked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		events []probe.Event
		want   junit.Status
	}{
		"skipped": {slices.DeleteFunc(played("x", probe.Skip), isCause), junit.StatusError},
		"nothing": {played("x")[:1], junit.StatusError},
		"cut": {slices.DeleteFunc(played("x", probe.OK),
			func(ev probe.Event) bool { return ev.Type == probe.EventEnd }), junit.StatusError},
		"good":     {slices.DeleteFunc(played("x", probe.OK), isCause), junit.StatusPassed},
		"by peers": {played("x"), junit.StatusFailed}, // proven by other nodes, and this node did not answer
	} {
		suites := must.Get(junit.IngestReader(strings.NewReader(written(t, "junit", false, c.events))))(t)
		last := suites[0].Tests[len(suites[0].Tests)-1]
		if last.Status != c.want || (c.want != junit.StatusPassed) != (last.Name == caseVerdict) {
			t.Errorf("%s: %+v", name, last)
		}
	}
}

func isCause(ev probe.Event) bool { return ev.Type == probe.EventCause }

// asJenkinsHasIt wants the elements, their order and the attributes that the schema of
// Jenkins' xUnit plugin (junit-10.xsd) allows, which is the strictest of the known readers.
func asJenkinsHasIt(t *testing.T, out string) {
	t.Helper()
	attributes := map[string]string{
		"testsuites": "name time tests failures disabled errors",
		"testsuite":  "name tests failures errors group time skipped timestamp hostname id package file log url version",
		"testcase":   "name time classname group", "property": "name value", "skipped": "type message",
		"error": "type message", "failure": "type message",
		"properties": "", "system-out": "",
	}
	order := map[string][]string{
		"testsuites": {"testsuite"}, "testsuite": {"properties", "testcase", "system-out"},
		"testcase": {"skipped", "error", "failure", "system-out"}, "properties": {"property"},
	}
	type level struct {
		name string
		at   int
	}
	var path []level
	d := xml.NewDecoder(strings.NewReader(out))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, out)
		}
		switch e := token.(type) {
		case xml.StartElement:
			name := e.Name.Local
			if len(path) > 0 {
				above := &path[len(path)-1]
				i := slices.Index(order[above.name], name)
				if i < above.at {
					t.Errorf("%s stands in %s where it may not", name, above.name)
				}
				above.at = i
			}
			for _, a := range e.Attr {
				if !slices.Contains(strings.Fields(attributes[name]), a.Name.Local) {
					t.Errorf("%s has %s", name, a.Name.Local)
				}
				if a.Name.Local == "timestamp" {
					if _, err := time.Parse("2006-01-02T15:04:05", a.Value); err != nil {
						t.Error(err)
					}
				}
			}
			path = append(path, level{name, 0})
		case xml.EndElement:
			path = path[:len(path)-1]
		}
	}
}

// TestExpressionsAreRead requires that an error in an expression is reported before a node is queried.
func TestExpressionsAreRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ format, expr, says string }{
		{"jsonpath", "{.verdict", "unclosed"}, {"jsonpath", "report.txt", "> FILE"}, {"jsonpath", ".verdict", "'{.verdict}'"},
		{"go-template", "{{.verdict", "unclosed"}, {"go-template", "report.txt", "> FILE"},
		{"jsonpath", "{.nope}", `reports have no field "nope"`}, {"jsonpath", "{.verdit}", "did you mean verdict?"},
		{"jsonpath", `{range .results[?(@.statu=="fail")]}{.check}{end}`, "did you mean status?"},
		{"jsonpath", "{.results[0]['check','tarqet']}", "did you mean target?"},
		{"go-template", "{{.nope}}", `reports have no field "nope"`},
		{"go-template", "{{with .causes}}{{range .}}{{if eq .caus \"x\"}}{{.id}}{{end}}{{end}}{{end}}", "did you mean cause?"},
		{"go-template", "{{$x := .node}}{{$x.nope}}", `"nope"`},
		{"go-template", "{{(index .results 0).chek}}", "did you mean check?"},
	} {
		f := must.Get(Find(Formats(), c.format))(t)
		if _, err := f.Sink(io.Discard, Options{Expr: c.expr}); err == nil || !strings.Contains(fmt.Sprint(err), c.says) {
			t.Errorf("%s %s: %v", c.format, c.expr, err)
		}
	}
}

// TestExpressionsOfWhatIsNotThere requires an empty text for a valid field that only this run lacks.
func TestExpressionsOfWhatIsNotThere(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ format, expr string }{
		{"jsonpath", `{.causes[0].fix.manifest}`}, {"jsonpath", `{.results[?(@.status=="fail")].check}`},
		{"jsonpath", `{.results[*].facts.load_1m}`}, {"jsonpath", `{.cluster.context}`}, {"jsonpath", "{..log}"},
		{"go-template", "{{range .results}}{{.facts.load_1m}}{{end}}"}, {"go-template", "{{with .cluster}}{{.context}}{{end}}"},
	} {
		f, err := Find(Formats(), c.format)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		sink, err := f.Sink(&out, Options{Expr: c.expr})
		if err != nil {
			t.Errorf("%s: %v", c.expr, err)
			continue
		}
		err = sink.Event(probe.Event{Type: probe.EventVerdict, Node: "n", Verdict: &probe.Verdict{Word: WordHealthy}})
		if err != nil || out.String() != "" {
			t.Errorf("%s: %v, %q", c.expr, err, out.String())
		}
	}
}

// everywhere puts a text into every text of a value, however deep it lies, and one entry into
// every list: a field that is new is no exception.
func everywhere(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		everywhere(v.Elem(), text)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for _, field := range v.Fields() {
			everywhere(field, text)
		}
	case reflect.Slice:
		if v.Type() != reflect.TypeFor[[]byte]() {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			everywhere(v.Index(0), text)
		}
	case reflect.Map:
		if v.Type() == reflect.TypeFor[probe.Facts]() {
			v.Set(reflect.ValueOf(probe.Facts{probe.Fact(text): text, "list": []any{text, map[string]any{text: text}}}))
		}
	}
}

// TestEveryFieldIsHostile fills every text of every event, including texts from the client and the API. No format may
// control a terminal, or contain a line that begins with such a text.
func TestEveryFieldIsHostile(t *testing.T) {
	t.Parallel()
	const said = "x\x1b[2J\x1b[32m\u202e\u009b\x07\nforged: all is well"
	var events []probe.Event
	for _, kind := range []probe.EventType{probe.EventRun, probe.EventStart, probe.EventResult, probe.EventLog,
		probe.EventEnd, probe.EventComparison, probe.EventCause} {
		var ev probe.Event
		everywhere(reflect.ValueOf(&ev).Elem(), said)
		ev.Type = kind
		for _, s := range probe.Statuses() {
			one := ev
			r := *ev.Result
			r.Status, one.Result = s, &r
			if events = append(events, one); kind != probe.EventResult {
				break
			}
		}
	}
	for _, f := range Formats() {
		f.Name = strings.TrimSuffix(f.Name, "=")
		got := written(t, f.Name, false, events)
		if i := strings.IndexFunc(got, func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsGraphic(r) }); i >= 0 {
			t.Errorf("%s has %q", f.Name, got[max(0, i-40):min(i+20, len(got))])
		}
		if strings.Contains(got, "\nforged") && slices.Contains([]string{"table", "wide", "markdown", "name", "junit", "html",
			"json", "ndjson"}, f.Name) {
			t.Errorf("%s has a line of its own:\n%s", f.Name, got)
		}
	}
}
