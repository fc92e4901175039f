package cluster

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/calico-probe/calico-probe/internal/netpolicy"
	"github.com/calico-probe/calico-probe/probe"
)

func TestLoans(t *testing.T) {
	attribute := func(node, pod string) any {
		return map[string]any{"handle_id": "x", "secondary": map[string]any{"node": node, "namespace": "default", "pod": pod}}
	}
	block := map[string]any{
		"cidr": "10.244.1.0/26", "affinity": "host:a",
		"allocations": []any{nil, int64(0), int64(1), int64(2), int64(9), nil},
		"attributes": []any{attribute("a", "own"), attribute("b", "guest"),
			map[string]any{"handle_id": "ipip-tunnel-addr-a"}},
	}
	got := LoansIn(block)
	want := Loan{netip.MustParseAddr("10.244.1.2"), "b", "default", "guest"}
	if len(got) != 1 || got[0] != want {
		t.Errorf("%+v", got)
	}
	for name, value := range map[string]any{"cidr": "x", "affinity": "virtual:load-balancer", "attributes": nil,
		"allocations": "rubbish"} {
		odd := map[string]any{"cidr": block["cidr"], "affinity": block["affinity"], "allocations": block["allocations"],
			"attributes": block["attributes"]}
		odd[name] = value
		if got := LoansIn(odd); len(got) != 0 {
			t.Errorf("%s %v: %+v", name, value, got)
		}
	}
}

func TestTunnelsAndPools(t *testing.T) {
	s := snapshot(node("a", "10.1.0.1", "10.1.0.1/24"), node("b", "10.1.0.2", "10.1.0.2/24"))
	s.Nodes[1].Annotations["projectcalico.org/IPv4VXLANTunnelAddr"] = "10.244.1.0"
	s.Nodes[1].Annotations["projectcalico.org/VXLANTunnelMACAddr"] = "66:00:00:00:00:01"
	s.Nodes[0].Annotations["projectcalico.org/IPv4IPIPTunnelAddr"] = "10.244.2.1"
	s.Nodes[0].Annotations["projectcalico.org/IPv6WireguardInterfaceAddr"] = "not an address"
	got := tunnelTargets(s)
	if len(got) != 2 || got[0].Attrs[probe.AttrDevice] != "tunl0" || got[0].Attrs[probe.AttrOwn] != "true" ||
		got[1].Attrs[probe.AttrMAC] != "66:00:00:00:00:01" || got[1].Attrs[probe.AttrOuter] != "10.1.0.2" ||
		got[1].Attrs[probe.AttrOwn] != "" {
		t.Errorf("%+v", got)
	}
	s.Pools.Value = Specs{
		"a": {"cidr": "10.244.0.0/16", "ipipMode": "Never", "vxlanMode": "CrossSubnet"},
		"b": {"cidr": "10.245.0.0/16", "disabled": true}, "c": {"cidr": "fd00::/48"},
	}
	pools := PoolTargets(s)
	if len(pools) != 3 || pools[0].Attrs[probe.AttrVXLAN] != "CrossSubnet" ||
		pools[1].Attrs[probe.AttrDisabled] != "true" || pools[2].Attrs[probe.AttrIPIP] != "Never" ||
		pools[2].Attrs[probe.AttrDisabled] != "" {
		t.Errorf("%+v", pools)
	}
	s.Felix.Value = map[string]any{"vxlanPort": int64(8472), "bpfEnabled": true, "unheard": "of"}
	felix := FelixTarget(s).Attrs
	if felix["vxlanPort"] != "8472" || felix["bpfEnabled"] != "true" || felix["unheard"] != "" {
		t.Errorf("%v", felix)
	}
}

