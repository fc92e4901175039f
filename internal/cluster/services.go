package cluster

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/internal/netpolicy"
	"github.com/calico-probe/calico-probe/probe"
)

// readAPI lists the API server's in-cluster addresses.
func (c *Client) readAPI(ctx context.Context) ([]probe.Target, error) {
	svc, err := c.kube.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading service default/kubernetes: %w", err)
	}
	return c.readService(ctx, probe.KindDatastore, svc)
}

// configuredAPI returns the API server's address from calico-node's configuration if it differs from the addresses of
// the Service and its endpoints. It comes from the ConfigMap kubernetes-services-endpoint, or from the DaemonSet.
func (s *Snapshot) configuredAPI() []probe.Target {
	env := s.environment()
	host, port := env.known("KUBERNETES_SERVICE_HOST"), 443
	if n, err := strconv.Atoi(env.known("KUBERNETES_SERVICE_PORT")); err == nil && n > 0 && n < 1<<16 {
		port = n
	}
	if host == "" || s.Calico.Value == nil {
		return nil
	}
	t := probe.Target{Kind: probe.KindDatastore, Name: probe.NameConfigured, Port: port,
		Attrs: map[string]string{probe.AttrSetBy: "the environment of calico-node"}}
	if data := s.configMaps[endpointMap].Value; data["KUBERNETES_SERVICE_HOST"] == host {
		t.Attrs[probe.AttrSetBy] = "ConfigMap " + s.Calico.Value.Namespace + "/" + endpointMap
	}
	var err error
	if t.Addr, err = netip.ParseAddr(strings.Trim(host, "[]")); err != nil {
		t.Host = host
	}
	same := func(o probe.Target) bool { return t.Addr.IsValid() && o.Addr == t.Addr && o.Port == t.Port }
	if slices.ContainsFunc(s.API.Value, same) {
		return nil
	}
	return []probe.Target{t}
}

// clusterDNS is the cluster DNS Service with its targets.
type clusterDNS struct {
	Service *corev1.Service // nil = none
	Targets []probe.Target  // the Service and each endpoint
}

// ReadDNS lists the addresses of cluster DNS. Distributions use different names for the Service, but the same label.
func (c *Client) ReadDNS(ctx context.Context) (clusterDNS, error) {
	list, err := c.kube.CoreV1().Services(metav1.NamespaceSystem).List(ctx,
		metav1.ListOptions{LabelSelector: "k8s-app=kube-dns"})
	if err != nil {
		return clusterDNS{}, fmt.Errorf("listing DNS services: %w", err)
	}
	if len(list.Items) == 0 {
		return clusterDNS{}, nil
	}
	svc := &list.Items[0]
	out, err := c.readService(ctx, probe.KindDNS, svc)
	if err == nil && !slices.ContainsFunc(out, func(t probe.Target) bool { return t.Name == "endpoint" }) {
		says, why, on := c.whyEmpty(ctx, svc)
		empty := map[string]string{probe.AttrEmpty: says, probe.AttrEmptyFor: why}
		if on != "" {
			empty[probe.AttrServersOn] = on
		}
		for i := range out {
			out[i].Attrs = empty
		}
	}
	return clusterDNS{svc, out}, err
}

// readService lists the addresses of a Service and its endpoints, as targets of a kind. A port that is both UDP and TCP
// is one target. Unready endpoints are listed only if no endpoint is ready, because kube-proxy does not use unready
// endpoints. Typha's unready endpoints are tested although clients do not use them.
func (c *Client) readService(ctx context.Context, kind string, svc *corev1.Service) ([]probe.Target, error) {
	var out, unready []probe.Target
	slice := "" // an EndpointSlice that the API server did not create
	add := func(into *[]probe.Target, name, node, addr string, port int32) {
		a, err := netip.ParseAddr(addr)
		t := probe.Target{Kind: kind, Name: name, Node: node, Addr: a, Port: int(port)}
		if slice != "" {
			t.Attrs = map[string]string{probe.AttrSlice: slice}
		}
		same := func(o probe.Target) bool { return o.Addr == t.Addr && o.Port == t.Port }
		if err == nil && !slices.ContainsFunc(*into, same) {
			*into = append(*into, t)
		}
	}
	wanted := func(port string) bool { return kind != probe.KindDNS || !strings.Contains(port, "metrics") }
	for _, p := range svc.Spec.Ports {
		for _, ip := range svc.Spec.ClusterIPs {
			if wanted(p.Name) {
				add(&out, "service", "", ip, p.Port)
			}
		}
	}
	parts, err := c.kube.DiscoveryV1().EndpointSlices(svc.Namespace).List(ctx,
		metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + svc.Name})
	if err != nil {
		return out, fmt.Errorf("listing the endpoints of %s/%s: %w", svc.Namespace, svc.Name, err)
	}
	for _, part := range parts.Items {
		if kind == probe.KindDatastore && part.Name != svc.Name { // the API server's own slice has the Service's name
			slice = part.Namespace + "/" + part.Name
		} else {
			slice = ""
		}
		for _, e := range part.Endpoints {
			name, into := "endpoint", &out
			if ready := e.Conditions.Ready; ready != nil && !*ready {
				name, into = "endpoint (not ready)", &unready
			}
			for _, p := range part.Ports {
				if p.Port != nil && len(e.Addresses) > 0 && (p.Name == nil || wanted(*p.Name)) {
					// an endpoint's addresses all belong to the same pod
					node := ""
					if e.NodeName != nil {
						node = *e.NodeName
					}
					add(into, name, node, e.Addresses[0], *p.Port)
				}
			}
		}
	}
	if served := familiesOf(out); len(served) > 0 { // no node answers at the Service's address in the other family
		out = slices.DeleteFunc(out, func(t probe.Target) bool { return t.Name == "service" && !served[t.Addr.Is6()] })
	}
	if kind == probe.KindTypha && !slices.ContainsFunc(out, func(t probe.Target) bool { return t.Name == "endpoint" }) {
		out = append(out, unready...)
	}
	return out, nil
}

