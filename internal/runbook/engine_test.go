package runbook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/runbook"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

var update = flag.Bool("update", false, "write the golden files anew")

// written returns a runbook with these steps.
func written(steps string) string {
	return "apiVersion: calico-probe.io/v1alpha1\nkind: Runbook\nmetadata: {name: test}\nspec:\n  title: a test\n  params: [{name: colour, default: red}]\n  steps:\n" + steps
}

func loaded(t testing.TB, steps string) *runbook.Runbook {
	t.Helper()
	rb := must.Get(runbook.Load("test.yaml", []byte(written(steps)), known()))(t)
	return rb
}

// answer returns a run with these results.
func answer(node string, said map[string]probe.Status, causes ...probe.Cause) report.Run {
	run := report.Run{Node: node, Version: probe.Release}
	tally := report.NewTally()
	add := func(ev probe.Event) {
		ev.Node, ev.Method = node, "pod"
		tally.Add(ev)
		run.Add(ev)
	}
	add(probe.Event{Type: probe.EventStart, Start: &probe.Start{Version: probe.Release}})
	for _, id := range []string{"node-swap", "bgp-session", "felix-live", "kubelet-health"} {
		if s := said[id]; s != "" {
			add(probe.Event{
				Type: probe.EventResult, Result: &probe.Result{
					Check: id, Status: s, Saw: id + " is " + string(s), Facts: probe.Facts{"n": 3},
				},
			})
		}
	}
	add(probe.Event{Type: probe.EventEnd, End: &probe.End{}})
	for _, c := range causes {
		add(probe.Event{Type: probe.EventCause, Cause: &c})
	}
	v := tally.Verdict(false)
	v.Elapsed = 0
	run.Verdict = &v
	return run
}

var (
	healthy = map[string]probe.Status{"node-swap": probe.OK, "bgp-session": probe.OK}
	swap    = probe.Cause{
		ID: "swap-on", Says: "swap is on", Confidence: probe.High,
		For: []probe.Clue{{Check: "node-swap", Status: probe.Fail, Saw: "/dev/sda2"}},
		Fix: probe.Fix{Says: "turn it off", Manifest: []string{"swapoff -a"}},
	}
)

// world is a scripted World that counts its calls.
type world struct {
	mu      sync.Mutex
	did     map[string]int
	run     func(ctx context.Context, node string, r runbook.Run) (report.Run, error)
	ask     func(q runbook.Question) (string, error)
	confirm func(p runbook.Proposal) (bool, error)
	nodes   error
	waited  []string // what a wait told
}

func (w *world) waits(text string) { w.waited = append(w.waited, text) }

func (w *world) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.did == nil {
		w.did = map[string]int{}
	}
	w.did[what]++
}

func (w *world) functions() runbook.World {
	return runbook.World{
		Who: "ann@desk",
		Run: func(ctx context.Context, node string, r runbook.Run) (report.Run, error) {
			w.count("run " + node)
			if w.run == nil {
				return answer(node, healthy), nil
			}
			return w.run(ctx, node, r)
		},
		Agree: func(context.Context, runbook.Run, []string) error { return nil },
		Nodes: func(context.Context, runbook.Nodes, string) ([]string, error) { return []string{"b", "c"}, w.nodes },
		Ask: func(_ context.Context, q runbook.Question) (string, error) {
			w.count("ask " + q.Step)
			if w.ask == nil {
				return "", runbook.ErrNoPerson
			}
			return w.ask(q)
		},
		Confirm: func(_ context.Context, p runbook.Proposal) (bool, error) {
			w.count("confirm " + p.Step)
			if w.confirm == nil {
				return false, runbook.ErrNoPerson
			}
			return w.confirm(p)
		},
		Show:     func(runbook.Entry) error { return nil },
		Progress: func(string) {},
		Say:      func(string) {},
		Waits:    w.waits,
	}
}

