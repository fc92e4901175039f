package fleet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

// world is the API's data about many nodes.
type world struct {
	nodes  []corev1.Node
	leases []coordinationv1.Lease
	pods   []corev1.Pod

	refuses string // why no pod is created, "" = no pod is requested
}

// add adds a node of a zone; silent is one whose kubelet has not been heard of for a while.
func (w *world) add(zone string, silent bool) {
	i := len(w.nodes)
	name, hour := fmt.Sprintf("node-%02d", i), metav1.NewTime(time.Now().Add(-time.Hour))
	addr := fmt.Sprintf("10.0.0.%d", i+1)
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: hour,
		Annotations: map[string]string{"projectcalico.org/IPv4Address": addr + "/24"},
		Labels: map[string]string{corev1.LabelOSStable: "linux", corev1.LabelTopologyZone: zone,
			"rack": fmt.Sprint(i % 7)}}}
	n.Status.NodeInfo.KernelVersion = fmt.Sprintf("6.1.%d", i%2)
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: addr}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue,
		LastTransitionTime: hour}}
	lease := coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}
	heard := time.Now().Add(-3 * time.Second)
	if silent {
		heard = time.Now().Add(-10 * time.Minute)
		n.Status.Conditions[0].Status, n.Status.Conditions[0].Reason = corev1.ConditionUnknown, "NodeStatusUnknown"
	}
	lease.Spec.RenewTime = &metav1.MicroTime{Time: heard}
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "calico-node-" + name,
		CreationTimestamp: hour}}
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "calico-node",
		Controller: new(true)}}
	pod.Spec.NodeName = name
	pod.Spec.Containers = []corev1.Container{{Name: "calico-node", Image: "quay.io/calico/node:v3.32.1"}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "calico-node", Ready: true,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: hour}}}}
	w.nodes, w.leases, w.pods = append(w.nodes, n), append(w.leases, lease), append(w.pods, pod)
}

// client asks a server that has the world. No list of one node is ever asked for.
func (w *world) client(t *testing.T) *examine.Client {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		out.Header().Set("Content-Type", "application/json")
		if w.refuses != "" && r.Method == http.MethodPost {
			refusal := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "x", errors.New(w.refuses)).Status()
			refusal.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
			out.WriteHeader(http.StatusForbidden)
			_ = json.NewEncoder(out).Encode(refusal)
			return
		}
		if w.refuses == "" && strings.Contains(r.URL.Query().Get("fieldSelector"), "nodeName") || r.Method != http.MethodGet {
			t.Errorf("asked about one node, or to write: %s %s", r.Method, r.URL)
		}
		var list any = map[string]any{"kind": "List", "apiVersion": "v1", "items": []any{}}
		switch {
		case strings.HasSuffix(r.URL.Path, "/nodes"):
			list = corev1.NodeList{TypeMeta: metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"}, Items: w.nodes}
		case strings.HasSuffix(r.URL.Path, "/leases"):
			list = coordinationv1.LeaseList{TypeMeta: metav1.TypeMeta{Kind: "LeaseList", APIVersion: "coordination.k8s.io/v1"},
				Items: w.leases}
		case strings.HasSuffix(r.URL.Path, "/pods") && strings.Contains(r.URL.Query().Get("labelSelector"), "calico-node"):
			list = corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: w.pods}
		case strings.Contains(r.URL.Path, "projectcalico.org"):
			out.WriteHeader(http.StatusNotFound)
			return
		}
		if err := json.NewEncoder(out).Encode(list); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(srv.Close)
	return examine.NewClient(examine.Config{
		Rest:    func() (*rest.Config, error) { return &rest.Config{Host: srv.URL}, nil },
		Cluster: func() (*probe.Cluster, error) { return &probe.Cluster{Context: "prod", Server: srv.URL}, nil },
		Ours:    func(string) bool { return true },
		Probe:   func(string) []byte { return nil },
	}, io.Discard)
}

// two zones: in b three of four kubelets are silent, in a none of six.
func zones() *world {
	w := &world{}
	for range 6 {
		w.add("a", false)
	}
	for i := range 4 {
		w.add("b", i > 0)
	}
	return w
}

func options() Options {
	o := Options{All: true}
	o.Via, o.Profile, o.FailOn = "api", string(probe.Standard), examine.FailOnFail
	o.Timeout, o.Image = time.Minute, "probe"
	return o
}

// in writes a run in a format.
func in(t *testing.T, client *examine.Client, opts Options, format string) (string, error) {
	t.Helper()
	run, err := New(client, opts)
	if err != nil {
		return "", err
	}
	f, err := report.Find(report.Formats(), format)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if run.Sink, err = f.Sink(&out, report.Options{Fleet: true}); err != nil {
		t.Fatal(err)
	}
	err = run.Do(t.Context())
	return out.String(), err
}