// tried is the maximum number of Services to read to find one with ready endpoints.
const tried = 5

// listServices lists all Services.
func (c *Client) listServices(ctx context.Context) ([]corev1.Service, error) {
	list, err := c.kube.CoreV1().Services(metav1.NamespaceAll).List(ctx, cached)
	if err != nil {
		return nil, fmt.Errorf("listing services: %w", err)
	}
	return list.Items, nil
}

// readServices finds one TCP Service with ready endpoints. It prefers a Service with a node port. It returns the
// Service's cluster addresses, and its port on each of the nodes.
func (c *Client) readServices(ctx context.Context, of Read[[]corev1.Service], nodes []corev1.Node,
	under netpolicy.Policies,
) ([]probe.Target, error) {
	if of.Err != nil {
		return nil, of.Err
	}
	for _, svc := range usable(of.Value, under) {
		endpoints, err := c.readService(ctx, probe.KindService, &svc)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(endpoints, func(t probe.Target) bool { return t.Name == "endpoint" }) {
			return withEndpoints(serviceTargets(&svc, nodes, familiesOf(endpoints), under), endpoints), nil
		}
	}
	return nil, nil
}

// withEndpoints adds the endpoints to a Service's cluster addresses. The probe uses them to recognize a connection to
// any other destination.
func withEndpoints(targets, endpoints []probe.Target) []probe.Target {
	var ready []string
	for _, e := range endpoints {
		if e.Name == "endpoint" {
			ready = append(ready, netip.AddrPortFrom(e.Addr, uint16(e.Port)).String())
		}
	}
	if len(ready) > probe.MaxEndpoints {
		return targets
	}
	for i, t := range targets {
		if t.Kind == probe.KindService {
			targets[i].Attrs = forbidding(t.Attrs, map[string]string{probe.AttrEndpoints: strings.Join(ready, ",")})
		}
	}
	return targets
}

// usable returns the Services that every node must be able to reach over TCP. It omits headless Services, and those
// limited to one node's endpoints. Services whose pods no policy selects come first. A Service's selector shows only
// some labels of its pods.
func usable(all []corev1.Service, under netpolicy.Policies) []corev1.Service {
	type ranked struct {
		*corev1.Service
		free, rank int
	}
	var fit []ranked
	for i := range all {
		s := &all[i]
		local := s.Spec.InternalTrafficPolicy != nil &&
			*s.Spec.InternalTrafficPolicy == corev1.ServiceInternalTrafficPolicyLocal
		headless := s.Spec.ClusterIP == "" || s.Spec.ClusterIP == corev1.ClusterIPNone
		if _, ok := tcpPort(s); ok && !local && !headless && len(s.Spec.Selector) > 0 {
			fit = append(fit, ranked{s, under.Free(s.Namespace, s.Spec.Selector), rank(s)})
		}
	}
	slices.SortStableFunc(fit, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.free, b.free), cmp.Compare(a.rank, b.rank),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time))
	})
	var out []corev1.Service
	for _, s := range fit[:min(len(fit), tried)] {
		out = append(out, *s.Service)
	}
	return out
}

func rank(s *corev1.Service) int {
	if nodePort(s) > 0 {
		return 0
	}
	return 1
}

func tcpPort(s *corev1.Service) (corev1.ServicePort, bool) {
	for _, p := range s.Spec.Ports {
		if p.Protocol == corev1.ProtocolTCP || p.Protocol == "" {
			return p, true
		}
	}
	return corev1.ServicePort{}, false
}

// nodePort returns the Service's node port. It returns 0 if there is none, or if only nodes with one of the Service's
// pods answer.
func nodePort(s *corev1.Service) int32 {
	p, _ := tcpPort(s)
	if s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
		return 0
	}
	return p.NodePort
}

// familiesOf returns the address families of ready endpoints; true = IPv6. If a dual-stack Service's pods have only one
// family, only the Service's address of that family answers, on every node.
func familiesOf(endpoints []probe.Target) map[bool]bool {
	out := map[bool]bool{}
	for _, t := range endpoints {
		if t.Name == "endpoint" {
			out[t.Addr.Is6()] = true
		}
	}
	return out
}

// serviceTargets returns the addresses of a Service in the families in which it has endpoints.
func serviceTargets(s *corev1.Service, nodes []corev1.Node, served map[bool]bool, under netpolicy.Policies,
) []probe.Target {
	p, _ := tcpPort(s)
	name := s.Namespace + "/" + s.Name
	held := under.On(s.Namespace, s.Spec.Selector)
	var out []probe.Target
	families := map[bool]bool{} // is IPv6
	for _, ip := range s.Spec.ClusterIPs {
		if a, err := netip.ParseAddr(ip); err == nil && served[a.Is6()] {
			families[a.Is6()] = true
			out = append(out, probe.Target{Kind: probe.KindService, Name: name, Addr: a, Port: int(p.Port),
				Attrs: forbidding(nil, held)})
		}
	}
	if nodePort(s) == 0 {
		return out
	}
	for _, n := range nodes {
		for _, a := range InternalIPs(&n) {
			if families[a.Is6()] {
				out = append(out, probe.Target{Kind: probe.KindNodePort, Name: name, Node: n.Name, Addr: a, Port: int(nodePort(s)),
					Attrs: forbidding(StateOf(&n), held)})
			}
		}
	}
	return out
}