func headerOf(rb *runbook.Runbook) runbook.Header {
	return runbook.Header{
		Runbook: rb.Metadata.Name, Digest: rb.Digest(), Source: rb.Source(), Node: "a",
		Params: map[string]string{"colour": "red"}, By: "ann@desk", At: time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC),
	}
}

// does runs steps in a world.
func does(t *testing.T, steps string, w *world, change ...func(*runbook.Engine)) *runbook.Record {
	t.Helper()
	rb := loaded(t, steps)
	e := &runbook.Engine{Runbook: rb, Journal: runbook.NewJournal(headerOf(rb)), World: w.functions(), Commands: true}
	for _, c := range change {
		c(e)
	}
	r := must.Get(e.Do(t.Context()))(t)
	fits(t, r)
	return r
}

func wantOutcome(t *testing.T, r *runbook.Record, verdict string, exit int, says string) {
	t.Helper()
	if o := r.Outcome; o == nil || o.Verdict != verdict || o.Exit != exit || !strings.Contains(o.Says, says) {
		t.Errorf("it came to %+v, want %s (%d) that says %q", r.Outcome, verdict, exit, says)
	}
}

// step returns the entry of a step by name.
func step(t *testing.T, r *runbook.Record, name string) runbook.Entry {
	t.Helper()
	for _, e := range r.Steps {
		if e.Name == name {
			return e
		}
	}
	t.Fatalf("there is no step %s in %+v", name, r.Steps)
	return runbook.Entry{}
}

// TestEnds checks the verdict and exit code of each end of a runbook.
func TestEnds(t *testing.T) {
	t.Parallel()
	ill := func(_ context.Context, node string, _ runbook.Run) (report.Run, error) {
		return answer(node, map[string]probe.Status{"node-swap": probe.Fail, "felix-live": probe.Unknown}, swap), nil
	}
	odd := func(_ context.Context, node string, _ runbook.Run) (report.Run, error) {
		return answer(node, map[string]probe.Status{"node-swap": probe.Fail}), nil
	}
	blind := func(_ context.Context, node string, _ runbook.Run) (report.Run, error) {
		return answer(node, map[string]probe.Status{"node-swap": probe.Unknown}), nil
	}
	for name, c := range map[string]struct {
		steps   string
		run     func(context.Context, string, runbook.Run) (report.Run, error)
		verdict string
		exit    int
		says    string
	}{
		"concluded":                     {"  - run: {}\n  - conclude: {verdict: fault, says: \"it is ${results[0].check}\"}\n", nil, "fault", 3, "it is node-swap"},
		"healthy by the last run":       {"  - run: {}\n", nil, "healthy", 0, "no step reached a conclusion; no known cause"},
		"a fault by the last run":       {"  - run: {}\n", ill, "fault", 3, "swap-on (high): swap is on"},
		"a fault at an empty branch":    {"  - run: {}\n  - choose: [{name: other}]\n", ill, "fault", 3, "swap-on (high): swap is on; unknown: felix-live"},
		"an unknown fault at the end":   {"  - run: {}\n", odd, "fault", 3, "no known cause; failed: node-swap"},
		"incomplete by the last run":    {"  - run: {}\n", blind, "incomplete", 5, "unknown: node-swap"},
		"nothing asked":                 {"  - note: hello\n", nil, "incomplete", 5, "no run on the node"},
		"healthy without an answer":     {"  - run: {}\n  - conclude: {verdict: healthy, says: all is well}\n", blind, "incomplete", 5, "unknown, because no node answered"},
		"an assert on a fault":          {"  - run: {}\n  - assert: {that: verdict == \"healthy\", else: \"not ${node}\"}\n", ill, "fault", 3, "not a"},
		"an assert without a fault":     {"  - run: {}\n  - assert: {that: params.colour == \"blue\", else: not blue}\n", nil, "incomplete", 5, "not blue"},
		"a condition without an answer": {"  - run: {}\n  - choose: [{name: x, when: \"causes[0].cause == 'swap-on'\"}, {name: other}]\n", nil, "incomplete", 5, "cannot evaluate the condition"},
		"a question nobody answers":     {"  - run: {}\n  - name: q\n    ask: {question: really}\n", nil, "incomplete", 5, "--answer q=TEXT"},
		"a wait that ends":              {"  - wait: {until: cause(\"swap-on\"), within: 500ms, every: 200ms, run: {}}\n", nil, "incomplete", 5, "last results: a: healthy"},
		"a wait that ends on a fault":   {"  - wait: {until: verdict == \"healthy\", within: 500ms, every: 200ms, run: {}, else: still ill}\n", ill, "fault", 3, "still ill; last results: a: fault, swap-on (high)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantOutcome(t, does(t, c.steps, &world{run: c.run}), c.verdict, c.exit, c.says)
		})
	}
}

