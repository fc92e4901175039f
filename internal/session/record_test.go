package session

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/prompt"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

func TestWatchArguments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args  string
		every time.Duration
		tool  string
		says  string // its error
	}{
		{"bgp-session", 2 * time.Second, "", ""},
		{"-n 10 felix bgp-session", 10 * time.Second, "", ""},
		{"-n 0.5 bird show protocols", time.Second / 2, "bird", ""},
		{"", 0, "", "takes checks"},
		{"-n", 0, "", "-n takes the seconds"},
		{"-n 2", 0, "", "takes checks"},
		{"-n 0 bgp-session", 0, "", "-n takes the seconds"},
		{"-n NaN bgp-session", 0, "", "-n takes the seconds"},
		{"-n 1e9 bgp-session", 0, "", "-n takes the seconds"},
		{"no-such-check", 0, "", "no-such-check"},
		{"bird configure", 0, "", "show"},
		{"logs calico-node", 2 * time.Second, "logs", ""},
		{"logs -f calico-node", 0, "", "already runs until you stop it"},
		{"drops --trace 10.0.0.1", 0, "", "run it each time, without watch"},
		{"ping -c 0 10.0.0.1", 0, "", "already runs until you stop it"},
	} {
		w, err := watchingOf(strings.Fields(c.args))
		switch {
		case c.says != "":
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%q: %v, want %q", c.args, err, c.says)
			}
		case err != nil || w.every != c.every || (w.tool != nil) != (c.tool != ""):
			t.Errorf("%q: %v %+v", c.args, err, w)
		}
	}
}

// watchedBy returns a session on a node whose probe, in this process, has a check and tools with given results. It
// writes a transcript.
func watchedBy(t *testing.T, swap func(ctx context.Context) probe.Result, all ...*probe.Tool) (c *Session,
	transcript string) {
	t.Helper()
	check := &probe.Check{ID: "node-swap", From: probe.FromNode, Run: probe.Once(func(ctx context.Context,
		_ *probe.Host) probe.Result {
		return swap(ctx)
	})}
	session := must.Get(injector.InProcess((&probe.Runner{Host: &probe.Host{}, Suite: []*probe.Check{check},
		Tools: all}).Serve, "of a test")(t.Context(), injector.Options{}))(t)
	t.Cleanup(func() { _ = session.Close() })
	opts := examine.Options{
		Node: "node-a", Via: injector.MethodLocal, Image: probe.Image, Profile: "quick", FailOn: "fail", Timeout: time.Minute,
	}
	s := must.Get(newNodeSession(testClient(t.Output()), opts))(t)
	s.session, s.method = session, injector.MethodLocal
	for _, tool := range all {
		s.tools = append(s.tools, tool.Name)
	}
	transcript = filepath.Join(t.TempDir(), "incident")
	log := must.Get(report.Record(transcript))(t)
	t.Cleanup(func() { _ = log.Close() })
	return &Session{
		opts: Options{Run: opts}, client: s.client, stdout: io.Discard, stderr: t.Output(), interrupts: &ui.Interrupts{},
		at: s, log: log,
	}, transcript
}

// TestWatchStopped interrupts a watch during a round, the usual end. The earlier answers stay, and the transcript has
// only changes.
func TestWatchStopped(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	times := 0
	c, transcript := watchedBy(t, func(ctx context.Context) probe.Result {
		if times++; times == 4 {
			cancel()
			<-ctx.Done()
			return probe.Found(probe.Unknown, "stopped before it was answered")
		}
		return probe.Found(probe.OK, "no swap for %ds", times)
	})
	var out strings.Builder
	if err := c.watch(ctx, &prompt.Call{Args: []string{"-n", "0.5", "node-swap"}, Out: &out}); err != nil || times != 4 {
		t.Fatalf("%v, %d times", err, times)
	}
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "no swap for 1s") {
		t.Error(got)
	}
	b, err := os.ReadFile(transcript)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(b), `"type":"asked"`); n != 2 {
		t.Errorf("%d times are in the transcript, want the first and the last whole one\n%s", n, b)
	}
	saved, err := report.Load(bytes.NewReader(b))
	if err != nil || len(saved.Runs) != 1 {
		t.Fatalf("%v %+v", err, saved)
	}
	for name, run := range map[string]report.Run{"now": c.at.answers.Run(), "recorded": saved.Runs[0]} {
		var said []string
		for _, ev := range run.Events {
			if ev.Result != nil {
				said = append(said, string(ev.Result.Status)+" "+ev.Result.Saw)
			}
		}
		if len(said) != 1 || said[0] != "ok no swap for 3s" {
			t.Errorf("%s: %q", name, said)
		}
	}
}

