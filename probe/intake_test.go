package probe

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/calico-probe/calico-probe/probe/must"
)

var planRequest = Request{Type: RequestPlan, ID: 7, Plan: &Plan{
	Run: "r", Node: "node-a", Method: "pod", Checks: []string{"felix-live", "pod-ping"},
	Targets: []Target{{Kind: KindLocal, Name: "default/web"}, {Kind: KindPod, Name: "default/far"}},
}}

var calling = Request{Type: RequestCall, ID: 8, Call: &Call{Tool: "ping"}}

// taken returns a short form of the events that pass an intake.
func taken(t *testing.T, i *Intake, events ...Event) []string {
	t.Helper()
	var out []string
	for _, ev := range events {
		let := must.Get(i.Take(ev, false))(t)
		for _, own := range let {
			line := string(own.Type)
			if r := own.Result; r != nil {
				line += fmt.Sprintf(" %s %s %s", r.Check, r.Status, r.Facts.Str(FactReason))
			}
			if own.End != nil {
				line += fmt.Sprintf(" %d %v", own.End.Results, own.End.Counts)
			}
			out = append(out, strings.TrimSpace(line+" "+own.Text))
		}
	}
	return out
}

func gives(check string, s Status) Event {
	return Event{Type: EventResult, Result: &Result{Check: check, Status: s}}
}

// TestIntakeKnowsWhatWasAsked checks that only requested results pass, and that an answer with others, or without one
// of them, is incomplete.
func TestIntakeKnowsWhatWasAsked(t *testing.T) {
	t.Parallel()
	begin, end := Event{Type: EventStart, Start: &Start{V: 1}},
		Event{Type: EventEnd, End: &End{Results: 99, Counts: Counts{OK: 99}}}
	from := func(pod string) Event {
		ev := gives("pod-ping", OK)
		ev.Result.From = pod
		return ev
	}
	for name, c := range map[string]struct {
		request Request
		events  []Event
		want    []string
	}{
		"good": {planRequest, []Event{begin, gives("felix-live", OK), from("default/web"), gives("pod-ping", Fail),
			{Type: EventBeat}, {Type: "of-later"}, {Type: EventLog, Text: "hi"}, end},
			[]string{"start", "result felix-live ok", "result pod-ping ok", "result pod-ping fail", "log hi",
				"end 3 map[fail:1 ok:2]"}},
		"not asked": {planRequest,
			[]Event{begin, gives("felix-live", OK), gives("pod-ping", OK), gives("calico-pod", Fail),
				gives(CheckPlaced, Fail), gives(CheckAnswered, OK), {Type: EventVerdict, Verdict: &Verdict{}}, end},
			[]string{"start", "result felix-live ok", "result pod-ping ok", "result probe-answered unknown not-asked",
				"end 2 map[ok:2]"}},
		"from a pod that is none of ours": {planRequest,
			[]Event{begin, gives("felix-live", OK), gives("pod-ping", OK), from("default/far"), from("kube-system/x"),
				end},
			[]string{"start", "result felix-live ok", "result pod-ping ok", "result probe-answered unknown not-asked",
				"end 2 map[ok:2]"}},
		"a second start": {planRequest, []Event{begin, begin, gives("felix-live", OK), gives("pod-ping", OK), end},
			[]string{"start", "result felix-live ok", "result pod-ping ok", "result probe-answered unknown not-asked",
				"end 2 map[ok:2]"}},
		"output": {planRequest,
			[]Event{begin, {Type: EventOut, Text: "x"}, gives("felix-live", OK), gives("pod-ping", OK), end},
			[]string{"start", "result felix-live ok", "result pod-ping ok", "result probe-answered unknown not-asked",
				"end 2 map[ok:2]"}},
		"one unanswered": {planRequest, []Event{begin, gives("felix-live", OK), end},
			[]string{"start", "result felix-live ok", "result probe-answered unknown no-answer", "end 1 map[ok:1]"}},
		"no start": {planRequest, []Event{gives("felix-live", OK), end},
			[]string{"result probe-answered unknown not-asked", "end 0 map[]"}},
		"later format": {planRequest, []Event{{Type: EventStart, Start: &Start{V: 99}}, gives("felix-live", OK), end},
			[]string{"result probe-answered unknown newer", "end 0 map[]"}},
		"call": {calling, []Event{begin, {Type: EventOut, Text: "x"},
			{Type: EventEnd, End: &End{Outcome: &Result{Check: "rm", Status: "odd", Saw: "done"}}}},
			[]string{"start", "out x", "end 0 map[]"}},
		"a plan's answer to a call": {calling, []Event{begin, gives("felix-live", Fail), end},
			[]string{"start", "log 1 events of the probe were dropped: not requested, or not a node's to report: felix-live", "end 0 map[]"}},
		"of nothing": {Request{},
			[]Event{begin, {Type: EventLog, Text: "hi"}, {Type: EventOut, Text: "x"}, gives("felix-live", OK)},
			[]string{"log hi"}},
	} {
		if got := taken(t, NewIntake(c.request), c.events...); !slices.Equal(got, c.want) {
			t.Errorf("%s:\ngot  %q\nwant %q", name, got, c.want)
		}
	}
	i := NewIntake(calling)
	taken(t, i, begin)
	if let, _ := i.Take(Event{Type: EventEnd, End: &End{Outcome: &Result{Check: "rm", Status: "odd"}}},
		false); let[0].End.Outcome.Check != "ping" || let[0].End.Outcome.Status != Unknown {
		t.Errorf("%+v", let[0].End.Outcome)
	}
	for _, stopped := range []bool{true, false} { // only the client can tell that it stopped something
		i := NewIntake(planRequest)
		taken(t, i, begin)
		let, _ := i.Take(Event{Type: EventEnd, End: &End{Stopped: true}}, stopped)
		if last := let[len(let)-1]; last.End.Stopped != stopped || (len(let) == 1) != stopped {
			t.Errorf("stopped %v: %+v", stopped, let)
		}
	}
}

