package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/apierror"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/mesh"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/probe"
)

// A Watch tries the same paths repeatedly. Its probes keep running on their nodes.
type Watch struct {
	*trying
	every time.Duration
	began time.Time
	hear  func(mesh.RoundReport)

	hearing sync.Mutex // serializes calls of hear
	reading sync.Mutex
	read    map[int]time.Time // when a node's pods were last read
}

// Watch prepares probes on all chosen nodes, at most a few dozen. Close ends it.
func (r *MeshRun) Watch(ctx context.Context, every time.Duration) (*Watch, error) {
	r.picked = examine.CheckIDs(watched())
	t, err := r.start(ctx, examine.MostStreams)
	if err != nil {
		return nil, err
	}
	return &Watch{trying: t, every: every, read: map[int]time.Time{}}, nil
}

// watched returns the checks for each round.
func watched() []*probe.Check { return []*probe.Check{link.NodePing, pod.PodPing} }

// Nodes returns the names of the watched nodes.
func (w *Watch) Nodes() []string {
	var out []string
	for _, n := range w.nodes {
		out = append(out, n.Name)
	}
	return out
}

// Close removes the created objects.
func (w *Watch) Close() { w.close() }

// Run tries all paths in each round until the context ends, and passes each node's report to hear, one at a time. A
// late node, or a node without a probe, does not delay other nodes.
func (w *Watch) Run(ctx context.Context, hear func(mesh.RoundReport)) {
	w.began, w.hear = time.Now(), hear
	var all probe.Workers
	for i := range w.nodes {
		all.Go(func() { w.node(ctx, i) })
	}
	all.Wait()
}

// again is the delay before the next probe is placed on a node.
const again = 20 * time.Second

// node makes one node try its paths.
func (w *Watch) node(ctx context.Context, i int) {
	n := w.nodes[i]
	for ctx.Err() == nil {
		session, err := w.keep(ctx, i)
		if err == nil {
			err = probe.Recovered(func() error { return w.rounds(ctx, i, session) })
			if left := session.Close(); left != nil {
				w.client.Note("%s: cleaning up: %v", n.Name, left)
			}
		}
		if ctx.Err() != nil {
			return
		}
		w.tell(mesh.RoundReport{Round: w.round(), Node: n.Name, Lost: apierror.Explain(err)})
		wait(ctx, again)
	}
}

func (w *Watch) keep(ctx context.Context, i int) (*injector.Session, error) {
	run, err := w.run.one(w.client, w.nodes[i], nil)
	if err != nil {
		return nil, err
	}
	return w.wave.Keep(ctx, run, w.nodes[i])
}

// round returns the number of the current round.
func (w *Watch) round() int { return 1 + int(time.Since(w.began)/w.every) }

// rounds queries a probe once in each round, and skips rounds while an earlier answer is outstanding. The error reports
// why the probe can no longer be queried.
func (w *Watch) rounds(ctx context.Context, i int, session *injector.Session) error {
	for {
		h := mesh.RoundReport{Round: w.round(), Node: w.nodes[i].Name}
		trials, err := w.ask(ctx, i, session)
		switch gone := session.Gone(); {
		case ctx.Err() != nil:
			return nil
		case gone != nil:
			return fmt.Errorf("the probe is gone: %w", gone)
		case err != nil:
			session.Abandon()
			h.Lost = apierror.Explain(err)
		default:
			h.Trials = trials
		}
		w.tell(h)
		wait(ctx, time.Until(w.began.Add(time.Duration(w.round())*w.every)))
	}
}

// Time limits for a probe's round, and for its answer to arrive.
const (
	tryLimit    = 4 * time.Second
	answerLimit = 8 * time.Second
)

// ask makes a probe try all of its node's paths once.
func (w *Watch) ask(ctx context.Context, i int, session *injector.Session) (map[string][]mesh.Trial, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerLimit, fmt.Errorf("no answer within %v", answerLimit))
	defer cancel()
	var paths []mesh.Path
	for to := range w.nodes {
		if to != i {
			paths = append(paths, mesh.Path{From: i, To: to})
		}
	}
	w.reading.Lock()
	plan, targets := w.plan(i, paths, examine.CheckIDs(watched())), slices.Clone(w.targets)
	w.reading.Unlock()
	plan.Brief, plan.Limit = true, tryLimit
	var results []probe.Result
	var lacks error
	err := session.Ask(ctx, probe.Request{Type: probe.RequestPlan, Plan: &plan}, func(ev probe.Event) bool {
		switch r := ev.Result; {
		case r == nil || r.From != "":
		case r.Check == probe.CheckAnswered:
			lacks = errors.New(r.Saw)
		default:
			results = append(results, *r)
		}
		return true
	})
	if err = cmp.Or(err, lacks); err != nil {
		return nil, err
	}
	return w.trials(ctx, i, results, targets), nil
}

// trials turns a node's results into trials of its paths to the targets. If there are several addresses, the worst
// result counts.
func (w *Watch) trials(ctx context.Context, i int, results []probe.Result, targets [][]probe.Target,
) map[string][]mesh.Trial {
	worst := map[string]map[int]mesh.Trial{}
	for _, r := range results {
		to, known := w.place[r.Facts.Str(probe.FactNode)]
		trial, came := trialOf(r)
		plane := planes[r.Check]
		if !known || to == i || came != isTried ||
			plane == mesh.PlanePod && trial.Failed && w.moved(ctx, to, targets[to]) {
			continue
		}
		trial.From, trial.To = w.nodes[i].Name, w.nodes[to].Name
		if worst[plane] == nil {
			worst[plane] = map[int]mesh.Trial{}
		}
		if had, is := worst[plane][to]; !is || worseTrial(trial, had) {
			worst[plane][to] = trial
		}
	}
	out := map[string][]mesh.Trial{}
	for plane, of := range worst {
		for _, t := range of {
			out[plane] = append(out[plane], t)
		}
	}
	return out
}

// moved reports whether a node's targets changed, and finds the new targets. They change because pods come and go.
func (w *Watch) moved(ctx context.Context, node int, were []probe.Target) bool {
	w.reading.Lock()
	defer w.reading.Unlock()
	if time.Since(w.read[node]) > w.every {
		w.read[node] = time.Now()
		w.reading.Unlock() // a slow API must not delay other nodes
		now, err := w.reader.PathTargets(ctx, w.survey, w.nodes[node])
		w.reading.Lock()
		if err == nil {
			w.targets[node] = now
		}
	}
	same := func(a, b probe.Target) bool { return a.Name == b.Name && a.Addr == b.Addr }
	return !slices.EqualFunc(were, w.targets[node], same)
}

// tell forwards a node's report.
func (w *Watch) tell(h mesh.RoundReport) {
	w.hearing.Lock()
	defer w.hearing.Unlock()
	h.At = time.Now()
	w.hear(h)
}

// wait blocks for a duration, or until the context ends.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
