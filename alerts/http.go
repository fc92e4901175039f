package alerts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/calico-probe/calico-probe/probe"
)

// PathAlerts is where Alertmanager posts.
const PathAlerts = "/v1/alerts"

// How long one request may take: to wait for its turn, to be read, and to ask the cluster
// about its pods, which takes the most of it.
const (
	headerLimit  = 5 * time.Second // also of a TLS handshake
	turnLimit    = 10 * time.Second
	readLimit    = 15 * time.Second
	placeLimit   = 25 * time.Second
	requestLimit = headerLimit + turnLimit + readLimit + placeLimit + 5*time.Second
	pageLimit    = 20 * time.Second // to send a page: a slow reader holds one of few turns
	idleLimit    = 2 * time.Minute  // of clients that have shown credentials
	healthLimit  = 10 * time.Second // of a request whether this lives
	maxHeader    = 16 << 10
)

// How many requests have their body or their page in memory at once. Each may take some MB.
const (
	maxTaking  = 4
	maxReading = 4
)

// What tells whether this lives and can take alerts.
const (
	checkEvery = 5 * time.Second // the store: anybody may ask
	silent     = 2 * time.Minute // without a beat: something holds all up
	overdue    = 5 * time.Minute // that a job which should have ended goes on
)

// Serve answers on the listener, and on the other one whether this lives, and has jobs done
// until ctx ends and they have, too.
func (s *Server) Serve(ctx context.Context, l, health net.Listener) error {
	main, beside := newGate(l, s.gaveWay), newGate(health, s.gaveWay)
	errs := slog.NewLogLogger(s.log.Handler(), slog.LevelDebug) // of handshakes: anybody can make as many as they like
	// One request at a time on a connection: by HTTP/2 a stranger would have hundreds.
	only := new(http.Protocols)
	only.SetHTTP1(true)
	server := &http.Server{
		Handler: s.Handler(), TLSConfig: s.access.config(), Protocols: only,
		ReadHeaderTimeout: headerLimit, ReadTimeout: headerLimit + turnLimit, WriteTimeout: requestLimit,
		IdleTimeout: idleLimit, MaxHeaderBytes: maxHeader,
		ConnContext: withConn, ConnState: main.state, ErrorLog: errs,
	}
	living := &http.Server{
		Handler: s.HealthHandler(), Protocols: only, ReadTimeout: headerLimit, WriteTimeout: healthLimit,
		MaxHeaderBytes: maxHeader, ErrorLog: errs,
	}
	living.SetKeepAlivesEnabled(false)
	failed := make(chan error, 2)
	go func() {
		if server.TLSConfig != nil {
			failed <- server.ServeTLS(main, "", "")
			return
		}
		failed <- server.Serve(main)
	}()
	go func() { failed <- living.Serve(beside) }()
	defer living.Close() // the last: until then it tells that this stops
	working, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan struct{})
	go func() { s.Run(working); close(ended) }()
	var err error
	select {
	case err = <-failed: // while it should not
		stop()
	case <-ctx.Done():
	}
	<-ended
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), headerLimit)
	defer cancel()
	if err != nil {
		return fmt.Errorf("serving: %w", errors.Join(err, server.Close()))
	}
	if err := server.Shutdown(closing); err != nil {
		return fmt.Errorf("stopping to serve: %w", errors.Join(err, server.Close()))
	}
	return nil
}

// gaveWay notes a connection that was closed for a newer one.
func (s *Server) gaveWay(from net.Addr) {
	s.metrics.crowded.Inc()
	if n, due := s.crowded.due(time.Now()); due {
		s.log.Warn("too many connections at once: old ones without credentials, or idle ones, were closed for new ones", "connections", n, "last", from.String())
	}
}

// HealthHandler tells everybody whether this lives and is ready.
func (s *Server) HealthHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", s.healthy)
	mux.HandleFunc("GET /readyz", s.ready)
	return mux
}

// Handler answers requests of those who have credentials.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+PathAlerts, s.post)
	mux.Handle("GET /metrics", s.paged(promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{})))
	mux.Handle("GET /{$}", s.paged(http.HandlerFunc(s.overview)))
	mux.Handle("GET /reports/{file}", s.paged(http.HandlerFunc(s.report)))
	guarded := s.guard(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		guarded.ServeHTTP(w, r)
	})
}

// await waits for a turn among requests of a kind; its holder gives it back.
func await(ctx context.Context, turns chan struct{}) error {
	select {
	case turns <- struct{}{}:
		return nil
	case <-time.After(turnLimit):
		return errors.New("too many requests at once")
	case <-ctx.Done():
		return errors.New("the sender has gone")
	}
}

// paged has only so many pages in memory at once.
func (s *Server) paged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := await(r.Context(), s.reading); err != nil {
			refuse(w, http.StatusServiceUnavailable, err)
			return
		}
		defer func() { <-s.reading }()
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(pageLimit)) // what is no connection has no deadline
		next.ServeHTTP(w, r)
	})
}

