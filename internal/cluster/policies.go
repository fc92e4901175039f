package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/calico-probe/calico-probe/internal/netpolicy"
)

// readPolicies reads Kubernetes' and Calico's policies, and the data that their selectors use.
func (c *Client) readPolicies(ctx context.Context) netpolicy.Policies {
	var p netpolicy.Policies
	list, err := c.kube.NetworkingV1().NetworkPolicies(metav1.NamespaceAll).List(ctx, cached)
	if err != nil {
		p.Unread = fmt.Errorf("listing NetworkPolicies: %w", err)
	} else {
		for _, np := range list.Items {
			p.List = append(p.List, netpolicy.OfKubernetes(&np))
		}
	}
	for _, kind := range []struct{ resource, kind string }{{"networkpolicies", "Calico's NetworkPolicy"},
		{"globalnetworkpolicies", "GlobalNetworkPolicy"}} {
		specs, err := c.listSpecs(ctx, kind.resource, 0)
		p.Unread = errors.Join(p.Unread, err)
		for _, name := range slices.Sorted(maps.Keys(specs)) {
			p.List = append(p.List, netpolicy.OfCalico(kind.kind, name, specs[name]))
		}
	}
	p.Tiers, err = c.listSpecs(ctx, "tiers", 0)
	p.Other = errors.Join(err, c.notWorkedOut(ctx))
	if len(p.List) > 0 {
		var sets Read[[]netpolicy.Set]
		sets.read(ctx, c.readNetworkSets)
		p.Sets, p.SetsUnread = sets.Value, sets.Err
		p.Names = c.readNamespaces(ctx)
	}
	p.Sort()
	return p
}

// clusterPolicies lists the kinds of policies that are not evaluated here, but that take precedence over the evaluated
// policies.
var clusterPolicies = []schema.GroupVersionResource{
	{Group: "policy.networking.k8s.io", Version: "v1alpha1", Resource: "adminnetworkpolicies"},
	{Group: "policy.networking.k8s.io", Version: "v1alpha2", Resource: "clusternetworkpolicies"},
}

// ErrNotWorkedOut marks policies that exist but are not evaluated.
var ErrNotWorkedOut = errors.New("which are not worked out")

// notWorkedOut returns an error that lists the policies that are not evaluated and that exist or may exist.
func (c *Client) notWorkedOut(ctx context.Context) error {
	var out error
	for _, kind := range clusterPolicies {
		list, err := c.calls.Resource(kind).List(ctx, metav1.ListOptions{Limit: 1})
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			out = errors.Join(out, fmt.Errorf("listing %s: %w", kind.Resource, err))
		case len(list.Items) > 0:
			out = errors.Join(out, fmt.Errorf("there are %s, %w", kind.Resource, ErrNotWorkedOut))
		}
	}
	return out
}

// readNetworkSets lists Calico's network sets.
func (c *Client) readNetworkSets(ctx context.Context) (out []netpolicy.Set, err error) {
	for _, resource := range []string{"globalnetworksets", "networksets"} {
		items, _, listErr := c.list(ctx, resource, 0)
		err = errors.Join(err, listErr)
		for _, item := range items {
			texts, _, textsErr := unstructured.NestedStringSlice(item.Object, "spec", "nets")
			set := netpolicy.NewSet(item.GetNamespace(), item.GetName(), item.GetLabels(), texts)
			set.Bad = set.Bad || textsErr != nil
			out = append(out, set)
		}
	}
	return out, err
}

// readNamespaces lists the labels of all namespaces. It returns nil if the user has no permission to read namespaces.
func (c *Client) readNamespaces(ctx context.Context) (out map[string]map[string]string) {
	err := inPages(ctx, c.kube.CoreV1().Namespaces(), metav1.ListOptions{},
		func() { out = map[string]map[string]string{} },
		func(n *corev1.Namespace) {
			if n.Labels == nil {
				n.Labels = map[string]string{}
			}
			out[n.Name] = n.Labels
		})
	if err != nil {
		return nil
	}
	return out
}
