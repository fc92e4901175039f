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

// How long a request may take to arrive, and how long a connection of a client with credentials is kept idle.
const (
	HeaderLimit = 5 * time.Second // also of a TLS handshake
	idleLimit   = 2 * time.Minute
	MaxHeader   = 16 << 10 // bytes
)

// Server answers with a handler on what a listener takes, of which the second result takes no more than there is room
// for. Where the files of Access have a certificate it takes TLS. Its own limits beside those of headers are the
// caller's.
func (a *Keeper) Server(l net.Listener, h http.Handler, o Observer) (*http.Server, net.Listener) {
	bounded := a.Bound(l, o)
	// One request at a time on a connection: by HTTP/2 a stranger would have hundreds.
	only := new(http.Protocols)
	only.SetHTTP1(true)
	return &http.Server{
		Handler: h, TLSConfig: a.config(), Protocols: only, ReadHeaderTimeout: HeaderLimit, IdleTimeout: idleLimit,
		MaxHeaderBytes: MaxHeader, ConnContext: withConn, ConnState: bounded.state, ErrorLog: a.Handshakes(),
	}, bounded
}

// Handshakes is a log for those that fail: anybody can make as many as they like.
func (a *Keeper) Handshakes() *log.Logger { return slog.NewLogLogger(a.log.Handler(), slog.LevelDebug) }

// Bound is a listener that takes no more connections than there is room for.
func (a *Keeper) Bound(l net.Listener, o Observer) *Gate {
	return newGate(l, func(from net.Addr) {
		observe(o.Crowded)
		if n, due := a.crowded.due(time.Now()); due {
			a.log.Warn("too many connections at once: old ones without credentials, or idle ones, were closed for new ones", "connections", n, "last", from.String())
		}
	})
}

// Observer is told of what a metric may count; a function may be nil.
type Observer struct {
	Refused func() // a request without valid credentials
	Crowded func() // a connection that was closed for a newer one
}

func observe(f func()) {
	if f != nil {
		f()
	}
}

// Guard lets no request pass without credentials.
func (a *Keeper) Guard(next http.Handler, o Observer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := a.Admits(r, time.Now())
		if err != nil { // no connection is kept for who has shown no credentials
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

// refusedEvery is how often refused requests are logged: anybody can send as
// many requests as they like.
const refusedEvery = time.Minute

// refusals counts them.
type refusals struct {
	mu     sync.Mutex
	since  int       // the last line
	logged time.Time // the last line
}

// due counts one more, and is how many there were since the last line where the next is due.
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