// TestDisabledPool requires that the tunnel of a drained pool is marked as used until its last block is released.
func TestDisabledPool(t *testing.T) {
	s := snapshot(node("a", "10.1.0.1", "10.1.0.1/24"), node("b", "10.1.0.2", "10.1.0.2/24"))
	s.Pools.Value = Specs{"old": {"cidr": "10.244.0.0/16", "ipipMode": "Always", "disabled": true},
		"new": {"cidr": "10.245.0.0/16"}}
	mine, theirs := netip.MustParsePrefix("10.1.0.1/24"), netip.MustParsePrefix("10.1.0.2/24")
	for _, c := range []struct {
		block string
		pools int
		used  bool
	}{{"10.244.7.0/26", 2, true}, {"10.245.7.0/26", 1, false}} {
		s.Blocks.Value.Owned = []Block{{netip.MustParsePrefix(c.block), "b"}}
		if got := PoolTargets(s); len(got) != c.pools {
			t.Errorf("%+v: %+v", c, got)
		}
		if got := encapsulates(s, "ipipMode", mine, theirs); got != c.used {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestInEtcd requires that data in Calico's own etcd is reported as such, not as missing.
func TestInEtcd(t *testing.T) {
	s := snapshot(node("a", "10.1.0.1", ""))
	s.Calico.Value = calico(3)
	kinds := []string{probe.KindPool, probe.KindTunnel, probe.KindBlock, probe.KindSession, probe.KindFelix}
	gaps := func() (n int) {
		_, gaps := Targets(s)
		for _, kind := range kinds {
			if gaps[kind] == probe.GapEtcd {
				n++
			}
		}
		return n
	}
	if s.HideEtcd(); gaps() != 0 {
		t.Error("there is no etcd")
	}
	s.Etcd.Value = []probe.Target{{Kind: probe.KindDatastore, Name: "etcd"}}
	s.Pools.Value = Specs{"a": {"cidr": "10.244.0.0/16"}}
	if s.HideEtcd(); gaps() != 0 {
		t.Error("the pools are in the API")
	}
	s.Pools.Value, s.Pools.Err = nil, errors.New("forbidden")
	if s.HideEtcd(); gaps() != 0 {
		t.Error("the pools could not be read")
	}
	s.Pools.Err = nil
	s.Calico.Value.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "DATASTORE_TYPE", Value: "kubernetes"}}
	if s.HideEtcd(); gaps() != 0 {
		t.Error("etcd is left over")
	}
	s.Calico.Value.Spec.Containers[0].Env[0].Value = "etcdv3"
	if s.HideEtcd(); gaps() != len(kinds) {
		_, gaps := Targets(s)
		t.Errorf("%v", gaps)
	}
	if target := FelixTarget(s); target.Attrs[probe.AttrEnabled] == "false" {
		t.Errorf("%+v", target)
	}
}

// service is one with a TCP port.
func service(name string, change func(*corev1.Service)) corev1.Service {
	s := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	s.Spec = corev1.ServiceSpec{ClusterIP: "10.96.0.9", ClusterIPs: []string{"10.96.0.9"},
		Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Port: 80}}}
	if change != nil {
		change(&s)
	}
	return s
}

func TestServicesWorthAsking(t *testing.T) {
	local := corev1.ServiceInternalTrafficPolicyLocal
	all := []corev1.Service{
		service("headless", func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone }),
		service("plain", nil),
		service("udp", func(s *corev1.Service) { s.Spec.Ports[0].Protocol = corev1.ProtocolUDP }),
		service("local", func(s *corev1.Service) { s.Spec.InternalTrafficPolicy = &local }),
		service("outside", func(s *corev1.Service) { s.Spec.Selector = nil }),
		service("everywhere", func(s *corev1.Service) {
			s.Spec.Ports[0].NodePort = 30080
			s.CreationTimestamp = metav1.NewTime(now)
		}),
	}
	var names []string
	for _, s := range usable(all, netpolicy.Policies{}) {
		names = append(names, s.Name)
	}
	if want := []string{"everywhere", "plain"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
	nodes := []corev1.Node{node("a", "10.1.0.1", ""), node("b", "10.1.0.2", "")}
	nodes[1].Status.Conditions[0].Status = corev1.ConditionFalse
	both := map[bool]bool{false: true, true: true}
	got := serviceTargets(&all[5], nodes, both, netpolicy.Policies{})
	if len(got) != 3 || got[0].Port != 80 || got[1].Port != 30080 || got[2].Attrs[probe.AttrNode] != "NotReady" {
		t.Errorf("%+v", got)
	}
	if all[5].Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal; len(serviceTargets(&all[5], nodes,
		both, netpolicy.Policies{})) != 1 {
		t.Error("nodes without a pod of the service do not answer on its port, and need not")
	}
}

