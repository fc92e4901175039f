package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// strayEndpoints are endpoints that a foreign EndpointSlice, which Kubernetes does not maintain, adds to a Service with
// pods.
type strayEndpoints struct {
	Service, Slice string   // NAMESPACE/NAME
	Addresses      []string // addresses without a pod
	Left           int      // addresses that were not checked
}

const (
	maxStray   = 4 // maximum number of EndpointSlices, and of addresses in each
	controller = "endpointslice-controller.k8s.io"
	mirroring  = "endpointslicemirroring-controller.k8s.io"
)

// readStray lists endpoints without a pod in EndpointSlices that a program other than Kubernetes created for a Service
// with a selector. Such endpoints are not removed when the pod is deleted.
func (c *Client) readStray(ctx context.Context, services []corev1.Service) ([]strayEndpoints, error) {
	parts, err := c.kube.DiscoveryV1().EndpointSlices(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		LabelSelector: fmt.Sprintf("%s notin (%s, %s),%s",
			discoveryv1.LabelManagedBy, controller, mirroring, discoveryv1.LabelServiceName),
		ResourceVersion: "0",
	})
	if err != nil {
		return nil, fmt.Errorf("listing EndpointSlices: %w", err)
	}
	selects := map[string]bool{}
	for i := range services {
		selects[services[i].Namespace+"/"+services[i].Name] = len(services[i].Spec.Selector) > 0
	}
	var out []strayEndpoints
	for i := range parts.Items {
		part := &parts.Items[i]
		of := strayEndpoints{Service: part.Namespace + "/" + part.Labels[discoveryv1.LabelServiceName],
			Slice: part.Namespace + "/" + part.Name}
		if !selects[of.Service] || part.AddressType == discoveryv1.AddressTypeFQDN || len(out) == maxStray {
			continue
		}
		if of.Addresses, of.Left, err = c.podless(ctx, part); err != nil {
			return nil, err
		}
		if len(of.Addresses) > 0 {
			out = append(out, of)
		}
	}
	return out, nil
}

// podless returns a slice's ready endpoints whose address does not belong to a pod.
func (c *Client) podless(ctx context.Context, part *discoveryv1.EndpointSlice) (out []string, left int, err error) {
	for _, e := range part.Endpoints {
		if ready := e.Conditions.Ready; ready != nil && !*ready || len(e.Addresses) == 0 {
			continue
		}
		if left > 0 || len(out) == maxStray {
			left++
			continue
		}
		pods, err := c.kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
			FieldSelector: "status.podIP=" + e.Addresses[0], Limit: 1, ResourceVersion: "0"})
		if err != nil {
			return nil, 0, fmt.Errorf("looking for the pod with %s: %w", e.Addresses[0], err)
		}
		if len(pods.Items) == 0 {
			out = append(out, e.Addresses[0])
		}
	}
	return out, left, nil
}
