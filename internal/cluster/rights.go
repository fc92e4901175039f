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

// rights is what the API server grants calico-node's account of what it needs, and knows of Calico's kinds.
type rights struct {
	account string   // NAMESPACE:NAME, "" = there is no calico-node
	byRoles bool     // they were read from roles and bindings, as the API server may not be asked
	asked   int      // how many rights
	lacks   []string // those it has not: VERB RESOURCE
	err     error
	group   string   // of Calico's resources, as calico-node finds it out
	kinds   []string // of Calico's resources that are not there
	kindErr error
	plugin  *rights // of the CNI plugin's own account, nil = it uses calico-node's, or is not known
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
		t.Subresource, t.Namespace, t.Name = "token", s.Calico.Namespace, token
		out = append(out, t)
	}
	return out
}

// lists are the kinds of Calico's that Felix and confd of this version list before they begin (felixsyncer and
// bgpsyncer in its sources), besides those that are asked about anyway.
func (s *Snapshot) lists() []string {
	out := []string{"globalnetworkpolicies", "networkpolicies", "globalnetworksets", "networksets", "hostendpoints",
		"bgpconfigurations", "bgppeers"}
	bird := s.backend == "" || s.backend == "bird"
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
	case !slices.ContainsFunc(s.Calico.Spec.InitContainers, installs) || s.version() == "" || s.olderThan(24, 0):
		return ""
	case s.olderThan(26, 0) || s.Calico.Labels["k8s-app"] == "canal":
		return s.Calico.Spec.ServiceAccountName
	}
	return cmp.Or(s.calicoEnv("CALICO_CNI_SERVICE_ACCOUNT"), "calico-cni-plugin")
}

// kindsNeeded are resources of Calico's without which calico-node or its CNI plugin does not work.
var kindsNeeded = []string{"ippools", "felixconfigurations", "clusterinformations", "bgpconfigurations", "bgppeers",
	"ipamblocks", "blockaffinities", "ipamhandles"}

// readRights asks the API server what calico-node's account may do, and which resources it knows.
func (c *Client) readRights(ctx context.Context, s *Snapshot) rights {
	if s.Calico == nil || len(s.etcd) > 0 {
		return rights{}
	}
	who := account{namespace: s.Calico.Namespace, name: s.Calico.Spec.ServiceAccountName}
	group, served, kindErr := c.servedKinds(ctx)
	var plugin *rights
	var all parts
	if token := s.tokenFor(); token != "" && token != who.name {
		plugin = &rights{}
		all.read(&plugin.err, func() {
			*plugin = c.rightsOf(ctx, account{namespace: who.namespace, name: token}, pluginNeeds(group))
			plugin.account = who.namespace + ":" + token
		})
	}
	out := c.rightsOf(ctx, who, s.needed(group, served))
	all.Wait()
	out.account, out.group, out.kindErr, out.plugin = who.namespace+":"+who.name, group, kindErr, plugin
	if kindErr == nil {
		out.kinds = slices.DeleteFunc(slices.Clone(kindsNeeded),
			func(kind string) bool { return slices.Contains(served, kind) })
	}
	return out
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
func (c *Client) rightsOf(ctx context.Context, who account, asks []authorizationv1.ResourceAttributes) rights {
	out := rights{account: who.user(), asked: len(asks)}
	may, err := c.reviewed(ctx, who, asks)
	if apierrors.IsForbidden(err) {
		if granted, unread := c.granted(ctx, who, asks); unread == nil {
			may, err, out.byRoles = granted, nil, true
		}
	}
	if out.err = err; err == nil {
		out.lacks = lacked(asks, may)
	}
	return out
}

// reviewed asks the API server which of the things asked about an account may do.
func (c *Client) reviewed(ctx context.Context, who account, asks []authorizationv1.ResourceAttributes) ([]bool, error) {
	may, errs := make([]bool, len(asks)), make([]error, len(asks))
	var all parts
	for i, ask := range asks {
		all.read(&errs[i], func() {
			review, err := c.kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
				Spec: authorizationv1.SubjectAccessReviewSpec{
					User: who.user(), Groups: who.groups(), ResourceAttributes: &ask,
				}}, metav1.CreateOptions{})
			if errs[i] = err; err == nil {
				may[i] = review.Status.Allowed
				if !may[i] && review.Status.EvaluationError != "" { // an authorizer could not say
					errs[i] = fmt.Errorf("asking what %s may do: %s", who.user(), review.Status.EvaluationError)
				}
			}
		})
	}
	all.Wait()
	return may, cmp.Or(errs...)
}