func TestEtcdAndTypha(t *testing.T) {
	c := &Client{}
	p := calico(3)
	if got, err := c.readTypha(t.Context(), environmentOf(p, configMaps{})); got.Targets != nil || err != nil {
		t.Errorf("no Typha: %v, %v", got, err)
	}
	env := &p.Spec.Containers[0].Env
	*env = []corev1.EnvVar{{Name: "ETCD_ENDPOINTS", Value: "https://10.1.0.1:2379, http://etcd.example:2379"},
		{Name: "FELIX_TYPHAK8SSERVICENAME", Value: "none"}}
	got, err := readEtcd(environmentOf(p, configMaps{}))
	if err != nil || len(got) != 2 || got[0].Addr.String() != "10.1.0.1" || got[1].Host != "etcd.example" ||
		got[1].Attrs[probe.AttrScheme] != "http" || got[0].Port != 2379 {
		t.Errorf("%+v, %v", got, err)
	}
	(*env)[0].Value = "https://10.1.0.1"
	if _, err := readEtcd(environmentOf(p, configMaps{})); err == nil {
		t.Error("an endpoint without a port is no error")
	}
	if got, err := c.readTypha(t.Context(), environmentOf(p, configMaps{})); got.Targets != nil || err != nil {
		t.Errorf("Typha is called none: %v, %v", got, err)
	}
	if got, err := readEtcd(environmentOf(nil, configMaps{})); got != nil || err != nil {
		t.Errorf("no calico-node: %v, %v", got, err)
	}
}

// TestTyphaNotReady reads a Typha Service in each state of its endpoints. A Service without ready endpoints exists, and
// a Service without endpoints differs from no Typha.
func TestTyphaNotReady(t *testing.T) {
	const good, bad = `{"addresses":["10.1.0.5"],"nodeName":"a"}`, `{"addresses":["10.1.0.6"],"nodeName":"b","conditions":{"ready":false}}`
	for endpoints, want := range map[string]string{good + "," + bad: "endpoint 10.1.0.5",
		bad: "endpoint (not ready) 10.1.0.6", "": ""} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if strings.HasSuffix(r.URL.Path, "/endpointslices") {
				fmt.Fprintf(w, `{"kind":"EndpointSliceList","apiVersion":"discovery.k8s.io/v1","items":[{"ports":[{"port":5473}],"endpoints":[%s]}]}`, endpoints)
				return
			}
			fmt.Fprint(w, `{"kind":"Service","apiVersion":"v1","metadata":{"name":"calico-typha","namespace":"kube-system"},"spec":{"clusterIPs":["10.96.0.7"],"ports":[{"port":5473}]}}`)
		}))
		defer srv.Close()
		c, err := NewClient(&rest.Config{Host: srv.URL}, "")
		if err != nil {
			t.Fatal(err)
		}
		p := calico(3)
		p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "FELIX_TYPHAK8SSERVICENAME", Value: "calico-typha"}}
		typha, err := c.readTypha(t.Context(), environmentOf(p, configMaps{}))
		got := typha.Targets
		if want == "" {
			if err == nil || !strings.Contains(err.Error(), "no endpoint in Typha's service kube-system/calico-typha") {
				t.Errorf("%v, %v", got, err)
			}
			continue
		}
		if err != nil || len(got) != 1 || got[0].String() != want || got[0].Port != 5473 {
			t.Errorf("%q: %+v, %v", endpoints, got, err)
		}
	}
}

