package cluster

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestFirstOf wants a share of the caller's time, and no limit where the caller has none.
func TestFirstOf(t *testing.T) {
	t.Parallel()
	free, cancel := firstOf(context.Background())
	defer cancel()
	if at, limited := free.Deadline(); limited || free.Err() != nil {
		t.Errorf("%v, %v: the caller has no deadline", at, free.Err())
	}
	whole, end := context.WithTimeout(context.Background(), time.Hour)
	defer end()
	share, stop := firstOf(whole)
	defer stop()
	if at, limited := share.Deadline(); !limited || time.Until(at) >= time.Hour || share.Err() != nil {
		t.Errorf("%v %v, want a part of an hour", at, limited)
	}
}

// TestReadAll wants each node of a Survey to get the answers that a Snapshot of it alone has.
func TestReadAll(t *testing.T) {
	t.Parallel()
	var f fleet
	f.add("well", nil)
	f.add("silent", func(_ *corev1.Node, l *coordinationv1.Lease, _ *corev1.Pod) { l.Spec.RenewTime = nil })
	f.add("bare", func(_ *corev1.Node, _ *coordinationv1.Lease, p *corev1.Pod) { p.Name = "" })
	f.add("odd", func(n *corev1.Node, _ *coordinationv1.Lease, _ *corev1.Pod) {
		n.Annotations[annotationIPv4] = "172.18.0.1/16"
	})
	f.add("cordoned", func(n *corev1.Node, _ *coordinationv1.Lease, _ *corev1.Pod) { n.Spec.Unschedulable = true })
	client := f.client(t)
	survey, err := client.ReadAll(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range survey.Nodes {
		n := &survey.Nodes[i]
		alone, err := client.Read(t.Context(), n.Name)
		if err != nil {
			t.Fatal(err)
		}
		of := survey.Of(n)
		for _, id := range SurveyChecks() {
			of.Now = alone.Now // which was read later
			if got, want := ask(t, of, id), ask(t, alone, id); !reflect.DeepEqual(bare(got), bare(want)) {
				t.Errorf("%s of %s: %v, alone %v", id, n.Name, got, want)
			}
		}
	}
	if _, err := f.client(t, "/nodes").ReadAll(t.Context()); err == nil {
		t.Error("nodes that may not be listed are no error")
	}
}

// bare are results without what differs from one run to the next.
func bare(all []probe.Result) []string {
	var out []string
	for _, r := range all {
		out = append(out, fmt.Sprint(r.Check, r.Target, r.Status, r.Saw))
	}
	return out
}

// TestSurveyChecks wants them to be checks of the API's.
func TestSurveyChecks(t *testing.T) {
	t.Parallel()
	var all []string
	for _, c := range Checks(nil) {
		all = append(all, c.ID)
	}
	for _, id := range SurveyChecks() {
		if !slices.Contains(all, id) {
			t.Errorf("%s is no check of the API's", id)
		}
	}
	if slices.Contains(SurveyChecks(), facts.CheckPodsStart) {
		t.Error("pods of every node are listed for a survey")
	}
}

// BenchmarkSurvey judges all nodes of a large cluster by what was read of it.
func BenchmarkSurvey(b *testing.B) {
	for _, nodes := range []int{1000, 5000} {
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			s := large(nodes)
			for b.Loop() {
				for i := range s.Nodes {
					snap := s.Of(&s.Nodes[i])
					r := probe.Runner{Suite: Checks(snap), Host: &probe.Host{}}
					r.Run(b.Context(), probe.Plan{Checks: SurveyChecks()}, func(probe.Event) {})
				}
			}
		})
	}
}

// large is what there is to read of so many nodes that are well.
func large(nodes int) *Survey {
	var f fleet
	for i := range nodes {
		f.add(fmt.Sprintf("node-%04d", i), func(n *corev1.Node, _ *coordinationv1.Lease, p *corev1.Pod) {
			addr := fmt.Sprintf("10.0.%d.%d", i>>8, i&255)
			n.Status.Addresses[0].Address, n.Annotations[annotationIPv4] = addr, addr+"/16"
			p.Spec.Containers = []corev1.Container{{Name: calicoContainer, Image: "calico/node:v3.32.1"}}
		})
	}
	s := (&Client{calicoIn: Namespaces("")}).newSurvey()
	s.Nodes, s.now = f.nodes, now
	s.leases.Value, s.claims.Value = map[string]*coordinationv1.Lease{}, map[string][]corev1.Pod{}
	for i := range f.leases {
		s.leases.Value[f.leases[i].Name] = &f.leases[i]
		s.claims.Value[f.pods[i].Spec.NodeName] = []corev1.Pod{f.pods[i]}
	}
	s.pools.Value = specs{"p": {"cidr": "10.244.0.0/14", "vxlanMode": "Always"}}
	return s
}
