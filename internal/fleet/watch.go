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
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/mesh"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/probe"
)

// A Watch tries the same paths again and again, by probes that stay on their nodes.
type Watch struct {
	*trying
	every time.Duration
	began time.Time
	hear  func(mesh.Heard)

	telling sync.Mutex // held while hear is called
	reading sync.Mutex
	read    map[int]time.Time // when a node's pods were read last
}

// Watch prepares for probes on all chosen nodes, of which there may be a few dozen. Close ends it.
func (r *MeshRun) Watch(ctx context.Context, every time.Duration) (*Watch, error) {
	r.picked = examine.CheckIDs(watched())
	t, err := r.start(ctx, examine.MostStreams)
	if err != nil {
		return nil, err
	}
	return &Watch{trying: t, every: every, read: map[int]time.Time{}}, nil
}

// watched are the checks that are asked in each round.
func watched() []*probe.Check { return []*probe.Check{link.NodePing, pod.PodPing} }

// Nodes are the names of the nodes that are watched.
func (w *Watch) Nodes() []string {
	var out []string
	for _, n := range w.nodes {
		out = append(out, n.Name)
	}
	return out
}

// Close removes what was created.
func (w *Watch) Close() { w.close() }

// Run tries all paths in each round until the context ends, and gives hear what each node says, one after the other.
// A node that is late, or where no probe can be put, keeps no other one waiting.
func (w *Watch) Run(ctx context.Context, hear func(mesh.Heard)) {
	w.began, w.hear = time.Now(), hear
	var all probe.Workers
	for i := range w.nodes {
		all.Go(func() { w.node(ctx, i) })
	}
	all.Wait()
}

// again is how long is waited before another probe is put on a node.
const again = 20 * time.Second

// node has one node try its paths.
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
		w.tell(mesh.Heard{Round: w.round(), Node: n.Name, Lost: cluster.Explain(err)})
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

// round is the one that goes on.
func (w *Watch) round() int { return 1 + int(time.Since(w.began)/w.every) }

// rounds asks a probe once in each round, but for those in which the answer to an earlier one is waited for. The error
// says why it can be asked no more.
func (w *Watch) rounds(ctx context.Context, i int, session *injector.Session) error {
	for {
		h := mesh.Heard{Round: w.round(), Node: w.nodes[i].Name}
		trials, err := w.ask(ctx, i, session)
		switch gone := session.Gone(); {
		case ctx.Err() != nil:
			return nil
		case gone != nil:
			return fmt.Errorf("the probe has gone: %w", gone)
		case err != nil:
			session.Abandon()
			h.Lost = cluster.Explain(err)
		default:
			h.Trials = trials
		}
		w.tell(h)
		wait(ctx, time.Until(w.began.Add(time.Duration(w.round())*w.every)))
	}
}

// How long a probe may take for a round, and for the answer to arrive.
const (
	tryLimit    = 4 * time.Second
	answerLimit = 8 * time.Second
)

// ask has a probe try all paths of its node once.
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

// trials are what a node's answers say of its paths to some targets, of several addresses the worst.
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

// moved tells whether what there was to reach on a node is not there any more, and finds what is: pods come and go.
func (w *Watch) moved(ctx context.Context, node int, were []probe.Target) bool {
	w.reading.Lock()
	defer w.reading.Unlock()
	if time.Since(w.read[node]) > w.every {
		w.read[node] = time.Now()
		w.reading.Unlock() // an API that is slow keeps no other node waiting
		now, err := w.reader.PathTargets(ctx, w.survey, w.nodes[node])
		w.reading.Lock()
		if err == nil {
			w.targets[node] = now
		}
	}
	same := func(a, b probe.Target) bool { return a.Name == b.Name && a.Addr == b.Addr }
	return !slices.EqualFunc(were, w.targets[node], same)
}

// tell passes on what a node says.
func (w *Watch) tell(h mesh.Heard) {
	w.telling.Lock()
	defer w.telling.Unlock()
	h.At = time.Now()
	w.hear(h)
}

// wait waits, or until the context ends.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