func TestFleet(t *testing.T) {
	t.Parallel()
	client := zones().client(t)
	text, err := in(t, client, options(), "json")
	if !errors.Is(err, ui.Exit(report.ExitFault)) {
		t.Fatal(err)
	}
	var got report.Fleet
	must.Do(t, json.Unmarshal([]byte(text), &got))
	if got.Word != report.WordFault || got.Verdicts[report.WordFault] != 3 || len(got.Nodes) != 10 {
		t.Fatalf("%s, %v, %d nodes", got.Word, got.Verdicts, len(got.Nodes))
	}
	g := got.Groups[0]
	if !slices.Equal(g.Nodes, []string{"node-07", "node-08", "node-09"}) || g.Of != 10 || g.Cause == "" {
		t.Errorf("the first group is %+v", g)
	}
	if c := g.Common; c == nil || *c != (probe.Common{Attribute: "zone", Value: "b", Has: 3, Others: 1, OthersOf: 7}) {
		t.Errorf("in common: %+v", g.Common)
	}
	for format, want := range map[string][]string{
		"table": {"3 of 10 nodes: the kubelet has stopped reporting", "[" + g.Cause, "zone b: 3 of these 3, and 1 of the other 7", "node-07, node-08, node-09",
			"fault on 3 of 10 nodes: ", "; 3 faulty, 7 healthy (", "; cluster prod)", "only the API was checked"},
		"wide":     {"\nnode-07  fault ", "\nnode-00  "},
		"markdown": {"### `3 of 10 nodes: ", "[" + g.Cause, "**fault** on 10 nodes of `prod"},
		"name":     {"cause/" + g.Cause + "\n", "node/node-07\n"},
		"yaml":     {"kind: FleetReport\n"},
		"ndjson":   {`"type":"group"`, `"node":"node-00"`},
	} {
		text, _ := in(t, client, options(), format)
		folded := strings.Join(strings.Fields(text), " ")
		for _, w := range want {
			if !strings.Contains(text, w) && !strings.Contains(folded, w) {
				t.Errorf("-o %s lacks %q:\n%s", format, w, text)
			}
		}
	}
}

// TestRefusedEverywhere requires each node's API results, incomplete and with the reason, if a cluster policy refuses
// every probe.
func TestRefusedEverywhere(t *testing.T) {
	t.Parallel()
	w, opts := zones(), options()
	w.refuses = "ValidatingAdmissionPolicy 'non-root' denied request"
	opts.Via = examine.ViaAuto
	text, err := in(t, w.client(t), opts, "json")
	var got report.Fleet
	if wrong := json.Unmarshal([]byte(text), &got); wrong != nil {
		t.Fatal(wrong, err)
	}
	if !errors.Is(err, ui.Exit(report.ExitFault)) || got.Verdicts[report.WordFault] != 3 ||
		got.Verdicts[report.WordIncomplete] != 7 || !strings.Contains(text, w.refuses) {
		t.Errorf("%v, %v\n%s", err, got.Verdicts, text)
	}
	g := got.Groups
	if len(g) != 2 || g[0].Cause != "kubelet-silent" || g[1].Cause != "probe-policy" || len(g[1].Nodes) != 10 {
		t.Errorf("the fault first, then why no node has an answer: %+v", g)
	}
	opts.Via = injector.MethodPod
	_, err = in(t, w.client(t), opts, "json")
	if err == nil || !strings.Contains(err.Error(), "--via api creates nothing") {
		t.Errorf("--via pod: %v", err)
	}
}

// TestJoined has a suite of JUnit for each node.
func TestJoined(t *testing.T) {
	t.Parallel()
	run := must.Get(New(zones().client(t), options()))(t)
	var docs []report.Document
	run.Sink = report.CollectEach(&docs)
	if err := run.Do(t.Context()); !errors.As(err, new(ui.Exit)) {
		t.Fatal(err)
	}
	if len(docs) != 10 || docs[7].Node != "node-07" || docs[7].Word != report.WordFault || docs[0].Run != run.ID {
		t.Errorf("%d documents: %+v", len(docs), docs)
	}
}

