package cluster

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/calico-probe/calico-probe/internal/netpolicy"
	"github.com/calico-probe/calico-probe/internal/netpolicy/selector"
	"github.com/calico-probe/calico-probe/probe"
)

// errNotRead is the error of policies that were not read completely.
var errNotRead = errors.New("policies were not read")

// resources holds Calico's resources.
type resources struct {
	FelixConfigs  Read[[]unstructured.Unstructured] // all FelixConfigurations
	Peering       peering
	Blocks        Read[blocks]
	Policies      netpolicy.Policies
	HostEndpoints Read[[]HostEndpoint] // of all nodes
	Pools         Read[Specs]
	Info          Read[clusterInfo]
}

// readCalico starts reading Calico's resources, from the client's API groups.
func (c *Client) readCalico(ctx context.Context, r *resources, all *probe.Workers) {
	r.FelixConfigs.start(ctx, all, func(ctx context.Context) ([]unstructured.Unstructured, error) {
		configs, _, err := c.list(ctx, "felixconfigurations", 0)
		return configs, err
	})
	r.Peering.Configs.start(ctx, all, c.allSpecs("bgpconfigurations"))
	r.Peering.Peers.start(ctx, all, c.allSpecs("bgppeers"))
	r.Blocks.start(ctx, all, c.readBlocks)
	all.Go(func() {
		if crash := probe.Recovered(func() error { r.Policies = c.readPolicies(ctx); return nil }); crash != nil {
			r.Policies = netpolicy.Policies{Unread: crash, Other: errNotRead} // it is not certain that any policy denies traffic
		}
	})
	r.HostEndpoints.start(ctx, all, c.readHostEndpoints)
	r.Pools.start(ctx, all, c.allSpecs("ippools"))
	r.Info.start(ctx, all, c.readInfo)
}

// clusterInfo is the content of ClusterInformation.
type clusterInfo struct {
	Spec      map[string]any
	Group     string // the API group of ClusterInformation; "" = not found
	Migration string // a DatastoreMigration and its phase; "" = not found
}

// readInfo reads ClusterInformation. If it is missing, Calico's defaults apply. To show that it is missing, a list call
// in one API group is enough: in an outage, the other group may be unavailable.
func (c *Client) readInfo(ctx context.Context) (clusterInfo, error) {
	items, group, err := c.list(ctx, "clusterinformations", 0)
	out := clusterInfo{Group: group}
	for _, item := range items {
		if item.GetName() == "default" {
			out.Spec, _, err = unstructured.NestedMap(item.Object, "spec")
		}
	}
	if out.Spec["datastoreReady"] == false {
		out.Migration = c.readMigration(ctx)
	}
	return out, err
}

// asConfigured returns a client that prefers the API group configured for calico-node. Without this setting,
// calico-node tries the groups in the client's default order.
func (c *Client) asConfigured(env environment) *Client {
	if !strings.EqualFold(env.known("CALICO_API_GROUP"), "projectcalico.org/v3") {
		return c
	}
	out := *c
	out.groups = slices.Clone(groups)
	slices.Reverse(out.groups)
	return &out
}

// migrations is the resource that Calico v3.32 uses to migrate data between the API groups.
var migrations = schema.GroupVersionResource{Group: "migration.projectcalico.org", Version: "v1beta1",
	Resource: "datastoremigrations"}

// readMigration returns the DatastoreMigration and its phase, or "" if it does not exist or cannot be read.
func (c *Client) readMigration(ctx context.Context) string {
	list, err := c.calls.Resource(migrations).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil || len(list.Items) == 0 {
		return ""
	}
	phase, _, _ := unstructured.NestedString(list.Items[0].Object, "status", "phase")
	return probe.OneLine(strings.TrimSpace(list.Items[0].GetName() + " " + phase))
}

// FelixSettings returns Felix's settings on a node from FelixConfigurations. The node's own FelixConfiguration takes
// precedence, then the oldest whose nodeSelector matches the node (since v3.32), then the global FelixConfiguration.
func FelixSettings(all []unstructured.Unstructured, n *corev1.Node) map[string]any {
	var selected *unstructured.Unstructured
	named := Specs{}
	for i := range all {
		spec, _, _ := unstructured.NestedMap(all[i].Object, "spec")
		named[all[i].GetName()] = spec
		text, _ := spec["nodeSelector"].(string)
		if text == "" {
			continue
		}
		selects, err := selector.Parse(text)
		if err == nil && selects(n.Labels) && (selected == nil || older(&all[i], selected)) {
			selected = &all[i]
		}
	}
	out := map[string]any{}
	for _, name := range []string{"default", selectedName(selected), "node." + n.Name} {
		maps.Copy(out, named[name])
	}
	return out
}

func selectedName(of *unstructured.Unstructured) string {
	if of == nil {
		return ""
	}
	return of.GetName()
}

// older reports whether one object was created before another. If both have the same age, it compares their names.
func older(a, b *unstructured.Unstructured) bool {
	at, bt := a.GetCreationTimestamp(), b.GetCreationTimestamp()
	return at.Before(&bt) || at.Equal(&bt) && a.GetName() < b.GetName()
}

// felixOfAll returns Felix's settings on each node, in the order of the nodes.
func felixOfAll(s *Survey) []map[string]any {
	out := make([]map[string]any, len(s.Nodes))
	for i := range s.Nodes {
		out[i] = FelixSettings(s.FelixConfigs.Value, &s.Nodes[i])
	}
	return out
}
