package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/apierror"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/mesh"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
)

// MeshOptions describe how to try paths, and between which nodes: those in Nodes or Select, otherwise all. The profile
// deep also sends full-size packets.
type MeshOptions struct {
	Options
	RackLabels []string // the first of these labels on a node names its rack
}

// RackLabels returns the labels that clusters commonly use to name a node's rack.
func RackLabels() []string {
	return []string{
		"topology.kubernetes.io/rack", "topology.k8s.io/rack", "topology.rook.io/rack", "kubernetes.io/rack", "rack",
	}
}

// MeshRun tries the paths between nodes. Package mesh chooses the paths and judges them.
type MeshRun struct {
	*Run
	rackLabels []string
}

// NewMesh returns the MeshRun for some options. Its error is a ui.UsageError.
func NewMesh(client *examine.Client, opts MeshOptions) (*MeshRun, error) {
	opts.Via, opts.FailOn = injector.MethodPod, examine.FailOnFail
	opts.All = len(opts.Nodes) == 0 && opts.Select == ""
	opts.Checks = examine.CheckIDs(meshChecks(opts.Profile == string(probe.Deep)))
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	run, err := choosing(client, opts.Options)
	if err != nil {
		return nil, err
	}
	run.picked = opts.Checks
	return &MeshRun{run, opts.RackLabels}, nil
}

// meshChecks returns the checks that try paths.
func meshChecks(deep bool) []*probe.Check {
	out := []*probe.Check{link.NodePing, pod.PodPing, link.NeighbourReach, pod.PodTCP, bgp.BGPSession}
	if deep {
		out = append(out, pod.PodMTU)
	}
	return out
}

// trying is the state of a mesh while its paths are tried.
type trying struct {
	run     *MeshRun
	client  *examine.Client
	reader  *cluster.Client
	survey  *cluster.Survey
	wave    *examine.Wave
	nodes   []*corev1.Node
	members []mesh.Node
	place   map[string]int   // a node's index, by its name
	targets [][]probe.Target // the targets on each node for other nodes
	hidden  []error          // why a node has no pod targets
	shown   *ui.Watch        // nil = no display

	mu       sync.Mutex
	untested []error // why not every path from a node was tried
	answers  map[string]*answers
	sessions sessions
}

// Mesh tries paths between the nodes in two rounds: first a selection, or all paths if there are few nodes, then more
// paths around the failures. If a path fails or is unknown, it returns a ui.Exit together with the report.
func (r *MeshRun) Mesh(ctx context.Context) (*mesh.Report, error) {
	at, err := r.client.Cluster()
	if err != nil {
		return nil, err
	}
	t, err := r.start(ctx, 0)
	if err != nil {
		return nil, err
	}
	defer t.close()
	r.show(t.nodes)
	t.shown = r.shown
	t.twice(ctx)
	r.shown.Close() // the report replaces it
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil, context.Cause(ctx)
	}
	out := t.report()
	out.Run, out.Cluster, out.Time, out.Elapsed = r.ID, at, r.began.UTC(), time.Since(r.began)
	if out.Exit != report.ExitHealthy {
		return out, ui.Exit(out.Exit)
	}
	return out, nil
}

// Unfinished returns the report of an interrupted run.
func (r *MeshRun) Unfinished(why string) *mesh.Report {
	at, _ := r.client.Cluster() // its error is the reason
	return &mesh.Report{V: probe.Version, Kind: mesh.KindReport, Version: probe.Release, Run: r.ID, Cluster: at,
		Time: r.began.UTC(), Word: report.WordIncomplete, Exit: report.ExitIncomplete, Elapsed: time.Since(r.began),
		Nodes: []mesh.Member{}, Planes: []mesh.Plane{}, Lacks: why}
}

