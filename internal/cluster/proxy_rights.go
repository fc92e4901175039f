package cluster

import (
	"context"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// proxyUser is who a kube-proxy is that has no service account: the name to which the API server itself
// binds system:node-proxier.
const proxyUser = "system:kube-proxy"

// proxyAccount is the account of the node's kube-proxy, and whether it is known to be that.
func proxyAccount(running []corev1.Pod) (who account, sure bool) {
	for i := range running {
		p := &running[i]
		owner := metav1.GetControllerOf(p)
		if p.Namespace != metav1.NamespaceSystem || p.Labels["k8s-app"] != "kube-proxy" || owner == nil {
			continue
		}
		if name := p.Spec.ServiceAccountName; owner.Kind == "DaemonSet" && name != "" && name != "default" {
			return account{namespace: p.Namespace, name: name}, true
		}
	}
	return account{name: proxyUser}, false
}

// proxyAccess is what the API server grants kube-proxy.
type proxyAccess struct {
	rights
	sure bool // the account surely is kube-proxy's
}

// readProxyAccess asks the API server what kube-proxy's account may do.
func (c *Client) readProxyAccess(ctx context.Context, running []corev1.Pod) (proxyAccess, error) {
	who, sure := proxyAccount(running)
	granted, err := c.rightsOf(ctx, who,
		watches([2]string{"", "services"}, [2]string{"discovery.k8s.io", "endpointslices"}))
	return proxyAccess{granted, sure}, err
}

// lacked are the things asked about that an account may not do: VERB RESOURCE.
func lacked(asks []authorizationv1.ResourceAttributes, may []bool) []string {
	var out []string
	for i, ask := range asks {
		if !may[i] {
			out = append(out, ask.Verb+" "+strings.TrimSuffix(ask.Resource+"/"+ask.Subresource, "/"))
		}
	}
	return out
}

func proxyRights(s *Snapshot, report func(probe.Result)) {
	switch r, err := s.proxy.Value, s.proxy.Err; {
	case usesEndpoints(s.Node.Status.NodeInfo.KubeletVersion):
		report(probe.Found(probe.Skip, "a kube-proxy of this version may still read endpoints in place of endpointslices"))
	case r.account == "" && err == nil:
		report(probe.Found(probe.Skip, "which account kube-proxy has is not known"))
	case apierrors.IsForbidden(err):
		report(probe.Found(probe.Skip, "what %s may do is not known: you may neither create subjectaccessreviews nor read "+
			"the roles and bindings", r.account))
	case err != nil:
		report(probe.Failed(err))
	case len(r.lacks) == 0:
		report(probe.Found(probe.OK, "%s may do all %d things that kube-proxy needs%s", r.account, r.asked, r.source()))
	default:
		status, needs := probe.Warn, "which a kube-proxy needs that is no pod of a DaemonSet"
		if r.sure {
			needs = "which kube-proxy needs"
		}
		if r.sure && !r.byRoles { // else another authorizer may grant it
			status = probe.Fail
		}
		report(probe.Found(status, "%s may not %s, %s%s", r.account, strings.Join(r.lacks, ", "), needs, r.source()).
			With(facts.Account, r.account).With(facts.Lacks, r.lacks))
	}
}

// usesEndpoints tells whether kube-proxy of a version may do without EndpointSlices (before v1.22).
func usesEndpoints(kubelet string) bool {
	v, err := version.ParseGeneric(kubelet)
	return err == nil && v.LessThan(version.MajorMinor(1, 22))
}