// TestSuspects requires a probe on each node with API findings, and on three healthy nodes of each zone.
func TestSuspects(t *testing.T) {
	t.Parallel()
	client, opts := zones().client(t), options()
	opts.All, opts.Select, opts.Via = false, corev1.LabelOSStable+"=linux", examine.ViaAuto
	run, err := New(client, opts)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := client.Reader()
	if err != nil {
		t.Fatal(err)
	}
	survey, err := reader.ReadAll(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := run.choose(survey)
	if err != nil {
		t.Fatal(err)
	}
	probed, rest, err := run.suspects(t.Context(), survey, nodes, probe.Start{})
	if err != nil {
		t.Fatal(err)
	}
	names := func(of []*corev1.Node) (out []string) {
		for _, n := range of {
			out = append(out, n.Name)
		}
		slices.Sort(out)
		return out
	}
	if got := names(probed); !slices.Equal(got, []string{
		"node-01", "node-03", "node-05", "node-06", "node-07", "node-08", "node-09"}) {
		t.Errorf("probed: %v", got)
	}
	if got := names(rest); !slices.Equal(got, []string{"node-00", "node-02", "node-04"}) {
		t.Errorf("not probed: %v", got)
	}
}

// TestFew requires a few nodes of each zone: from the named nodes, or else from the nodes with API findings.
func TestFew(t *testing.T) {
	t.Parallel()
	w := &world{}
	for i := range 20 {
		w.add(fmt.Sprintf("zone-%d", i%2), i < 12)
	}
	client := w.client(t)
	reader := must.Get(client.Reader())(t)
	survey := must.Get(reader.ReadAll(t.Context()))(t)
	for _, c := range []struct {
		among []string
		most  int
		ok    func(i int) bool
	}{
		{nil, 2 * perZone, func(i int) bool { return i < 12 }},
		{[]string{"node-01", "node-13", "node-15", "node-17", "not-there"}, perZone, func(i int) bool { return i%2 == 1 }},
	} {
		opts := options()
		opts.Via, opts.Few, opts.Among = examine.ViaAuto, true, c.among
		run, err := New(client, opts)
		if err != nil {
			t.Fatal(err)
		}
		nodes, err := run.choose(survey)
		if err != nil {
			t.Fatal(err)
		}
		probed, rest, err := run.suspects(t.Context(), survey, nodes, probe.Start{})
		if err != nil || len(probed) != c.most || len(probed)+len(rest) != 20 {
			t.Errorf("%v: %v, %d probed and %d not", c.among, err, len(probed), len(rest))
		}
		for _, n := range probed {
			if i := slices.IndexFunc(w.nodes, func(o corev1.Node) bool { return o.Name == n.Name }); !c.ok(i) {
				t.Errorf("%v: %s is probed", c.among, n.Name)
			}
		}
	}
}

func TestHealthyFleet(t *testing.T) {
	t.Parallel()
	w := &world{}
	for range 5 {
		w.add("a", false)
	}
	text, err := in(t, w.client(t), options(), "table")
	if err != nil || !strings.Contains(text, "healthy: 5 healthy") {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestChosen(t *testing.T) {
	t.Parallel()
	client := zones().client(t)
	opts := options()
	opts.All, opts.Select = false, "topology.kubernetes.io/zone=a"
	if text, err := in(t, client, opts, "table"); err != nil || !strings.Contains(text, "6 healthy") {
		t.Errorf("%v\n%s", err, text)
	}
	opts.Select, opts.Nodes = "", []string{"node-00", "10.0.0.8"}
	if text, err := in(t, client, opts, "name"); err == nil || !strings.Contains(text, "node/node-07") {
		t.Errorf("%v\n%s", err, text)
	}
	for name, spoil := range map[string]func(*Options){
		"no node \"x\"":       func(o *Options) { o.Nodes = []string{"node-00", "x"} },
		"0 of 10 nodes match": func(o *Options) { o.Nodes, o.Select = nil, "zone=nowhere" },
		"use one of them":     func(o *Options) { o.All = true },
		"--selector \"a=(":    func(o *Options) { o.Nodes, o.Select = nil, "a=(" },
		"auto or pod or api":  func(o *Options) { o.Via = "ssh" },
		"pods-start works":    func(o *Options) { o.Checks = []string{"pods-start"} },
	} {
		bad := opts
		spoil(&bad)
		_, err := in(t, client, bad, "table")
		if !errors.As(err, new(ui.UsageError)) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOneOddNode requires that a node with a wrong address is a separate group, and that other nodes are healthy.
func TestOneOddNode(t *testing.T) {
	t.Parallel()
	w := &world{}
	for range 8 {
		w.add("a", false)
	}
	w.nodes[3].Annotations["projectcalico.org/IPv4Address"] = "172.18.0.1/16"
	text, err := in(t, w.client(t), options(), "wide")
	if err == nil || !strings.HasPrefix(text, "node-03: ") || !strings.Contains(text, "; 1 faulty, 7 healthy (") ||
		!strings.Contains(text, "\nnode-03  fault ") {
		t.Errorf("%v\n%s", err, text)
	}
}
