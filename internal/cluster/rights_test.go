package cluster

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/internal/cluster/roles"
)

// ofCalicoNode is a node with unknown readiness, on which calico-node v3.32.1 runs with its account.
func ofCalicoNode() *Snapshot {
	s := snapshot(node("a", "10.0.0.1", "10.0.0.1/24"))
	s.Calico.Value = calico(3)
	s.Calico.Value.Namespace, s.Calico.Value.Spec.ServiceAccountName = "kube-system", "calico-node"
	s.Calico.Value.Spec.InitContainers = []corev1.Container{{Name: "install-cni"}}
	s.Calico.Value.Spec.Containers[0].Image = "quay.io/calico/node:v3.32.1"
	s.Calico.Value.Status.Conditions = nil
	return s
}

// TestNeeded requires exactly the kinds that each version of Felix lists before it is ready (felixsyncer in its
// sources).
func TestNeeded(t *testing.T) {
	t.Parallel()
	served := []string{"tiers", "stagednetworkpolicies", "ipamblocks"}
	for version, want := range map[string]string{
		"v3.21.0": "ipamblocks", "v3.22.0": "endpointslices ipamblocks", "v3.28.2": "endpointslices services ipamblocks",
		"v3.29.0": "endpointslices services ipamblocks tiers",
		"v3.30.0": "endpointslices services ipamblocks tiers stagednetworkpolicies",
		"v3.32.1": "endpointslices services ipamblocks tiers stagednetworkpolicies",
	} {
		s := ofCalicoNode()
		s.Calico.Value.Spec.Containers[0].Image = "quay.io/calico/node:" + version
		var got []string
		for _, a := range s.needed("crd.projectcalico.org", served) {
			if a.Verb == "list" && slices.Contains(append(served, "endpointslices", "services"), a.Resource) {
				got = append(got, a.Resource)
			}
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s: %s, want %s", version, text, want)
		}
	}
}

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
	}).once((&Client{}).NewSurvey())
	for _, name := range []string{"calico-node", "coredns"} {
		who := roles.Account{Namespace: "kube-system", Name: name}
		r, err := client.rightsOf(t.Context(), who, watches([2]string{"", "services"}))
		if err != nil || !r.ByRoles || len(r.Lacks) != 2 {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if lists != 1 {
		t.Errorf("listed %d times", lists)
	}
}
