package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

// many are so many nodes of which only the names are known.
func many(n int) []*corev1.Node {
	var out []*corev1.Node
	for i := range n {
		out = append(out, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%05d", i)}})
	}
	return out
}

// sinkFunc is a sink that is a function.
type sinkFunc func(probe.Event) error

func (f sinkFunc) Event(ev probe.Event) error { return f(ev) }

// aRun is one whose nodes are asked by a function.
func aRun(t *testing.T, sink report.Sink) *Run {
	t.Helper()
	run := must.Get(New((&world{}).client(t), options()))(t)
	run.Sink = sink
	return run
}

// answered is a node that had an answer.
func answered(n *corev1.Node) *judging {
	j := newJudging(n.Name)
	v := probe.Verdict{Word: report.WordHealthy}
	_ = j.Event(probe.Event{Type: probe.EventVerdict, Node: n.Name, Verdict: &v}) // never fails
	return j
}

// TestStopped wants no node to be asked after a stop, and what still comes of those that were asked to be no verdict:
// --resume would take it for one.
func TestStopped(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		broken error // of the report
		want   error
	}{
		"Ctrl-C":        {nil, context.Canceled},
		"report breaks": {errors.New("no room on the disk"), errors.New("no room on the disk")},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		asked, reported := atomic.Int64{}, 0
		run := aRun(t, sinkFunc(func(probe.Event) error { reported++; return c.broken }))
		_, err := run.judgeAll(ctx, func(ctx context.Context, n *corev1.Node, _ probe.Start) (*judging, error) {
			if asked.Add(1) == 5 && c.broken == nil {
				cancel()
			}
			return answered(n), nil
		}, many(1000), 3, probe.Start{})
		cancel()
		if err == nil || err.Error() != c.want.Error() || asked.Load() > 20 || reported > 5 {
			t.Errorf("%s: %v, %d asked, %d reported", name, err, asked.Load(), reported)
		}
	}
}

// TestOverdue requires each node's API results even if no time is left for probes.
func TestOverdue(t *testing.T) {
	t.Parallel()
	client := zones().client(t)
	opts := options()
	opts.Via = examine.ViaAuto
	run, err := New(client, opts)
	if err != nil {
		t.Fatal(err)
	}
	var docs []report.Document
	run.Sink = report.CollectEach(&docs)
	reader, err := client.Reader()
	if err != nil {
		t.Fatal(err)
	}
	survey, err := reader.ReadAll(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := run.choose(survey)
	if err != nil {
		t.Fatal(err)
	}
	over := examine.TimeoutError(time.Minute)
	ctx, cancel := context.WithDeadlineCause(t.Context(), time.Now(), over)
	defer cancel()
	all, err := run.judgeAll(ctx, run.byProbe(client, nil, survey), nodes, 3, probe.Start{})
	if err != nil || len(all) != 10 || len(docs) != 10 {
		t.Fatalf("%v, %d judged, %d reported", err, len(all), len(docs))
	}
	for _, d := range docs {
		want := report.WordIncomplete
		if d.Node >= "node-07" {
			want = report.WordFault // which the API knows
		}
		said := ""
		for _, r := range d.Results {
			said += r.Saw + "\n"
		}
		if d.Word != want || !strings.Contains(said, "no probe was put there: "+over.Error()) || len(d.Results) < 15 {
			t.Errorf("%s: %s, want %s: %s", d.Node, d.Word, want, said)
		}
	}
}

// TestManyHang requires that hanging nodes do not delay other nodes.
func TestManyHang(t *testing.T) {
	t.Parallel()
	run := aRun(t, nil)
	synctest.Test(t, func(t *testing.T) {
		const hang, nodes, limit, start = 300, 1000, 96, 40 * time.Second
		began, last, well := time.Now(), time.Duration(0), 0
		run.Sink = sinkFunc(func(ev probe.Event) error {
			if ev.Node >= fmt.Sprintf("node-%05d", hang) {
				well, last = well+1, time.Since(began)
			}
			return nil
		})
		_, err := run.judgeAll(t.Context(), func(_ context.Context, n *corev1.Node, _ probe.Start) (*judging, error) {
			wait := time.Second
			if n.Name < fmt.Sprintf("node-%05d", hang) {
				wait = start
			}
			time.Sleep(wait)
			return answered(n), nil
		}, many(nodes), limit, probe.Start{})
		if err != nil || well != nodes-hang || last > start {
			t.Errorf("%v: the last of %d nodes that are well after %v", err, well, last)
		}
	})
}

// TestResumedAnew asks nodes again that gave no answer, and those of which lines are missing.
func TestResumedAnew(t *testing.T) {
	t.Parallel()
	run := aRun(t, nil)
	verdict := func(word string) *probe.Verdict { return &probe.Verdict{Word: word} }
	run.opts.Resume = &report.Saved{Fleet: &probe.Start{}, Runs: []report.Run{
		{Node: "node-00000", Verdict: verdict(report.WordHealthy)},
		{Node: "node-00001", Verdict: verdict(report.WordIncomplete)},
		{Node: "node-00002", Verdict: verdict(report.WordFault), Lacks: "lines"},
		{Node: "node-00003"}, {Node: "of-another-cluster", Verdict: verdict(report.WordFault)},
	}}
	before, left := run.resumed(many(5))
	if len(before) != 1 || before[0].Node != "node-00000" || len(left) != 4 {
		t.Errorf("%d are not asked again, %d are", len(before), len(left))
	}
}

// TestUnfinished requires that an interrupted run reports the results of judged nodes, and still reports their faults.
func TestUnfinished(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	client := zones().client(t)
	run := must.Get(New(client, options()))(t)
	var came report.Fleet
	all := report.CollectFleet(&came)
	run.Sink = sinkFunc(func(ev probe.Event) error {
		if ev.Type == probe.EventVerdict && ev.Verdict.Word == report.WordFault {
			defer cancel()
		}
		return all.Event(ev)
	})
	if err := run.Do(ctx); !errors.Is(err, context.Canceled) || came.Verdict != nil {
		t.Fatalf("%v, %+v", err, came.Verdict)
	}
	run.Sink = all
	must.Do(t, run.Unfinished("it was stopped"))
	if came.Word != report.WordFault || came.Exit != report.ExitFault || len(came.Groups) == 0 || len(came.Log) != 1 {
		t.Errorf("%s, exit %d, %d groups, %q", came.Word, came.Exit, len(came.Groups), came.Log)
	}
}

// TestNodeCrashes has this program fail at one of many nodes: that one is incomplete and says why, and the others are
// judged.
func TestNodeCrashes(t *testing.T) {
	t.Parallel()
	var lost []string
	run := aRun(t, sinkFunc(func(ev probe.Event) error {
		if r := ev.Result; r != nil && strings.Contains(r.Saw, "this node's run crashed: boom") {
			lost = append(lost, ev.Node+" "+string(r.Status))
		}
		return nil
	}))
	all, err := run.judgeAll(t.Context(), func(_ context.Context, n *corev1.Node, _ probe.Start) (*judging, error) {
		if n.Name == "node-00007" {
			panic("boom")
		}
		return answered(n), nil
	}, many(20), 3, probe.Start{})
	if err != nil || len(all) != 20 || len(lost) != 1 || lost[0] != "node-00007 unknown" {
		t.Fatalf("%v, %d judged, lost %v", err, len(all), lost)
	}
	for _, j := range all {
		if (j.verdict.Word == report.WordIncomplete) != (j.name == "node-00007") {
			t.Errorf("%s: %s", j.name, j.verdict.Word)
		}
	}
}