// TestSeveralNodes requires every node to be examined, a few at a time, and failures to be answers.
func TestSeveralNodes(t *testing.T) {
	t.Parallel()
	var now, most int
	w := &world{}
	w.run = func(_ context.Context, node string, _ runbook.Run) (report.Run, error) {
		w.mu.Lock()
		now++
		most = max(most, now)
		w.mu.Unlock()
		time.Sleep(5 * time.Millisecond)
		w.mu.Lock()
		now--
		w.mu.Unlock()
		if node == "n3" {
			return report.Run{}, errors.New("no access to it")
		}
		return answer(node, healthy), nil
	}
	r := does(t, `  - name: all
    run: {on: {names: ["${node}", n1, n2, n3, n4, n5, n1]}}
  - note: "${steps.all.verdicts.n3} ${steps.all.verdict} ${verdict} ${results.size()} ${steps.all.results.size()}"
  - name: picked
    run: {on: {others: 3}}
  - conclude: {verdict: healthy, says: done}
`, w)
	all := step(t, r, "all").Asked
	if len(all) != 6 || all[4].Lacks != "" || all[3].Lacks != "no access to it" || all[3].Verdict != "incomplete" {
		t.Errorf("asked: %+v", all)
	}
	if most > 4 || most < 2 {
		t.Errorf("%d at a time", most)
	}
	if got := r.Steps[1].Text; got != "incomplete incomplete healthy 2 10" {
		t.Errorf("expressions read %q", got)
	}
	if e := step(t, r, "picked"); len(e.Asked) != 2 || !strings.Contains(e.Text, "3 other nodes were requested, but only 2 exist") {
		t.Errorf("others: %+v", e)
	}
	wantOutcome(t, r, "healthy", 0, "done")
}

// TestFunctions checks the functions of expressions.
func TestFunctions(t *testing.T) {
	t.Parallel()
	w := &world{run: func(_ context.Context, node string, _ runbook.Run) (report.Run, error) {
		low := swap
		low.ID, low.Confidence = "swap-returns", probe.Low
		run := answer(node, map[string]probe.Status{
			"node-swap": probe.Fail, "bgp-session": probe.Unknown, "felix-live": probe.Skip,
		}, swap, low)
		run.Events = append(run.Events, probe.Event{
			Type: probe.EventResult, Node: "peer", Result: &probe.Result{Check: "kubelet-health", Status: probe.Fail},
		})
		return run, nil
	}}
	for expression, want := range map[string]string{
		`cause("swap-on")`:               "true",
		`cause("swap-returns")`:          "false", // only suspected
		`suspected("swap-returns")`:      "true",
		`suspected("bird-dead")`:         "false",
		`status("node-swap")`:            "fail",
		`status("kubelet-health")`:       "", // of a peer only
		`asked("node-swap")`:             "true",
		`asked("bgp-session")`:           "false",
		`asked("felix-live")`:            "false",
		`steps.look.status("node-swap")`: "fail",
		`steps["look"].cause("swap-on")`: "true",
		`first(causes).fix.says`:         "turn it off", `first(results).check`: "node-swap",
		`first(results.filter(r, r.node == "nowhere")).saw + "|" + first(causes.slice(1, 1)).fix.says + "|" + first(causes.slice(1, 1)).says`: "||",
		`first(causes.slice(1, 1)).missing.size() == 0 && !("a" in first(results.slice(0, 0)).facts)`:                                         "true",
		`causes[0].fix.says`: "turn it off",
		`causes[0].commands`: "swapoff -a",
		`causes[0].node + params.colour + params["colour"]`: "aredred",
		`results.filter(r, r.node == node)[0].facts.n > 2`:  "true",
		`answers.later`:   "",
		`{"a": "}"}["a"]`: "}",
	} {
		r := does(t, "  - name: later\n    ask: {question: x, default: \"\"}\n    when: \"false\"\n  - name: look\n    run: {}\n  - note: |\n      <${"+expression+"}>\n", w)
		if got := r.Steps[2].Text; got != "<"+want+">\n" {
			t.Errorf("%s is %q, want %q", expression, got, want)
		}
	}
}