// start reads the API and prepares probes on all chosen nodes. most is the maximum number of nodes; 0 = no limit.
func (r *MeshRun) start(ctx context.Context, most int) (*trying, error) {
	client := r.client.Busy()
	reader, err := client.Reader()
	if err != nil {
		return nil, err
	}
	client.Progress("reading all nodes from the API")
	survey, err := reader.ReadAll(ctx)
	if err != nil {
		return nil, err
	}
	nodes, err := r.choose(survey)
	switch {
	case err != nil:
		return nil, err
	case len(nodes) < 2:
		return nil, ui.BadUsage("no paths to test: only node %s is selected", nodes[0].Name)
	case most > 0 && len(nodes) > most:
		return nil, ui.BadUsage("--watch keeps a probe on each node, at most %d, but %d nodes are selected: use -l or --node",
			most, len(nodes))
	}
	first, err := r.one(client, nodes[0], nil)
	if err != nil {
		return nil, err
	}
	wave, err := client.StartWave(ctx, first, reader, survey, nodes)
	if err != nil {
		return nil, err
	}
	t := &trying{run: r, client: client, reader: reader, survey: survey, wave: wave, nodes: nodes,
		targets: make([][]probe.Target, len(nodes)), hidden: make([]error, len(nodes)), untested: make([]error, len(nodes)),
		answers: map[string]*answers{}, place: map[string]int{},
		sessions: sessions{silent: map[int]string{}, whole: map[int]bool{}}}
	for i, n := range nodes {
		t.members = append(t.members, r.member(n))
		t.place[n.Name] = i
	}
	everyOne(len(nodes), func(i int) {
		// If a node's pods cannot be listed, only the node's own addresses are tested.
		t.hidden[i] = probe.Recovered(func() (err error) {
			t.targets[i], err = reader.PathTargets(ctx, survey, nodes[i])
			return err
		})
	})
	t.noteHidden()
	return t, nil
}

// noteHidden records the number of nodes whose pod targets are unknown.
func (t *trying) noteHidden() {
	var first error
	count := 0
	for _, err := range t.hidden {
		if err != nil {
			first, count = cmp.Or(first, err), count+1
		}
	}
	if count > 0 {
		t.client.Note("the pods of %d of %d nodes cannot be listed, so paths to pods there are not tested: %s", count,
			len(t.nodes), apierror.Explain(first))
	}
}

// close removes the created objects.
func (t *trying) close() {
	if left := t.wave.Close(); left != nil {
		t.client.Note("cleaning up: %v", left)
	}
}

// member describes a node for the mesh.
func (r *MeshRun) member(n *corev1.Node) mesh.Node {
	out := mesh.Node{Name: n.Name, Zone: n.Labels[corev1.LabelTopologyZone]}
	for _, key := range r.rackLabels {
		if out.Rack = n.Labels[key]; out.Rack != "" {
			break
		}
	}
	return out
}

// twice tries the paths in two rounds. In the first round, all nodes also report their BGP sessions.
func (t *trying) twice(ctx context.Context) {
	first := mesh.Paths(t.members)
	t.client.Progress("trying %d paths between %d nodes", len(first), len(t.nodes))
	all := t.run.picked
	t.try(ctx, first, all)
	tried, failed := map[mesh.Path]bool{}, []mesh.Path{}
	for _, p := range first {
		tried[p] = true
		if t.fails(p) {
			failed = append(failed, p)
		}
	}
	around := mesh.Around(t.members, tried, failed)
	if len(around) == 0 || ctx.Err() != nil {
		return
	}
	t.client.Progress("%d paths fail: trying %d more around them", len(failed), len(around))
	t.try(ctx, around, slices.DeleteFunc(slices.Clone(all), func(id string) bool { return id == bgp.BGPSession.ID }))
}

// fails reports whether a path fails in any plane.
func (t *trying) fails(p mesh.Path) bool {
	for _, a := range t.answers {
		if a.trials[p].Failed {
			return true
		}
	}
	return false
}

// try makes each node try its paths.
func (t *trying) try(ctx context.Context, paths []mesh.Path, ids []string) {
	of := map[int][]mesh.Path{}
	for _, p := range paths {
		of[p.From] = append(of[p.From], p)
	}
	var names []string
	for i, n := range t.nodes {
		if len(of[i]) > 0 {
			names = append(names, n.Name)
		}
	}
	t.shown.Expect(names)
	everyOne(len(t.nodes), func(i int) {
		if len(of[i]) == 0 {
			return
		}
		err := probe.Recovered(func() error { return t.from(ctx, i, of[i], ids) })
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.untested[i] == nil {
			t.untested[i] = err
		}
		t.shown.Done(t.nodes[i].Name, t.worst(i, of[i], err))
	})
}

