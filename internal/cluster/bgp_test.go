package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/calico-probe/calico-probe/probe"
)

// sessionsOf gives the sessions of the first node, one line each.
func sessionsOf(t *testing.T, s *Snapshot) ([]string, error) {
	t.Helper()
	targets, err := SessionTargets(s, s.Node)
	var out []string
	for _, x := range targets {
		if x.Kind != probe.KindSession {
			t.Errorf("%+v", x)
		}
		out = append(out, fmt.Sprintf("%s %s %s:%d AS%s", x.Attrs[probe.AttrScope], x.Name, x.Addr, x.Port,
			x.Attrs[probe.AttrAS]))
	}
	slices.Sort(out)
	return out, err
}

func TestSessions(t *testing.T) {
	with := func(n corev1.Node, more map[string]string, labels ...string) corev1.Node {
		n.Annotations = maps.Clone(n.Annotations)
		maps.Copy(n.Annotations, more)
		n.Labels = map[string]string{"kubernetes.io/hostname": n.Name}
		for _, l := range labels {
			n.Labels[l] = ""
		}
		return n
	}
	six := func(a string) map[string]string { return map[string]string{AnnotationIPv6: a + "/64"} }
	reflector := map[string]string{AnnotationCluster: "244.0.0.1"}
	a, b, c := node("a", "10.0.0.1", "10.0.0.1/24"), node("b", "10.0.0.2", "10.0.0.2/24"), node("c", "10.0.0.3",
		"10.0.0.3/24")
	for name, x := range map[string]struct {
		nodes   []corev1.Node // of the first
		peers   Specs
		configs Specs
		want    []string
		gap     string
	}{
		"mesh": {nodes: []corev1.Node{a, b, c, node("foreign", "10.0.0.4", "")},
			want: []string{"mesh b 10.0.0.2:179 AS64512", "mesh c 10.0.0.3:179 AS64512"}},
		"own settings": {nodes: []corev1.Node{a, with(b, map[string]string{AnnotationAS: "64999"}), c},
			configs: Specs{"default": {"asNumber": int64(65001), "listenPort": int64(1790)},
				"node.c": {"listenPort": int64(1799)}},
			want: []string{"mesh b 10.0.0.2:1790 AS64999", "mesh c 10.0.0.3:1799 AS65001"}},
		"dual stack, one family here": {nodes: []corev1.Node{a, with(b, six("fd00::2"))},
			want: []string{"mesh b 10.0.0.2:179 AS64512"}},
		"dual stack": {nodes: []corev1.Node{with(a, six("fd00::1")), with(b, six("fd00::2"))},
			want: []string{"mesh b 10.0.0.2:179 AS64512", "mesh b fd00::2:179 AS64512"}},
		"mesh off": {nodes: []corev1.Node{a, b}, configs: Specs{"default": {"nodeToNodeMeshEnabled": false}}},
		"reflector is not in the mesh": {nodes: []corev1.Node{a, with(b, reflector), c},
			want: []string{"mesh c 10.0.0.3:179 AS64512"}},
		"on a reflector, the peers of those who chose it": {nodes: []corev1.Node{with(a, reflector, "rr"), b, c},
			peers: Specs{"to-rr": {"nodeSelector": "!has(rr)", "peerSelector": "has(rr)"}},
			want:  []string{"node b 10.0.0.2:179 AS64512", "node c 10.0.0.3:179 AS64512"}},
		"the same, each end by its own resource": {nodes: []corev1.Node{with(a, reflector, "rr"), b},
			peers: Specs{"to-rr": {"nodeSelector": "!has(rr)", "peerSelector": "has(rr)", "reversePeering": "Manual"}}},
		"to a reflector": {nodes: []corev1.Node{a, with(b, reflector, "rr"), c},
			peers:   Specs{"to-rr": {"nodeSelector": "all()", "peerSelector": "has(rr)"}},
			configs: Specs{"default": {"nodeToNodeMeshEnabled": false}},
			want:    []string{"node b 10.0.0.2:179 AS64512"}},
		"switches": {nodes: []corev1.Node{a, b},
			peers: Specs{
				"tor": {"peerIP": "10.0.0.254", "asNumber": "1.10"}, "six": {"peerIP": "fd00::254"},
				"port":  {"peerIP": "10.0.0.253:1179", "node": "a"},
				"other": {"peerIP": "10.0.0.252", "node": "b"}, "rack": {"peerIP": "10.0.0.251", "nodeSelector": "has(rack)"}},
			configs: Specs{"default": {"nodeToNodeMeshEnabled": false}},
			want:    []string{"global tor 10.0.0.254:179 AS65546", "node port 10.0.0.253:1179 AS64512"}},
		"a node named by its address, and back": {nodes: []corev1.Node{a, b},
			peers: Specs{"b-to-a": {"peerIP": "10.0.0.1", "node": "b"},
				"self": {"peerIP": "10.0.0.1", "node": "a"}},
			configs: Specs{"default": {"nodeToNodeMeshEnabled": false}},
			want:    []string{"node b 10.0.0.2:179 AS64512"}},
		"a node of another AS is not that peer": {nodes: []corev1.Node{a, b},
			peers:   Specs{"b-to-a": {"peerIP": "10.0.0.1", "node": "b", "asNumber": int64(65000)}},
			configs: Specs{"default": {"nodeToNodeMeshEnabled": false}}},
		"own pods": {nodes: []corev1.Node{a},
			peers: Specs{"pods": {"localWorkloadSelector": "has(bgp)", "asNumber": int64(65002)}}},
		"bad selector": {nodes: []corev1.Node{a, b}, peers: Specs{"x": {"nodeSelector": "rack = 1",
			"peerIP": "10.0.0.9"}}, want: []string{"mesh b 10.0.0.2:179 AS64512"}, gap: "BGPPeer x: selector"},
		"bad address": {nodes: []corev1.Node{a}, peers: Specs{"x": {"peerIP": "tor-1"}},
			gap: `peerIP "tor-1"`},
		"not here": {nodes: []corev1.Node{node("a", "10.0.0.1", ""), b}},
		"mesh and peer": {nodes: []corev1.Node{a, b}, peers: Specs{"twice": {"peerIP": "10.0.0.2"}},
			want: []string{"mesh b 10.0.0.2:179 AS64512"}},
	} {
		s := snapshot(x.nodes...)
		s.Backend.Value, s.Peering.Peers.Value, s.Peering.Configs.Value = "bird", x.peers, x.configs
		got, err := sessionsOf(t, s)
		if !slices.Equal(got, x.want) || (err != nil) != (x.gap != "") || err != nil &&
			!strings.Contains(err.Error(), x.gap) {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	s := snapshot(a, b)
	s.Backend.Value = "vxlan"
	if got, err := sessionsOf(t, s); len(got) > 0 || err != nil {
		t.Errorf("without BIRD: %q, %v", got, err)
	}
	s.Nodes[1].Status.Conditions[0].Status = corev1.ConditionFalse
	s.Backend.Value, s.Peering.Peers.Value = "bird", Specs{"b-by-address": {"peerIP": "10.0.0.2"},
		"tor": {"peerIP": "10.0.0.254"}}
	for _, mesh := range []bool{true, false} {
		s.Peering.Configs.Value = Specs{"default": {"nodeToNodeMeshEnabled": mesh}}
		got, _ := SessionTargets(s, s.Node)
		if len(got) != 2 || got[0].Node != "b" || got[0].Attrs[probe.AttrNode] != "NotReady" || got[1].Node != "" ||
			got[1].Attrs[probe.AttrNode] != "" {
			t.Errorf("a node that is not ready, mesh %v: %+v", mesh, got)
		}
	}
	s.Peering.Peers.Err = errors.New("refused")
	if _, gaps := Targets(s); gaps[probe.KindSession] != "refused" || gaps[probe.KindBackend] != "" {
		t.Errorf("without BGPPeers, the port is known: %v", gaps)
	}
	s.Peering = peering{Configs: Read[Specs]{Err: errors.New("refused")}}
	if _, gaps := Targets(s); gaps[probe.KindBackend] != "refused" {
		t.Errorf("without BGPConfigurations the port is not known: %v", gaps)
	}
	if targets, gaps := Targets(s); gaps[probe.KindSession] != "refused" ||
		slices.ContainsFunc(targets, func(t probe.Target) bool { return t.Kind == probe.KindSession }) {
		t.Errorf("unread: %v, %v", targets, gaps)
	}
}

// TestReadPeering reads from a server that has one of Calico's two API groups; a
// real API server with either is more than a unit test has.
func TestReadPeering(t *testing.T) {
	answers := map[string]string{
		"/bgppeers":          `{"kind":"List","items":[{"metadata":{"name":"tor"},"spec":{"peerIP":"10.0.0.254","asNumber":65000}},{"metadata":{"name":"bare"}}]}`,
		"/bgpconfigurations": `{"kind":"List","items":[{"metadata":{"name":"default"},"spec":{"listenPort":1790,"nodeToNodeMeshEnabled":false}}]}`,
	}
	for group, want := range map[string]string{"/apis/crd.projectcalico.org/v1": "", "/apis/projectcalico.org/v3": "",
		"/forbidden": "forbidden"} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			text, ok := answers[strings.TrimPrefix(r.URL.Path, group)]
			switch {
			case ok && strings.HasPrefix(r.URL.Path, group):
				fmt.Fprint(w, text)
			case want != "":
				w.WriteHeader(http.StatusForbidden)
				fmt.Fprint(w, `{"kind":"Status","status":"Failure","reason":"Forbidden","message":"forbidden","code":403}`)
			default:
				w.WriteHeader(http.StatusNotFound)
				fmt.Fprint(w, `{"kind":"Status","status":"Failure","reason":"NotFound","code":404}`)
			}
		}))
		defer srv.Close()
		c, err := NewClient(&rest.Config{Host: srv.URL}, "")
		if err != nil {
			t.Fatal(err)
		}
		var read resources
		var all probe.Workers
		c.readCalico(t.Context(), &read, &all)
		all.Wait()
		got, err := read.Peering, read.Peering.Unread()
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", group, err)
			}
			continue
		}
		if err != nil || got.Peers.Value["tor"]["asNumber"] != int64(65000) || len(got.Peers.Value) != 2 ||
			got.Configs.Value["default"]["listenPort"] != int64(1790) {
			t.Errorf("%s: %v, %v", group, got, err)
		}
	}
}