// TestCheck checks the protocol of the runbook's own checks, and that their results join the others.
func TestCheck(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		check, status, saw string
		forbid             bool
	}{
		"ok":             {`command: [sh, -c, "echo fine; echo more"]`, "ok", "fine", false},
		"a fault":        {`command: [sh, -c, 'echo "$CALICO_PROBE_NODE $CALICO_PROBE_PARAM_COLOUR"; exit 1']`, "fail", "a red", false},
		"not known":      {`command: [sh, -c, "echo dunno >&2; exit 2"]`, "unknown", "dunno", false},
		"no word":        {`command: [sh, -c, "exit 3"]`, "unknown", "exit code 3, no output", false},
		"no program":     {`command: [/no/such/program]`, "unknown", "could not be started", false},
		"too slow":       {`command: [sh, -c, "sleep 20 & wait"], limit: 50ms`, "unknown", "timed out after 50ms", false},
		"hostile":        {`command: [printf, "a\\033[2Jb\\n"]`, "ok", "a?[2Jb", false},
		"much":           {`command: [sh, -c, "yes | head -c 1000000"]`, "ok", "y", false},
		"not allowed":    {`command: [touch, /nowhere/at/all]`, "unknown", "commands are not allowed here", true},
		"by expression":  {`that: cause("swap-on"), saw: "it has ${results.size()}"`, "fail", "it has 2", false},
		"no expression":  {`that: 'causes[0].cause == "swap-on"', saw: y`, "unknown", "index", false},
		"with arguments": {`command: [echo, "${node}; rm -rf /", $$HOME]`, "ok", "a; rm -rf / $$HOME", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := does(t, "  - run: {}\n  - name: own\n    check: {id: own-check, asks: \"really?\", "+c.check+"}\n  - note: '${status(\"own-check\")} ${verdict} ${steps.own.status(\"own-check\")}'\n  - conclude: {verdict: healthy, says: x}\n", &world{},
				func(e *runbook.Engine) { e.Commands = !c.forbid })
			got := step(t, r, "own").Result
			if got.Status != c.status || !strings.Contains(got.Saw, c.saw) {
				t.Errorf("got %+v, want %s %q", got, c.status, c.saw)
			}
			want := map[string]string{
				"ok": "ok healthy ok", "fail": "fail fault fail", "unknown": "unknown incomplete unknown",
			}[c.status]
			if r.Steps[2].Text != want {
				t.Errorf("expressions read %q, want %q", r.Steps[2].Text, want)
			}
		})
	}
}

