package api

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/cluster/clustertest"
	"github.com/calico-probe/calico-probe/probe"
)

// crashingCalls panics at each call of one path, and records all paths.
type crashingCalls struct {
	http.RoundTripper
	at   string
	mu   sync.Mutex
	seen []string
}

func (c *crashingCalls) RoundTrip(r *http.Request) (*http.Response, error) {
	c.mu.Lock()
	c.seen = append(c.seen, r.URL.Path)
	c.mu.Unlock()
	if r.URL.Path == c.at {
		panic("boom")
	}
	return c.RoundTripper.RoundTrip(r)
}

// TestReaderCrashes has the reader of each part crash in turn. It expects all other parts to be read, and the crash to
// be reported: by an unknown result, or as an unread part of the survey.
func TestReaderCrashes(t *testing.T) {
	t.Parallel()
	all := crashAt(t, "", nil)
	for _, path := range slices.Compact(slices.Sorted(slices.Values(all))) {
		crashAt(t, path, func(s *cluster.Snapshot, of *cluster.Survey, err error) {
			switch {
			case path == "/api/v1/nodes":
				if !errors.As(err, new(*probe.Crash)) {
					t.Errorf("%s: %v", path, err)
				}
			case err != nil:
				t.Errorf("%s: nothing was read: %v", path, err)
			case !errors.As(errors.Join(of.UnreadParts()...), new(*probe.Crash)) && !namesCrash(t, s):
				t.Errorf("%s: the crash is not reported", path)
			}
		})
	}
}

// crashAt reads a cluster while the calls of a path crash, and returns the paths of all calls.
func crashAt(t *testing.T, path string, then func(*cluster.Snapshot, *cluster.Survey, error)) []string {
	t.Helper()
	calls := &crashingCalls{at: path}
	f := clustertest.Fleet{Wrap: func(next http.RoundTripper) http.RoundTripper {
		calls.RoundTripper = next
		return calls
	}}
	f.Add("well", func(_ *corev1.Node, _ *coordinationv1.Lease, p *corev1.Pod) {
		p.Spec.ServiceAccountName = "calico-node"
	})
	f.Add("bare", func(_ *corev1.Node, _ *coordinationv1.Lease, p *corev1.Pod) { p.Name = "" })
	client := f.Client(t)
	var s *cluster.Snapshot
	var of *cluster.Survey
	err := probe.Recovered(func() (err error) {
		if s, err = client.Read(t.Context(), "well"); err == nil {
			of, err = client.ReadAll(t.Context())
		}
		return err
	})
	if then != nil {
		then(s, of, err)
	}
	return calls.seen
}

// namesCrash reports whether a check is unknown because of the crash.
func namesCrash(t *testing.T, s *cluster.Snapshot) bool {
	t.Helper()
	for _, c := range Checks(s) {
		for _, r := range ask(t, s, c.ID) {
			if r.Status == probe.Unknown && strings.Contains(r.Saw, "crashed: boom") {
				return true
			}
		}
	}
	return false
}
