package api

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/cluster/clustertest"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestCalicoRights queries a server that answers reviews like a cluster with Calico's roles, and one whose
// ClusterRoleBinding or CRD was deleted.
func TestCalicoRights(t *testing.T) {
	var queried []string
	var mutex sync.Mutex
	reviews := func(allowed bool, code int) map[string]http.HandlerFunc {
		return map[string]http.HandlerFunc{"/apis/authorization.k8s.io/v1/subjectaccessreviews": func(w http.ResponseWriter,
			r *http.Request) {
			var review authorizationv1.SubjectAccessReview
			body, err := io.ReadAll(r.Body) // in the binary form
			if err == nil {
				_, _, err = scheme.Codecs.UniversalDeserializer().Decode(body, nil, &review)
			}
			if err != nil {
				t.Error(err)
			}
			a := review.Spec.ResourceAttributes
			if review.Spec.User == "system:serviceaccount:kube-system:calico-node" {
				mutex.Lock()
				defer mutex.Unlock()
				queried = append(queried, a.Verb+" "+a.Resource+"/"+a.Subresource+" "+a.Name)
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			if code >= 300 {
				fmt.Fprint(w, `{"kind":"Status","status":"Failure","reason":"Forbidden","code":403}`)
				return
			}
			fmt.Fprintf(w, `{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":%v}}`, allowed)
		}}
	}
	kinds := func(lacks string) map[string]string {
		var list metav1.APIResourceList
		for _, kind := range cluster.KindsNeeded {
			if kind != lacks {
				list.APIResources = append(list.APIResources, metav1.APIResource{Name: kind})
			}
		}
		b, _ := json.Marshal(list)
		return map[string]string{"/apis/crd.projectcalico.org/v1": string(b)}
	}
	for name, c := range map[string]struct {
		may      bool
		code     int
		lacks    string
		ready    bool
		account  probe.Status
		ofKinds  probe.Status
		breaking any
	}{
		"all well":              {true, 201, "", true, probe.OK, probe.OK, nil},
		"binding gone, it runs": {false, 201, "", true, probe.Warn, probe.OK, true},
		"binding gone":          {false, 201, "", false, probe.Fail, probe.OK, false},
		"no right to ask":       {true, 403, "", true, probe.Skip, probe.OK, nil},
		"a CRD gone, it runs":   {true, 201, "felixconfigurations", true, probe.OK, probe.Warn, nil},
		"a CRD gone":            {true, 201, "felixconfigurations", false, probe.OK, probe.Fail, nil},
	} {
		queried = nil
		client := clustertest.ServerOf(t, kinds(c.lacks), reviews(c.may, c.code))
		s := clustertest.OfCalicoNode()
		if c.ready {
			s.Calico.Value.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}
		client.ReadAccess(t.Context(), s)
		got := ask(t, s, facts.CheckCalicoRights)
		last := len(got) - 1
		if got[0].Status != c.account || got[last].Status != c.ofKinds || got[0].Facts[facts.Later] != c.breaking {
			t.Errorf("%s: %v", name, got)
		}
		switch {
		case c.code >= 300: // the rights of the plugin's account are unknown too
			if len(got) != 2 {
				t.Errorf("%s: %v", name, got)
			}
		case len(got) != 3 || got[1].Target != "CNI plugin" || (got[1].Status == probe.OK) != c.may ||
			(got[1].Status == probe.Fail) == c.may:
			t.Errorf("%s: the CNI plugin: %v", name, got)
		}
		if !slices.Contains(queried, "create serviceaccounts/token calico-cni-plugin") {
			t.Errorf("%s: queried %v", name, queried)
		}
	}
	s := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""))
	clustertest.ServerOf(t, nil, nil).ReadAccess(t.Context(), s)
	clustertest.WantFirst(t, ask(t, s, facts.CheckCalicoRights), probe.Skip, "no calico-node")
	gone, err := clustertest.ServerOf(t, nil, nil).ReadKinds(t.Context())
	if gone.Group != "crd.projectcalico.org" || len(gone.Served) != 0 || err != nil {
		t.Errorf("all CRDs gone: %v, %v", gone, err)
	}
}

// TestRightsByRoles derives the account's rights from roles and bindings, because reviews are forbidden.
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
		all                      bool // every right is missing
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
		client := clustertest.ServerOf(t, objects, map[string]http.HandlerFunc{
			"/apis/authorization.k8s.io/v1/subjectaccessreviews": func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusForbidden)
				fmt.Fprint(w, `{"kind":"Status","status":"Failure","reason":"Forbidden","code":403}`)
			},
		})
		s := clustertest.OfCalicoNode()
		client.ReadAccess(t.Context(), s)
		got := ask(t, s, facts.CheckCalicoRights)[0]
		lacks := s.Rights.Value.Lacks
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
