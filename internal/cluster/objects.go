package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/calico-probe/calico-probe/internal/apierror"
	"github.com/calico-probe/calico-probe/probe"
)

// Objects are the API objects of one kind on which causes are based, unfiltered and unredacted.
type Objects struct {
	schema.GroupVersionResource
	Kind       string
	Namespaced bool
	Items      []unstructured.Unstructured
	Gaps       []string // what could not be read, and the reasons
}

// Limits: the number of objects of one kind to keep, and the time for reading all kinds.
const (
	maxObjects   = 2000
	objectsLimit = 30 * time.Second
)

// add adds objects, or the reason why they could not be read. A missing object is not a gap.
func (o *Objects) add(what string, items []unstructured.Unstructured, err error) {
	switch {
	case err == nil:
		o.Items = append(o.Items, items...)
	case apierrors.IsNotFound(err):
	case Denied(err):
		right, _ := apierror.Lacking(err)
		o.Gaps = append(o.Gaps, right)
	default:
		o.Gaps = append(o.Gaps, what+": "+probe.Quoted(err.Error()))
	}
	if len(o.Items) > maxObjects {
		o.Items = o.Items[:maxObjects]
		o.Gaps = append(o.Gaps, fmt.Sprintf("more than %d: the rest is omitted", maxObjects))
	}
	slices.Sort(o.Gaps)
	o.Gaps = slices.Compact(o.Gaps)
}

// ObjectsOf reads the API objects on which causes about the named nodes are based. It needs only the permissions of a
// run through the API, and never reads a Secret. An object that it could not read is a gap.
func (c *Client) ObjectsOf(ctx context.Context, nodes []string) []Objects {
	ctx, cancel := context.WithTimeout(ctx, objectsLimit)
	defer cancel()
	read := &objectsReading{c: c, nodes: nodes}
	var all probe.Workers
	first := []func(context.Context) Objects{read.ofNodes, read.leases, read.pods, read.daemonSets, read.configMaps}
	core := make([]Objects, len(first))
	for i, of := range first {
		all.Go(func() { core[i] = of(ctx) })
	}
	all.Wait()
	pods, sets := core[2], core[3]
	calico := make([]Objects, len(calicoResources()))
	read.c = read.c.asConfigured(read.environment(pods, core[4]))
	for i, k := range calicoResources() {
		all.Go(func() { calico[i] = read.calico(ctx, k) })
	}
	var events Objects
	all.Go(func() { events = read.events(ctx, pods, sets) })
	all.Wait()
	return slices.DeleteFunc(slices.Concat(core, []Objects{events}, calico), func(o Objects) bool {
		return o.Version == "" && len(o.Gaps) == 0 // the kind is not installed
	})
}

// objectsReading is the state of ObjectsOf.
type objectsReading struct {
	c     *Client
	nodes []string
}

// objectsOf returns empty Objects of a kind.
func objectsOf(group, version, resource, kind string, namespaced bool) Objects {
	return Objects{GroupVersionResource: schema.GroupVersionResource{Group: group, Version: version, Resource: resource},
		Kind: kind, Namespaced: namespaced}
}

// list adds the objects from a list in a namespace; "" = all namespaces.
func (r *objectsReading) list(ctx context.Context, o *Objects, namespace string, options metav1.ListOptions) {
	list, err := r.c.calls.Resource(o.GroupVersionResource).Namespace(namespace).List(ctx, options)
	var items []unstructured.Unstructured
	if err == nil {
		items = list.Items
	}
	o.add("listing "+o.Resource, items, err)
}

// get adds one object.
func (r *objectsReading) get(ctx context.Context, o *Objects, namespace, name string) {
	item, err := r.c.calls.Resource(o.GroupVersionResource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	var items []unstructured.Unstructured
	if err == nil {
		items = append(items, *item)
	}
	o.add("reading "+o.Resource+" "+name, items, err)
}

func (r *objectsReading) ofNodes(ctx context.Context) Objects {
	o := objectsOf("", "v1", "nodes", "Node", false)
	for _, node := range r.nodes {
		r.list(ctx, &o, "", metav1.ListOptions{FieldSelector: "metadata.name=" + node, ResourceVersion: "0"})
	}
	return o
}

func (r *objectsReading) leases(ctx context.Context) Objects {
	o := objectsOf("coordination.k8s.io", "v1", "leases", "Lease", true)
	for _, node := range r.nodes {
		r.get(ctx, &o, corev1.NamespaceNodeLease, node)
	}
	return o
}

func (r *objectsReading) pods(ctx context.Context) Objects {
	o := objectsOf("", "v1", "pods", "Pod", true)
	for _, node := range r.nodes {
		r.list(ctx, &o, "", metav1.ListOptions{FieldSelector: "spec.nodeName=" + node, ResourceVersion: "0"})
	}
	return o
}

// daemonSets reads the DaemonSets that create calico-node.
func (r *objectsReading) daemonSets(ctx context.Context) Objects {
	o := objectsOf("apps", "v1", "daemonsets", "DaemonSet", true)
	for _, namespace := range r.c.CalicoIn {
		r.list(ctx, &o, namespace, cached)
	}
	o.Items = slices.DeleteFunc(o.Items, func(item unstructured.Unstructured) bool {
		name, _, _ := unstructured.NestedString(item.Object, "spec", "template", "metadata", "labels", "k8s-app")
		return name != "calico-node" && name != "canal"
	})
	return o
}

// configMaps reads the ConfigMaps of Calico's manifests, which a run has permission to read.
func (r *objectsReading) configMaps(ctx context.Context) Objects {
	o := objectsOf("", "v1", "configmaps", "ConfigMap", true)
	for _, namespace := range r.c.CalicoIn {
		for _, name := range []string{"calico-config", "canal-config", endpointMap} {
			r.get(ctx, &o, namespace, name)
		}
	}
	return o
}

// typed converts objects to their type, and omits objects that do not fit.
func typed[T any](o Objects) []T {
	var out []T
	for _, item := range o.Items {
		var as T
		if runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, &as) == nil {
			out = append(out, as)
		}
	}
	return out
}

