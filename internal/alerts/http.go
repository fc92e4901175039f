package alerts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/calico-probe/calico-probe/internal/gate"
	"github.com/calico-probe/calico-probe/probe"
)

// PathAlerts is the path of Alertmanager's webhook.
const PathAlerts = "/v1/alerts"

// Time limits of one request: for its turn, its body, and the nodes of its pods, which takes longest.
const (
	turnLimit    = 10 * time.Second
	readLimit    = 15 * time.Second
	placeLimit   = 25 * time.Second
	requestLimit = gate.HeaderLimit + turnLimit + readLimit + placeLimit + 5*time.Second
	pageLimit    = 20 * time.Second // to send a page: a slow reader occupies one of few slots
	healthLimit  = 10 * time.Second // of a health check
)

// The maximum numbers of request bodies and pages in memory at once. Each may need a few MB.
const (
	maxTaking  = 4
	maxReading = 4
)

// Limits of the health checks.
const (
	checkEvery = 5 * time.Second // test the store at most once in this time, because anyone may send the request
	silent     = 2 * time.Minute // after this long without a beat, the workers are blocked
	overdue    = 5 * time.Minute // a job exceeded its limit by this much
)

// Serve serves requests on l and health checks on health, and runs jobs. When ctx ends, it stops the jobs, and returns
// after they have ended.
func (s *Server) Serve(ctx context.Context, l, health net.Listener) error {
	server, main := s.access.Server(l, s.Handler(), s.observer())
	server.ReadTimeout, server.WriteTimeout = gate.HeaderLimit+turnLimit, requestLimit
	beside := s.access.Bound(health, s.observer())
	living := &http.Server{
		Handler: s.HealthHandler(), Protocols: server.Protocols, ReadTimeout: gate.HeaderLimit, WriteTimeout: healthLimit,
		MaxHeaderBytes: gate.MaxHeader, ErrorLog: server.ErrorLog,
	}
	living.SetKeepAlivesEnabled(false)
	failed := probe.Async(func() error {
		if server.TLSConfig != nil {
			return server.ServeTLS(main, "", "")
		}
		return server.Serve(main)
	})
	failedBeside := probe.Async(func() error { return living.Serve(beside) })
	defer living.Close() // closed last: until then it reports that the server is stopping
	working, stop := context.WithCancel(ctx)
	defer stop()
	ended := probe.Async(func() error { s.Run(working); return nil })
	var err, crash error
	select {
	case err = <-failed: // an unexpected end
	case err = <-failedBeside:
	case crash = <-ended: // without workers, jobs do not run
		ended = nil
	case <-ctx.Done():
	}
	stop()
	if ended != nil {
		crash = <-ended
	}
	if err == nil {
		err = crash
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), gate.HeaderLimit)
	defer cancel()
	if err != nil {
		return fmt.Errorf("serving: %w", errors.Join(err, server.Close()))
	}
	if err := server.Shutdown(closing); err != nil {
		return fmt.Errorf("stopping the server: %w", errors.Join(err, server.Close()))
	}
	return nil
}

// observer counts the connections and requests that the gate rejects.
func (s *Server) observer() gate.Observer {
	return gate.Observer{Refused: s.metrics.unauthorized.Inc, Crowded: s.metrics.crowded.Inc}
}

// HealthHandler serves the health checks, without authentication.
func (s *Server) HealthHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", s.healthy)
	mux.HandleFunc("GET /readyz", s.ready)
	return mux
}

// Handler serves authenticated requests.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+PathAlerts, s.post)
	mux.Handle("GET /metrics", s.paged(promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{})))
	mux.Handle("GET /{$}", s.paged(http.HandlerFunc(s.overview)))
	mux.Handle("GET /reports/{file}", s.paged(http.HandlerFunc(s.report)))
	guarded := s.access.Guard(mux, s.observer())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		guarded.ServeHTTP(w, r)
	})
}