// TestLocal requires the node's pods from one list: testable pods and kube-proxy's. A pod in another namespace or
// without a controller must not pass as kube-proxy.
func TestLocal(t *testing.T) {
	const pod = `{"metadata":{"namespace":%q,"name":%q,"labels":{"k8s-app":"kube-proxy"},"ownerReferences":[%s]},"status":{"phase":"Running"}}`
	const daemonSet = `{"apiVersion":"apps/v1","kind":"DaemonSet","name":"kube-proxy","uid":"1","controller":true}`
	for name, c := range map[string]struct {
		pods []string
		want []string
	}{
		"kube-proxy": {[]string{fmt.Sprintf(pod, "kube-system", "kube-proxy-x", daemonSet)},
			[]string{"kube-proxy-x"}},
		"none":                 {nil, []string{}},
		"one of a tenant":      {[]string{fmt.Sprintf(pod, "default", "kube-proxy-y", daemonSet)}, []string{}},
		"one made by hand":     {[]string{fmt.Sprintf(pod, "kube-system", "kube-proxy-z", "")}, []string{}},
		"the API does not say": {[]string{"no JSON"}, nil},
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","items":[%s]}`, strings.Join(c.pods, ","))
		}))
		defer srv.Close()
		client, err := NewClient(&rest.Config{Host: srv.URL}, "")
		if err != nil {
			t.Fatal(err)
		}
		s := snapshot(node("a", "10.1.0.1", ""))
		s.Placed = client.readPlaced(t.Context(), "a")
		s.Local.read(t.Context(), s.readLocal)
		if !slices.Equal(s.Local.Value.KubeProxy, c.want) || (s.Local.Value.KubeProxy == nil) != (c.want == nil) ||
			(s.Local.Err == nil) != (c.want != nil) {
			t.Errorf("%s: %#v, %v", name, s.Local.Value.KubeProxy, s.Local.Err)
		}
	}
}

func TestDoors(t *testing.T) {
	pod := func(name string, age time.Duration, ready corev1.ConditionStatus) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "uid-1",
			CreationTimestamp: ago(age)}}
		p.Status.PodIPs = []corev1.PodIP{{IP: "10.244.1.2"}, {IP: "fd00::2"}}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
		p.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{ContainerPort: 53,
			Protocol: corev1.ProtocolUDP}, {ContainerPort: 8080}}}}
		return p
	}
	hostNetwork := pod("host", 9*time.Hour, corev1.ConditionTrue)
	hostNetwork.Spec.HostNetwork = true
	got := pingable([]corev1.Pod{pod("young", time.Minute, corev1.ConditionTrue),
		pod("sick", 5*time.Hour, corev1.ConditionFalse), hostNetwork, pod("old", time.Hour,
			corev1.ConditionTrue)}, 1, netpolicy.Policies{})
	if len(got) != 1 || got[0].Name != "old" {
		t.Errorf("%v", got)
	}
	targets := podTargets(probe.KindLocal, got, netpolicy.Policies{})
	if len(targets) != 2 || targets[0].Port != 8080 || targets[1].Attrs[probe.AttrUID] != "uid-1" {
		t.Errorf("%+v", targets)
	}
}

