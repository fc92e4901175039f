package cluster

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/calico-probe/calico-probe/internal/install"
)

// TestObjectsOf reads the objects of a node, and of one that is gone, from a cluster that refuses some and lacks
// others, with no more rights than a run by the API has.
func TestObjectsOf(t *testing.T) {
	list := func(kind string, items ...string) string {
		return fmt.Sprintf(`{"kind":%q,"apiVersion":"v1","items":[%s]}`, kind, strings.Join(items, ","))
	}
	pod := func(name, phase string) string {
		return fmt.Sprintf(`{"metadata":{"name":%[1]q,"namespace":"kube-system","uid":"uid-%[1]s","labels":{"k8s-app":%[1]q}},"spec":{"nodeName":"a","containers":[{"name":"c"}]},"status":{"phase":%[2]q,"conditions":[{"type":"Ready","status":"True"}]}}`, name, phase)
	}
	const calico = "/apis/crd.projectcalico.org/v1/"
	answers := map[string]string{
		"/api/v1/nodes?metadata.name=a":    list("NodeList", `{"metadata":{"name":"a"}}`),
		"/api/v1/nodes?metadata.name=gone": list("NodeList"),
		"/api/v1/pods?spec.nodeName=a": list("PodList", pod("calico-node", "Running"), pod("well", "Running"),
			pod("waits", "Pending")),
		"/api/v1/pods?spec.nodeName=gone":                                                  list("PodList"),
		"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/a":                 `{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"a"}}`,
		"/apis/apps/v1/namespaces/kube-system/daemonsets":                                  list("DaemonSetList", `{"metadata":{"name":"calico-node","namespace":"kube-system","uid":"uid-set"},"spec":{"template":{"metadata":{"labels":{"k8s-app":"calico-node"}}}}}`, `{"metadata":{"name":"other","namespace":"kube-system"}}`),
		"/api/v1/namespaces/kube-system/configmaps/calico-config":                          `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"calico-config","namespace":"kube-system"},"data":{"veth_mtu":"0"}}`,
		"/api/v1/namespaces/default/events?involvedObject.kind=Node,involvedObject.name=a": list("EventList", `{"metadata":{"name":"of-node"}}`),
		"/api/v1/namespaces/kube-system/events?involvedObject.uid=uid-calico-node":         list("EventList", `{"metadata":{"name":"of-calico"}}`),
		"/api/v1/namespaces/kube-system/events?involvedObject.uid=uid-waits":               list("EventList", `{"metadata":{"name":"of-waiter"}}`),
		"/api/v1/namespaces/kube-system/events?involvedObject.uid=uid-set":                 list("EventList", `{"metadata":{"name":"of-set"}}`),
		calico + "ippools":                              list("IPPoolList", `{"metadata":{"name":"p"},"spec":{"cidr":"10.0.0.0/8"}}`),
		calico + "ipamblocks":                           list("IPAMBlockList", `{"metadata":{"name":"own"},"spec":{"affinity":"host:a"}}`, `{"metadata":{"name":"lent"},"spec":{"affinity":"host:b","attributes":[{"secondary":{"node":"a"}}]}}`, `{"metadata":{"name":"other"},"spec":{"affinity":"host:b","attributes":[{"secondary":{"node":"b"}}]}}`),
		calico + "blockaffinities":                      list("BlockAffinityList", `{"metadata":{"name":"a-1"},"spec":{"node":"a"}}`, `{"metadata":{"name":"b-1"},"spec":{"node":"b"}}`),
		"/apis/projectcalico.org/v3/ipamconfigurations": list("IPAMConfigurationList"),
	}
	var mu sync.Mutex
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Path
		if field := r.URL.Query().Get("fieldSelector"); field != "" {
			name += "?" + field
		}
		mu.Lock()
		asked = append(asked, r.Method+" "+r.URL.Path)
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/bgppeers"):
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"kind":"Status","status":"Failure","reason":"Forbidden","code":403,"message":"bgppeers.crd.projectcalico.org is forbidden: User \"jane\" cannot list resource \"bgppeers\" in API group \"crd.projectcalico.org\" at the cluster scope"}`)
		case answers[name] == "":
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"kind":"Status","status":"Failure","reason":"NotFound","code":404}`)
		default:
			fmt.Fprint(w, answers[name])
		}
	}))
	defer server.Close()
	c, err := NewClient(&rest.Config{Host: server.URL}, "")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, o := range c.ObjectsOf(t.Context(), []string{"a", "gone"}) {
		var names []string
		for _, item := range o.Items {
			if item.GetKind() != o.Kind {
				t.Errorf("%s %s is a %q", o.Resource, item.GetName(), item.GetKind())
			}
			names = append(names, item.GetName())
		}
		slices.Sort(names)
		got[o.Resource] = strings.Join(append(names, o.Gaps...), " ")
	}
	for resource, want := range map[string]string{
		"nodes": "a", "pods": "calico-node waits well", "leases": "a", "daemonsets": "calico-node",
		"configmaps": "calico-config",
		"events":     "of-calico of-node of-set of-waiter", "ippools": "p", "ipamblocks": "lent own", "blockaffinities": "a-1",
		"bgppeers": "no right to list bgppeers", "ipamconfigurations": "",
	} {
		if is, there := got[resource]; !there || is != want {
			t.Errorf("%s: %q, wanted %q", resource, is, want)
		}
		delete(got, resource)
	}
	if len(got) > 0 {
		t.Errorf("of kinds that are not installed: %v", got)
	}
	withinRights(t, asked)
}

// withinRights requires that requests need only the rights of access method api, except for BGP filters.
func withinRights(t *testing.T, asked []string) {
	t.Helper()
	granted := map[string]bool{}
	for _, r := range install.Uses()[0].Rights {
		granted[r.Verb+" "+r.Resource] = true
	}
	for _, request := range asked {
		method, path, _ := strings.Cut(request, " ")
		parts := strings.Split(path, "/")
		resource, verb := parts[len(parts)-1], "list"
		if slices.Contains([]string{"leases", "configmaps"}, parts[len(parts)-2]) {
			resource, verb = parts[len(parts)-2], "get"
		}
		if method != http.MethodGet || !granted[verb+" "+resource] && resource != "bgpfilters" {
			t.Errorf("%s is no right of the access method api", request)
		}
	}
}
