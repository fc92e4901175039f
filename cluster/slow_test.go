package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// TestSlowAPI wants an API server that takes connections and answers late waited for, with a message to the user,
// and told from one that takes none.
func TestSlowAPI(t *testing.T) {
	t.Parallel()
	const first = 600 * time.Millisecond // of which listing nodes may take 8/15
	for name, c := range map[string]struct {
		answers time.Duration // how long each list of nodes takes, 0 = never
		dial    func(context.Context, string, string) (net.Conn, error)
		told    int32
		err     string
	}{
		"it answers within the second try": {700 * time.Millisecond, nil, 1, ""},
		"near: it answers at once":         {time.Millisecond, nil, 0, ""},
		"it never answers":                 {0, nil, 1, "accepts connections but gave no answer in time"},
		"near: nothing takes a connection": {time.Millisecond, func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, 0, "cannot be reached (no answer in time)"},
		"near: it is refused": {time.Millisecond, func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("connect: connection refused")
		}, 0, "cannot be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/api/v1/nodes" {
					http.NotFound(w, r)
					return
				}
				var done <-chan time.Time
				if c.answers > 0 {
					done = time.After(c.answers)
				}
				select {
				case <-done:
				case <-r.Context().Done():
					return
				}
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, `{"kind":"NodeList","apiVersion":"v1","items":[{"metadata":{"name":"node-a"}}]}`)
			}))
			defer server.Close()
			client, err := NewClient(&rest.Config{Host: server.URL, Dial: c.dial}, "")
			if err != nil {
				t.Fatal(err)
			}
			client.limit = first
			var told atomic.Int32
			client.Slow = func(time.Duration, time.Duration) { told.Add(1) }
			s, err := client.Read(t.Context(), "node-a")
			if told.Load() != c.told || (err == nil) != (c.err == "") || err == nil && s.Node.Name != "node-a" ||
				err != nil && !strings.Contains(Explain(err), c.err) {
				t.Errorf("told %d times: %v", told.Load(), err)
			}
		})
	}
}
