package httpget

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/calico-probe/calico-probe/probe/must"
)

// TestGet checks that the first answer is returned unchanged: a redirect, a long one, over TLS, and on a socket.
func TestGet(t *testing.T) {
	t.Parallel()
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(http.StatusFound)
		_, _ = w.Write(bytes.Repeat([]byte(r.URL.Path), 1<<20))
	})
	secure := httptest.NewTLSServer(answer)
	t.Cleanup(secure.Close)
	l := must.Get(net.Listen("unix", filepath.Join(t.TempDir(), "s")))(t)
	local := httptest.NewUnstartedServer(answer)
	local.Listener.Close()
	local.Listener = l
	local.Start()
	t.Cleanup(local.Close)
	onSocket := func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", l.Addr().String())
	}
	for url, opts := range map[string]Options{secure.URL + "/x": {}, "http://here/x": {Dial: onSocket},
		secure.URL + "/xx": {Most: 100}} {
		most := 1 << 20
		if opts.Most > 0 {
			most = int(opts.Most)
		}
		page, err := Get(t.Context(), url, opts)
		if err != nil || page.Code != http.StatusFound || len(page.Body) != most || page.Body[1] == 'e' {
			t.Errorf("%s: %d, %d bytes, %v", url, page.Code, len(page.Body), err)
		}
	}
}