func TestPolicies(t *testing.T) {
	p := netpolicy.Policies{List: []netpolicy.Policy{
		netpolicy.OfKubernetes(&networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "deny"},
			Spec: networkingv1.NetworkPolicySpec{
				PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}}),
		netpolicy.OfCalico("GlobalNetworkPolicy", "guard", map[string]any{"selector": "has(guarded)"}),
		netpolicy.OfCalico("Calico's NetworkPolicy", "bank/default.all", map[string]any{}),
		netpolicy.OfCalico("Calico's NetworkPolicy", "odd/default.odd", map[string]any{"selector": "((("}),
	}}
	for _, c := range []struct{ namespace, app, guarded, want string }{
		{"shop", "web", "", "NetworkPolicy shop/deny"}, {"shop", "db", "", ""}, {"other", "web", "", ""},
		{"other", "web", "yes", "GlobalNetworkPolicy guard"}, {"bank", "x", "",
			"Calico's NetworkPolicy bank/default.all"}, {"odd", "x", "", "Calico's NetworkPolicy odd/default.odd"},
	} {
		l := map[string]string{"app": c.app}
		if c.guarded != "" {
			l["guarded"] = c.guarded
		}
		if got := p.On(c.namespace, l)[probe.AttrPolicy]; got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
	young, old := corev1.Pod{}, corev1.Pod{}
	for i, q := range []*corev1.Pod{&young, &old} {
		q.Namespace, q.Name, q.CreationTimestamp = "shop", "p", ago(time.Duration(i)*time.Hour)
		q.Status.PodIPs = []corev1.PodIP{{IP: "10.244.1.2"}}
		q.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	old.Labels, young.Name = map[string]string{"app": "web"}, "young"
	if got := pingable([]corev1.Pod{old, young}, 1, p); got[0].Name != "young" {
		t.Errorf("a pod that a policy selects comes first: %v", got)
	}
	if got := podTargets(probe.KindPod, []corev1.Pod{old},
		p); got[0].Attrs[probe.AttrPolicy] != "NetworkPolicy shop/deny" {
		t.Errorf("%+v", got)
	}
	p.List, p.Unread = nil, errors.New("forbidden")
	if got := p.On("x", nil); got[probe.AttrUnread] != "forbidden" {
		t.Error(got)
	}
	for attrs, want := range map[string]probe.Status{probe.AttrPolicy: probe.Warn, probe.AttrUnread: probe.Unknown,
		"other": probe.Fail} {
		target := probe.Target{Attrs: map[string]string{attrs: "x"}}
		if got := probe.Found(probe.Fail, "gone").Under(target, probe.DeniesIngress); got.Status != want ||
			(got.Facts.Str(probe.FactPolicy) == "x") != (attrs == probe.AttrPolicy) {
			t.Errorf("%s: %+v", attrs, got)
		}
	}
}

// TestNeighbours wants the other ends of bad sessions asked first, and no node that is
// not ready.
func TestBaselineNodes(t *testing.T) {
	s := snapshot(node("a", "10.1.0.1", "10.1.0.1/24"), node("b", "10.1.0.2", "10.1.0.2/24"),
		node("c", "10.1.0.3", "10.1.0.3/24"), node("d", "10.1.0.4", "10.9.0.4/24"), node("e", "10.1.0.5", "10.1.0.5/24"))
	s.Nodes[1].Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	s.Nodes = append(s.Nodes, node("f", "10.1.0.6", "10.1.0.6/24"), node("g", "10.1.0.7", "10.1.0.7/24"))
	s.Nodes[5].Spec.Unschedulable = true
	s.Nodes[6].Spec.Taints = []corev1.Taint{{Key: "dedicated", Effect: corev1.TaintEffectNoExecute}}
	at := func(a ...string) []netip.Addr {
		var out []netip.Addr
		for _, text := range a {
			out = append(out, netip.MustParseAddr(text))
		}
		return out
	}
	for _, c := range []struct {
		n      int
		prefer []netip.Addr
		want   string
	}{
		{2, nil, "c d"}, {1, nil, "c"}, {9, nil, "c d e"}, {0, nil, ""},
		{2, at("10.9.0.4"), "d c"}, {1, at("10.1.0.5", "10.9.0.4"), "e"}, {2,
			at("10.1.0.2", "10.1.0.1", "192.0.2.1", "10.1.0.6"), "c d"}, {3, at("10.1.0.5"), "e c d"},
	} {
		var got []string
		for _, n := range BaselineNodes(s, c.n, c.prefer) {
			got = append(got, n.Name)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%d, %v: %v, want %s", c.n, c.prefer, got, c.want)
		}
	}
}

// TestWitness requires a witness with the node's role if one exists, and different witnesses for different nodes.
func TestWitness(t *testing.T) {
	t.Parallel()
	var nodes []corev1.Node
	for i, name := range []string{"cp-1", "cp-2", "w-1", "w-2", "w-3", "w-4", "w-5"} {
		n := node(name, fmt.Sprintf("10.1.0.%d", i+1), "")
		if strings.HasPrefix(name, "cp") {
			n.Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""}
		}
		nodes = append(nodes, n)
	}
	seen := map[string]bool{}
	for i := range nodes {
		s := snapshot(nodes...)
		s.Node = &s.Nodes[i]
		got := Witness(s)
		if got == nil || got.Name == s.Node.Name || !SameRole(got, s.Node) {
			t.Fatalf("%s: %v", s.Node.Name, got)
		}
		seen[got.Name] = true
	}
	if len(seen) < 4 {
		t.Errorf("of seven nodes only %v are witnesses", seen)
	}
	if got := Witness(snapshot(nodes[0], nodes[2])); got == nil || got.Name != "w-1" {
		t.Errorf("without a node of the same role: %v", got)
	}
	if got := Witness(snapshot(nodes[0])); got != nil {
		t.Errorf("alone: %v", got)
	}
}