// environment resolves calico-node's environment from pods and ConfigMaps.
func (r *objectsReading) environment(pods, maps Objects) environment {
	from := configMaps{}
	for _, m := range typed[corev1.ConfigMap](maps) {
		from[m.Name] = Read[map[string]string]{Value: m.Data}
	}
	claiming := slices.DeleteFunc(typed[corev1.Pod](pods), func(p corev1.Pod) bool { return !claimsCalico(p) })
	calico, _ := claimsOf(claiming, r.c.CalicoIn)
	return environmentOf(calico.Value, from)
}

// claimsCalico reports whether a pod matches CalicoPods.
func claimsCalico(p corev1.Pod) bool {
	return slices.Contains([]string{"calico-node", "canal", "canal-node"}, p.Labels["k8s-app"])
}

// events reads events about the nodes, about calico-node's DaemonSets, and about those of the nodes' pods that do not
// start.
func (r *objectsReading) events(ctx context.Context, pods, sets Objects) Objects {
	o := objectsOf("", "v1", "events", "Event", true)
	about := func(namespace, field, value string) {
		selector := "involvedObject." + field + "=" + value
		r.list(ctx, &o, namespace, metav1.ListOptions{FieldSelector: selector, Limit: maxEvents})
	}
	for _, node := range r.nodes {
		about(metav1.NamespaceDefault, "kind=Node,involvedObject.name", node)
	}
	for _, set := range sets.Items {
		about(set.GetNamespace(), "uid", string(set.GetUID()))
	}
	perNode := map[string]int{} // by node
	for _, p := range typed[corev1.Pod](pods) {
		_, waits := Waits(&p)
		if own := claimsCalico(p) && slices.Contains(r.c.CalicoIn, p.Namespace); !own && !waits {
			continue
		}
		if perNode[p.Spec.NodeName]++; perNode[p.Spec.NodeName] <= MaxPodsWithEvents {
			about(p.Namespace, "uid", string(p.UID))
		}
	}
	return o
}

// A calicoResource is a Calico kind, with a filter for objects about nodes; nil = all objects.
type calicoResource struct {
	resource, kind string
	about          func(spec map[string]any, nodes []string) bool
}

// calicoResources lists the Calico kinds on which causes are based.
func calicoResources() []calicoResource {
	return []calicoResource{
		{"ippools", "IPPool", nil}, {"ipreservations", "IPReservation", nil},
		{"bgpconfigurations", "BGPConfiguration", nil}, {"bgppeers", "BGPPeer", nil},
		{"bgpfilters", "BGPFilter", nil}, // a run does not need permission for these, but people often have it
		{"felixconfigurations", "FelixConfiguration", nil}, {"clusterinformations", "ClusterInformation", nil},
		// Calico's API server serves IPAM's settings under another name.
		{"ipamconfigs", "IPAMConfig", nil}, {"ipamconfigurations", "IPAMConfiguration", nil},
		{"ipamblocks", "IPAMBlock", blockOf}, {"blockaffinities", "BlockAffinity", ofNode},
		{"hostendpoints", "HostEndpoint", ofNode}, {"tiers", "Tier", nil},
		{"networkpolicies", "NetworkPolicy", nil}, {"globalnetworkpolicies", "GlobalNetworkPolicy", nil},
	}
}

// ofNode reports whether a spec names one of the nodes.
func ofNode(spec map[string]any, nodes []string) bool {
	node, _ := spec["node"].(string)
	return slices.Contains(nodes, node)
}

// blockOf reports whether a block belongs to one of the nodes, or contains an address that such a node uses.
func blockOf(spec map[string]any, nodes []string) bool {
	affinity, _ := spec["affinity"].(string)
	if node, is := strings.CutPrefix(affinity, "host:"); is && slices.Contains(nodes, node) {
		return true
	}
	attributes, _ := spec["attributes"].([]any)
	return slices.ContainsFunc(attributes, func(of any) bool {
		fields, _ := of.(map[string]any)
		secondary, _ := fields["secondary"].(map[string]any)
		node, _ := secondary["node"].(string)
		return slices.Contains(nodes, node)
	})
}

// calico reads a Calico kind from the API group that has it.
func (r *objectsReading) calico(ctx context.Context, k calicoResource) Objects {
	items, group, err := r.c.list(ctx, k.resource, 0)
	o := Objects{Kind: k.kind, Namespaced: k.resource == "networkpolicies"}
	o.Resource = k.resource
	for _, gv := range r.c.groups {
		if gv.Group == group {
			o.GroupVersionResource = gv.WithResource(k.resource)
		}
	}
	items = slices.DeleteFunc(items, func(item unstructured.Unstructured) bool {
		spec, _, _ := unstructured.NestedMap(item.Object, "spec")
		return k.about != nil && !k.about(spec, r.nodes)
	})
	o.add("listing "+k.resource, items, err)
	return o
}
