package cluster

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// HostEndpoint is a Calico HostEndpoint: a node interface to which policies apply. Calico drops traffic there unless a
// policy allows it, except on failsafe ports.
type HostEndpoint struct {
	Name, Node, Device string
	Labels             map[string]string
	Addrs              []string // expectedIPs
	Profiles           []string
}

// readHostEndpoints lists the HostEndpoints of all nodes. Their specs name the nodes.
func (c *Client) readHostEndpoints(ctx context.Context) ([]HostEndpoint, error) {
	items, _, err := c.list(ctx, "hostendpoints", 0)
	var out []HostEndpoint
	for _, item := range items {
		text := func(key string) string { s, _, _ := unstructured.NestedString(item.Object, "spec", key); return s }
		list := func(key string) []string {
			l, _, _ := unstructured.NestedStringSlice(item.Object, "spec", key)
			return l
		}
		out = append(out, HostEndpoint{Name: item.GetName(), Node: text("node"), Device: text("interfaceName"),
			Labels: item.GetLabels(), Addrs: list("expectedIPs"), Profiles: list("profiles")})
	}
	return out, err
}