func TestOutside(t *testing.T) {
	s := snapshot(node("a", "10.1.0.1", "10.9.0.1/24"), node("b", "10.1.0.2", "10.1.0.2/24"))
	asked := func() string {
		var out []string
		for _, o := range Outside(s, "b") {
			out = append(out, fmt.Sprintf("%s %s %d %s", o.Name, o.Addr, o.Port,
				o.Attrs[probe.AttrScope]+o.Attrs[probe.AttrReference]))
		}
		return strings.Join(out, ",")
	}
	if got := asked(); got != "a 10.1.0.1 0 ,a 10.1.0.1 22 ,a 10.1.0.1 10250 ,a 10.9.0.1 0 " {
		t.Errorf("without a backend that is known: %s", got)
	}
	s.Backend.Value = "bird"
	s.Peering.Configs.Value = Specs{"default": {"listenPort": int64(1790)}}
	s.Node.Status.DaemonEndpoints.KubeletEndpoint.Port = 10255
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}, Spec: corev1.PodSpec{NodeName: "a"},
		Status: corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: "10.244.0.1"}}}}
	s.unready = []corev1.Pod{pod}
	if got := asked(); got != "a 10.1.0.1 0 ,a 10.1.0.1 22 ,a 10.1.0.1 10255 ,a 10.9.0.1 0 ,a 10.9.0.1 1790 bgp,default/x 10.244.0.1 0 " {
		t.Errorf("%s", got)
	}
	s = snapshot(node("a", "10.1.0.1", ""), node("b", "10.1.0.2", ""), node("c", "10.1.0.3", ""))
	if got := asked(); got != "a 10.1.0.1 0 ,a 10.1.0.1 22 ,a 10.1.0.1 10250 ,c 10.1.0.3 10250 true" {
		t.Errorf("without a third node's kubelet for comparison: %s", got)
	}
}

// TestAddressOf requires that only valid addresses are accepted: a kubelet may report any text.
func TestAddressOf(t *testing.T) {
	t.Parallel()
	n := node("a", "10.0.0.1", "fe80::1%\x1b[31m")
	for _, text := range []string{"root@10.0.0.9", "-oProxyCommand=x", "fe80::1%\x1b[31mred", "\x1b[31m", ""} {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: text})
	}
	if got := InternalIPs(&n); len(got) != 1 || got[0] != netip.MustParseAddr("10.0.0.1") {
		t.Errorf("%v", got)
	}
	if got, ok := registered(&n, AnnotationIPv4); ok {
		t.Errorf("registered: %v", got)
	}
}

