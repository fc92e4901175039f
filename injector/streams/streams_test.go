package streams

import (
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	gorilla "github.com/gorilla/websocket"
	"k8s.io/apimachinery/pkg/util/httpstream"      //nolint:staticcheck // client-go takes no other yet
	"k8s.io/apimachinery/pkg/util/httpstream/spdy" //nolint:staticcheck // client-go takes no other yet
	"k8s.io/client-go/rest"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

// v5 is a stream number in the WebSocket protocol.
const (
	v5Stdout = 1
	v5Stderr = 2
	v5Errors = 3
)

// overWebSocket is a server whose kubelet sends pieces of 32 KiB. The callback returns the stream of each piece, until
// it returns 0 and the command has succeeded.
func overWebSocket(t *testing.T, next func(sent int64) byte) (*rest.Config, *atomic.Int64) {
	t.Helper()
	sent := &atomic.Int64{}
	up := gorilla.Upgrader{Subprotocols: []string{"v5.channel.k8s.io"}}
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := up.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer conn.Close()
		go func() { // ends with the connection
			for {
				if _, _, err := conn.ReadMessage(); err != nil {
					return
				}
			}
		}()
		piece := []byte(strings.Repeat("x", 32<<10))
		for sent.Load() < 64<<20 {
			piece[0] = next(sent.Load())
			if piece[0] == 0 {
				_ = conn.WriteMessage(gorilla.BinaryMessage, append([]byte{v5Errors}, `{"status":"Success"}`...))
				_ = conn.WriteMessage(gorilla.CloseMessage, gorilla.FormatCloseMessage(gorilla.CloseNormalClosure, ""))
				return
			}
			if conn.WriteMessage(gorilla.BinaryMessage, piece) != nil {
				return
			}
			sent.Add(int64(len(piece)))
		}
	}))
	t.Cleanup(srv.Close)
	c := &rest.Config{Host: srv.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	return c, sent
}

// attachTo connects to a server. stdin stays open.
func attachTo(t *testing.T, c *rest.Config, out, errs io.Writer) error {
	t.Helper()
	at := must.Get(url.Parse(c.Host + "/api/v1/namespaces/n/pods/p/attach"))(t)
	in, feed := io.Pipe()
	defer feed.Close()
	return Connect(t.Context(), c, at, in, out, errs)
}

// TestBesideOutput requires that endless data on a stream other than stdout ends the connection before client-go keeps
// much of it. The same amount on stdout must pass.
func TestBesideOutput(t *testing.T) {
	t.Parallel()
	most := int64(maxBeside + 8<<20) // kernel buffers and more
	for name, stream := range map[string]byte{"errors": v5Errors, "stderr": v5Stderr, "nobody's": 9} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, sent := overWebSocket(t, func(int64) byte { return stream })
			err := attachTo(t, c, io.Discard, io.Discard)
			if !errors.Is(err, errBeside) || !errors.Is(err, probe.ErrTooMuch) {
				t.Errorf("%v, want %v", err, errBeside)
			}
			if sent.Load() > most {
				t.Errorf("%d bytes were taken, want %d at most", sent.Load(), most)
			}
		})
	}
	t.Run("stdout", func(t *testing.T) {
		t.Parallel()
		c, _ := overWebSocket(t, func(sent int64) byte {
			if sent > 48<<20 {
				return 0
			}
			return v5Stdout
		})
		var got atomic.Int64
		err := attachTo(t, c, writer(func(p []byte) (int, error) { got.Add(int64(len(p))); return len(p), nil }), io.Discard)
		if err != nil || got.Load() < 48<<20 {
			t.Errorf("%d bytes and %v", got.Load(), err)
		}
	})
}

// TestConnectionIsVerified requires that no connection opens through a server with an unverified certificate: these
// connections use our dialer.
func TestConnectionIsVerified(t *testing.T) {
	t.Parallel()
	c, sent := overWebSocket(t, func(int64) byte { return 0 })
	c.Insecure = false // this machine does not trust that server's CA
	if err := attachTo(t, c, io.Discard, io.Discard); !errors.As(err, new(*tls.CertificateVerificationError)) {
		t.Errorf("%v and %d bytes, want an error about the certificate", err, sent.Load())
	}
	c.Insecure = true
	if err := attachTo(t, c, io.Discard, io.Discard); err != nil {
		t.Errorf("unverified, as the kubeconfig says: %v", err)
	}
}

// TestBesideOutputOfSPDY is TestBesideOutput with a server without WebSocket support.
func TestBesideOutputOfSPDY(t *testing.T) {
	t.Parallel()
	for _, flooded := range []string{"error", "stderr"} {
		t.Run(flooded, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Upgrade") == "websocket" {
					http.Error(w, "no WebSocket here", http.StatusBadRequest)
					return
				}
				if _, err := httpstream.Handshake(r, w, []string{"v4.channel.k8s.io"}); err != nil {
					return
				}
				streams := make(chan httpstream.Stream, 8)
				conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
					streams <- s
					return nil
				})
				if conn == nil {
					return
				}
				defer conn.Close()
				piece := []byte(strings.Repeat("x", 32<<10))
				var to httpstream.Stream
				for range 4 { // not read before all have arrived
					select {
					case s := <-streams:
						if s.Headers().Get("streamType") == flooded {
							to = s
						}
					case <-conn.CloseChan():
						return
					}
				}
				for sent := 0; sent < 64<<20; sent += len(piece) {
					if _, err := to.Write(piece); err != nil {
						return
					}
				}
				<-conn.CloseChan()
			}))
			defer srv.Close()
			c := &rest.Config{Host: srv.URL}
			if err := attachTo(t, c, io.Discard, io.Discard); !errors.Is(err, errBeside) {
				t.Errorf("%v, want %v", err, errBeside)
			}
		})
	}
}

// TestRefusedUpgrade requires the server's error if it does not upgrade, without waiting for the rest of the body.
func TestRefusedUpgrade(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		for r.Header.Get("Upgrade") != "websocket" {
			if _, err := io.WriteString(w, strings.Repeat("x", 32<<10)); err != nil {
				return
			}
		}
	}))
	defer srv.Close()
	defer srv.CloseClientConnections()
	err := attachTo(t, &rest.Config{Host: srv.URL}, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "unable to upgrade connection") || len(err.Error()) > 2*maxAnswer {
		t.Errorf("%.300v", err)
	}
}