// serverOf answers with a List or another object for the paths it has, with what
// handlers do for others, and like an API server without that group for the rest.
func serverOf(t *testing.T, objects map[string]string, others map[string]http.HandlerFunc) *Client {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := others[r.URL.Path]; h != nil {
			h(w, r)
			return
		}
		text, ok := objects[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, text)
	}))
	t.Cleanup(srv.Close)
	c, err := NewClient(&rest.Config{Host: srv.URL}, "")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestReadSpec reads an operator's cluster in an outage: the aggregated API is down, and no resource of that kind
// exists.
func TestReadSpec(t *testing.T) {
	out := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }
	const crd, v3 = "/apis/crd.projectcalico.org/v1/felixconfigurations", "/apis/projectcalico.org/v3/felixconfigurations"
	none := `{"kind":"List","items":[]}`
	two := `{"kind":"List","items":[{"metadata":{"name":"node.a"},"spec":{"healthPort":2}},{"metadata":{"name":"default"},"spec":{"healthPort":1,"x":1}},{"metadata":{"name":"node.b"},"spec":{"healthPort":3}}]}`
	for name, c := range map[string]struct {
		objects map[string]string
		want    map[string]any
		broken  bool
	}{
		"none there":     {map[string]string{crd: none}, map[string]any{}, false},
		"own over all's": {map[string]string{crd: two}, map[string]any{"healthPort": int64(2), "x": int64(1)}, false},
		"no CRDs":        {nil, nil, true},
	} {
		client := serverOf(t, c.objects, map[string]http.HandlerFunc{v3: out, v3 + "/default": out, v3 + "/node.a": out})
		all, _, err := client.list(t.Context(), "felixconfigurations", 0)
		var got map[string]any
		if err == nil {
			a := node("a", "10.0.0.1", "")
			got = FelixSettings(all, &a)
		}
		if !maps.Equal(got, c.want) || (err != nil) != c.broken {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// TestReadInTwoWaves has a list hang, and requires that later reads have time left.
func TestReadInTwoWaves(t *testing.T) {
	const pods = `{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"w","namespace":"default"},"status":{"phase":"Running","podIPs":[{"ip":"10.244.1.2"}],"conditions":[{"type":"Ready","status":"True"}]}}]}`
	c := serverOf(t, map[string]string{
		"/api/v1/nodes": `{"kind":"NodeList","apiVersion":"v1","items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}`, "/api/v1/pods": pods,
	}, map[string]http.HandlerFunc{"/apis/crd.projectcalico.org/v1/ippools": func(_ http.ResponseWriter,
		r *http.Request) {
		<-r.Context().Done()
	}})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	s, err := c.Read(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	if s.Pools.Err == nil || s.Local.Err != nil || len(s.Local.Value.pods) != 1 || s.pods.Err != nil {
		t.Errorf("pools: %v; local pods: %v, %v; others': %v", s.Pools.Err, s.Local.Value.pods, s.Local.Err, s.pods.Err)
	}
}

// TestWaysOfBGP requires that BGP is marked as used between nodes that are peers, at the port of the passive end.
func TestWaysOfBGP(t *testing.T) {
	a, b := node("a", "10.0.0.1", "10.0.0.1/24"), node("b", "10.0.0.2", "10.0.0.2/24")
	s := snapshot(a, b)
	s.Backend.Value = "bird"
	bgp := func(from, to *corev1.Node) string {
		ways := EncapTargets(s, from, to, probe.RoleSend, "")
		w := ways[len(ways)-1]
		return fmt.Sprintf("%s %d %s", w.Name, w.Port, w.Attrs[probe.AttrUsed])
	}
	s.Peering.Configs.Value = Specs{"node.a": {"listenPort": int64(1790)}}
	if there, back := bgp(&a, &b), bgp(&b, &a); there != "BGP 179 true" || back != "BGP 1790 true" {
		t.Errorf("mesh: %s, %s", there, back)
	}
	s.Peering.Configs.Value = Specs{"default": {"nodeToNodeMeshEnabled": false}}
	s.Peering.Peers.Value = Specs{"tor": {"peerIP": "10.0.0.254"}}
	if got := bgp(&a, &b); got != "BGP 179 false" {
		t.Errorf("with a switch: %s", got)
	}
	s.Peering.Configs.Err = errors.New("refused")
	if got := bgp(&a, &b); got != "BGP 179 false" {
		t.Errorf("unread: %s", got)
	}
}

// TestPasswords requires that the targets show which sessions have a password, and nothing else about it.
func TestPasswords(t *testing.T) {
	secret := map[string]any{"secretKeyRef": map[string]any{"name": "bgp", "key": "password"}}
	s := snapshot(node("a", "10.0.0.1", "10.0.0.1/24"), node("b", "10.0.0.2", "10.0.0.2/24"))
	s.Peering.Peers.Value = Specs{"tor": {"peerIP": "192.0.2.1", "asNumber": int64(65000), "password": secret}}
	s.Peering.Configs.Value = Specs{}
	with := func() (out []string) {
		targets, err := SessionTargets(s, s.Node)
		if err != nil {
			t.Error(err)
		}
		for _, x := range targets {
			if x.Attrs[probe.AttrPassword] == "true" {
				out = append(out, x.Name)
			}
		}
		return out
	}
	if got := with(); !slices.Equal(got, []string{"tor"}) {
		t.Errorf("with a password: %v", got)
	}
	s.Peering.Configs.Value["default"] = map[string]any{"nodeMeshPassword": secret}
	if got := with(); !slices.Equal(got, []string{"b", "tor"}) {
		t.Errorf("with a password: %v", got)
	}
}
