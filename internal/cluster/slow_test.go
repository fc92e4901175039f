package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/calico-probe/calico-probe/internal/apierror"
)

// TestSlowAPI requires that the client waits, with a message, for an API server that accepts connections and answers
// late. It must distinguish an API server that accepts no connection.
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
		"it never answers":                 {0, nil, 1, "Try again, or run calico-probe on the node itself with --via local"},
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
				err != nil && !strings.Contains(apierror.Explain(err), c.err) {
				t.Errorf("told %d times: %v", told.Load(), err)
			}
		})
	}
}

// TestSlowLists requires that separate lists of nodes wait like a snapshot.
func TestSlowLists(t *testing.T) {
	t.Parallel()
	for name, list := range map[string]func(*Client) error{
		"Conditions": func(c *Client) error { _, err := c.Conditions(t.Context(), "Ready", "", ""); return err },
		"Named":      func(c *Client) error { _, err := c.Named(t.Context(), ""); return err },
		"NodeNames":  func(c *Client) error { _, err := c.NodeNames(t.Context()); return err },
		"NodesAt":    func(c *Client) error { _, err := c.NodesAt(t.Context(), netip.MustParseAddr("10.0.0.1")); return err },
		"HasNode":    func(c *Client) error { return c.HasNode(t.Context(), "node-a") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serverOf(t, nil, map[string]http.HandlerFunc{"/api/v1/nodes": func(w http.ResponseWriter, _ *http.Request) {
				time.Sleep(500 * time.Millisecond)
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, `{"kind":"NodeList","apiVersion":"v1","items":[{"metadata":{"name":"node-a"}}]}`)
			}})
			c.limit = 300 * time.Millisecond
			var told atomic.Int32
			c.Slow = func(time.Duration, time.Duration) { told.Add(1) }
			if err := list(c); err != nil || told.Load() != 1 {
				t.Errorf("told %d times: %v", told.Load(), err)
			}
			c.limit = 50 * time.Millisecond
			if err := list(c); err == nil || !strings.Contains(err.Error(), "gave no answer in time") ||
				strings.Contains(err.Error(), "--via local") {
				t.Errorf("slower: %v", err)
			}
		})
	}
}
