package gate

import (
	"errors"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// Time limits for a request to arrive, and for an idle connection of a client with credentials.
const (
	HeaderLimit = 5 * time.Second // also for a TLS handshake
	idleLimit   = 2 * time.Minute
	MaxHeader   = 16 << 10 // bytes
)

// Server returns a server for a handler, and a bounded listener. If Access has a certificate, it uses TLS. The caller
// sets all limits except the header limits.
func (a *Keeper) Server(l net.Listener, h http.Handler, o Observer) (*http.Server, net.Listener) {
	bounded := a.Bound(l, o)
	// Allow one request at a time on a connection: with HTTP/2, a stranger could send hundreds.
	only := new(http.Protocols)
	only.SetHTTP1(true)
	return &http.Server{
		Handler: h, TLSConfig: a.config(), Protocols: only, ReadHeaderTimeout: HeaderLimit, IdleTimeout: idleLimit,
		MaxHeaderBytes: MaxHeader, ConnContext: withConn, ConnState: bounded.state, ErrorLog: a.Handshakes(),
	}, bounded
}

// Handshakes returns the log for failed handshakes. It is at debug level, because any client can cause any number of
// failed handshakes.
func (a *Keeper) Handshakes() *log.Logger { return slog.NewLogLogger(a.log.Handler(), slog.LevelDebug) }

// Bound limits the number of a listener's connections.
func (a *Keeper) Bound(l net.Listener, o Observer) *Gate {
	return newGate(l, func(from net.Addr) {
		observe(o.Crowded)
		if n, due := a.crowded.due(time.Now()); due {
			a.log.Warn("too many connections at once: old connections without credentials, or idle connections, were closed for new connections", "connections", n, "last", from.String())
		}
	})
}

// Observer is called for events that a metric may count; a function may be nil.
type Observer struct {
	Refused func() // a request without valid credentials
	Crowded func() // a connection that was closed for a newer one
}

func observe(f func()) {
	if f != nil {
		f()
	}
}

// Guard rejects requests without credentials.
func (a *Keeper) Guard(next http.Handler, o Observer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := a.Admits(r, time.Now())
		if err != nil { // close the connection of a client without credentials
			w.Header().Set("Connection", "close")
		}
		switch {
		case errors.Is(err, errCredentials):
			observe(o.Refused)
			if n, due := a.refused.due(time.Now()); due {
				a.log.Warn("credentials were refused", "requests", n, "last", r.RemoteAddr)
			}
			if a.TokenFile != "" {
				w.Header().Add("WWW-Authenticate", `Bearer realm="calico-probe"`)
				w.Header().Add("WWW-Authenticate", `Basic realm="calico-probe: any name, the token as password", charset="UTF-8"`)
			}
			refuse(w, http.StatusUnauthorized, err)
		case err != nil:
			if n, due := a.unchecked.due(time.Now()); due {
				a.log.Error("every request is refused: credentials cannot be checked", "requests", n, "last", r.RemoteAddr, "error", err.Error())
			}
			refuse(w, http.StatusServiceUnavailable, errors.New("credentials cannot be checked now"))
		case !admitted(r):
			w.Header().Set("Connection", "close")
			w.Header().Set("Retry-After", "10")
			refuse(w, http.StatusServiceUnavailable, errors.New("too many connections of clients with credentials are busy"))
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// refusedEvery is the interval of log lines about rejected requests: any client can send any number.
const refusedEvery = time.Minute

// refusals counts rejected requests.
type refusals struct {
	mu     sync.Mutex
	since  int       // since the last log line
	logged time.Time // time of the last log line
}

// due counts a request. If a log line is due, it returns the number of requests since the last log line.
func (f *refusals) due(now time.Time) (requests int, due bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.since++
	if now.Sub(f.logged) < refusedEvery {
		return 0, false
	}
	requests, f.since, f.logged = f.since, 0, now
	return requests, true
}

func refuse(w http.ResponseWriter, code int, why error) {
	http.Error(w, probe.Plain(probe.Cut(why.Error(), 500)), code)
}
