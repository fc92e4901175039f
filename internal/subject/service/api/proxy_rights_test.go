package api

import (
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/cluster/clustertest"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestProxyRights derives from roles and bindings the rights of kube-proxy's account: that of its pod, else the user to
// which the API server binds system:node-proxier.
func TestProxyRights(t *testing.T) {
	t.Parallel()
	const rbac = "/apis/rbac.authorization.k8s.io/v1"
	const all, cut = `"services","nodes","endpointslices"`, `"services","nodes"`
	yes := true
	pod := corev1.Pod{}
	pod.Namespace, pod.Spec.ServiceAccountName = "kube-system", "kube-proxy"
	pod.Labels = map[string]string{"k8s-app": "kube-proxy"}
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Controller: &yes}}
	static := pod
	static.OwnerReferences = []metav1.OwnerReference{{Kind: "Node", Controller: &yes}}
	static.Spec.ServiceAccountName = ""
	const user, sa = `{"kind":"User","name":"system:kube-proxy"}`, `{"kind":"ServiceAccount","name":"kube-proxy","namespace":"kube-system"}`
	for name, c := range map[string]struct {
		pods      []corev1.Pod
		bound     string
		resources string
		status    probe.Status
		saw       string
	}{
		"recorded: a program of the host": {nil, user, cut, probe.Warn, "system:kube-proxy may not list endpointslices, watch endpointslices"},
		"a static pod":                    {[]corev1.Pod{static}, user, cut, probe.Warn, "system:kube-proxy may not"},
		"a pod":                           {[]corev1.Pod{pod}, sa, cut, probe.Warn, "system:serviceaccount:kube-system:kube-proxy may not list endpointslices"},
		"a pod's binding is gone":         {[]corev1.Pod{pod}, user, all, probe.Warn, "may not list services"},
		"near: the user has all":          {nil, user, all, probe.OK, "has all 4 rights"},
		"near: the pod has all":           {[]corev1.Pod{pod}, sa, all, probe.OK, "has all 4 rights"},
	} {
		client := clustertest.ServerOf(t, map[string]string{
			rbac + "/clusterrolebindings":                 `{"kind":"ClusterRoleBindingList","apiVersion":"rbac.authorization.k8s.io/v1","items":[{"metadata":{"name":"b"},"roleRef":{"kind":"ClusterRole","name":"system:node-proxier"},"subjects":[` + c.bound + `]}]}`,
			rbac + "/namespaces/kube-system/rolebindings": `{"kind":"RoleBindingList","apiVersion":"rbac.authorization.k8s.io/v1","items":[]}`,
			rbac + "/clusterroles/system:node-proxier":    `{"kind":"ClusterRole","apiVersion":"rbac.authorization.k8s.io/v1","rules":[{"verbs":["list","watch"],"apiGroups":["*"],"resources":[` + c.resources + `]}]}`,
		}, map[string]http.HandlerFunc{"/apis/authorization.k8s.io/v1/subjectaccessreviews": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"kind":"Status","status":"Failure","reason":"Forbidden","code":403}`))
		}})
		s := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""))
		s.Proxy.Value, s.Proxy.Err = client.ReadProxyAccess(t.Context(), c.pods)
		got := ask(t, s, facts.CheckProxyRights)
		if len(got) != 1 || got[0].Status != c.status || !strings.Contains(got[0].Saw, c.saw) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	s := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""))
	clustertest.WantFirst(t, ask(t, s, facts.CheckProxyRights), probe.Skip, "unknown")
	s.Proxy.Value.Rights = cluster.Rights{Account: "system:serviceaccount:kube-system:kube-proxy", Lacks: []string{"list endpointslices"}}
	s.Proxy.Value.Sure = true // from the API server itself
	clustertest.WantFirst(t, ask(t, s, facts.CheckProxyRights), probe.Fail, "may not list endpointslices")
	s.Node.Status.NodeInfo.KubeletVersion = "v1.20.7"
	clustertest.WantFirst(t, ask(t, s, facts.CheckProxyRights), probe.Skip, "may still read endpoints")
}
