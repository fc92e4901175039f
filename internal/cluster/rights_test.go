package cluster

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

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestCalicoRights asks a server that answers reviews as a cluster with Calico's roles does, and
// one whose ClusterRoleBinding or CRD was deleted.
func TestCalicoRights(t *testing.T) {
	var asked []string
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
				asked = append(asked, a.Verb+" "+a.Resource+"/"+a.Subresource+" "+a.Name)
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
		for _, kind := range kindsNeeded {
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
		asked = nil
		client := serverOf(t, kinds(c.lacks), reviews(c.may, c.code))
		s := ofCalicoNode()
		if c.ready {
			s.Calico.Value.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}
		client.readAccess(t.Context(), s)
		got := ask(t, s, facts.CheckCalicoRights)
		last := len(got) - 1
		if got[0].Status != c.account || got[last].Status != c.ofKinds || got[0].Facts[facts.Later] != c.breaking {
			t.Errorf("%s: %v", name, got)
		}
		switch {
		case c.code >= 300: // what the plugin's account may do is not known either
			if len(got) != 2 {
				t.Errorf("%s: %v", name, got)
			}
		case len(got) != 3 || got[1].Target != "CNI plugin" || (got[1].Status == probe.OK) != c.may ||
			(got[1].Status == probe.Fail) == c.may:
			t.Errorf("%s: the CNI plugin: %v", name, got)
		}
		if !slices.Contains(asked, "create serviceaccounts/token calico-cni-plugin") {
			t.Errorf("%s: asked %v", name, asked)
		}
	}
	s := snapshot(node("a", "10.0.0.1", ""))
	serverOf(t, nil, nil).readAccess(t.Context(), s)
	wantFirst(t, ask(t, s, facts.CheckCalicoRights), probe.Skip, "no calico-node")
	gone, err := serverOf(t, nil, nil).readKinds(t.Context())
	if gone.group != "crd.projectcalico.org" || len(gone.served) != 0 || err != nil {
		t.Errorf("all CRDs gone: %v, %v", gone, err)
	}
}

// ofCalicoNode is a node on which calico-node v3.32.1 runs with its account, and nobody has said whether it is ready.
func ofCalicoNode() *Snapshot {
	s := snapshot(node("a", "10.0.0.1", "10.0.0.1/24"))
	s.Calico.Value = calico(3)
	s.Calico.Value.Namespace, s.Calico.Value.Spec.ServiceAccountName = "kube-system", "calico-node"
	s.Calico.Value.Spec.InitContainers = []corev1.Container{{Name: "install-cni"}}
	s.Calico.Value.Spec.Containers[0].Image = "quay.io/calico/node:v3.32.1"
	s.Calico.Value.Status.Conditions = nil
	return s
}

// TestNeeded wants what Felix lists in each version before it is ready (felixsyncer in its sources), and no more.
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
