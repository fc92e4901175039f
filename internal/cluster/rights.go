package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// access is what the API server grants the accounts of Calico's parts, and knows of Calico's kinds.
type access struct {
	rights   Read[rights]
	plugin   Read[rights] // of the CNI plugin's own account; without one it uses calico-node's, or is not known
	kinds    Read[kinds]
	accounts Read[[]calicoAccount]
}

// rights is what the API server grants an account of what it needs.
type rights struct {
	account string   // NAMESPACE:NAME, "" = there is none
	byRoles bool     // they were read from roles and bindings, as the API server may not be asked
	asked   int      // how many rights
	lacks   []string // those it has not: VERB RESOURCE
}

// source says where rights are read from that the API server may not be asked about.
func (r rights) source() string {
	if r.byRoles {
		return ", by the roles and bindings of the cluster"
	}
	return ""
}

// kinds is what the API server knows of Calico's resources.
type kinds struct {
	group  string   // as calico-node finds it out
	served []string // the resources of that group
	absent []string // those of kindsNeeded that are not there
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
	if typha := s.calicoEnv("FELIX_TYPHAK8SSERVICENAME"); typha == "" || typha == "none" { // else that asks in its place
		out = append(out, ask("watch", "", "nodes"), ask("watch", "", "pods"), ask("watch", "", "namespaces"),
			ask("list", "", "serviceaccounts"), ask("watch", "networking.k8s.io", "networkpolicies"),
			ask("watch", calico, "felixconfigurations"))
		if s.version() != "" && !s.olderThan(22, 0) { // for policies that name Services
			out = append(out, ask("list", "discovery.k8s.io", "endpointslices"))
		}
		if s.version() != "" && !s.olderThan(23, 0) {
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
	bird := s.backend.Value == "" || s.backend.Value == "bird"
	if bird {
		out = append(out, "blockaffinities")
	}
	if bird && s.version() != "" && !s.olderThan(26, 0) {
		out = append(out, "bgpfilters")
	}
	if s.calicoEnv("USE_POD_CIDR") != "true" {
		out = append(out, "ipamblocks")
	}
	if s.version() != "" && !s.olderThan(29, 0) {
		out = append(out, "tiers")
	}
	if s.version() != "" && !s.olderThan(30, 0) {
		out = append(out, "stagednetworkpolicies", "stagedglobalnetworkpolicies", "stagedkubernetesnetworkpolicies")
	}
	return out
}

// tokenFor is the account for which install-cni makes tokens, "" where that is not known: its own
// before v3.26.
func (s *Snapshot) tokenFor() string {
	installs := func(c corev1.Container) bool { return c.Name == "install-cni" }
	switch {
	case !slices.ContainsFunc(s.Calico.Value.Spec.InitContainers, installs) || s.version() == "" || s.olderThan(24, 0):
		return ""
	case s.olderThan(26, 0) || s.Calico.Value.Labels["k8s-app"] == "canal":
		return s.Calico.Value.Spec.ServiceAccountName
	}
	return cmp.Or(s.calicoEnv("CALICO_CNI_SERVICE_ACCOUNT"), "calico-cni-plugin")
}

// kindsNeeded are resources of Calico's without which calico-node or its CNI plugin does not work.
var kindsNeeded = []string{"ippools", "felixconfigurations", "clusterinformations", "bgpconfigurations", "bgppeers",
	"ipamblocks", "blockaffinities", "ipamhandles"}

// readAccess asks the API server what the accounts of Calico's parts may do, and which resources it knows.
func (c *Client) readAccess(ctx context.Context, s *Snapshot) {
	var all probe.Workers
	defer all.Wait()
	s.accounts.start(ctx, &all, func(ctx context.Context) ([]calicoAccount, error) { return c.readAccounts(ctx, s) })
	if s.Calico.Value == nil || len(s.etcd.Value) > 0 {
		return
	}
	s.kinds.read(ctx, c.readKinds)
	own, group := s.Calico.Value.Spec.ServiceAccountName, s.kinds.Value.group
	if group == "" { // finding it out crashed
		s.rights.Err = s.kinds.Err
		return
	}
	s.rights.start(ctx, &all, func(ctx context.Context) (rights, error) {
		return c.calicoRightsOf(ctx, s, own, s.needed(group, s.kinds.Value.served))
	})
	s.plugin.start(ctx, &all, func(ctx context.Context) (rights, error) {
		if token := s.tokenFor(); token != "" && token != own {
			return c.calicoRightsOf(ctx, s, token, pluginNeeds(group))
		}
		return rights{}, nil
	})
}

// calicoRightsOf asks the API server which of some things an account in the namespace of calico-node may do.
func (c *Client) calicoRightsOf(ctx context.Context, s *Snapshot, name string,
	asks []authorizationv1.ResourceAttributes,
) (rights, error) {
	out, err := c.rightsOf(ctx, account{namespace: s.Calico.Value.Namespace, name: name}, asks)
	out.account = s.Calico.Value.Namespace + ":" + name
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
func (c *Client) rightsOf(ctx context.Context, who account, asks []authorizationv1.ResourceAttributes) (rights, error) {
	out := rights{account: who.user(), asked: len(asks)}
	may, err := c.reviewed(ctx, who, asks)
	if apierrors.IsForbidden(err) {
		if granted, unread := c.granted(ctx, who, asks); unread == nil {
			may, err, out.byRoles = granted, nil, true
		}
	}
	if err == nil {
		out.lacks = lacked(asks, may)
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

// readKinds lists the resources of Calico's that the API server knows, in the first group that it has.
func (c *Client) readKinds(ctx context.Context) (kinds, error) {
	out := kinds{group: c.groups[0].Group}
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
			return kinds{group: gv.Group}, fmt.Errorf("asking which resources of %s there are: %w", gv.Group, err)
		}
		out.group = gv.Group
		for _, r := range list.APIResources {
			out.served = append(out.served, r.Name)
		}
		break
	}
	out.absent = slices.DeleteFunc(slices.Clone(kindsNeeded),
		func(kind string) bool { return slices.Contains(out.served, kind) })
	return out, nil
}

func calicoRights(s *Snapshot, report func(probe.Result)) {
	switch r, err := s.rights.Value, s.rights.Err; {
	case s.Calico.Err != nil:
		report(unread(elsewhereSaid(s.Calico.Err)))
		return
	case r.account == "" && err == nil:
		report(probe.Found(probe.Skip, "no calico-node that keeps its data in Kubernetes is known here"))
		return
	case apierrors.IsForbidden(err):
		report(probe.Found(probe.Skip, "what %s may do is not known: you may neither create subjectaccessreviews nor read "+
			"the roles and bindings", r.account).
			On("account"))
	case err != nil:
		report(probe.Failed(err).On("account"))
	case len(r.lacks) == 0:
		report(probe.Found(probe.OK, "%s may do all %d things that were asked about%s", r.account, r.asked, r.source()).On("account"))
	default:
		report(s.needs("%s may not %s, which calico-node needs%s", r.account,
			strings.Join(r.lacks, ", "), r.source()).On("account").
			With(facts.Account, r.account).With(facts.Lacks, r.lacks))
	}
	s.pluginRights(report)
	switch k := s.kinds.Value; {
	case s.kinds.Err != nil:
		report(unread(s.kinds.Err).On("kinds"))
	case len(k.absent) == 0:
		report(probe.Found(probe.OK, "the API server knows the %d kinds that calico-node needs", len(kindsNeeded)).On("kinds"))
	default:
		report(s.needs("the API server does not know %s of %s, which calico-node needs", strings.Join(k.absent, ", "), k.group).
			On("kinds").With(facts.Lacks, k.absent))
	}
}

// pluginRights reports what the CNI plugin's account lacks: the next pod that starts meets it.
func (s *Snapshot) pluginRights(report func(probe.Result)) {
	const target = "CNI plugin"
	switch r, err := s.plugin.Value, s.plugin.Err; {
	case r.account == "" && err == nil:
	case apierrors.IsForbidden(err): // the account of calico-node is reported as not known, for the same reason
	case err != nil:
		report(probe.Failed(err).On(target))
	case len(r.lacks) == 0:
		report(probe.Found(probe.OK, "%s may do all %d things that the CNI plugin needs", r.account, r.asked).On(target))
	default:
		found := probe.Found(probe.Fail, "%s may not %s, which the CNI plugin needs for each new pod%s", r.account,
			strings.Join(r.lacks, ", "), r.source())
		if r.byRoles { // another authorizer may grant it
			found.Status = probe.Warn
		}
		report(found.On(target).With(facts.Account, r.account).With(facts.Lacks, r.lacks).With(facts.OfPlugin, true))
	}
}

// needs is the result for something that calico-node needs and has not: it bites now where it does
// not get up, and else at its next start.
func (s *Snapshot) needs(format string, args ...any) probe.Result {
	if s.rights.Value.byRoles && len(s.rights.Value.lacks) > 0 { // another authorizer may grant it
		return probe.Found(probe.Warn, format, args...)
	}
	if podReady(s.Calico.Value) {
		r := probe.Found(probe.Warn, format, args...)
		r.Saw += "; the one that runs breaks at its next start at the latest"
		return r.With(facts.Later, true)
	}
	return probe.Found(probe.Fail, format, args...).With(facts.Later, false)
}