// TestAsk checks who answers, and which answers are valid.
func TestAsk(t *testing.T) {
	t.Parallel()
	typed := []string{"perhaps", "", "N"}
	w := &world{ask: func(runbook.Question) (string, error) {
		next := typed[0]
		typed = typed[1:]
		return next, nil
	}}
	const steps = "  - name: q\n    ask: {question: \"is ${node} yours\", options: [yes, no]}\n  - name: free\n    ask: {question: why, default: because}\n  - note: \"${answers.q} ${answers.free}\"\n  - run: {}\n"
	r := does(t, steps, w, func(e *runbook.Engine) { e.Answers = map[string]string{"free": "so"} })
	q := step(t, r, "q")
	if q.Text != "is a yours" || *q.Answer != (runbook.Answer{Text: "no", By: "ann@desk"}) || w.did["ask q"] != 3 ||
		w.did["ask free"] != 0 {
		t.Errorf("asked %v: %+v", w.did, q)
	}
	if r.Steps[2].Text != "no so" {
		t.Errorf("expressions read %q", r.Steps[2].Text)
	}
	r = does(t, steps, &world{}, func(e *runbook.Engine) { e.Answers = map[string]string{"q": "yes"} })
	if a := step(t, r, "free").Answer; *a != (runbook.Answer{Text: "because", By: "default"}) {
		t.Errorf("with nobody to ask: %+v", a)
	}
}

// TestWait requires a wait to end when its condition is true, and its last results to be used afterwards.
func TestWait(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.run = func(_ context.Context, node string, r runbook.Run) (report.Run, error) {
		if len(r.Checks) != 1 {
			return report.Run{}, fmt.Errorf("asked for %v", r.Checks)
		}
		if w.did["run a"] < 4 {
			return answer(node, map[string]probe.Status{"bgp-session": probe.Fail}), nil
		}
		return answer(node, healthy), nil
	}
	r := does(t, "  - run: {checks: [bgp-session]}\n  - name: w\n    wait: {until: status(\"bgp-session\") == \"ok\" && steps.w.verdict == \"healthy\", within: 1m, every: 1ms}\n  - note: '${verdict} ${steps.w.verdict}'\n", w)
	if e := step(t, r, "w"); !*e.Held || e.Tries != 3 || r.Steps[2].Text != "healthy healthy" {
		t.Errorf("%+v, then %q", e, r.Steps[2].Text)
	}
	wantOutcome(t, r, "healthy", 0, "")
	told := w.waited
	if len(told) != 4 || !strings.Contains(told[0], "for at most 1m0s") ||
		!strings.HasPrefix(told[2], "w: attempt 2, not yet, ") ||
		!strings.HasSuffix(told[2], "left; last results: a: fault") || told[3] != "" {
		t.Errorf("it told %q", told)
	}
}