// TestWatchATool requires a tool's outcome and its reason, and an error for a tool that writes too much.
func TestWatchATool(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	times := 0
	dial := &probe.Tool{Name: "dial", Parse: func([]string) (probe.ToolFunc, error) {
		return func(_ context.Context, j *probe.Job) probe.Result {
			switch times++; times {
			case 1, 2:
				return probe.Found(probe.Fail, "10.0.0.12:179: refused")
			case 3:
				j.Say("connected to 10.0.0.12:179 in 1ms, from 10.0.0.1:40000")
				return probe.Found(probe.OK, "10.0.0.12:179 takes connections")
			}
			cancel()
			return probe.Found(probe.OK, "too late")
		}, nil
	}}
	bird := &probe.Tool{Name: "bird", Parse: func([]string) (probe.ToolFunc, error) {
		return func(ctx context.Context, j *probe.Job) probe.Result {
			for ctx.Err() == nil {
				j.Say("%s", strings.Repeat("10.0.0.0/26 via 10.0.0.2 ", 100))
			}
			return probe.Found(probe.OK, "many routes")
		}, nil
	}}
	c, _ := watchedBy(t, nil, dial, bird)
	var out strings.Builder
	if err := c.watch(t.Context(), &prompt.Call{Args: []string{"bird", "show", "route"}, Out: &out}); err == nil ||
		!strings.Contains(err.Error(), "more than 4 MB") || codeOf(err) != 2 {
		t.Errorf("%v %s", err, out.String())
	}
	must.Do(t, c.watch(ctx, &prompt.Call{Args: []string{"-n", "0.5", "dial", "10.0.0.12:179"}, Out: &out}))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 3 || !strings.Contains(lines[0], " fail     dial               10.0.0.12:179                      10.0.0.12:179: refused") ||
		!strings.Contains(out.String(), "takes connections (was fail)") {
		t.Error(out.String())
	}
}

// TestWhyOfLittle requires that a node with few answers is not called healthy, and that the transcript describes each
// command's outcome.
func TestWhyOfLittle(t *testing.T) {
	t.Parallel()
	c, _ := watchedBy(t, func(context.Context) probe.Result { return probe.Found(probe.OK, "no swap") })
	var out strings.Builder
	do := func(run func(context.Context, *prompt.Call) error, args ...string) error {
		t.Helper()
		c.typed(prompt.Line{})
		out.Reset()
		return run(t.Context(), &prompt.Call{Args: args, Out: &out})
	}
	if err := do(c.why); codeOf(err) != report.ExitIncomplete || !strings.Contains(out.String(),
		"no check has run on") || c.bad.cameTo(5) != "incomplete (exit code 5)" {
		t.Errorf("%v %s", err, out.String())
	}
	if err := do(c.runChecks, "node-swap"); err != nil {
		t.Errorf("%v %s", err, out.String())
	}
	if err := do(c.why); codeOf(err) != report.ExitIncomplete || !strings.Contains(out.String(), "nothing bad so far on node-a: 1 ok; ") ||
		!strings.Contains(out.String(), "answered so far: 1 of ") || strings.Contains(out.String(), "healthy") {
		t.Errorf("%v %s", err, out.String())
	}
	if err := do(c.runChecks, "node-swap", "node-load"); codeOf(err) != report.ExitIncomplete || c.bad.cameTo(5) != "incomplete: unknown node-load (exit code 5)" {
		t.Errorf("%v %q %s", err, c.bad.cameTo(5), out.String())
	}
	if err := do(c.why); codeOf(err) != report.ExitIncomplete ||
		!strings.Contains(out.String(), "answered so far: 1 of ") ||
		!strings.Contains(out.String(), "1 more ran without an answer") {
		t.Errorf("%v %s", err, out.String())
	}
	var errs strings.Builder
	c.stderr = &errs
	c.failed("run node-swap node-load: ", ui.Exit(5))
	if errs.String() != "calico-probe: run node-swap node-load: incomplete: unknown node-load (exit code 5)\n" {
		t.Error(errs.String())
	}
	if got := (badOnes{probe.Fail: {"a", "b"}, probe.OK: {"c"}, probe.Unknown: {"d"}}).cameTo(3); got != "fault: fail a b, unknown d (exit code 3)" {
		t.Error(got)
	}
}

func TestPace(t *testing.T) {
	t.Parallel()
	p := pace{every: 2 * time.Second}
	now := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	for i, c := range []struct {
		after   time.Duration
		brought bool
		want    time.Duration
		deaths  int
	}{
		{0, true, 2 * time.Second, 1}, {5 * time.Second, true, 4 * time.Second, 2}, {5 * time.Second, false,
			8 * time.Second, 2},
		{9 * time.Second, true, 16 * time.Second, 3}, {2 * time.Minute, true, 2 * time.Second, 1},
	} {
		now = now.Add(c.after)
		if got := p.after(now, c.brought); got != c.want || p.deaths != c.deaths {
			t.Errorf("%d: %v and %d, want %v and %d", i, got, p.deaths, c.want, c.deaths)
		}
	}
}

