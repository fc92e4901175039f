package fleet

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/cluster"
	"github.com/calico-probe/calico-probe/examine"
	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/mesh"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checks"
	"github.com/calico-probe/calico-probe/report"
	"github.com/calico-probe/calico-probe/ui"
)

// MeshChecks are the IDs of the checks that try paths.
func MeshChecks() []string { return examine.CheckIDs([]*probe.Check{checks.NodePing, checks.PodPing}) }

// planes are what a mesh is made of, by the check that tries its paths.
var planes = map[string]string{checks.NodePing.ID: "node", checks.PodPing.ID: "pod"}

// trying is a mesh while its paths are tried.
type trying struct {
	run     *Run
	client  *examine.Client
	wave    *examine.Wave
	nodes   []*corev1.Node
	targets [][]probe.Target // of each node, which others are to reach

	mu    sync.Mutex
	asked []error                             // why no path from a node was tried
	seen  map[string]map[mesh.Path]mesh.Trial // by plane
}

// Mesh tries paths between the nodes: first some, or all where there are few nodes, and then more around those that
// fail. The error is a ui.Exit where a path fails or a node could not be asked, and then there is a report.
func (r *Run) Mesh(ctx context.Context) (*mesh.Report, error) {
	at, err := r.client.Cluster()
	if err != nil {
		return nil, err
	}
	client := r.client.Busy()
	reader, err := client.Reader()
	if err != nil {
		return nil, err
	}
	client.Progress("asking the API about all nodes")
	survey, err := reader.ReadAll(ctx)
	if err != nil {
		return nil, err
	}
	nodes, err := r.choose(survey)
	if err != nil {
		return nil, err
	}
	if len(nodes) < 2 {
		return nil, ui.BadUsage("there are no paths: only node %s is chosen", nodes[0].Name)
	}
	first, err := r.one(client, nodes[0], nil)
	if err != nil {
		return nil, err
	}
	wave, err := client.StartWave(ctx, first, reader, survey, nodes[0])
	if err != nil {
		return nil, err
	}
	defer func() {
		if left := wave.Close(); left != nil {
			client.Note("cleaning up: %v", left)
		}
	}()
	t := &trying{run: r, client: client, wave: wave, nodes: nodes, targets: make([][]probe.Target, len(nodes)),
		asked: make([]error, len(nodes)), seen: map[string]map[mesh.Path]mesh.Trial{}}
	for _, name := range planes {
		t.seen[name] = map[mesh.Path]mesh.Trial{}
	}
	if err := t.look(ctx, reader, survey); err != nil {
		return nil, err
	}
	out := t.report()
	out.Run, out.Cluster, out.Time, out.Elapsed = r.ID, at, r.began.UTC(), time.Since(r.began)
	if out.Exit != report.ExitHealthy {
		return out, ui.Exit(out.Exit)
	}
	return out, nil
}

// look finds what there is to reach on each node, and tries the paths in two rounds.
func (t *trying) look(ctx context.Context, reader *cluster.Client, s *cluster.Survey) error {
	everyOne(len(t.nodes), func(i int) {
		// A node whose pods cannot be listed is reached at its own addresses alone.
		t.targets[i], _ = reader.PathTargets(ctx, s, t.nodes[i])
	})
	var members []mesh.Node
	for _, n := range t.nodes {
		members = append(members, mesh.Node{Name: n.Name, Zone: n.Labels[corev1.LabelTopologyZone]})
	}
	first := mesh.Paths(members)
	t.client.Progress("trying %d paths between %d nodes", len(first), len(t.nodes))
	t.try(ctx, first)
	tried, failed := map[mesh.Path]bool{}, []mesh.Path{}
	for _, p := range first {
		tried[p] = true
		for _, name := range planes {
			if t.seen[name][p].Failed && !slices.Contains(failed, p) {
				failed = append(failed, p)
			}
		}
	}
	if around := mesh.Around(members, tried, failed); len(around) > 0 && ctx.Err() == nil {
		t.client.Progress("%d paths fail: trying %d more around them", len(failed), len(around))
		t.try(ctx, around)
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return context.Cause(ctx)
	}
	return nil
}

// try has each node try its paths.
func (t *trying) try(ctx context.Context, paths []mesh.Path) {
	of := map[int][]mesh.Path{}
	for _, p := range paths {
		of[p.From] = append(of[p.From], p)
	}
	everyOne(len(t.nodes), func(i int) {
		if len(of[i]) == 0 {
			return
		}
		err := t.from(ctx, i, of[i])
		t.mu.Lock()
		defer t.mu.Unlock()
		t.asked[i] = err
	})
}

// from has one node try its paths.
func (t *trying) from(ctx context.Context, i int, paths []mesh.Path) error {
	n := t.nodes[i]
	to := map[string]mesh.Path{}
	plan := probe.Plan{Run: t.run.ID, Node: n.Name, Way: injector.MethodPod, Checks: MeshChecks()}
	for _, p := range paths {
		to[t.nodes[p.To].Name] = p
		plan.Targets = append(plan.Targets, t.targets[p.To]...)
	}
	run, err := t.run.one(t.client, n, nil)
	if err != nil {
		return err
	}
	return t.wave.Try(ctx, run, n, plan, func(ev probe.Event) error {
		if r := ev.Result; r != nil && r.From == "" {
			if p, ok := to[r.Facts.Str(probe.FactNode)]; ok {
				t.take(planes[r.Check], p, *r)
			}
		}
		return nil
	})
}

// take notes what became of a path. Of several addresses of a node the worst counts.
func (t *trying) take(plane string, p mesh.Path, r probe.Result) {
	sent, ok := r.Facts.Num(checks.FactSent)
	if !ok || sent == 0 {
		return
	}
	received, _ := r.Facts.Num(checks.FactReceived)
	rtt, _ := r.Facts.Num(checks.FactRTT)
	lives, _ := r.Facts[checks.FactLives].(bool) // ping is switched off there
	trial := mesh.Trial{From: t.nodes[p.From].Name, To: t.nodes[p.To].Name, Sent: int(sent), Received: int(received),
		RTT: rtt, Failed: received == 0 && !lives, Saw: r.Saw}
	t.mu.Lock()
	defer t.mu.Unlock()
	had, tried := t.seen[plane][p]
	if !tried || trial.Failed && !had.Failed || trial.Failed == had.Failed && trial.Received < had.Received {
		t.seen[plane][p] = trial
	}
}

// report is what was found so far.
func (t *trying) report() *mesh.Report {
	out := &mesh.Report{V: probe.Version, Kind: mesh.KindReport, Version: probe.Release, Word: report.WordHealthy}
	var members []mesh.Node
	for i, n := range t.nodes {
		m := mesh.Member{Name: n.Name, Zone: n.Labels[corev1.LabelTopologyZone]}
		if t.asked[i] != nil {
			m.Asked = cluster.Explain(t.asked[i])
			out.Word, out.Exit = report.WordIncomplete, report.ExitIncomplete
		}
		out.Nodes = append(out.Nodes, m)
		members = append(members, mesh.Node{Name: n.Name, Zone: m.Zone})
	}
	for _, name := range []string{"node", "pod"} {
		p := mesh.PlaneOf(name, members, t.seen[name])
		if p.Failed > 0 {
			out.Word, out.Exit = report.WordFault, report.ExitFault
		}
		out.Planes = append(out.Planes, p)
	}
	return out
}

// everyOne does something for so many nodes, some at a time.
func everyOne(n int, do func(int)) {
	room := make(chan struct{}, inFlight)
	var all sync.WaitGroup
	for i := range n {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			do(i)
		})
	}
	all.Wait()
}