// await waits for a free slot. The caller must release it.
func await(ctx context.Context, turns chan struct{}) error {
	select {
	case turns <- struct{}{}:
		return nil
	case <-time.After(turnLimit):
		return errors.New("too many requests at once")
	case <-ctx.Done():
		return errors.New("the sender closed the connection")
	}
}

// paged limits the number of pages in memory.
func (s *Server) paged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := await(r.Context(), s.reading); err != nil {
			refuse(w, http.StatusServiceUnavailable, err)
			return
		}
		defer func() { <-s.reading }()
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(pageLimit)) // only connections have a deadline
		next.ServeHTTP(w, r)
	})
}

func refuse(w http.ResponseWriter, code int, why error) {
	http.Error(w, probe.Plain(probe.Cut(why.Error(), 500)), code)
}

// healthy reports whether jobs make progress. If they do not, a restart helps.
func (s *Server) healthy(w http.ResponseWriter, _ *http.Request) {
	if since := time.Since(time.Unix(s.beat.Load(), 0)); since > silent {
		http.Error(w, fmt.Sprintf("no progress for %v", since.Round(time.Second)), http.StatusServiceUnavailable)
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
		http.Error(w, fmt.Sprintf("jobs running past their limit: %d", late), http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "ok\n")
}

func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	no := s.stopping || time.Now().Before(s.held)
	s.mu.Unlock()
	if s.checking.TryLock() { // concurrent requests use the last result
		if time.Since(s.checked) >= checkEvery {
			s.broken, s.checked = s.store.check(), time.Now()
		}
		no = no || s.broken != nil
		s.checking.Unlock()
	}
	if no {
		// The response is public, so it does not name the file.
		http.Error(w, "not ready: the store is not writable, or the server is stopping", http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "ok\n")
}

// post receives a notification. Alertmanager retries only after a 5xx response.
func (s *Server) post(w http.ResponseWriter, r *http.Request) {
	answer := func(code int, why error) {
		s.metrics.requests.WithLabelValues(strconv.Itoa(code)).Inc()
		if why == nil {
			w.WriteHeader(code)
			return
		}
		s.log.Warn("a notification was rejected, at least in part", "code", code, "why", probe.Plain(probe.Cut(why.Error(), 500)))
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
	// The deadline starts now, because the request may have waited long. Only real connections have a deadline.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readLimit))
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		answer(http.StatusRequestEntityTooLarge, fmt.Errorf("the notification has more than %d MiB: group alerts by more labels (group_by)", maxBody>>20))
		return
	}
	if err != nil { // the connection may have stalled; the notification may be valid
		answer(http.StatusServiceUnavailable, errors.New("the notification is incomplete"))
		return
	}
	n, err := parse(b)
	if err != nil {
		answer(http.StatusBadRequest, err)
		return
	}
	if n.truncated > 0 {
		s.log.Warn("Alertmanager left alerts out of a notification: remove max_alerts from its receiver", "alerts", n.truncated)
	}
	ctx, cancel := context.WithTimeout(r.Context(), placeLimit)
	defer cancel()
	if _, err := s.take(ctx, n); err != nil {
		answer(http.StatusServiceUnavailable, err)
		return
	}
	answer(http.StatusOK, nil)
}

// served lists the formats in which a report is served, in addition to the page.
var served = map[string]string{".json": contentTypeJSON, ".md": "text/markdown; charset=utf-8"}

// file serves a report unchanged from the store.
func (s *Server) file(w http.ResponseWriter, id, suffix string) {
	b, err := s.store.read(id, suffix)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		http.Error(w, "unknown report, or its job is not finished", http.StatusNotFound)
	case err != nil:
		s.log.Error(err.Error())
		http.Error(w, "the report is currently unreadable", http.StatusInternalServerError)
	default:
		w.Header().Set("Content-Type", served[suffix])
		_, _ = w.Write(b)
	}
}
