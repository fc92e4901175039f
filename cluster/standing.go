package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/calico-probe/calico-probe/probe"
)

// Standing is how a node stands by what the API says of all of them.
type Standing struct {
	Node   string
	Status probe.Status // the worst of what the checks node-ready, node-lease and calico-pod say
	Saw    string       // what makes it that, or when nothing does, how long it is ready
	rank   int
}

// The order in which nodes are listed.
const (
	rankUnready = iota
	rankSilent
	rankPressure
	rankCalico
	rankWarned
	rankCordoned
	rankReady
	rankElsewhere
)

// Standings reads how every node stands, the worst first. What could not be read beside
// the nodes themselves is told in gaps, and of that nothing is held against a node.
func (c *Client) Standings(ctx context.Context) (out []Standing, gaps []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	cached := metav1.ListOptions{ResourceVersion: "0"}
	var nodes *corev1.NodeList
	var leases *coordinationv1.LeaseList
	var pods *corev1.PodList
	var leasesErr, podsErr error
	var all sync.WaitGroup
	all.Go(func() { nodes, err = c.kube.CoreV1().Nodes().List(ctx, cached) })
	all.Go(func() {
		leases, leasesErr = c.kube.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(ctx, cached)
	})
	all.Go(func() {
		pods, podsErr = c.kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx,
			metav1.ListOptions{LabelSelector: CalicoPods, ResourceVersion: "0"})
	})
	all.Wait()
	if err != nil {
		return nil, nil, fmt.Errorf("listing nodes: %w", err)
	}
	leased, claimants := map[string]*coordinationv1.Lease{}, map[string][]corev1.Pod{}
	if leasesErr != nil {
		gaps = append(gaps, "whether kubelets are silent is not known: "+probe.OneLine(leasesErr.Error()))
	} else {
		for i := range leases.Items {
			leased[leases.Items[i].Name] = &leases.Items[i]
		}
	}
	if podsErr != nil {
		gaps = append(gaps, "how calico-node does is not known: "+probe.OneLine(podsErr.Error()))
	} else {
		for _, p := range pods.Items {
			claimants[p.Spec.NodeName] = append(claimants[p.Spec.NodeName], p)
		}
	}
	now, _ := c.clock.Now()
	for i := range nodes.Items {
		n := &nodes.Items[i]
		s := &Snapshot{Now: now, Node: n, Lease: leased[n.Name], LeaseErr: leasesErr, CalicoErr: podsErr}
		s.calicoIn = c.calicoIn
		if podsErr == nil {
			of := claimsOf(claimants[n.Name], c.calicoIn)
			s.Calico, s.CalicoErr = of.pod, of.err
		}
		if s.Lease == nil && leasesErr == nil {
			s.LeaseErr = apierrors.NewNotFound(schema.GroupResource{Group: coordinationv1.GroupName, Resource: "leases"}, n.Name)
		}
		out = append(out, standingOf(s))
	}
	slices.SortFunc(out, func(a, b Standing) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank),
			strings.Compare(a.Node, b.Node))
	})
	return out, gaps, nil
}

// standingOf asks the checks that tell nodes apart.
func standingOf(s *Snapshot) Standing {
	out := Standing{Node: s.Node.Name, rank: rankReady, Status: probe.OK}
	var said []string
	take := func(rank int, r probe.Result) {
		if rank < out.rank {
			out.rank = rank
		}
		if !slices.Contains(said, r.Saw) {
			said = append(said, r.Saw)
		}
		if out.Status != probe.Fail && r.Status != probe.Info {
			out.Status = r.Status
		}
	}
	well := ""
	bad := func(rank int) func(probe.Result) {
		return func(r probe.Result) {
			own := rank
			if rank == rankUnready && r.Target != "" {
				own = rankPressure
			}
			switch r.Status {
			case probe.Fail:
				take(own, r)
			case probe.Warn:
				take(rankWarned, r)
			case probe.OK:
				if rank == rankUnready {
					well = r.Saw
				}
			}
		}
	}
	nodeReady(s, bad(rankUnready))
	if s.LeaseErr == nil || apierrors.IsNotFound(s.LeaseErr) {
		nodeLease(s, bad(rankSilent))
	}
	windows := s.Node.Labels[corev1.LabelOSStable] == "windows"
	if s.CalicoErr == nil && !windows {
		calicoPod(s, func(r probe.Result) {
			if r.Target != "" {
				r.Saw = "calico-node: " + strings.TrimPrefix(r.Saw, calicoContainer+" ")
			}
			bad(rankCalico)(r)
		})
	}
	if errors.As(s.CalicoErr, new(*UnverifiedError)) && !windows {
		take(rankWarned, unread(s.CalicoErr))
	}
	if s.Node.Spec.Unschedulable {
		take(rankCordoned, probe.Found(probe.Info, "cordoned"))
	}
	if windows {
		take(rankElsewhere, probe.Found(probe.Info, "runs Windows, where the probe does not"))
		if out.rank == rankReady {
			out.rank = rankElsewhere
		}
	}
	if s.LeaseErr != nil && !apierrors.IsNotFound(s.LeaseErr) && out.Status == probe.OK {
		out.Status = probe.Unknown // Ready says it for a minute after a kubelet fell silent
	}
	if well != "" && (len(said) == 0 || out.rank >= rankCordoned) {
		said = append(said, well)
	}
	out.Saw = strings.Join(said, "; ")
	return out
}

// Named lists the nodes a selector of labels picks, by their names.
func (c *Client) Named(ctx context.Context, selector string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	list, err := c.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	var out []string
	for i := range list.Items {
		out = append(out, list.Items[i].Name)
	}
	slices.Sort(out)
	return out, nil
}