// TestIntakeCleansAndBounds fills every field of an event with text that controls a terminal. Nothing that passes may
// do so, be too long, or contradict the client.
func TestIntakeCleansAndBounds(t *testing.T) {
	t.Parallel()
	bad := strings.Repeat("\x1b[2J\u202e\u009b\n", 1000)
	for _, request := range []Request{planRequest, calling} {
		i := NewIntake(request)
		for _, kind := range []EventType{EventStart, EventResult, EventLog, EventEnd} {
			ev := eventOf(bad, func(path string) bool { return !strings.HasSuffix(path, ".Facts") })
			ev.Type, ev.Start.V, ev.Start.ID = kind, 0, 99
			ev.Result.Check, ev.Result.Status, ev.Result.From = "felix-live", Warn, ""
			ev.Result.Facts = Facts{Fact(bad): bad, "list": []any{bad, map[string]any{bad: bad}}}
			let := must.Get(i.Take(ev, false))(t)
			if len(let) == 0 && (request.Plan != nil || kind != EventResult) {
				t.Errorf("%s: nothing is let through", kind)
			}
			for _, own := range let {
				if own.Node+own.Method+own.For != "" || !own.At.IsZero() || own.Cause != nil || own.Verdict != nil ||
					own.Data != nil || own.Sealed {
					t.Errorf("%s: %+v", kind, own)
				}
				wholesome(t, string(kind), reflect.ValueOf(own))
				if s := own.Start; s != nil &&
					(s.V != Version || s.ID != request.ID || s.Cluster != nil || request.Plan != nil &&
						(s.Run != "r" || s.Node != "node-a" || s.Method != "pod" ||
							!slices.Equal(s.Checks, request.Plan.Checks))) {
					t.Errorf("%+v", s)
				}
			}
		}
	}
}

// wholesome examines every text.
func wholesome(t *testing.T, path string, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			wholesome(t, path, v.Elem())
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			wholesome(t, path+"."+v.Type().Field(i).Name, v.Field(i))
		}
	case reflect.Slice:
		if v.Len() > maxList {
			t.Errorf("%s: %d entries", path, v.Len())
		}
		for i := range v.Len() {
			wholesome(t, path, v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			wholesome(t, path, key)
			wholesome(t, path, v.MapIndex(key))
		}
	case reflect.String:
		text := v.String()
		if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsGraphic(r) }) || len(text) > maxText &&
			!strings.Contains(path, "Facts") {
			t.Errorf("%s: %d bytes, %q", path, len(text), text[:min(40, len(text))])
		}
	}
}