// worst returns the worst problem of the paths from a node in one line, or "" if there is none.
func (t *trying) worst(from int, paths []mesh.Path, err error) string {
	name := t.nodes[from].Name
	failed := 0
	for _, p := range paths {
		if t.fails(p) {
			failed++
		}
	}
	switch {
	case failed > 0:
		return fmt.Sprintf("%-8s from %s: %d of %d paths", probe.Fail, name, failed, len(paths))
	case err != nil:
		return fmt.Sprintf("%-8s from %s: %s", probe.Unknown, name, apierror.Explain(err))
	}
	return ""
}

// from makes one node try its paths.
func (t *trying) from(ctx context.Context, i int, paths []mesh.Path, ids []string) error {
	n := t.nodes[i]
	plan := t.plan(i, paths, ids)
	if slices.Contains(ids, bgp.BGPSession.ID) {
		own, gaps := cluster.BGPTargets(t.survey, n)
		plan.Targets, plan.Gaps = append(plan.Targets, own...), gaps
	}
	run, err := t.run.one(t.client, n, nil)
	if err != nil {
		return err
	}
	var lacks error
	own := bgpReport{node: i}
	err = t.wave.Try(ctx, run, n, plan, func(ev probe.Event) error {
		switch r := ev.Result; {
		case r == nil || r.From != "":
		case r.Check == probe.CheckAnswered:
			lacks = errors.New(r.Saw)
		case r.Check == bgp.BGPSession.ID:
			own.take(*r)
		default:
			t.take(i, *r)
		}
		return nil
	})
	if err = errors.Join(err, lacks); err == nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.expect(paths)
		t.sessions.add(own)
	}
	return err
}

// plan returns one node's plan for its paths.
func (t *trying) plan(i int, paths []mesh.Path, ids []string) probe.Plan {
	plan := probe.Plan{Run: t.run.ID, Node: t.nodes[i].Name, Method: injector.MethodPod, Checks: ids}
	for _, p := range paths {
		plan.Targets = append(plan.Targets, t.targets[p.To]...)
	}
	return plan
}

// report returns the report of the results so far.
func (t *trying) report() *mesh.Report {
	out := &mesh.Report{V: probe.Version, Kind: mesh.KindReport, Version: probe.Release, Word: report.WordHealthy}
	for i, m := range t.members {
		member := mesh.Member{Name: m.Name, Zone: m.Zone, Rack: m.Rack}
		if t.untested[i] != nil {
			member.Untested = apierror.Explain(t.untested[i])
			out.Word, out.Exit = report.WordIncomplete, report.ExitIncomplete
		}
		out.Nodes = append(out.Nodes, member)
	}
	for _, name := range mesh.Planes() {
		if p, ok := t.plane(name); ok {
			out.Planes = append(out.Planes, p)
		}
	}
	for _, p := range out.Planes {
		switch {
		case p.Failed > 0:
			out.Word, out.Exit = report.WordFault, report.ExitFault
		case out.Word == report.WordFault:
		case p.Unknown > 0 || len(p.Silent) > 0:
			out.Word, out.Exit = report.WordIncomplete, report.ExitIncomplete
		case p.Lossy > 0 && out.Word == report.WordHealthy:
			out.Word = report.WordWarnings
		}
	}
	return out
}

// plane returns the result of one plane. ok is false if the run did not include the plane.
func (t *trying) plane(name string) (p mesh.Plane, ok bool) {
	if name == mesh.PlaneBGP {
		return t.sessions.plane(t), true
	}
	if !slices.ContainsFunc(t.run.picked, func(id string) bool { return planes[id] == name }) {
		return mesh.Plane{}, false
	}
	a := t.answers[name]
	if a == nil {
		a = &answers{}
	}
	p = mesh.PlaneOf(name, t.members, a.trials)
	p.Unknown, p.Held = a.count()
	if len(a.trials)+p.Unknown+p.Held == 0 {
		p.Left = "no known target"
		if name == mesh.PlanePod || name == mesh.PlaneMTU {
			p.Left = "no node has a ready pod with its own address"
		}
	}
	return p, true
}

// everyOne calls do for n nodes. A limited number of calls run at a time.
func everyOne(n int, do func(int)) {
	room := make(chan struct{}, inFlight)
	var all probe.Workers
	for i := range n {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			do(i)
		})
	}
	all.Wait()
}
