package cluster

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/probe"
)

// PathTargets are what probes on other nodes are to reach of a node: its own addresses, its kubelet there, and one of
// its pods that has an address of its own, which is found by one list.
func (c *Client) PathTargets(ctx context.Context, s *Survey, n *corev1.Node) ([]probe.Target, error) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	var out []probe.Target
	for _, a := range InternalIPs(n) {
		at := probe.Target{Kind: probe.KindNode, Name: n.Name, Node: n.Name, Addr: a, Attrs: StateOf(n)}
		kubelet := at
		kubelet.Kind, kubelet.Port = probe.KindOutside, kubeletFrom(n)
		out = append(out, at, kubelet)
	}
	running, err := c.Running(ctx, n.Name)
	return append(out, podTargets(probe.KindPod, pingable(running, 1, s.Policies), s.Policies)...), err
}

// BGPTargets are what a probe on a node has to know to tell the BGP sessions there: whether it is to have any.
func BGPTargets(s *Survey, n *corev1.Node) (targets []probe.Target, gaps map[string]string) {
	of := s.Of(n)
	targets = Self(n)
	if of.Backend.Value != "" {
		targets = append(targets, probe.Target{Kind: probe.KindBackend, Name: of.Backend.Value, Node: n.Name})
	}
	if err := errors.Join(ElsewhereSaid(of.Calico.Err), of.Backend.Err); err != nil {
		gaps = map[string]string{probe.KindBackend: probe.OneLine(err.Error())}
	}
	return targets, gaps
}
