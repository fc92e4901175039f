package alerts

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/calico-probe/calico-probe/probe/must"
)

// listening returns a local listener and its address.
func listening(t testing.TB) (net.Listener, string) {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	return l, l.Addr().String()
}

// serves runs a server until the test ends. It returns the addresses of its webhook and its health checks.
func serves(t testing.TB, s *Server) (main, health string) {
	t.Helper()
	l, main := listening(t)
	beside, health := listening(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l, beside) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return main, health
}

// dial connects from a local address and sends a text.
func dial(t testing.TB, from, to, says string) {
	t.Helper()
	d := net.Dialer{Timeout: 10 * time.Second, LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c := must.Get(d.DialContext(t.Context(), "tcp", to))(t)
	t.Cleanup(func() { c.Close() })
	_, _ = io.WriteString(c, says) // it may be closed already, for others
}

// posted posts a notification on a new connection and returns the status.
func posted(t testing.TB, client *http.Client, url string, b []byte) (int, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+PathAlerts, bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", contentTypeJSON)
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, nil
}

// TestCrowd opens far more unauthenticated connections than the server keeps, from one address, each idle in another
// way. A notification from the same address is accepted, from a new client and on a connection that existed before. The
// health check succeeds.
func TestCrowd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ours := newAuthority(t, "ours")
	cert, key := ours.sign(t, 2)
	for name, b := range map[string][]byte{"cert": cert, "key": key} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
	for name, secure := range map[string]bool{"plain": false, "by TLS": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			access := tokens(t)
			if secure {
				access.Cert, access.Key = filepath.Join(dir, "cert"), filepath.Join(dir, "key")
			}
			s := must.Get(New(t.TempDir(), anyAlert(t), usual, access, nodesOf(8).cluster(), quiet()))(t)
			t.Cleanup(func() { _ = s.Close() })
			main, health := serves(t, s)
			url, with := "http://"+main, &http.Transport{}
			if secure {
				url, with.TLSClientConfig = "https://"+main, ours.trusted()
			}
			old := &http.Client{Transport: with, Timeout: 10 * time.Second}
			t.Cleanup(old.CloseIdleConnections)
			if code, err := posted(t, old, url, body(t, firing("node-0", "a"))); code != http.StatusOK {
				t.Fatalf("before: %d %v", code, err)
			}
			for _, says := range []string{
				"", "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ",
				"POST /v1/alerts HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{",
			} {
				for range 300 {
					dial(t, "127.0.0.1", main, says)
					dial(t, "127.0.0.1", health, says)
				}
			}
			fresh := &http.Client{Transport: &http.Transport{TLSClientConfig: with.TLSClientConfig}, Timeout: 10 * time.Second}
			t.Cleanup(fresh.CloseIdleConnections)
			if code, err := posted(t, fresh, url, body(t, firing("node-1", "b"))); code != http.StatusOK {
				t.Errorf("a new client: %d %v", code, err)
			}
			again := false
			ctx := httptrace.WithClientTrace(t.Context(),
				&httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { again = c.Reused }})
			r := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", nil))(t)
			r.Header.Set("Authorization", "Bearer "+token)
			if resp, err := old.Do(r); err != nil || resp.StatusCode != http.StatusOK || !again {
				t.Errorf("on the connection from before: %v, %v, the same %v", resp, err, again)
			} else {
				resp.Body.Close()
			}
			for _, path := range []string{"/healthz", "/readyz"} {
				resp, err := (&http.Client{Timeout: 10 * time.Second}).Get("http://" + health + path)
				if err != nil || resp.StatusCode != http.StatusOK || !resp.Close {
					t.Errorf("%s: %v %v", path, resp, err)
					continue
				}
				resp.Body.Close()
			}
			if got := testutil.ToFloat64(s.metrics.crowded); got < 300 {
				t.Errorf("%v connections were closed for others", got)
			}
		})
	}
}

// TestNothingIsKeptOpen requires the connection of a rejected request to be closed, also if an earlier request on it
// was accepted.
func TestNothingIsKeptOpen(t *testing.T) {
	t.Parallel()
	s := opened(t, t.TempDir(), usual, nodesOf(1))
	main, _ := serves(t, s)
	client := &http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	get := func(with string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+main+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+with)
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp
	}
	for _, with := range []string{"of somebody else", token, "of somebody else"} {
		if resp := get(with); resp.Close != (with != token) {
			t.Errorf("%q: %s, closed %v", with, resp.Status, resp.Close)
		}
	}
}

// TestSlowReaders requires a bounded number of pages in memory, a deadline for each, and that alerts are accepted
// meanwhile.
func TestSlowReaders(t *testing.T) {
	t.Parallel()
	s := opened(t, t.TempDir(), usual, nodesOf(1))
	var entering sync.WaitGroup
	stay := make(chan struct{})
	timed := &deadline{}
	page := s.paged(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	page.ServeHTTP(timed, request(t, http.MethodGet, "/"))
	if left := time.Until(timed.at); left <= 0 || left > pageLimit {
		t.Errorf("a page may be sent for %v", left)
	}
	slow := s.paged(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { entering.Done(); <-stay }))
	entering.Add(maxReading)
	var all sync.WaitGroup
	for range maxReading {
		all.Go(func() { slow.ServeHTTP(discard{}, request(t, http.MethodGet, "/")) })
	}
	entering.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // the client that waits has gone: it is not to be let in
	if err := await(ctx, s.reading); err == nil {
		t.Error("one more page is made")
	}
	if code := post(t, s, body(t, firing("node-0", "a"))); code != http.StatusOK {
		t.Errorf("an alert meanwhile: %d", code)
	}
	close(stay)
	all.Wait()
	if code := ask(s, http.MethodGet, "/", token, nil).Code; code != http.StatusOK {
		t.Errorf("a page after it: %d", code)
	}
}

func request(t testing.TB, method, path string) *http.Request {
	t.Helper()
	r := must.Get(http.NewRequestWithContext(t.Context(), method, path, nil))(t)
	return r
}

// deadline is a connection that records its deadline.
type deadline struct {
	discard
	at time.Time
}

func (d *deadline) SetWriteDeadline(at time.Time) error { d.at = at; return nil }

type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}
