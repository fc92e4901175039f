package cluster

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestRightsByRoles reads what the account may do from roles and bindings, where reviews are refused.
func TestRightsByRoles(t *testing.T) {
	const rbac = "/apis/rbac.authorization.k8s.io/v1"
	list := func(kind string, items ...string) string {
		return `{"kind":"` + kind + `List","apiVersion":"rbac.authorization.k8s.io/v1","items":[` +
			strings.Join(items, ",") + `]}`
	}
	bind := func(role, kind, subject string) string {
		return fmt.Sprintf(`{"metadata":{"name":"b"},"roleRef":{"kind":%q,"name":%q},"subjects":[%s]}`, kind, role, subject)
	}
	role := func(kind, rules string) string {
		return fmt.Sprintf(`{"kind":%q,"apiVersion":"rbac.authorization.k8s.io/v1","rules":[%s]}`, kind, rules)
	}
	const (
		node   = `{"kind":"ServiceAccount","name":"calico-node","namespace":"kube-system"}`
		other  = `{"kind":"ServiceAccount","name":"calico-node","namespace":"default"}`
		group  = `{"kind":"Group","name":"system:serviceaccounts:kube-system"}`
		most   = `{"verbs":["get","list","watch","update"],"apiGroups":["*"],"resources":["*"]}`
		tokens = `{"verbs":["create"],"apiGroups":[""],"resources":["serviceaccounts/token"],
			"resourceNames":["calico-cni-plugin"]}`
		wrong = `{"verbs":["create"],"apiGroups":[""],"resources":["serviceaccounts/token"],
			"resourceNames":["another"]}`
	)
	token := []string{"create serviceaccounts/token"}
	calico, all := bind("calico", "ClusterRole", node), role("ClusterRole", most+","+tokens)
	for name, c := range map[string]struct {
		bound, within, role, own string // bindings, those of kube-system, and their roles
		lacks                    []string
		all                      bool // everything is lacking
	}{
		"all":        {calico, "", all, "", nil, false},
		"by a group": {bind("calico", "ClusterRole", group), "", all, "", nil, false},
		"the token by a Role": {calico, bind("own", "Role", node), role("ClusterRole", most), role("Role", tokens), nil,
			false},
		"another account's token":  {calico, "", role("ClusterRole", most+","+wrong), "", token, false},
		"most by a Role only":      {"", bind("own", "Role", node), "", role("Role", most+","+tokens), nil, true},
		"another namespace's":      {bind("calico", "ClusterRole", other), "", all, "", nil, true},
		"a role that is not there": {calico, "", "", "", nil, true},
		"no binding":               {"", "", all, "", nil, true},
	} {
		objects := map[string]string{
			rbac + "/clusterrolebindings":                 list("ClusterRoleBinding", kept(c.bound)...),
			rbac + "/namespaces/kube-system/rolebindings": list("RoleBinding", kept(c.within)...),
		}
		if c.role != "" {
			objects[rbac+"/clusterroles/calico"] = c.role
		}
		if c.own != "" {
			objects[rbac+"/namespaces/kube-system/roles/own"] = c.own
		}
		client := serverOf(t, objects, map[string]http.HandlerFunc{
			"/apis/authorization.k8s.io/v1/subjectaccessreviews": func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusForbidden)
				fmt.Fprint(w, `{"kind":"Status","status":"Failure","reason":"Forbidden","code":403}`)
			},
		})
		s := ofCalicoNode()
		client.readAccess(t.Context(), s)
		got := ask(t, s, facts.CheckCalicoRights)[0]
		lacks := s.rights.Value.lacks
		switch {
		case c.all && (len(lacks) < 5 || got.Status == probe.OK), !c.all && !slices.Equal(lacks, c.lacks),
			!strings.Contains(got.Saw, "by the roles and bindings"):
			t.Errorf("%s: lacks %q: %s %s", name, lacks, got.Status, got.Saw)
		}
	}
}

func kept(item string) []string {
	if item == "" {
		return nil
	}
	return []string{item}
}

// TestBindingsOnce wants the bindings of a cluster listed once for all accounts that are asked about.
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
		if err != nil || !r.byRoles || len(r.lacks) != 2 {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if lists != 1 {
		t.Errorf("listed %d times", lists)
	}
}
