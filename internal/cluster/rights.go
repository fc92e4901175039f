package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/probe"
)

// access is what the API server grants the accounts of Calico's parts, and knows of Calico's kinds.
type access struct {
	Rights   Read[Rights]
	Plugin   Read[Rights] // of the CNI plugin's own account; without one it uses calico-node's, or is not known
	Kinds    Read[kinds]
	Accounts Read[[]CalicoAccount]
}

// Rights is what the API server grants an account of what it needs.
type Rights struct {
	Account string   // NAMESPACE:NAME, "" = there is none
	ByRoles bool     // they were read from roles and bindings, as the API server may not be asked
	Asked   int      // how many rights
	Lacks   []string // those it has not: VERB RESOURCE
}

// Source says where rights are read from that the API server may not be asked about.
func (r Rights) Source() string {
	if r.ByRoles {
		return ", by the roles and bindings of the cluster"
	}
	return ""
}

// kinds is what the API server knows of Calico's resources.
type kinds struct {
	Group  string   // as calico-node finds it out
	Served []string // the resources of that group
	Absent []string // those of kindsNeeded that are not there
}

// needed is what calico-node does with the API at a start and after it, on every kind of installation
// that keeps Calico's data in Kubernetes (its ClusterRole in the manifests and the operator).
func (s *Snapshot) needed(calico string, served []string) []authorizationv1.ResourceAttributes {
	ask := func(verb, group, resource string) authorizationv1.ResourceAttributes {
		return authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: resource}
	}
	out := []authorizationv1.ResourceAttributes{
		ask("get", "", "nodes"), ask("list", calico, "ippools"), ask("list", calico, "felixconfigurations"),
		ask("get", calico, "clusterinformations"), ask("update", calico, "clusterinformations"),
	}
	if typha := s.CalicoEnv("FELIX_TYPHAK8SSERVICENAME"); typha == "" || typha == "none" { // else that asks in its place
		out = append(out, ask("watch", "", "nodes"), ask("watch", "", "pods"), ask("watch", "", "namespaces"),
			ask("list", "", "serviceaccounts"), ask("watch", "networking.k8s.io", "networkpolicies"),
			ask("watch", calico, "felixconfigurations"))
		if s.Version() != "" && !s.olderThan(22, 0) { // for policies that name Services
			out = append(out, ask("list", "discovery.k8s.io", "endpointslices"))
		}
		if s.Version() != "" && !s.olderThan(23, 0) {
			out = append(out, ask("list", "", "services"))
		}
		for _, kind := range s.lists() {
			if slices.Contains(served, kind) {
				out = append(out, ask("list", calico, kind))
			}
		}
	}
	if token := s.tokenFor(); token != "" {
		t := ask("create", "", "serviceaccounts")
		t.Subresource, t.Namespace, t.Name = "token", s.Calico.Value.Namespace, token
		out = append(out, t)
	}
	return out
}

// lists are the kinds of Calico's that Felix and confd of this version list before they begin (felixsyncer and
// bgpsyncer in its sources), besides those that are asked about anyway.
func (s *Snapshot) lists() []string {
	out := []string{"globalnetworkpolicies", "networkpolicies", "globalnetworksets", "networksets", "hostendpoints",
		"bgpconfigurations", "bgppeers"}
	bird := s.Backend.Value == "" || s.Backend.Value == "bird"
	if bird {
		out = append(out, "blockaffinities")
	}
	if bird && s.Version() != "" && !s.olderThan(26, 0) {
		out = append(out, "bgpfilters")
	}
	if s.CalicoEnv("USE_POD_CIDR") != "true" {
		out = append(out, "ipamblocks")
	}
	if s.Version() != "" && !s.olderThan(29, 0) {
		out = append(out, "tiers")
	}
	if s.Version() != "" && !s.olderThan(30, 0) {
		out = append(out, "stagednetworkpolicies", "stagedglobalnetworkpolicies", "stagedkubernetesnetworkpolicies")
	}
	return out
}

// tokenFor is the account for which install-cni makes tokens, "" where that is not known: its own
// before v3.26.
func (s *Snapshot) tokenFor() string {
	installs := func(c corev1.Container) bool { return c.Name == "install-cni" }
	switch {
	case !slices.ContainsFunc(s.Calico.Value.Spec.InitContainers, installs) || s.Version() == "" || s.olderThan(24, 0):
		return ""
	case s.olderThan(26, 0) || s.Calico.Value.Labels["k8s-app"] == "canal":
		return s.Calico.Value.Spec.ServiceAccountName
	}
	return cmp.Or(s.CalicoEnv("CALICO_CNI_SERVICE_ACCOUNT"), "calico-cni-plugin")
}

