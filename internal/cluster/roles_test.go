package cluster

import (
	"fmt"
	"net/http"
	"testing"
)

// TestBindingsOnce requires that the bindings are listed once for all accounts.
func TestBindingsOnce(t *testing.T) {
	t.Parallel()
	const empty = `{"kind":"%s","apiVersion":"rbac.authorization.k8s.io/v1","items":[]}`
	lists := 0
	client := serverOf(t, map[string]string{
		"/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/rolebindings": fmt.Sprintf(empty, "RoleBindingList"),
	}, map[string]http.HandlerFunc{
		"/apis/authorization.k8s.io/v1/subjectaccessreviews": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"kind":"Status","status":"Failure","reason":"Forbidden","code":403}`)
		},
		"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings": func(w http.ResponseWriter, _ *http.Request) {
			lists++
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, empty, "ClusterRoleBindingList")
		},
	}).once(t.Context())
	for _, name := range []string{"calico-node", "coredns"} {
		r, err := client.rightsOf(t.Context(), account{"kube-system", name}, watches([2]string{"", "services"}))
		if err != nil || !r.ByRoles || len(r.Lacks) != 2 {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if lists != 1 {
		t.Errorf("listed %d times", lists)
	}
}