// TestNotify posts to a real server with a certificate. A secret is not sent to a server without one.
func TestNotify(t *testing.T) {
	t.Setenv("HOOK_AUTH", "Bearer s3cret")
	var mu sync.Mutex
	var got, open []string
	plain := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		open = append(open, r.URL.Path+" "+r.Header.Get("Authorization"))
	}))
	defer plain.Close()
	fails := 2
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		got = append(got, fmt.Sprintf("%s %s %s %d", r.Method, r.URL.Path, r.Header.Get("Authorization"), len(b)))
		switch {
		case r.URL.Path == "/moved":
			http.Redirect(w, r, plain.URL+"/elsewhere", http.StatusTemporaryRedirect)
		case r.URL.Path == "/refused":
			w.WriteHeader(http.StatusForbidden)
		case fails > 0:
			fails--
			w.WriteHeader(http.StatusBadGateway)
		default:
			var r runbook.Record
			if err := json.Unmarshal(b, &r); err != nil || r.Kind != "RunbookRecord" || len(r.Steps) != 1 ||
				len(r.Steps[0].Asked[0].Results) != 2 {
				w.WriteHeader(http.StatusBadRequest)
			}
		}
	}))
	defer s.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	must.Do(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
		0o600))
	t.Setenv("SSL_CERT_FILE", ca) // which is read once: no other test here goes by certificates
	t.Setenv("HOOK", s.URL+"/hook?token=s3cret")
	t.Setenv("HOOK_PLAIN", plain.URL+"/by-variable")
	closed := httptest.NewServer(nil)
	closed.Close()
	t.Setenv("HOOK_CLOSED", closed.URL+"/hook?token=s3cret")
	t.Setenv("HOOK_NAMED", strings.Replace(plain.URL, "http://", "HTTP://joe:s3cret@", 1)+"/named")
	steps := "  - run: {}\n  - name: hook\n    notify: {webhook: {urlFrom: HOOK, authFrom: HOOK_AUTH}}\n" +
		"  - name: moved\n    notify: {webhook: {url: " + s.URL + "/moved, authFrom: HOOK_AUTH, body: \"${node}\"}}\n" +
		"  - name: refused\n    notify: {webhook: {url: " + s.URL + "/refused}}\n" +
		"  - name: by-variable\n    notify: {webhook: {urlFrom: HOOK_PLAIN, authFrom: HOOK_AUTH}}\n" +
		"  - name: by-value\n    notify: {webhook: {url: \"${\\\"http\\\"}" + strings.TrimPrefix(plain.URL, "http") + "/by-value\", authFrom: HOOK_AUTH}}\n" +
		"  - name: named\n    notify: {webhook: {urlFrom: HOOK_NAMED}}\n" +
		"  - name: no-secret\n    notify: {webhook: {urlFrom: HOOK_PLAIN}}\n" +
		"  - name: closed\n    notify: {webhook: {urlFrom: HOOK_CLOSED}}\n" +
		"  - name: unset\n    notify: {webhook: {urlFrom: NO_SUCH_HOOK}}\n" +
		"  - name: command\n    notify: {command: [grep, -q, RunbookRecord]}\n" +
		"  - name: failing\n    notify: {command: [sh, -c, \"echo gone >&2; exit 4\"]}\n"
	rb := loaded(t, steps)
	name := filepath.Join(t.TempDir(), "journal")
	j := must.Get(runbook.CreateJournal(name, headerOf(rb)))(t)
	defer j.Close()
	w := &world{}
	r := must.Get((&runbook.Engine{Runbook: rb, Journal: j, World: w.functions(), Commands: true}).Do(t.Context()))(t)
	host := strings.TrimPrefix(s.URL, "https://")
	openly := runbook.Notified{Whom: "a webhook", Failed: "a secret is not sent over http: use https"}
	for name, want := range map[string]runbook.Notified{
		"hook": {Whom: host}, "moved": {Whom: host, Failed: "returned a redirect (307), which is not followed"}, "refused": {Whom: host, Failed: "returned status 403"},
		"by-variable": openly, "by-value": openly, "named": openly,
		"no-secret": {Whom: strings.TrimPrefix(plain.URL, "http://")},
		"unset":     {Whom: "a webhook", Failed: "the environment variable NO_SUCH_HOOK is not set"}, "command": {Whom: "grep"}, "failing": {Whom: "sh", Failed: "exit code 4: gone"},
	} {
		if told := *step(t, r, name).Notified; told != want {
			t.Errorf("%s: %+v, want %+v", name, told, want)
		}
	}
	if len(got) != 5 || !strings.HasPrefix(got[2], "POST /hook Bearer s3cret ") ||
		got[3] != "POST /moved Bearer s3cret 1" {
		t.Errorf("the listener had %q", got)
	}
	if len(open) != 1 || open[0] != "/by-variable " {
		t.Errorf("the one without a certificate had %q", open)
	}
	text := must.Get(os.ReadFile(name))(t)
	if b, _ := json.Marshal(r); bytes.Contains(text, []byte("s3cret")) || bytes.Contains(b, []byte("s3cret")) {
		t.Error("what is secret of a webhook stands in the journal or the record")
	}
	if told := step(t, r, "closed").Notified; !strings.Contains(told.Failed, "connection refused") {
		t.Errorf("a webhook that is closed: %+v", told)
	}
	wantOutcome(t, r, "healthy", 0, "")
}

