package cluster

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeNames maps each node's name and addresses to its name. It omits a name or address that two nodes share.
func (c *Client) NodeNames(ctx context.Context) (map[string]string, error) {
	nodes, err := patiently(ctx, c, c.readNodes)
	if err != nil {
		return nil, err
	}
	return named(nodes), nil
}

func named(nodes []corev1.Node) map[string]string {
	out := map[string]string{}
	for _, n := range nodes {
		for _, a := range n.Status.Addresses {
			if other, ok := out[a.Address]; ok && other != n.Name {
				out[a.Address] = ""
				continue
			}
			out[a.Address] = n.Name
		}
	}
	for _, n := range nodes { // the name takes precedence over another node's host name
		out[n.Name] = n.Name
	}
	return out
}

// NodesAt returns the names of the nodes with this internal or external address, in order. If the address is the name
// of a node, it returns only that node. Addresses are compared by value, because kubelets may format them differently.
func (c *Client) NodesAt(ctx context.Context, addr netip.Addr) ([]string, error) {
	nodes, err := patiently(ctx, c, c.readNodes)
	if err != nil {
		return nil, err
	}
	return nodesAt(nodes, addr), nil
}

func nodesAt(nodes []corev1.Node, addr netip.Addr) []string {
	var out []string
	for _, n := range nodes {
		if n.Name == addr.String() { // the name takes precedence over another node's address
			return []string{n.Name}
		}
		if slices.ContainsFunc(n.Status.Addresses, func(a corev1.NodeAddress) bool {
			theirs, err := netip.ParseAddr(a.Address)
			return err == nil && theirs.Unmap() == addr.Unmap() &&
				(a.Type == corev1.NodeInternalIP || a.Type == corev1.NodeExternalIP)
		}) {
			out = append(out, n.Name)
		}
	}
	slices.Sort(out)
	return out
}

// HasNode returns an error (*UnknownNodeError) if the cluster does not have a node with that name.
func (c *Client) HasNode(ctx context.Context, name string) error {
	nodes, err := patiently(ctx, c, c.readNodes)
	if err != nil {
		return err
	}
	return (&Snapshot{}).around(name, &Survey{Nodes: nodes})
}

// PodNode returns the node of a pod; "" = the pod does not exist or is not bound to a node.
func (c *Client) PodNode(ctx context.Context, namespace, pod string) (string, error) {
	for _, name := range []string{namespace, pod} { // the alert's sender may have invented these names
		if name == "" || len(content.IsPathSegmentName(name)) > 0 {
			return "", nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	// A new pod may be missing in the API server's cache. In this case, read from etcd.
	for _, version := range []string{"0", ""} {
		p, err := c.kube.CoreV1().Pods(namespace).Get(ctx, pod, metav1.GetOptions{ResourceVersion: version})
		switch {
		case err != nil && !apierrors.IsNotFound(err):
			return "", fmt.Errorf("reading pod %s/%s: %w", namespace, pod, err)
		case err == nil && p.Spec.NodeName != "":
			return p.Spec.NodeName, nil
		}
	}
	return "", nil
}

// Named lists the names of the nodes that a label selector selects.
func (c *Client) Named(ctx context.Context, selector string) ([]string, error) {
	list, err := patiently(ctx, c, func(ctx context.Context) (*corev1.NodeList, error) {
		return c.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: selector})
	})
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
