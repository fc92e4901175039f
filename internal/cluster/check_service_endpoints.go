package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// strayEndpoints are what an EndpointSlice, which Kubernetes does not keep, adds to a Service that has pods of its own.
type strayEndpoints struct {
	service, slice string   // NAMESPACE/NAME
	addresses      []string // that no pod has
	left           int      // addresses about which nobody asked
}

const (
	strayMost  = 4 // EndpointSlices, and addresses of each
	controller = "endpointslice-controller.k8s.io"
	mirroring  = "endpointslicemirroring-controller.k8s.io"
)

// readStray lists the endpoints without a pod in EndpointSlices that somebody else than Kubernetes made for a Service
// with a selector: nobody takes them out when the pod goes.
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
		of := strayEndpoints{service: part.Namespace + "/" + part.Labels[discoveryv1.LabelServiceName],
			slice: part.Namespace + "/" + part.Name}
		if !selects[of.service] || part.AddressType == discoveryv1.AddressTypeFQDN || len(out) == strayMost {
			continue
		}
		if of.addresses, of.left, err = c.podless(ctx, part); err != nil {
			return nil, err
		}
		if len(of.addresses) > 0 {
			out = append(out, of)
		}
	}
	return out, nil
}

// podless are a slice's ready endpoints that no pod has as its address.
func (c *Client) podless(ctx context.Context, part *discoveryv1.EndpointSlice) (out []string, left int, err error) {
	for _, e := range part.Endpoints {
		if ready := e.Conditions.Ready; ready != nil && !*ready || len(e.Addresses) == 0 {
			continue
		}
		if left > 0 || len(out) == strayMost {
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

// serviceEndpoints lists endpoints of Services that no pod has and that Kubernetes does not keep.
func serviceEndpoints(s *Snapshot, report func(probe.Result)) {
	if s.stray.Err != nil {
		report(unread(s.stray.Err))
		return
	}
	for _, e := range s.stray.Value {
		more := ""
		if e.left > 0 {
			more = fmt.Sprintf(" and perhaps %d more", e.left)
		}
		dns := s.dns.Value.service != nil && e.service == s.dns.Value.service.Namespace+"/"+s.dns.Value.service.Name
		report(probe.Found(probe.Info, "EndpointSlice %s, which Kubernetes does not keep, leads it also to %s%s, which no pod has",
			e.slice, few(e.addresses), more).On(e.service).With(facts.Slice, e.slice).
			With(facts.Addresses, few(e.addresses)).With(facts.OfDNS, dns))
	}
	if len(s.stray.Value) == 0 {
		report(probe.Found(probe.OK, "no Service with a selector has endpoints that are no pod's in an EndpointSlice of others"))
	}
}