// TestAction requires every action to be allowed, shown and confirmed.
func TestAction(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		allow   []string
		confirm func(runbook.Proposal) (bool, error)
		dry     string
		notRun  string
	}{
		"not allowed": {nil, func(runbook.Proposal) (bool, error) { return true, nil }, "true", "use --allow-actions mend"},
		"another one": {[]string{"other"}, func(runbook.Proposal) (bool, error) { return true, nil }, "true", "not allowed"},
		"nobody":      {[]string{"mend"}, nil, "true", "not confirmed: there is no terminal"},
		"no": {[]string{"mend"}, func(runbook.Proposal) (bool, error) {
			return false, nil
		}, "true", "not confirmed"},
		"bad dry run": {[]string{"mend"}, func(runbook.Proposal) (bool, error) { return true, nil }, "exit 7", "its dry run failed: exit code 7"},
		"yes": {[]string{"mend"}, func(p runbook.Proposal) (bool, error) {
			return p.DryRun == "would\n" && p.Before == "", nil
		}, "echo would", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "mended")
			w := &world{confirm: c.confirm}
			r := does(t, "  - run: {}\n  - name: mend\n    action: {says: mends, touches: \"${node}\", dryRun: [sh, -c, \""+c.dry+"\"], command: [sh, -c, 'touch \"$1\"; echo did; exit 3', sh, \""+file+"\"]}\n", w,
				func(e *runbook.Engine) { e.Actions = c.allow })
			d := step(t, r, "mend").Deed
			_, err := os.Stat(file)
			if done := err == nil; done != (c.notRun == "") || !strings.Contains(d.NotRun, c.notRun) || d.Touches != "a" {
				t.Errorf("done is %t: %+v", done, d)
			}
			if c.notRun == "" && (d.Exit != 3 || d.Output != "did\n" || d.By != "ann@desk") {
				t.Errorf("it was done: %+v", d)
			}
		})
	}
}

// TestStopped requires an interrupted runbook to report the reason, and to be resumable.
func TestStopped(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cause, nodes error
		steps, says  string
		exit         int
	}{
		"time over":   {errors.New("--timeout 1m is over"), nil, "", "--timeout 1m is over", 5},
		"interrupted": {context.Canceled, nil, "", "interrupted", 130},
		"no nodes":    {nil, errors.New("the API is away"), "  - run: {on: {others: 2}}\n", "step 2: cannot select the nodes: the API is away", 5},
		"nor to wait": {nil, errors.New("the API is away"), "  - wait: {until: \"true\", within: 1m, run: {on: {others: 2}}}\n", "the API is away", 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rb := loaded(t, "  - run: {}\n"+c.steps+"  - wait: {until: cause(\"swap-on\"), within: 1h, every: 1h}\n")
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			w := &world{nodes: c.nodes}
			w.run = func(_ context.Context, node string, _ runbook.Run) (report.Run, error) {
				if w.did["run a"] == 2 {
					cancel(c.cause)
				}
				return answer(node, healthy), nil
			}
			j := runbook.NewJournal(headerOf(rb))
			r := must.Get((&runbook.Engine{Runbook: rb, Journal: j, World: w.functions()}).Do(ctx))(t)
			wantOutcome(t, r, "incomplete", c.exit, c.says)
			if j.Ended {
				t.Error("it cannot go on")
			}
		})
	}
}

// TestLoadComesLast requires load to come after every other cause, except suspected ones.
func TestLoadComesLast(t *testing.T) {
	t.Parallel()
	load, low := swap, swap
	load.ID, low.ID, low.Confidence = "node-overloaded", "swap-returns", probe.Low
	w := &world{run: func(_ context.Context, node string, _ runbook.Run) (report.Run, error) {
		medium := swap
		medium.Confidence = probe.Medium
		return answer(node, map[string]probe.Status{"node-swap": probe.Fail}, load, medium, low), nil
	}}
	r := does(t, "  - run: {}\n  - note: ${causes.map(c, c.cause).join(\" \")}\n", w)
	if got := r.Steps[1].Text; got != "swap-on node-overloaded swap-returns" {
		t.Errorf("the causes are %s", got)
	}
}