// servedKinds lists the resources of Calico's that the API server knows, in the first group that it has.
func (c *Client) servedKinds(ctx context.Context) (group string, kinds []string, err error) {
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
			return gv.Group, nil, fmt.Errorf("asking which resources of %s there are: %w", gv.Group, err)
		}
		for _, r := range list.APIResources {
			kinds = append(kinds, r.Name)
		}
		return gv.Group, kinds, nil
	}
	return c.groups[0].Group, nil, nil
}

func calicoRights(s *Snapshot, report func(probe.Result)) {
	said := ""
	if s.rights.byRoles {
		said = ", by the roles and bindings of the cluster"
	}
	switch r := s.rights; {
	case s.CalicoErr != nil:
		report(unread(elsewhereSaid(s.CalicoErr)))
		return
	case r.account == "" && r.err == nil:
		report(probe.Found(probe.Skip, "no calico-node that keeps its data in Kubernetes is known here"))
		return
	case apierrors.IsForbidden(r.err):
		report(probe.Found(probe.Skip, "what %s may do is not known: you may neither create subjectaccessreviews nor read "+
			"the roles and bindings", r.account).
			On("account"))
	case r.err != nil:
		report(probe.Failed(r.err).On("account"))
	case len(r.lacks) == 0:
		report(probe.Found(probe.OK, "%s may do all %d things that were asked about%s", r.account, r.asked, said).On("account"))
	default:
		report(s.needs("%s may not %s, which calico-node needs%s", r.account,
			strings.Join(r.lacks, ", "), said).On("account").
			With(facts.Account, r.account).With(facts.Lacks, r.lacks))
	}
	s.pluginRights(report)
	switch r := s.rights; {
	case r.kindErr != nil:
		report(unread(r.kindErr).On("kinds"))
	case len(r.kinds) == 0:
		report(probe.Found(probe.OK, "the API server knows the %d kinds that calico-node needs", len(kindsNeeded)).On("kinds"))
	default:
		report(s.needs("the API server does not know %s of %s, which calico-node needs", strings.Join(r.kinds, ", "), r.group).
			On("kinds").With(facts.Lacks, r.kinds))
	}
}

// pluginRights reports what the CNI plugin's account lacks: the next pod that starts meets it.
func (s *Snapshot) pluginRights(report func(probe.Result)) {
	const target = "CNI plugin"
	switch r := s.rights.plugin; {
	case r == nil:
	case apierrors.IsForbidden(r.err): // the account of calico-node is reported as not known, for the same reason
	case r.err != nil:
		report(probe.Failed(r.err).On(target))
	case len(r.lacks) == 0:
		report(probe.Found(probe.OK, "%s may do all %d things that the CNI plugin needs", r.account, r.asked).On(target))
	default:
		found := probe.Found(probe.Fail, "%s may not %s, which the CNI plugin needs for each new pod", r.account,
			strings.Join(r.lacks, ", "))
		if r.byRoles { // another authorizer may grant it
			found.Status = probe.Warn
			found.Saw += ", by the roles and bindings of the cluster"
		}
		report(found.On(target).With(facts.Account, r.account).With(facts.Lacks, r.lacks).With(facts.OfPlugin, true))
	}
}

// needs is the result for something that calico-node needs and has not: it bites now where it does
// not get up, and else at its next start.
func (s *Snapshot) needs(format string, args ...any) probe.Result {
	if s.rights.byRoles && len(s.rights.lacks) > 0 { // another authorizer may grant it
		return probe.Found(probe.Warn, format, args...)
	}
	if podReady(s.Calico) {
		r := probe.Found(probe.Warn, format, args...)
		r.Saw += "; the one that runs breaks at its next start at the latest"
		return r.With(facts.Later, true)
	}
	return probe.Found(probe.Fail, format, args...).With(facts.Later, false)
}
