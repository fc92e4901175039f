package cluster

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/probe"
)

// PathTargets are what probes on other nodes are to reach of a node: its own addresses, and one of its pods that has
// an address of its own, which is found by one list.
func (c *Client) PathTargets(ctx context.Context, s *Survey, n *corev1.Node) ([]probe.Target, error) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	var out []probe.Target
	for _, a := range InternalIPs(n) {
		out = append(out, probe.Target{Kind: probe.KindNode, Name: n.Name, Node: n.Name, Addr: a, Attrs: stateOf(n)})
	}
	running, err := c.Running(ctx, n.Name)
	return append(out, podTargets(probe.KindPod, pingable(running, 1, s.policies), s.policies)...), err
}
