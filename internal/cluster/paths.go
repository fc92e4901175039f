package cluster

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/probe"
)

// PathTargets returns the targets on a node for probes on other nodes: the node's addresses, its kubelet at these
// addresses, and one pod with its own address. It finds the pod with one list call.
func (c *Client) PathTargets(ctx context.Context, s *Survey, n *corev1.Node) ([]probe.Target, error) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	var out []probe.Target
	for _, a := range s.usedIPs(n) {
		at := probe.Target{Kind: probe.KindNode, Name: n.Name, Node: n.Name, Addr: a, Attrs: StateOf(n)}
		kubelet := at
		kubelet.Kind, kubelet.Port = probe.KindOutside, kubeletFrom(n)
		out = append(out, at, kubelet)
	}
	running, err := c.Running(ctx, n.Name)
	return append(out, podTargets(probe.KindPod, pingable(running, 1, s.Policies), s.Policies)...), err
}

// BGPTargets returns the targets that a probe needs to report a node's BGP sessions. They show whether the node should
// have any.
func BGPTargets(s *Survey, n *corev1.Node) (targets []probe.Target, gaps map[string]string) {
	of := s.Of(n)
	targets = Self(n)
	if of.Backend.Value != "" {
		targets = append(targets, probe.Target{Kind: probe.KindBackend, Name: of.Backend.Value, Node: n.Name})
	}
	if err := errors.Join(SeeCalicoPod(of.Calico.Err), of.Backend.Err); err != nil {
		gaps = map[string]string{probe.KindBackend: probe.OneLine(err.Error())}
	}
	return targets, gaps
}
