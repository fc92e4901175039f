package cluster

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// probed holds what a probe checks in the cluster in addition to its own node.
type probed struct {
	pods     Read[[]corev1.Pod]   // one running workload pod on each of a few nodes
	Services Read[[]probe.Target] // one TCP Service with ready endpoints: its addresses, and its port on these nodes
	Typha    Read[Typha]
}

// readProbed starts reading p. more contains further nodes for the Service's targets.
func (c *Client) readProbed(ctx context.Context, p *probed, of *Survey, nodes, more []corev1.Node, env environment,
	all *probe.Workers,
) {
	p.pods.start(ctx, all, func(ctx context.Context) ([]corev1.Pod, error) {
		return c.readPods(ctx, nodes, of.Policies)
	})
	p.Services.start(ctx, all, func(ctx context.Context) ([]probe.Target, error) {
		return c.readServices(ctx, of.AllServices, slices.Concat(nodes, more), of.Policies)
	})
	p.Typha.start(ctx, all, func(ctx context.Context) (Typha, error) { return c.readTypha(ctx, env) })
}

// ReadShared reads the targets that all probes on the nodes of a Survey from ReadAll check. About needs them.
func (c *Client) ReadShared(ctx context.Context, s *Survey) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	var fit []*corev1.Node
	for i := range s.Nodes {
		if fitToCompare(&s.Nodes[i]) && NoProbeOn(&s.Nodes[i]) == "" {
			fit = append(fit, &s.Nodes[i])
		}
	}
	var nodes []corev1.Node
	for _, n := range spread(fit, Sampled+1) { // the node itself may be one of these
		nodes = append(nodes, *n)
	}
	calico, _ := s.anyCalico()
	var all probe.Workers
	c.readProbed(ctx, &s.shared, s, nodes, nil, environmentOf(calico, s.given), &all)
	all.Wait()
}

// AboutChecks returns the IDs of the API checks that About's snapshots answer.
func AboutChecks() []string {
	return append(SurveyChecks(), facts.CheckPodsStart, facts.CheckPodsEnd, facts.CheckDNSPolicies, facts.CheckAPIPolicies,
		facts.CheckDNSService)
}

// About returns one node's snapshot from a Survey by ReadAll and ReadShared, with the targets for a probe on the node.
// It makes one list call for the node's pods, and reads the reasons why pods wait. The snapshot answers AboutChecks.
func (c *Client) About(ctx context.Context, s *Survey, n *corev1.Node) *Snapshot {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	out := s.Of(n)
	var all probe.Workers
	out.Placed = c.readPlaced(ctx, n.Name)
	c.ReadWaits(ctx, &out.Placed, &all)
	out.Local.start(ctx, &all, out.readLocal)
	all.Wait()
	own := func(p corev1.Pod) bool { return p.Spec.NodeName == n.Name }
	out.probed = s.shared
	out.pods.Value = slices.DeleteFunc(slices.Clone(out.pods.Value), own)
	return out
}
