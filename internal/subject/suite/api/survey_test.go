package api

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/cluster/clustertest"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestReadAll expects the same results about a node from a Survey as from a Snapshot of that node alone.
func TestReadAll(t *testing.T) {
	t.Parallel()
	var f clustertest.Fleet
	f.Add("well", nil)
	f.Add("silent", func(_ *corev1.Node, l *coordinationv1.Lease, _ *corev1.Pod) { l.Spec.RenewTime = nil })
	f.Add("bare", func(_ *corev1.Node, _ *coordinationv1.Lease, p *corev1.Pod) { p.Name = "" })
	f.Add("odd", func(n *corev1.Node, _ *coordinationv1.Lease, _ *corev1.Pod) {
		n.Annotations[cluster.AnnotationIPv4] = "172.18.0.1/16"
	})
	f.Add("cordoned", func(n *corev1.Node, _ *coordinationv1.Lease, _ *corev1.Pod) { n.Spec.Unschedulable = true })
	client := f.Client(t)
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
		for _, id := range cluster.SurveyChecks() {
			of.Now = alone.Now // the Snapshot was read later
			if got, want := ask(t, of, id), ask(t, alone, id); !reflect.DeepEqual(bare(got), bare(want)) {
				t.Errorf("%s of %s: %v, alone %v", id, n.Name, got, want)
			}
		}
	}
	if _, err := f.Client(t, "/nodes").ReadAll(t.Context()); err == nil {
		t.Error("no error without the right to list nodes")
	}
}

// bare returns results without the parts that differ between runs.
func bare(all []probe.Result) []string {
	var out []string
	for _, r := range all {
		out = append(out, fmt.Sprint(r.Check, r.Target, r.Status, r.Saw))
	}
	return out
}

// TestSurveyChecks expects a survey's checks to exist, and to need no list of all pods.
func TestSurveyChecks(t *testing.T) {
	t.Parallel()
	var all []string
	for _, c := range Checks(nil) {
		all = append(all, c.ID)
	}
	for _, id := range cluster.SurveyChecks() {
		if !slices.Contains(all, id) {
			t.Errorf("%s is not a check of the API", id)
		}
	}
	if slices.Contains(cluster.SurveyChecks(), facts.CheckPodsStart) {
		t.Error("a survey lists the pods of every node")
	}
}

// BenchmarkSurvey judges all nodes of a large cluster.
func BenchmarkSurvey(b *testing.B) {
	for _, nodes := range []int{1000, 5000} {
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			s := large(nodes)
			for b.Loop() {
				for i := range s.Nodes {
					snap := s.Of(&s.Nodes[i])
					r := probe.Runner{Suite: Checks(snap), Host: &probe.Host{}}
					r.Run(b.Context(), probe.Plan{Checks: cluster.SurveyChecks()}, func(probe.Event) {})
				}
			}
		})
	}
}

// large returns a Survey of so many healthy nodes.
func large(nodes int) *cluster.Survey {
	var f clustertest.Fleet
	for i := range nodes {
		f.Add(fmt.Sprintf("node-%04d", i), func(n *corev1.Node, _ *coordinationv1.Lease, p *corev1.Pod) {
			addr := fmt.Sprintf("10.0.%d.%d", i>>8, i&255)
			n.Status.Addresses[0].Address, n.Annotations[cluster.AnnotationIPv4] = addr, addr+"/16"
			p.Spec.Containers = []corev1.Container{{Name: cluster.CalicoContainer, Image: "calico/node:v3.32.1"}}
		})
	}
	s := (&cluster.Client{CalicoIn: cluster.Namespaces("")}).NewSurvey()
	s.Nodes, s.Now = f.Nodes, clustertest.Now
	s.Leases.Value, s.Claims.Value = map[string]*coordinationv1.Lease{}, map[string][]corev1.Pod{}
	for i := range f.Leases {
		s.Leases.Value[f.Leases[i].Name] = &f.Leases[i]
		s.Claims.Value[f.Pods[i].Spec.NodeName] = []corev1.Pod{f.Pods[i]}
	}
	s.Pools.Value = cluster.Specs{"p": {"cidr": "10.244.0.0/14", "vxlanMode": "Always"}}
	return s
}