// KindsNeeded are resources of Calico's without which calico-node or its CNI plugin does not work.
var KindsNeeded = []string{"ippools", "felixconfigurations", "clusterinformations", "bgpconfigurations", "bgppeers",
	"ipamblocks", "blockaffinities", "ipamhandles"}

// ReadAccess asks the API server what the accounts of Calico's parts may do, and which resources it knows.
func (c *Client) ReadAccess(ctx context.Context, s *Snapshot) {
	var all probe.Workers
	defer all.Wait()
	s.Accounts.start(ctx, &all, func(ctx context.Context) ([]CalicoAccount, error) { return c.readAccounts(ctx, s) })
	if s.Calico.Value == nil || len(s.Etcd.Value) > 0 {
		return
	}
	s.Kinds.read(ctx, c.ReadKinds)
	own, group := s.Calico.Value.Spec.ServiceAccountName, s.Kinds.Value.Group
	if group == "" { // finding it out crashed
		s.Rights.Err = s.Kinds.Err
		return
	}
	s.Rights.start(ctx, &all, func(ctx context.Context) (Rights, error) {
		return c.calicoRightsOf(ctx, s, own, s.needed(group, s.Kinds.Value.Served))
	})
	s.Plugin.start(ctx, &all, func(ctx context.Context) (Rights, error) {
		if token := s.tokenFor(); token != "" && token != own {
			return c.calicoRightsOf(ctx, s, token, pluginNeeds(group))
		}
		return Rights{}, nil
	})
}

// calicoRightsOf asks the API server which of some things an account in the namespace of calico-node may do.
func (c *Client) calicoRightsOf(ctx context.Context, s *Snapshot, name string,
	asks []authorizationv1.ResourceAttributes,
) (Rights, error) {
	out, err := c.rightsOf(ctx, account{Namespace: s.Calico.Value.Namespace, Name: name}, asks)
	out.Account = s.Calico.Value.Namespace + ":" + name
	return out, err
}

// pluginNeeds is what the CNI plugin does with the API for each new pod, whatever its IPAM is.
func pluginNeeds(calico string) []authorizationv1.ResourceAttributes {
	return []authorizationv1.ResourceAttributes{
		{Verb: "get", Group: calico, Resource: "clusterinformations"}, {Verb: "get", Resource: "pods"},
		{Verb: "get", Resource: "namespaces"}, {Verb: "patch", Resource: "pods", Subresource: "status"},
	}
}

// rightsOf asks the API server which of some things an account may do, or reads it from roles and
// bindings where that may not be asked.
func (c *Client) rightsOf(ctx context.Context, who account, asks []authorizationv1.ResourceAttributes) (Rights, error) {
	out := Rights{Account: who.user(), Asked: len(asks)}
	may, err := c.reviewed(ctx, who, asks)
	if apierrors.IsForbidden(err) {
		if granted, unread := c.granted(ctx, who, asks); unread == nil {
			may, err, out.ByRoles = granted, nil, true
		}
	}
	if err == nil {
		out.Lacks = lacked(asks, may)
	}
	return out, err
}

// reviewed asks the API server which of the things asked about an account may do.
func (c *Client) reviewed(ctx context.Context, who account, asks []authorizationv1.ResourceAttributes) ([]bool, error) {
	return whole(forEach(asks, func(ask authorizationv1.ResourceAttributes) (bool, error) {
		review, err := c.kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{
				User: who.user(), Groups: who.groups(), ResourceAttributes: &ask,
			}}, metav1.CreateOptions{})
		if err == nil && !review.Status.Allowed && review.Status.EvaluationError != "" { // an authorizer could not say
			err = fmt.Errorf("asking what %s may do: %s", who.user(), review.Status.EvaluationError)
		}
		return err == nil && review.Status.Allowed, err
	}))
}

// ReadKinds lists the resources of Calico's that the API server knows, in the first group that it has.
func (c *Client) ReadKinds(ctx context.Context) (kinds, error) {
	out := kinds{Group: c.groups[0].Group}
	for _, gv := range c.groups {
		b, err := c.kube.Discovery().RESTClient().Get().AbsPath("/apis/" + gv.String()).DoRaw(ctx)
		if apierrors.IsNotFound(err) {
			continue
		}
		var list metav1.APIResourceList
		if err == nil {
			err = json.Unmarshal(b, &list)
		}
		if err != nil {
			return kinds{Group: gv.Group}, fmt.Errorf("asking which resources of %s there are: %w", gv.Group, err)
		}
		out.Group = gv.Group
		for _, r := range list.APIResources {
			out.Served = append(out.Served, r.Name)
		}
		break
	}
	out.Absent = slices.DeleteFunc(slices.Clone(KindsNeeded),
		func(kind string) bool { return slices.Contains(out.Served, kind) })
	return out, nil
}
