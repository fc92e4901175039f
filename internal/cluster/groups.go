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

	"github.com/calico-probe/calico-probe/internal/cluster/selector"
	"github.com/calico-probe/calico-probe/probe"
)

// errNotRead is the error of policies that were not read to the end.
var errNotRead = errors.New("policies were not read")

// readCalico starts reading Calico's resources, from the groups that the client asks.
func (c *Client) readCalico(ctx context.Context, s *Survey, all *parts) {
	all.read(&s.felixConfigsErr, func() { s.felixConfigs, _, s.felixConfigsErr = c.list(ctx, "felixconfigurations", 0) })
	all.read(&s.peeringErr, func() { s.peering, s.peeringErr = c.readPeering(ctx) })
	all.read(&s.blockErr, func() { s.blocks, s.ipam, s.blockErr = c.readBlocks(ctx) })
	all.read(&s.policies.err, func() {
		s.policies.other = errNotRead // also after a crash: nothing is surely denied
		s.policies = c.readPolicies(ctx)
	})
	all.read(&s.hostEndpointsErr, func() { s.hostEndpoints, s.hostEndpointsErr = c.readHostEndpoints(ctx) })
	all.read(&s.poolErr, func() { s.pools, s.poolErr = c.listSpecs(ctx, "ippools", 0) })
	all.read(&s.infoErr, func() {
		s.info, s.group, s.infoErr = c.readSpec(ctx, "clusterinformations", "default")
		if s.info["datastoreReady"] == false {
			s.migration = c.readMigration(ctx)
		}
	})
}

// asConfigured is the client that asks the group first that calico-node is configured to use. Where
// nothing is configured, calico-node finds out in the order that the client has anyway.
func (c *Client) asConfigured(env environment) *Client {
	if !strings.EqualFold(env.values["CALICO_API_GROUP"], "projectcalico.org/v3") {
		return c
	}
	out := *c
	out.groups = slices.Clone(groups)
	slices.Reverse(out.groups)
	return &out
}

// migrations is what Calico v3.32 moves its resources between the groups by.
var migrations = schema.GroupVersionResource{Group: "migration.projectcalico.org", Version: "v1beta1",
	Resource: "datastoremigrations"}

// readMigration is the DatastoreMigration there is, "" where there is none, or none is seen.
func (c *Client) readMigration(ctx context.Context) string {
	list, err := c.calls.Resource(migrations).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil || len(list.Items) == 0 {
		return ""
	}
	phase, _, _ := unstructured.NestedString(list.Items[0].Object, "status", "phase")
	return probe.OneLine(strings.TrimSpace(list.Items[0].GetName() + " " + phase))
}

// felixSettings is what Felix on a node takes from FelixConfigurations: its own before that whose
// nodeSelector is true of the node (from v3.32 on; the oldest of several), before the global one.
func felixSettings(all []unstructured.Unstructured, n *corev1.Node) map[string]any {
	var selected *unstructured.Unstructured
	named := map[string]map[string]any{}
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

// older tells which of two came first, by name where that was at once.
func older(a, b *unstructured.Unstructured) bool {
	at, bt := a.GetCreationTimestamp(), b.GetCreationTimestamp()
	return at.Before(&bt) || at.Equal(&bt) && a.GetName() < b.GetName()
}
