package injector

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/calico-probe/calico-probe/probe/must"
)

// TestAttachIsTriedAgain requires a second attach attempt if the first broke before anything was sent, and none after a
// refusal.
func TestAttachIsTriedAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		breaks bool
		want   int64 // requests: after a refused WebSocket the client tries SPDY
	}{
		"it broke off":   {breaks: true, want: 3},
		"it was refused": {want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var tries atomic.Int64
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if tries.Add(1) == 1 && c.breaks {
					panic(http.ErrAbortHandler) // closes the connection
				}
				http.Error(w, "refused by the server", http.StatusForbidden)
			}))
			t.Cleanup(srv.Close)
			p := &placement{client: must.Get(NewClient(&rest.Config{Host: srv.URL}))(t), namespace: "n", pod: "p"}
			in, feed := io.Pipe()
			t.Cleanup(func() { feed.Close() })
			err := p.attach(t.Context(), in, io.Discard)
			if err == nil || !strings.Contains(err.Error(), "refused by the server") || tries.Load() != c.want {
				t.Errorf("%d requests, want %d: %v", tries.Load(), c.want, err)
			}
		})
	}
}
