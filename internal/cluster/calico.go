package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/calico-probe/calico-probe/probe"
)

// groups are the possible API groups of Calico's resources. The installation decides which groups exist. If both exist,
// the v3 group is a view of the other group, unless calico-node is configured to use native v3 resources
// (CALICO_API_GROUP).
var groups = []schema.GroupVersion{{Group: "crd.projectcalico.org", Version: "v1"},
	{Group: "projectcalico.org", Version: "v3"}}

// Specs maps names of Calico's resources of one kind to their specs.
type Specs map[string]map[string]any

// listSpecs lists the specs of one Calico resource by name, or by namespace/name. It returns an empty map if the
// resource is not installed. If limit is above 0, it returns at most that many. If limit is 0, it returns all of them
// from the API server's cache.
func (c *Client) listSpecs(ctx context.Context, resource string, limit int64) (Specs, error) {
	items, group, err := c.list(ctx, resource, limit)
	if err != nil || group == "" {
		return nil, err
	}
	out := Specs{}
	for _, item := range items {
		spec, _, err := unstructured.NestedMap(item.Object, "spec")
		if err != nil {
			return nil, fmt.Errorf("reading %s %s: %w", resource, item.GetName(), err)
		}
		out[strings.TrimPrefix(item.GetNamespace()+"/"+item.GetName(), "/")] = spec
	}
	return out, nil
}

// allSpecs returns a function that reads all specs of one kind.
func (c *Client) allSpecs(resource string) func(context.Context) (Specs, error) {
	return func(ctx context.Context) (Specs, error) { return c.listSpecs(ctx, resource, 0) }
}

// list lists one Calico resource from the first API group that has it. It also returns that group, or "" if the
// resource was not found.
func (c *Client) list(ctx context.Context, resource string,
	limit int64) (of []unstructured.Unstructured, group string, err error) {
	options := metav1.ListOptions{Limit: limit}
	if limit == 0 {
		options.ResourceVersion = "0"
	}
	for _, gv := range c.groups {
		list, listErr := c.calls.Resource(gv.WithResource(resource)).List(ctx, options)
		switch {
		case apierrors.IsNotFound(listErr): // the group is not installed
		case listErr != nil:
			err = fmt.Errorf("listing %s: %w", resource, listErr)
		default:
			return list.Items, gv.Group, nil
		}
	}
	return nil, "", err
}

// Block is a block of pod addresses that belongs to a node. It can also be a single address in the block that a pod on
// another node borrowed.
type Block struct {
	CIDR netip.Prefix
	Node string
}

// blocks is IPAM's assignment of blocks to nodes.
type blocks struct {
	Owned  []Block
	Specs  Specs
	Partly bool // specs may be incomplete
}

// readBlocks lists the nodes' confirmed block affinities, and the addresses that pods on other nodes borrow from these
// blocks.
func (c *Client) readBlocks(ctx context.Context) (out blocks, err error) {
	affinities, err := c.listSpecs(ctx, "blockaffinities", 0)
	if err != nil {
		return out, err
	}
	for _, name := range slices.Sorted(maps.Keys(affinities)) {
		if b, ok := confirmed(affinities[name]); ok {
			out.Owned = append(out.Owned, b)
		}
	}
	if len(out.Owned) == 0 {
		return out, nil // another IPAM
	}
	if out.Specs, err = c.listSpecs(ctx, "ipamblocks", maxBlocks); err != nil {
		return out, err
	}
	out.Partly = len(out.Specs) >= maxBlocks
	borrowed, err := c.readBorrowed(ctx, out.Specs)
	out.Owned = append(out.Owned, borrowed...)
	return out, err
}

// confirmed returns the block of a confirmed affinity. Depending on the version, "deleted" is a text or a boolean.
func confirmed(spec map[string]any) (Block, bool) {
	if spec["state"] != "confirmed" || spec["deleted"] == "true" || spec["deleted"] == true {
		return Block{}, false
	}
	if kind, _ := spec["type"].(string); kind != "" && kind != "host" {
		return Block{}, false // the block belongs to a load balancer, not to a node
	}
	text, _ := spec["cidr"].(string)
	node, _ := spec["node"].(string)
	cidr, err := netip.ParsePrefix(text)
	return Block{cidr, node}, err == nil && node != ""
}

// Limits for borrowed addresses: the number of blocks to search (a few KB each), and the number of addresses to compare
// with their pods (one call each). These limits are enough to find a fault that affects all borrowed addresses.
const (
	maxBlocks   = 500
	maxBorrowed = 20
)

// Loan is an address in one node's block that IPAM has assigned to a pod on another node.
type Loan struct {
	Addr            netip.Addr
	Node            string // where the pod runs
	Namespace, Name string // of the pod
}

// readBorrowed lists the borrowed addresses that existing pods use. IPAM may also hold addresses of deleted pods.
func (c *Client) readBorrowed(ctx context.Context, of Specs) ([]Block, error) {
	var loans []Loan
	for _, name := range slices.Sorted(maps.Keys(of)) {
		loans = append(loans, LoansIn(of[name])...)
	}
	var out []Block
	for _, l := range loans[:min(len(loans), maxBorrowed)] {
		pod, err := c.kube.CoreV1().Pods(l.Namespace).Get(ctx, l.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return out, fmt.Errorf("reading pod %s/%s, which has a borrowed address: %w", l.Namespace, l.Name, err)
		}
		if pod.Status.PodIP == l.Addr.String() && pod.Status.Phase == corev1.PodRunning && pod.Spec.NodeName == l.Node {
			out = append(out, Block{netip.PrefixFrom(l.Addr, l.Addr.BitLen()), l.Node})
		}
	}
	return out, nil
}

// readBackend returns Calico's networking backend. A container without the variable uses Calico's default.
func readBackend(calico *corev1.Pod, env environment) (string, error) {
	if spec, _ := CalicoContainerOf(calico); spec == nil {
		return "", nil
	}
	backend, err := env.get("CALICO_NETWORKING_BACKEND")
	if err != nil {
		return "", fmt.Errorf("the networking backend of Calico: %w", err)
	}
	return cmp.Or(backend, "bird"), nil
}

// readEtcd lists the etcd endpoints if Calico stores its data in etcd.
func readEtcd(env environment) ([]probe.Target, error) {
	text, err := env.get("ETCD_ENDPOINTS")
	if err != nil {
		return nil, err
	}
	var out []probe.Target
	var errs []error
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		u, err := url.Parse(part)
		if err != nil {
			errs = append(errs, fmt.Errorf("ETCD_ENDPOINTS: %s is not a URL", probe.Masked(part)))
			continue
		}
		port, err := strconv.Atoi(u.Port())
		if err != nil {
			errs = append(errs, fmt.Errorf("ETCD_ENDPOINTS: %s has no port", probe.Origin(part)))
			continue
		}
		t := probe.Target{Kind: probe.KindDatastore, Name: "etcd", Port: port,
			Attrs: map[string]string{probe.AttrScheme: u.Scheme}}
		if t.Addr, err = netip.ParseAddr(u.Hostname()); err != nil {
			t.Host = u.Hostname()
		}
		out = append(out, t)
	}
	return out, errors.Join(errs...)
}
