package cluster

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// shared is what the probes on the nodes of a Survey are asked about, read once for all of them.
type shared struct {
	pods        []corev1.Pod // one of each of a few nodes
	podsErr     error
	services    []probe.Target // one TCP service, at its addresses and on the same few nodes
	servicesErr error
	typha       []probe.Target
	typhaErr    error
}

// ReadShared reads what the probes on the nodes of a Survey by ReadAll are asked about, for About.
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
	for _, n := range spread(fit, sampled+1) { // one of them may be the node itself
		nodes = append(nodes, *n)
	}
	calico, _ := s.anyCalico()
	var all parts
	all.read(&s.shared.podsErr, func() { s.shared.pods, s.shared.podsErr = c.readPods(ctx, nodes, 1, s.policies) })
	all.read(&s.shared.typhaErr, func() {
		s.shared.typha, s.shared.typhaErr = c.readTypha(ctx, environmentOf(calico, s.given))
	})
	if s.shared.servicesErr = s.serviceErr; s.serviceErr == nil {
		all.read(&s.shared.servicesErr, func() {
			s.shared.services, s.shared.servicesErr = c.readServices(ctx, s.allServices, nodes, s.policies)
		})
	}
	all.Wait()
}

// AboutChecks are the IDs of those of Checks that About's snapshots answer.
func AboutChecks() []string { return append(SurveyChecks(), facts.CheckPodsStart, facts.CheckPodsEnd) }

// About is the snapshot around one of the nodes of a Survey by ReadAll and ReadShared, with what a probe there is to be
// asked about. Of the node alone its pods are read, by one list, and why some of them wait, where some do. It answers
// AboutChecks.
func (c *Client) About(ctx context.Context, s *Survey, n *corev1.Node) *Snapshot {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	out := s.Of(n)
	guarded(&out.placed.err, func() { out.placed = c.readPlaced(ctx, n.Name) })
	if len(out.placed.waiting) > 0 {
		guarded(&out.placed.eventsErr, func() { c.readEvents(ctx, &out.placed) })
	}
	if len(out.placed.ending) > 0 {
		guarded(&out.placed.endsErr, func() { c.readEnds(ctx, &out.placed) })
	}
	guarded(&out.localErr, out.takeLocal)
	own := func(p corev1.Pod) bool { return p.Spec.NodeName == n.Name }
	out.Pods, out.PodsErr = slices.DeleteFunc(slices.Clone(s.shared.pods), own), s.shared.podsErr
	out.services, out.serviceErr = s.shared.services, s.shared.servicesErr
	out.typha, out.typhaErr = s.shared.typha, s.shared.typhaErr
	return out
}