// TestServiceOfTwoFamilies has a service of both families whose pods have IPv4 alone: its IPv6 address
// answers on no node, and that is no node's fault.
func TestServiceOfTwoFamilies(t *testing.T) {
	const svc = `{"metadata":{"name":"workload","namespace":"default"},"spec":{"clusterIP":"10.96.1.1","clusterIPs":["10.96.1.1","fd00:10:96::1"],"selector":{"app":"w"},"ports":[{"port":80,"nodePort":30080}]}}`
	slice := func(endpoints string) string {
		return `{"kind":"EndpointSliceList","apiVersion":"discovery.k8s.io/v1","items":[{"ports":[{"port":8080}],"endpoints":[` + endpoints + `]}]}`
	}
	const four, six = `{"addresses":["10.244.1.2"]}`, `{"addresses":["fd00:10:244::2"]}`
	n := node("a", "10.1.0.1", "")
	n.Status.Addresses = append(n.Status.Addresses,
		corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "fd00:10:88::1"})
	for endpoints, want := range map[string]string{four: "10.96.1.1 10.1.0.1", six: "fd00:10:96::1 fd00:10:88::1",
		four + "," + six: "10.96.1.1 fd00:10:96::1 10.1.0.1 fd00:10:88::1"} {
		c := serverOf(t, map[string]string{
			"/api/v1/services": `{"kind":"ServiceList","apiVersion":"v1","items":[` + svc + `]}`,
			"/apis/discovery.k8s.io/v1/namespaces/default/endpointslices": slice(endpoints),
		}, nil)
		var of Read[[]corev1.Service]
		of.read(t.Context(), c.listServices)
		targets, err := c.readServices(t.Context(), of, []corev1.Node{n}, netpolicy.Policies{})
		var got []string
		lead := map[string]string{four: "10.244.1.2:8080", six: "[fd00:10:244::2]:8080"}[endpoints]
		for _, target := range targets {
			got = append(got, target.Addr.String())
			if at := target.Attrs[probe.AttrEndpoints]; target.Kind == probe.KindService && lead != "" && at != lead {
				t.Errorf("%s leads to %q", target.Addr, at)
			}
		}
		if strings.Join(got, " ") != want || err != nil {
			t.Errorf("%s: %v, %v", endpoints, got, err)
		}
	}
}

// TestUsedIPs requires that a node's address of a second family is tested only if Calico uses that family, or if it is
// unknown whether Calico does.
func TestUsedIPs(t *testing.T) {
	t.Parallel()
	both := node("a", "10.0.0.1", "10.0.0.1/24")
	both.Status.Addresses = append(both.Status.Addresses,
		corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "fd00::1"})
	v6 := both.DeepCopy()
	v6.Annotations[AnnotationIPv6] = "fd00::1/64"
	turned := both.DeepCopy()
	slices.Reverse(turned.Status.Addresses)
	pool := func(cidr string) Read[Specs] { return Read[Specs]{Value: Specs{"p": {"cidr": cidr}}} }
	for name, c := range map[string]struct {
		node  corev1.Node
		pools Read[Specs]
		want  string
	}{
		"IPv4 alone":      {both, pool("10.244.0.0/16"), "[10.0.0.1]"},
		"an IPv6 pool":    {both, pool("fd00:10::/64"), "[10.0.0.1 fd00::1]"},
		"an IPv6 address": {*v6, pool("10.244.0.0/16"), "[10.0.0.1 fd00::1]"},
		"IPv6 first":      {*turned, pool("10.244.0.0/16"), "[fd00::1 10.0.0.1]"},
		"no pools":        {both, Read[Specs]{}, "[10.0.0.1 fd00::1]"},
		"unknown pools":   {both, Read[Specs]{Err: errors.New("forbidden")}, "[10.0.0.1 fd00::1]"},
	} {
		s := &Survey{Nodes: []corev1.Node{c.node}, resources: resources{Pools: c.pools}}
		if got := fmt.Sprint(s.usedIPs(&c.node)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
