package streams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"

	gorilla "github.com/gorilla/websocket"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	spdystream "k8s.io/apimachinery/pkg/util/httpstream" //nolint:staticcheck // client-go takes no other yet
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/transport/websocket"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"github.com/calico-probe/calico-probe/probe"
)

// budget limits the data other than stdout on one attach or exec connection, because client-go keeps the whole error
// stream in memory. The code that reads stdout limits stdout. A quarter of stdout's size is allowed for frames and
// encryption.
type budget struct {
	arrived, delivered atomic.Int64 // bytes: in total, and on stdout
	end                context.CancelCauseFunc
}

// maxBeside is the number of bytes, in addition to stdout, that are always allowed.
const maxBeside = 8 << 20

// errBeside ends a session permanently, because another connection would deliver the same data.
var errBeside = fmt.Errorf("%w: the connection has more than %d MiB besides the probe's output; the rest is not read",
	probe.ErrTooMuch, maxBeside>>20)

// came counts the bytes that arrived. If there are too many, it returns an error, which ends the session.
func (b *budget) came(n int) error {
	delivered := b.delivered.Load()
	if b.arrived.Add(int64(n)) <= maxBeside+delivered+delivered/4 {
		return nil
	}
	b.end(errBeside)
	return errBeside
}

// output counts the bytes that stdout accepts.
func (b *budget) output(to io.Writer) io.Writer {
	return writer(func(p []byte) (int, error) {
		n, err := to.Write(p)
		b.delivered.Add(int64(n))
		return n, err
	})
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// webSocket changes client-go's WebSocket round tripper to dial a connection that counts its bytes, because client-go
// has no hook for that.
func (b *budget) webSocket(rt http.RoundTripper) http.RoundTripper {
	ws, ok := rt.(*websocket.RoundTripper)
	if !ok { // this round tripper is for another connection
		return rt
	}
	return &countedWebSocket{ws, b}
}

type countedWebSocket struct {
	*websocket.RoundTripper
	budget *budget
}

// RoundTrip opens the connection. If the server does not upgrade, the error is an UpgradeFailureError, as in client-go.
func (c *countedWebSocket) RoundTrip(r *http.Request) (*http.Response, error) {
	header := r.Header.Clone()
	protocols := header[wsstream.WebSocketProtocolHeader]
	delete(header, wsstream.WebSocketProtocolHeader)
	at := *r.URL
	switch at.Scheme {
	case "https":
		at.Scheme = "wss"
	default:
		at.Scheme = "ws"
	}
	size := c.DataBufferSize() + 1024 // the reader's buffer must hold a frame with its first byte
	dialer := gorilla.Dialer{
		Proxy: c.Proxier, TLSClientConfig: c.TLSConfig, Subprotocols: protocols,
		ReadBufferSize: size, WriteBufferSize: size,
		NetDialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &countedConn{conn, c.budget}, nil
		},
	}
	conn, resp, err := dialer.DialContext(r.Context(), at.String(), header)
	switch {
	case errors.Is(err, gorilla.ErrBadHandshake) && resp != nil:
		return nil, &httpstream.UpgradeFailureError{Cause: answered(err, resp)}
	case errors.Is(err, gorilla.ErrBadHandshake):
		return nil, &httpstream.UpgradeFailureError{Cause: err}
	case err != nil:
		return nil, err
	}
	for _, p := range protocols {
		if p == conn.Subprotocol() {
			c.Conn = conn
			return resp, nil
		}
	}
	_ = conn.Close()
	return nil, &httpstream.UpgradeFailureError{
		Cause: fmt.Errorf("the server chose protocol %q instead of one of %q", conn.Subprotocol(), protocols),
	}
}

// answered returns the error for a server that did not open a WebSocket. If the server sent an API status, the error is
// that status.
func answered(err error, resp *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // a partial body is still useful
	status := metav1.Status{}
	if json.Unmarshal(body, &status) == nil && status.Kind == "Status" {
		return &apierrors.StatusError{ErrStatus: status}
	}
	return fmt.Errorf("%w (%s): %s", err, resp.Status, probe.OneLine(string(body)))
}

// maxAnswer is the maximum number of bytes to read from a server's error response.
const maxAnswer = 64 << 10

type countedConn struct {
	net.Conn
	budget *budget
}

func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if over := c.budget.came(n); over != nil {
		return 0, over
	}
	return n, err
}

// countedSPDY counts the bytes on the streams of a SPDY connection.
type countedSPDY struct {
	spdy.Upgrader
	budget *budget
}

func (c countedSPDY) NewConnection(resp *http.Response) (spdystream.Connection, error) {
	conn, err := c.Upgrader.NewConnection(resp)
	if err != nil {
		return nil, err
	}
	return countedStreams{conn, c.budget}, nil
}

// briefly is a round tripper that limits the size of response bodies. Its bodies' Close does nothing, because closing a
// body would read it to the end.
type briefly struct{ http.RoundTripper }

func (b briefly) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(io.LimitReader(resp.Body, maxAnswer))
	return resp, nil
}

type countedStreams struct {
	spdystream.Connection
	budget *budget
}

func (c countedStreams) CreateStream(header http.Header) (spdystream.Stream, error) {
	s, err := c.Connection.CreateStream(header)
	if err != nil {
		return nil, err
	}
	return countedStream{s, c.budget}, nil
}

type countedStream struct {
	spdystream.Stream
	budget *budget
}

func (s countedStream) Read(p []byte) (int, error) {
	n, err := s.Stream.Read(p)
	if over := s.budget.came(n); over != nil {
		return 0, over
	}
	return n, err
}
