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

// Path is where the tools are by HTTP.
const Path = "/mcp"

// Of HTTP so much is taken.
const (
	mostBody     = 256 << 10 // bytes of a request
	readLimit    = 15 * time.Second
	stoppedLimit = 25 * time.Second // that a cluster's grace of 30 seconds has room for
)

// Front says who may reach the tools by HTTP, beside having a token.
type Front struct {
	Hosts   []string // names by which this is reached, without port; a request for another is refused
	Origins []string // web pages that may ask; a request of any other page is refused
}

// HTTP answers on a listener until ctx ends. There are no sessions: each request stands for itself. Calls under way end
// with ctx, and have removed what they made when it returns, or stoppedLimit is over.
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

// handler lets a request in that has credentials, is for this server by its name, and comes of no page that was not
// named.
func (s *Server) handler(keeper *gate.Keeper, front Front) http.Handler {
	tools := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s.mcp }, &mcp.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, MaxRequestBodyBytes: mostBody, PropagateRequestCancellation: true,
		DisableLocalhostProtection: true, // Hosts says more
	})
	mux := http.NewServeMux()
	mux.Handle(Path, tools)
	return front.guard(keeper.Guard(mux, gate.Observer{}))
}

// fromHeader has where a request came from, for the line that each call has in the log; what a client says there is
// nothing.
const fromHeader = "Calico-Probe-From"

// guard refuses what a browser was led to send.
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
