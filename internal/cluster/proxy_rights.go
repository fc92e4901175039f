package cluster

import (
	"context"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/calico-probe/calico-probe/internal/cluster/roles"
)

// proxyUser is the user of a kube-proxy without a ServiceAccount. The API server itself binds this user to
// system:node-proxier.
const proxyUser = "system:kube-proxy"

// proxyAccount returns the account that the node's kube-proxy uses, and whether this is certain.
func proxyAccount(running []corev1.Pod) (who roles.Account, sure bool) {
	for i := range running {
		p := &running[i]
		owner := metav1.GetControllerOf(p)
		if p.Namespace != metav1.NamespaceSystem || p.Labels["k8s-app"] != "kube-proxy" || owner == nil {
			continue
		}
		if name := p.Spec.ServiceAccountName; owner.Kind == "DaemonSet" && name != "" && name != "default" {
			return roles.Account{Namespace: p.Namespace, Name: name}, true
		}
	}
	return roles.Account{Name: proxyUser}, false
}

// proxyAccess holds kube-proxy's permissions.
type proxyAccess struct {
	Rights
	Sure bool // the account is certainly kube-proxy's
}

// ReadProxyAccess queries the permissions of kube-proxy's account.
func (c *Client) ReadProxyAccess(ctx context.Context, running []corev1.Pod) (proxyAccess, error) {
	who, sure := proxyAccount(running)
	granted, err := c.rightsOf(ctx, who,
		watches([2]string{"", "services"}, [2]string{"discovery.k8s.io", "endpointslices"}))
	return proxyAccess{granted, sure}, err
}

// lacked lists the missing permissions of an account, as VERB RESOURCE.
func lacked(asks []authorizationv1.ResourceAttributes, may []bool) []string {
	var out []string
	for i, ask := range asks {
		if !may[i] {
			out = append(out, ask.Verb+" "+strings.TrimSuffix(ask.Resource+"/"+ask.Subresource, "/"))
		}
	}
	return out
}

// UsesEndpoints reports whether this version of kube-proxy, if it is before v1.22, may work without EndpointSlices.
func UsesEndpoints(kubelet string) bool {
	v, err := version.ParseGeneric(kubelet)
	return err == nil && v.LessThan(version.MajorMinor(1, 22))
}