func TestSaveArguments(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{"x.json": "x.json", "-f x": "x f", "x -f": "x f", "": "", "a b": "",
		"~/x": "", "-x": "", "-f": ""} {
		name, over, err := saving(strings.Fields(args))
		got := name
		if over {
			got += " f"
		}
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q %v", args, got, err)
		}
	}
}

// TestSaveWhole requires an overwritten file to be private to its owner, and unchanged if the save fails.
func TestSaveWhole(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	name, link := filepath.Join(folder, "night"), filepath.Join(folder, "link")
	must.Do(t, errors.Join(os.WriteFile(name, []byte("old"), 0o644), os.Symlink(name, link)))
	full := func(sink report.Sink) (ui.Exit, error) {
		return 0, errors.Join(sink.Event(probe.Event{Type: probe.EventLog}), errors.New("no space left on device"))
	}
	for _, try := range []struct {
		name string
		over bool
		says string
	}{{link, true, "is not saved: no space left"}, {filepath.Join(folder, "new"), false,
		"is not saved: no space left"}, {name, false, "exists already"}, {os.DevNull, true, "is not a file"}, {folder,
		false, "is a folder"}, {folder, true, "is a folder"}} {
		if err := writeSaved(try.name, try.over, full); err == nil || !strings.Contains(err.Error(), try.says) {
			t.Errorf("%s: %v", try.name, err)
		}
	}
	if entries, err := os.ReadDir(folder); err != nil || len(entries) != 2 {
		t.Errorf("something was left: %v %v", entries, err)
	}
	if b, err := os.ReadFile(name); err != nil || string(b) != "old" {
		t.Errorf("%v %q", err, b)
	}
	must.Do(t, writeSaved(link, true, func(sink report.Sink) (ui.Exit, error) {
		return 0,
			sink.Event(probe.Event{Type: probe.EventLog})
	}))
	info, err := os.Lstat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() < 10 || runtime.GOOS != "windows" &&
		info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", err, info)
	}
}

// TestPeerRows requires the worst peer first, and each peer with its own session.
func TestPeerRows(t *testing.T) {
	t.Parallel()
	node := func(name string, ready corev1.ConditionStatus, address string) corev1.Node {
		return corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"projectcalico.org/IPv4Address": address + "/24"}},
			Status: corev1.NodeStatus{
				Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}},
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}},
			},
		}
	}
	self := node("here", corev1.ConditionTrue, "10.0.0.1")
	snap := &cluster.Snapshot{Node: &self, Survey: cluster.Survey{Nodes: []corev1.Node{
		node("fine", corev1.ConditionTrue, "10.0.0.2"), self, node("gone", corev1.ConditionUnknown, "10.0.0.3"),
		node("refuses", corev1.ConditionTrue, "10.0.0.4"), node("no-session", corev1.ConditionTrue, "10.0.0.5"),
	}}}
	with := func(s probe.Status, node, saw string) probe.Result {
		return probe.Found(s, "%s", saw).With(probe.FactNode, node)
	}
	answers := []probe.Result{with(probe.OK, "fine", "Established for 3s"), with(probe.Fail, "refuses", "refused"),
		with(probe.Warn, "gone", "start Connect")}
	var got []string
	for _, r := range peerRows(snap, answers) {
		got = append(got, strings.Join([]string{r.name, r.ready, r.address, r.calico, r.bgp}, "|"))
	}
	want := []string{
		"gone|unknown: its kubelet is silent|10.0.0.3|10.0.0.3|warn: start Connect",
		"refuses|yes|10.0.0.4|10.0.0.4|fail: refused",
		"fine|yes|10.0.0.2|10.0.0.2|ok: Established for 3s",
		"no-session|yes|10.0.0.5|10.0.0.5|none",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	both := []probe.Result{with(probe.OK, "fine", "up").With(bgp.FactPeer, "10.0.0.2"), with(probe.Fail, "fine",
		"down").With(bgp.FactPeer, "fd00::2")}
	for text, of := range map[string][]probe.Result{"10.0.0.2 ok: up; fd00::2 fail: down": both, "not checked": nil, "unknown": {probe.Found(probe.Unknown, "BIRD is dead")}} {
		if got, _ := sessionWith("fine", of); got != text {
			t.Errorf("%q, want %q", got, text)
		}
	}
}