// TestIntakeHasABudget checks that the client stops reading from a probe that exceeds the limits of events or memory. A
// tool's output has no limit, because it is not kept.
func TestIntakeHasABudget(t *testing.T) {
	t.Parallel()
	big := gives("felix-live", OK)
	big.Result.Facts = Facts{"list": make([]any, 1000)}
	for name, c := range map[string]struct {
		ev        Event
		low, high int
	}{
		"logs":  {Event{Type: EventLog, Text: "x"}, 10_000, MaxEvents},
		"large": {big, 100, 400},
	} {
		i := NewIntake(planRequest)
		taken(t, i, Event{Type: EventStart, Start: &Start{V: 1}})
		n := 0
		for ; n < 2*MaxEvents; n++ {
			if _, err := i.Take(c.ev, false); err != nil {
				if !errors.Is(err, ErrTooMuch) {
					t.Error(err)
				}
				break
			}
		}
		if n < c.low || n > c.high {
			t.Errorf("%s: %d are let through", name, n)
		}
	}
	i := NewIntake(planRequest)
	taken(t, i, Event{Type: EventStart, Start: &Start{V: 1}})
	n := len(taken(t, i, slices.Repeat([]Event{gives("felix-live", OK)}, 2*MaxEvents)...))
	if most := maxPerCheck + maxPerTarget*len(planRequest.Plan.Targets); n != most {
		t.Errorf("%d answers of one check, %d are let through", n, most)
	}
	often := NewIntake(planRequest)
	taken(t, often, Event{Type: EventStart, Start: &Start{V: 1}})
	taken(t, often, slices.Repeat([]Event{gives("felix-live", OK)}, n+7)...)
	if reason, saw := often.lacks(false); reason != ReasonTooMuch ||
		!strings.HasPrefix(saw, "7 answers of the probe were dropped") {
		t.Errorf("said too often: %s, %q", reason, saw)
	}
	if got := taken(t, i, gives("pod-ping", OK), Event{Type: EventEnd, End: &End{}}); len(got) != 3 ||
		got[1] != "result probe-answered unknown too-much" {
		t.Errorf("%q", got)
	}
	i = NewIntake(calling)
	taken(t, i, Event{Type: EventStart, Start: &Start{V: 1}})
	for range 2 * MaxEvents {
		if let, err := i.Take(Event{Type: EventOut, Text: "x"}, false); err != nil || len(let) != 1 {
			t.Fatal(let, err)
		}
	}
}

// TestIntakeKnowsNodes checks that a node's state comes from the plan, and never from the probe.
func TestIntakeKnowsNodes(t *testing.T) {
	t.Parallel()
	request := Request{Type: RequestPlan, Plan: &Plan{Node: "a", Checks: []string{"node-ping"}, Targets: []Target{
		{Kind: KindNode, Name: "gone", Node: "gone", Attrs: map[string]string{AttrNode: NodeNotReady}},
		{Kind: KindNode, Name: "well", Node: "well"},
	}}}
	for node, want := range map[string]string{"gone": NodeNotReady, "well": "", "": ""} {
		in := NewIntake(request)
		taken(t, in, Event{Type: EventStart, Start: &Start{V: Version}})
		ev := gives("node-ping", Fail)
		ev.Result.Facts = Facts{FactNode: node, FactNodeState: NodeSilent}
		let, err := in.Take(ev, false)
		if err != nil || len(let) != 1 || let[0].Result.Facts.Str(FactNodeState) != want ||
			let[0].Result.Facts.Str(FactNode) != node {
			t.Errorf("about node %q: %+v, %v, want the state %q", node, let, err, want)
		}
	}
}

// TestNewerProbe reads a probe of a later version. Its unknown events, fields and statuses are ignored. A check that it
// answers differently has no answer, so the run is incomplete.
func TestNewerProbe(t *testing.T) {
	t.Parallel()
	d := NewLiveDecoder(strings.NewReader(`{"seq":0,"type":"start","later":1,"start":{"v":1,"version":"9.0.0","later":{"a":[1]}}}
{"seq":1,"type":"gauge","gauge":{"of":"felix"}}
{"seq":2,"type":"result","result":{"check":"felix-live","status":"ok","saw":"lives","weight":3}}
{"seq":3,"type":"result","result":{"check":"pod-ping","status":"critical","saw":"of a later status"}}
{"seq":4,"type":"end","end":{"results":2,"counts":{"ok":1,"critical":1},"elapsed_ns":1}}
`))
	i := NewIntake(planRequest)
	var got []string
	for {
		ev, err := d.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, taken(t, i, ev)...)
	}
	text := strings.Join(got, "\n")
	for _, want := range []string{"result felix-live ok", "result probe-answered unknown " + reasonNoAnswer} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if strings.Contains(text, "critical") {
		t.Errorf("a status that is not known came through:\n%s", text)
	}
}
