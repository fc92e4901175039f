package fleet

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/mesh"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

// pair is a mesh of two nodes without pods.
func pair() *trying {
	t := &trying{run: &MeshRun{Run: &Run{picked: []string{link.NodePing.ID, pod.PodPing.ID}}},
		survey: &cluster.Survey{}, answers: map[string]*answers{}, place: map[string]int{},
		sessions: sessions{silent: map[int]string{}, whole: map[int]bool{}, none: "no BIRD here"}}
	for i, name := range []string{"a", "b"} {
		t.nodes = append(t.nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		t.members = append(t.members, mesh.Node{Name: name})
		t.targets = append(t.targets, []probe.Target{{Kind: probe.KindNode, Name: name, Node: name}})
		t.place[name] = i
	}
	t.hidden, t.untested = make([]error, 2), make([]error, 2)
	t.expect([]mesh.Path{{From: 0, To: 1}, {From: 1, To: 0}})
	return t
}

// pinged notes what a ping from a node to the other came to.
func (t *trying) pinged(from, received int) {
	r := probe.Found(probe.OK, "seen").With(probe.FactSent, 5).With(probe.FactReceived, received).
		With(probe.FactNode, t.nodes[1-from].Name)
	r.Check = link.NodePing.ID
	t.take(from, r)
}

// TestMeshVerdict requires an unhealthy verdict if packets are lost, or if the pod targets are unknown.
func TestMeshVerdict(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(*trying)
		word  string
		exit  int
	}{
		"all works": {func(*trying) {}, report.WordHealthy, report.ExitHealthy},
		"loss":      {func(m *trying) { m.pinged(1, 4) }, report.WordWarnings, report.ExitHealthy}, // the worse counts
		"pods cannot be listed": {func(m *trying) {
			m.hidden[1] = errors.New("the API server is busy")
			m.expect([]mesh.Path{{From: 0, To: 1}})
		}, report.WordIncomplete, report.ExitIncomplete},
		"both": {func(m *trying) {
			m.pinged(0, 4)
			m.hidden[1] = errors.New("the API server is busy")
			m.expect([]mesh.Path{{From: 0, To: 1}})
		}, report.WordIncomplete, report.ExitIncomplete},
	} {
		m := pair()
		m.pinged(0, 5)
		m.pinged(1, 5)
		c.spoil(m)
		if got := m.report(); got.Word != c.word || got.Exit != c.exit {
			t.Errorf("%s: %s, exit %d, want %s: %+v", name, got.Word, got.Exit, c.word, got.Planes)
		}
	}
}

// TestMovedHoldsNobodyUp requires that other nodes' watch continues while the API server is slow to list a node's pods.
func TestMovedHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	asked, answer := make(chan struct{}), make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		close(asked)
		<-answer
		out.WriteHeader(http.StatusNotFound)
	}))
	defer srv.Close()
	client := examine.NewClient(examine.Config{
		Rest:    func() (*rest.Config, error) { return &rest.Config{Host: srv.URL}, nil },
		Cluster: func() (*probe.Cluster, error) { return &probe.Cluster{}, nil },
	}, io.Discard)
	reader := must.Get(client.Reader())(t)
	w := &Watch{trying: pair(), every: time.Second, read: map[int]time.Time{}}
	w.reader = reader
	ended := make(chan bool)
	go func() { ended <- w.moved(t.Context(), 1, w.targets[1]) }()
	<-asked
	if w.reading.TryLock() {
		w.reading.Unlock()
	} else {
		t.Error("every other node waits for the answer")
	}
	close(answer)
	if <-ended {
		t.Error("what could not be read has moved")
	}
}

// TestMeshCrashes has this program fail at the paths from one node: the mesh is incomplete, and says where.
func TestMeshCrashes(t *testing.T) {
	t.Parallel()
	m := pair()
	m.run = nil // asking from anywhere fails
	m.try(t.Context(), []mesh.Path{{From: 0, To: 1}}, nil)
	m.run = pair().run
	if r := m.report(); r.Exit != report.ExitIncomplete || !strings.Contains(r.Nodes[0].Untested, "crashed: ") ||
		r.Nodes[1].Untested != "" {
		t.Errorf("%+v", r)
	}
}
