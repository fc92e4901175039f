package examine

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/kubelet"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/overlay"
	"github.com/calico-probe/calico-probe/internal/subject/start"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestMayAsk requires that follow-up checks exclude checks that the user excluded, that the probe cannot answer, or
// that need more privileges.
func TestMayAsk(t *testing.T) {
	t.Parallel()
	snap := &cluster.Snapshot{Node: &corev1.Node{}}
	usual := Options{Via: ViaAuto, Baselines: 2, Profile: string(probe.Standard)}
	but := func(change func(*Options)) Options {
		o := usual
		change(&o)
		return o
	}
	plain, capable, ping := kubelet.KubeletHealth, overlay.EncapProof, []*probe.Check{link.NodePing}
	via := func(via string) Options { return but(func(o *Options) { o.Via = via }) }
	quick := but(func(o *Options) { o.Profile = string(probe.Quick) })
	for name, c := range map[string]struct {
		opts   Options
		snap   *cluster.Snapshot
		picked []*probe.Check
		open   string
		may    bool
	}{
		"what is wanted":            {usual, snap, nil, plain.ID, true},
		"what nobody wants":         {usual, snap, nil, "", false},
		"left out by the user":      {but(func(o *Options) { o.Skip = []string{plain.ID} }), snap, nil, plain.ID, false},
		"asked already":             {usual, snap, []*probe.Check{plain}, plain.ID, false},
		"answered by the API":       {usual, snap, nil, facts.CheckCalicoPod, false},
		"from baseline nodes":       {usual, snap, nil, link.NeighbourReach.ID, false},
		"a capability it has":       {usual, snap, []*probe.Check{capable}, link.NodePing.ID, true},
		"a capability it lacks":     {usual, snap, nil, link.NodePing.ID, false},
		"a second pod":              {usual, snap, ping, capable.ID, true},
		"by pod alone":              {via("pod,exec"), snap, ping, capable.ID, true},
		"neither by pod nor auto":   {via("ephemeral,ssh"), snap, ping, capable.ID, false},
		"by the kubelet":            {via(injector.MethodKubelet), snap, nil, plain.ID, true},
		"not by the kubelet":        {via(injector.MethodKubelet), snap, nil, start.InitStall.ID, false},
		"on the node itself":        {via(injector.MethodLocal), nil, ping, capable.ID, false},
		"no other node asked":       {but(func(o *Options) { o.Baselines = 0 }), snap, ping, capable.ID, false},
		"a quick look":              {quick, snap, ping, capable.ID, false},
		"a quick look, on the node": {quick, snap, nil, plain.ID, true},
	} {
		r := newTestRun(c.opts, io.Discard, nil)
		r.picked = c.picked
		got := r.mayAsk([]diagnose.Cover{{Check: c.open}}, c.snap)
		if may := slices.Equal(CheckIDs(got), []string{c.open}); may != c.may {
			t.Errorf("%s: asks %q, want it asked: %v", name, CheckIDs(got), c.may)
		}
	}
}

// TestProofIsMadeWhereItIsWanted requires the second pod on the node that the proof needs, not on a node that a rule
// about another check named, or that accepts no probe.
func TestProofIsMadeWhereItIsWanted(t *testing.T) {
	t.Parallel()
	node := func(name, os string) corev1.Node {
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: os}}}
	}
	snap := &cluster.Snapshot{Survey: cluster.Survey{Nodes: []corev1.Node{node("a", "linux"), node("b", "linux"),
		node("w", "windows")}}}
	proof := overlay.EncapProof.ID
	for want, open := range map[string][]diagnose.Cover{
		"b": {{Check: bgp.BirdConfig.ID, About: "a"}, {Check: proof, About: "b"}},
		"":  {{Check: proof, About: "w"}, {Check: proof, About: "nosuch"}, {Check: proof}},
	} {
		if got := aboutProof(open, snap); got != want {
			t.Errorf("%+v: %q, want %q", open, got, want)
		}
	}
}

// TestFollowUp has a node report a missing BIRD peer. The checks that its rule needs must follow, unless the user
// excluded them.
func TestFollowUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		opts Options
		ends bool // the probe ends after its first answer
		want string
	}{
		"asks on":          {Options{Node: "node-a", Via: ViaAuto}, false, "bgp-expected fail, bird-config ok"},
		"--no-follow-up":   {Options{Node: "node-a", Via: ViaAuto, NoFollowUp: true}, false, "bgp-expected fail"},
		"checks are named": {Options{Node: "node-a", Via: ViaAuto, Checks: []string{"bgp"}}, false, "bgp-expected fail"},
		"no second answer": {Options{Node: "node-a", Via: ViaAuto}, true, "bgp-expected fail, probe-answered unknown"},
	} {
		var got seenEvents
		r := newTestRun(c.opts, io.Discard, &got)
		r.picked = []*probe.Check{bgp.BGPExpected, start.InitStall}
		var plans [][]string
		session := standIn(t)
		ask := func(ctx context.Context, req probe.Request, each func(probe.Event) bool) error {
			if plans = append(plans, req.Plan.Checks); c.ends && len(plans) > 1 {
				return &injector.PlacementError{Reason: facts.ReasonAttach, Err: errors.New("the connection is lost")}
			}
			return session.Ask(ctx, req, each)
		}
		whole, err := r.AskPlans(t.Context(), injector.MethodPod, nil, ask, func() error { return nil })
		if err != nil || whole == c.ends {
			t.Errorf("%s: %v %v", name, whole, err)
		}
		var said []string
		var followUp []string
		for _, ev := range got {
			if ev.Result != nil && ev.Result.Check != start.InitStall.ID {
				said = append(said, ev.Result.Check+" "+string(ev.Result.Status))
			}
			if ev.Result != nil && ev.Result.Check == probe.CheckAnswered && ev.Result.Facts[probe.FactReason] != nil {
				t.Errorf("%s: a cut line is told as the fault %v", name, ev.Result.Facts)
			}
			if ev.Start != nil && ev.Start.FollowUp {
				followUp = append(followUp, ev.Start.Checks...)
			}
		}
		if text := strings.Join(said, ", "); text != c.want {
			t.Errorf("%s: %s, want %s; plans %q", name, text, c.want, plans)
		}
		if marked := slices.Equal(followUp, []string{"bird-config"}); marked != strings.Contains(c.want, "bird-config") {
			t.Errorf("%s: a follow-up is %q", name, followUp)
		}
	}
}

// standIn is a session with a probe whose BIRD lacks a peer.
func standIn(t *testing.T) *injector.Session {
	t.Helper()
	answers := func(id string, r probe.Result) *probe.Check {
		return &probe.Check{ID: id, From: probe.FromNode, Run: func(_ context.Context, p *probe.Pass) { p.Report(r) }}
	}
	lacks := probe.Found(probe.Fail, "BIRD lacks a peer").On("IPv4").
		With(probe.FactMissing, []string{"node-b 10.88.0.12"}).With(probe.FactFamily, 4)
	runner := &probe.Runner{Host: &probe.Host{}, Suite: []*probe.Check{answers(bgp.BGPExpected.ID, lacks),
		answers(start.InitStall.ID, probe.Found(probe.Skip, "asked for its privileges")),
		answers(bgp.BirdConfig.ID, probe.Found(probe.OK, "as Calico wants it"))}}
	session := must.Get(injector.InProcess(runner.Serve, "of a test")(t.Context(), injector.Options{}))(t)
	t.Cleanup(func() {
		if err := session.Close(); err != nil {
			t.Error(err)
		}
	})
	return session
}
