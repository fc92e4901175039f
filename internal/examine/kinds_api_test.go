package examine

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe/must"
)

// Where the API server has what is read.
const (
	apiCore         = "/api/v1"
	apiAccounts     = "/api/v1/serviceaccounts"
	apiLeases       = "/apis/coordination.k8s.io/v1"
	apiEndpoints    = "/apis/discovery.k8s.io/v1"
	apiPolicies     = "/apis/networking.k8s.io/v1"
	apiAdmission    = "/apis/admissionregistration.k8s.io/v1"
	apiReviews      = "/apis/authorization.k8s.io/v1"
	apiCalico       = "/apis/crd.projectcalico.org/v1"
	apiCalicoNative = "/apis/projectcalico.org/v3"
)

// builtIn are the kinds that every API server has, by their path.
var builtIn = map[string]string{
	apiCore + "/nodes": "Node", apiCore + "/pods": "Pod", apiCore + "/services": "Service", apiCore + "/events": "Event",
	apiCore + "/configmaps": "ConfigMap", apiAccounts: "ServiceAccount", apiLeases + "/leases": "Lease",
	apiEndpoints + "/endpointslices":                  "EndpointSlice",
	apiPolicies + "/networkpolicies":                  "NetworkPolicy",
	"/apis/apps/v1/deployments":                       "Deployment",
	apiAdmission + "/validatingwebhookconfigurations": "ValidatingWebhookConfiguration",
	apiAdmission + "/mutatingwebhookconfigurations":   "MutatingWebhookConfiguration",
}

// calicoKinds are the resources that Calico v3.32 installs.
var calicoKinds = []string{"bgpconfigurations", "bgppeers", "blockaffinities", "clusterinformations",
	"felixconfigurations", "globalnetworkpolicies", "hostendpoints", "ipamblocks", "ipamconfigs", "ipamhandles", "ippools",
	"ipreservations", "networkpolicies", "tiers"}

// apiServer is an API server over a world's objects: lists with selectors, single objects, discovery and
// access reviews, which allow what is asked.
type apiServer struct {
	objects map[string][]*unstructured.Unstructured // by the path of their kind
	calico  map[string][]string                     // Calico's resources, by the path of their group
}

// client reads from the server.
func (s *apiServer) client(t *testing.T, namespace string) *cluster.Client {
	t.Helper()
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	c := must.Get(cluster.NewClient(&rest.Config{Host: srv.URL}, namespace))(t)
	return c
}

// add takes an object of Kubernetes or of Calico.
func (s *apiServer) add(path string, object any) {
	b, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	of := &unstructured.Unstructured{}
	if err := json.Unmarshal(b, &of.Object); err != nil {
		panic(err)
	}
	s.objects[path] = append(s.objects[path], of)
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if strings.HasPrefix(r.URL.Path, apiReviews) { // the roles of Calico's manifests and operator grant it
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":true}}`)
		return
	}
	if kinds, ok := s.calico[r.URL.Path]; ok {
		s.discovers(w, kinds)
		return
	}
	for path := range s.paths() {
		prefix, kind := path[:strings.LastIndex(path, "/")], path[strings.LastIndex(path, "/")+1:]
		rest, ok := strings.CutPrefix(r.URL.Path, prefix+"/")
		if !ok {
			continue
		}
		namespace, parts := "", strings.Split(rest, "/")
		if len(parts) > 2 && parts[0] == "namespaces" {
			namespace, parts = parts[1], parts[2:]
		}
		if parts[0] != kind || len(parts) > 2 {
			continue
		}
		if len(parts) == 1 {
			s.lists(w, r, path, namespace)
		} else {
			s.gets(w, path, namespace, parts[1])
		}
		return
	}
	notFound(w)
}

// paths are those of the kinds there are.
func (s *apiServer) paths() map[string]bool {
	out := map[string]bool{}
	for path := range builtIn {
		out[path] = true
	}
	for group, kinds := range s.calico {
		for _, kind := range kinds {
			out[group+"/"+kind] = true
		}
	}
	return out
}

func (s *apiServer) lists(w http.ResponseWriter, r *http.Request, path, namespace string) {
	query := r.URL.Query()
	has, err := labels.Parse(query.Get("labelSelector"))
	is, err2 := fields.ParseSelector(query.Get("fieldSelector"))
	if err != nil || err2 != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	items := []any{}
	for _, o := range s.objects[path] {
		if (namespace == "" || o.GetNamespace() == namespace) && has.Matches(labels.Set(o.GetLabels())) &&
			is.Matches(fieldsOf(o)) {
			items = append(items, o.Object)
		}
	}
	list := map[string]any{"kind": "List", "apiVersion": "v1", "metadata": map[string]any{}, "items": items}
	if kind := builtIn[path]; kind != "" {
		list["kind"], list["apiVersion"] = kind+"List", versionOf(path)
	}
	_ = json.NewEncoder(w).Encode(list)
}

func (s *apiServer) gets(w http.ResponseWriter, path, namespace, name string) {
	if path == apiAccounts { // the installations have all that their pods name
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": builtIn[path], "apiVersion": versionOf(path),
			"metadata": map[string]any{"name": name, "namespace": namespace, "uid": "0f1e"}})
		return
	}
	for _, o := range s.objects[path] {
		if o.GetNamespace() != namespace || o.GetName() != name {
			continue
		}
		out := maps.Clone(o.Object)
		out["kind"], out["apiVersion"] = builtIn[path], versionOf(path)
		_ = json.NewEncoder(w).Encode(out)
		return
	}
	notFound(w)
}

func (s *apiServer) discovers(w http.ResponseWriter, kinds []string) {
	resources := []any{}
	for _, kind := range slices.Sorted(slices.Values(kinds)) {
		resources = append(resources, map[string]any{"name": kind})
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": "APIResourceList", "resources": resources})
}

// versionOf is the API version of what is below a path: v1, discovery.k8s.io/v1.
func versionOf(path string) string {
	path = path[:strings.LastIndex(path, "/")]
	return strings.TrimPrefix(strings.TrimPrefix(path, "/api/"), "/apis/")
}

// fieldsOf are those by which objects are selected here.
func fieldsOf(o *unstructured.Unstructured) fields.Set {
	text := func(path ...string) string { v, _, _ := unstructured.NestedString(o.Object, path...); return v }
	return fields.Set{"metadata.name": o.GetName(), "spec.nodeName": text("spec", "nodeName"),
		"status.phase": text("status", "phase"), "involvedObject.uid": text("involvedObject", "uid")}
}

func notFound(w http.ResponseWriter) {
	w.WriteHeader(http.StatusNotFound)
	fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
}