// guard lets no request pass without credentials.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := s.access.admits(r, time.Now())
		if err != nil { // no connection is kept for who has shown no credentials
			w.Header().Set("Connection", "close")
		}
		switch {
		case errors.Is(err, errCredentials):
			s.metrics.unauthorized.Inc()
			if n, due := s.refused.due(time.Now()); due {
				s.log.Warn("credentials were refused", "requests", n, "last", r.RemoteAddr)
			}
			if s.access.TokenFile != "" {
				w.Header().Add("WWW-Authenticate", `Bearer realm="calico-probe"`)
				w.Header().Add("WWW-Authenticate", `Basic realm="calico-probe: any name, the token as password", charset="UTF-8"`)
			}
			refuse(w, http.StatusUnauthorized, err)
		case err != nil:
			if n, due := s.unchecked.due(time.Now()); due {
				s.log.Error("every request is refused: credentials cannot be checked", "requests", n, "last", r.RemoteAddr, "error", err.Error())
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

// healthy tells whether jobs are seen to: where they are not, a start helps.
func (s *Server) healthy(w http.ResponseWriter, _ *http.Request) {
	if since := time.Since(time.Unix(s.beat.Load(), 0)); since > silent {
		http.Error(w, fmt.Sprintf("nothing has moved for %v", since.Round(time.Second)), http.StatusServiceUnavailable)
		return
	}
	s.mu.Lock()
	late := 0
	for _, j := range s.jobs {
		if j.State == Running && time.Since(j.Started) > s.limits.Job+overdue {
			late++
		}
	}
	s.mu.Unlock()
	if late > 0 {
		http.Error(w, fmt.Sprintf("jobs that should have ended go on: %d", late), http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "ok\n")
}

func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	no := s.stopping || time.Now().Before(s.held)
	s.mu.Unlock()
	if s.checking.TryLock() { // who asks while another one tries the store has to do with what it was
		if time.Since(s.checked) >= checkEvery {
			s.broken, s.checked = s.store.check(), time.Now()
		}
		no = no || s.broken != nil
		s.checking.Unlock()
	}
	if no {
		// Anybody may ask, so the answer does not name the file.
		http.Error(w, "not ready: the store cannot be written, or the program stops", http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "ok\n")
}

// post takes a notification. Alertmanager sends it again after a 5xx, and only then.
func (s *Server) post(w http.ResponseWriter, r *http.Request) {
	answer := func(code int, why error) {
		s.metrics.requests.WithLabelValues(strconv.Itoa(code)).Inc()
		if why == nil {
			w.WriteHeader(code)
			return
		}
		s.log.Warn("a notification is not accepted, or not all of it", "code", code, "why", probe.Plain(probe.Cut(why.Error(), 500)))
		if code == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", "10")
		}
		refuse(w, code, why)
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != contentTypeJSON {
		answer(http.StatusUnsupportedMediaType, errors.New("the content type is not "+contentTypeJSON))
		return
	}
	if err := await(r.Context(), s.taking); err != nil {
		answer(http.StatusServiceUnavailable, err)
		return
	}
	defer func() { <-s.taking }()
	// From now on: it may have waited long. What is no connection has no deadline.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readLimit))
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		answer(http.StatusRequestEntityTooLarge, fmt.Errorf("the notification has more than %d MiB: group alerts by more labels (group_by)", maxBody>>20))
		return
	}
	if err != nil { // a line that stalls is no fault of the notification
		answer(http.StatusServiceUnavailable, errors.New("the notification did not arrive whole"))
		return
	}
	n, err := parse(b)
	if err != nil {
		answer(http.StatusBadRequest, err)
		return
	}
	if n.truncated > 0 {
		s.log.Warn("Alertmanager left alerts out of a notification: take max_alerts out of its receiver", "alerts", n.truncated)
	}
	ctx, cancel := context.WithTimeout(r.Context(), placeLimit)
	defer cancel()
	if _, err := s.take(ctx, n); err != nil {
		answer(http.StatusServiceUnavailable, err)
		return
	}
	answer(http.StatusOK, nil)
}

// served are the forms of a report that is no page.
var served = map[string]string{".json": contentTypeJSON, ".md": "text/markdown; charset=utf-8"}

// file answers with a report as it is in the store.
func (s *Server) file(w http.ResponseWriter, id, suffix string) {
	b, err := s.store.read(id, suffix)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		http.Error(w, "there is no such report, or it is not done", http.StatusNotFound)
	case err != nil:
		s.log.Error(err.Error())
		http.Error(w, "the report cannot be read now", http.StatusInternalServerError)
	default:
		w.Header().Set("Content-Type", served[suffix])
		_, _ = w.Write(b)
	}
}
