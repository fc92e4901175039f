package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/internal/cluster/roles"
	"github.com/calico-probe/calico-probe/probe"
)

// access holds the permissions of Calico's accounts, and Calico's kinds in the API server.
type access struct {
	Rights   Read[Rights]
	Plugin   Read[Rights] // permissions of the CNI plugin's separate account, if known
	Kinds    Read[kinds]
	Accounts Read[[]CalicoAccount]
}

// Rights records which of the needed permissions an account lacks.
type Rights struct {
	Account string   // NAMESPACE:NAME; "" = none
	ByRoles bool     // read from roles and bindings, because the user has no permission to query the API server
	Checked int      // number of permissions queried
	Lacks   []string // missing permissions, as VERB RESOURCE
}

// Source returns the source of the permissions if the user has no permission to query them from the API server.
func (r Rights) Source() string {
	if r.ByRoles {
		return ", by the roles and bindings of the cluster"
	}
	return ""
}

// kinds holds Calico's resources in the API server.
type kinds struct {
	Group  string   // as detected by calico-node
	Served []string // the resources of that group
	Absent []string // missing kinds of KindsNeeded
}

// needed returns the API requests that every calico-node makes if Calico's data is in Kubernetes (its ClusterRole in
// the manifests and the operator).
func (s *Snapshot) needed(calico string, served []string) []authorizationv1.ResourceAttributes {
	ask := func(verb, group, resource string) authorizationv1.ResourceAttributes {
		return authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: resource}
	}
	out := []authorizationv1.ResourceAttributes{
		ask("get", "", "nodes"), ask("list", calico, "ippools"), ask("list", calico, "felixconfigurations"),
		ask("get", calico, "clusterinformations"), ask("update", calico, "clusterinformations"),
	}
	if typha := s.CalicoEnv("FELIX_TYPHAK8SSERVICENAME"); typha == "" || typha == "none" { // else Typha does
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

// lists returns the Calico kinds that this version's Felix and confd list when they start (felixsyncer and bgpsyncer in
// its sources). It omits the kinds that are always queried.
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

// tokenFor returns the account for which install-cni creates tokens, or "" if it is unknown. Before v3.26 this is
// install-cni's own account.
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

// KindsNeeded lists the Calico resources that calico-node or its CNI plugin needs to work.
var KindsNeeded = []string{"ippools", "felixconfigurations", "clusterinformations", "bgpconfigurations", "bgppeers",
	"ipamblocks", "blockaffinities", "ipamhandles"}

// ReadAccess queries the permissions of Calico's accounts, and Calico's resources in the API server.
func (c *Client) ReadAccess(ctx context.Context, s *Snapshot) {
	var all probe.Workers
	defer all.Wait()
	s.Accounts.start(ctx, &all, func(ctx context.Context) ([]CalicoAccount, error) { return c.readAccounts(ctx, s) })
	if s.Calico.Value == nil || len(s.Etcd.Value) > 0 {
		return
	}
	s.Kinds.read(ctx, c.ReadKinds)
	own, group := s.Calico.Value.Spec.ServiceAccountName, s.Kinds.Value.Group
	if group == "" { // detecting the group caused a panic
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

// calicoRightsOf queries which of some permissions an account in calico-node's namespace has.
func (c *Client) calicoRightsOf(ctx context.Context, s *Snapshot, name string,
	asks []authorizationv1.ResourceAttributes,
) (Rights, error) {
	out, err := c.rightsOf(ctx, roles.Account{Namespace: s.Calico.Value.Namespace, Name: name}, asks)
	out.Account = s.Calico.Value.Namespace + ":" + name
	return out, err
}

// pluginNeeds returns the API requests that the CNI plugin makes for each new pod, whatever IPAM it uses.
func pluginNeeds(calico string) []authorizationv1.ResourceAttributes {
	return []authorizationv1.ResourceAttributes{
		{Verb: "get", Group: calico, Resource: "clusterinformations"}, {Verb: "get", Resource: "pods"},
		{Verb: "get", Resource: "namespaces"}, {Verb: "patch", Resource: "pods", Subresource: "status"},
	}
}

// permissionCache holds the permissions of accounts for all snapshots of a Survey.
type permissionCache struct {
	roles   roles.Reader
	reviews sync.Map // permission -> whether granted
}

// once returns a client that queries each permission only for the first snapshot of a Survey.
func (c *Client) once(of *Survey) *Client {
	own := *c
	own.permissions = &of.Known().permissions
	return &own
}

// rightsOf queries which permissions an account has. If the user has no permission to query, it reads roles and
// bindings.
func (c *Client) rightsOf(ctx context.Context, who roles.Account, asks []authorizationv1.ResourceAttributes,
) (Rights, error) {
	out := Rights{Account: who.User(), Checked: len(asks)}
	known := cmp.Or(c.permissions, &permissionCache{})
	may, err := c.reviewed(ctx, known, who, asks)
	if apierrors.IsForbidden(err) {
		if granted, unread := known.roles.Granted(ctx, c.kube, who, asks); unread == nil {
			may, err, out.ByRoles = granted, nil, true
		}
	}
	if err == nil {
		out.Lacks = lacked(asks, may)
	}
	return out, err
}

// permission is the question whether an account may make a request. ask contains no selectors.
type permission struct {
	who roles.Account
	ask authorizationv1.ResourceAttributes
}

// reviewed queries an account's permissions from the API server, unless they are known.
func (c *Client) reviewed(ctx context.Context, known *permissionCache, who roles.Account,
	asks []authorizationv1.ResourceAttributes,
) ([]bool, error) {
	return whole(forEach(asks, func(ask authorizationv1.ResourceAttributes) (bool, error) {
		if may, is := known.reviews.Load(permission{who, ask}); is {
			return may.(bool), nil
		}
		review, err := c.kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{
				User: who.User(), Groups: who.Groups(), ResourceAttributes: &ask,
			}}, metav1.CreateOptions{})
		if err == nil && !review.Status.Allowed && review.Status.EvaluationError != "" { // an authorizer failed
			err = fmt.Errorf("checking the permissions of %s: %s", who.User(), review.Status.EvaluationError)
		}
		if err != nil {
			return false, err
		}
		known.reviews.Store(permission{who, ask}, review.Status.Allowed)
		return review.Status.Allowed, nil
	}))
}

// ReadKinds lists Calico's resources in the API server, from the first API group that exists.
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
			return kinds{Group: gv.Group}, fmt.Errorf("listing the resources of %s: %w", gv.Group, err)
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
