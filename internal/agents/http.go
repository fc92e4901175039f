package agents

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/calico-probe/calico-probe/internal/gate"
	"github.com/calico-probe/calico-probe/probe"
)

// Path is the URL path of the tools over HTTP.
const Path = "/mcp"

// Limits of HTTP requests.
const (
	maxBody      = 256 << 10 // bytes of a request
	readLimit    = 15 * time.Second
	stoppedLimit = 25 * time.Second // below a pod's default grace period of 30 seconds
)

// Front restricts who may use the tools over HTTP, in addition to a token.
type Front struct {
	Hosts   []string // allowed Host names, without port; other requests are rejected
	Origins []string // allowed origins of web pages; requests from other pages are rejected
}

// HTTP serves a listener until ctx ends. It has no sessions: each request is independent. When ctx ends, it cancels
// running calls. It returns after they have removed the objects that they created, or after stoppedLimit.
func (s *Server) HTTP(ctx context.Context, l net.Listener, keeper *gate.Keeper, front Front) error {
	defer s.end()
	s.byHTTP = true
	server, bounded := keeper.Server(l, s.handler(keeper, front), gate.Observer{})
	server.ReadTimeout = readLimit
	server.WriteTimeout = callLimit + readLimit
	failed := probe.Async(func() error {
		if server.TLSConfig != nil {
			return server.ServeTLS(bounded, "", "")
		}
		return server.Serve(bounded)
	})
	select {
	case err := <-failed:
		return fmt.Errorf("serving: %w", err)
	case <-ctx.Done():
	}
	s.end()
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), stoppedLimit)
	defer cancel()
	if err := server.Shutdown(closing); err != nil {
		return errors.Join(server.Close(), fmt.Errorf("stopping the server: %w", err))
	}
	return nil
}

// handler accepts requests with valid credentials and an allowed host and origin.
func (s *Server) handler(keeper *gate.Keeper, front Front) http.Handler {
	tools := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s.mcp }, &mcp.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, MaxRequestBodyBytes: maxBody, PropagateRequestCancellation: true,
		DisableLocalhostProtection: true, // Hosts is stricter
	})
	mux := http.NewServeMux()
	mux.Handle(Path, tools)
	return front.guard(keeper.Guard(mux, gate.Observer{}))
}

// fromHeader is the header with the client's address for the log line of each call. If the client sends this header,
// the server overwrites it.
const fromHeader = "Calico-Probe-From"

// guard rejects requests that a foreign web page sends through a browser.
func (f Front) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		switch origin := r.Header.Get("Origin"); {
		case !slices.Contains(f.Hosts, host):
			refuseHTTP(w, "host "+host+" is not allowed: see --allow-host")
		case origin != "" && !slices.Contains(f.Origins, origin):
			refuseHTTP(w, "origin "+origin+" is not allowed: see --allow-origin")
		default:
			r.Header.Set(fromHeader, r.RemoteAddr)
			next.ServeHTTP(w, r)
		}
	})
}

func refuseHTTP(w http.ResponseWriter, why string) {
	w.Header().Set("Connection", "close")
	http.Error(w, probe.Line(probe.Cut(why, 300)), http.StatusForbidden)
}
