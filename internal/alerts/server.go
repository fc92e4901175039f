package alerts

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/calico-probe/calico-probe/internal/gate"
)

// What is kept of the past, and how often it is tried.
const (
	maxJobs     = 500
	maxAge      = 30 * 24 * time.Hour
	maxAlerts   = 200 // of one job
	maxLabelled = 10  // of these with their labels
	maxUnmapped = 200
	maxAttempts = 3 // a job in which the program died as often would be its end for ever
	retryStore  = 10 * time.Second
	tellLimit   = 10 * time.Second
	beatEvery   = 10 * time.Second
	// cleanUp is how long a job that was stopped may take to remove what it made.
	cleanUp = 20 * time.Second
)

// The outcomes of an alert, each of which was received has one.
const (
	outcomeQueued   = "queued"       // a job was made for it
	outcomeSame     = "deduplicated" // a job there is, or was, is for it too
	outcomeUnmapped = "unmapped"     // nothing is done about it, and why is kept
	outcomeResolved = "resolved"
	outcomeRejected = "rejected" // could not be accepted now: Alertmanager is asked to send it again
)

func outcomes() []string {
	return []string{outcomeQueued, outcomeSame, outcomeUnmapped, outcomeResolved, outcomeRejected}
}

// errStopping is why a job ends that is to be done after the next start.
var errStopping = errors.New("the program stops; the job is done after its next start")

// Server takes alerts and has jobs done.
type Server struct {
	cluster Cluster
	routes  Routes
	limits  Limits
	log     *slog.Logger
	store   *store
	metrics *metrics
	access  *gate.Keeper
	wake    chan struct{} // has one when something may be begun
	taking  chan struct{} // one for each notification that is read
	reading chan struct{} // one for each page that is made and sent

	// turn is held by the goroutine that changes what is below and in the store, so that both agree;
	// mu by one that looks at it or changes it, never while something is written.
	turn     sync.Mutex
	beat     atomic.Int64 // when jobs were last seen to, in seconds
	checking sync.Mutex   // held by the goroutine that tries the store
	checked  time.Time    // when that was
	broken   error        // what came of it
	mu       sync.Mutex
	jobs     map[string]*Job   // by ID
	order    []string          // of jobs, the oldest first
	latest   map[string]string // by node and procedure: the last job
	seen     map[string]heard  // by the key of an alert
	keep     int               // reports
	appended int               // lines of the file of firings that may be too many
	begun    []start           // within the last hour
	owed     map[string]bool   // jobs that are not on the disk as they are here, or not gone from it
	unmapped []Unmapped        // the latest last
	stopping bool
	lost     map[[2]string]time.Time // pods that were on no node, and when
	held     time.Time               // until when the store is not tried again
}

// start is that a job was begun.
type start struct {
	at        time.Time
	procedure Procedure
}

// New opens the store. What was queued or running when the program ended is queued again.
func New(
	dir string, routes Routes, limits Limits, access gate.Access, cluster Cluster, log *slog.Logger,
) (_ *Server, err error) {
	s := &Server{
		cluster: cluster, keep: maxJobs, routes: routes, limits: limits, log: log,
		wake: make(chan struct{}, 1), taking: make(chan struct{}, maxTaking), reading: make(chan struct{}, maxReading),
		jobs: map[string]*Job{}, lost: map[[2]string]time.Time{}, latest: map[string]string{}, seen: map[string]heard{},
		owed: map[string]bool{},
	}
	if s.access, err = gate.Open(access, log); err != nil {
		return nil, err
	}
	if s.store, err = openStore(dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.store.close())
		}
	}()
	now := time.Now()
	if err := s.restore(now); err != nil {
		return nil, err
	}
	if err := s.compact(now); err != nil {
		return nil, err
	}
	if err := s.store.tidy(func(id string) bool { return s.jobs[id] != nil && s.jobs[id].State != Done }); err != nil {
		return nil, err
	}
	s.metrics = newMetrics(s)
	for _, id := range s.order {
		if j := s.jobs[id]; j.State == Done {
			s.metrics.last.WithLabelValues(j.Verdict).Set(float64(j.Ended.Unix()))
		}
	}
	s.beat.Store(now.Unix())
	return s, nil
}

// restore reads what is in the store. What was running is to be done again.
func (s *Server) restore(now time.Time) error {
	odd := func(err error) { s.log.Error(err.Error()) }
	var err error
	if s.unmapped, err = s.store.unmapped(odd); err != nil {
		return err
	}
	jobs, err := s.store.jobs(odd)
	if err != nil {
		return err
	}
	past := func(t time.Time) time.Time { // the clock may have been ahead
		if t.After(now) {
			return now
		}
		return t
	}
	for _, j := range jobs {
		if j.State == Running {
			j.State = Queued
			s.log.Info("a job is done again: the program ended in it", "job", j.ID, "node", j.Node, "attempt", j.Attempts)
		}
		j.Started, j.Ended = past(j.Started), past(j.Ended)
		s.add(j)
		if !j.Started.IsZero() && now.Sub(j.Started) < time.Hour {
			s.begun = append(s.begun, start{j.Started, j.Procedure})
		}
	}
	slices.SortFunc(s.begun, func(a, b start) int { return a.at.Compare(b.at) })
	known, err := s.store.firings()
	if err != nil {
		return err
	}
	for _, f := range known {
		f.Last = past(f.Last)
		s.seen[f.Key] = f
	}
	return nil
}

// Close leaves the store to others. Nothing may be done with the server after it.
func (s *Server) Close() error { return s.store.close() }

// add makes a job known. mu is held, or no other goroutine has the server yet.
func (s *Server) add(j Job) {
	s.jobs[j.ID] = &j
	s.order = append(s.order, j.ID)
	s.latest[keyOf(j.Node, j.Procedure)] = j.ID
	for _, a := range j.Alerts {
		s.seen[a.key()] = heard{a.key(), j.ID, j.Queued}
	}
}

// How long it is known that an alert which lasts has had a job, since it was heard of
// last, and of how many that is: Alertmanager sends it again every few hours
// (repeat_interval), and reports are forgotten sooner where there are many.
const (
	firingFor   = 7 * 24 * time.Hour
	heardAgain  = 12 * time.Hour // until it is written once more that it was
	maxFirings  = 50_000
	moreFirings = 10_000 // lines in the file than that, until it is written anew
)

// compact forgets the firings that were not heard of for long, or are too many, and writes
// the others. turn is held, or no other goroutine has the server yet.
func (s *Server) compact(now time.Time) error {
	s.mu.Lock()
	list := slices.SortedFunc(maps.Values(s.seen), func(a, b heard) int { return a.Last.Compare(b.Last) })
	s.mu.Unlock()
	list = list[max(0, len(list)-maxFirings):]
	i, _ := slices.BinarySearchFunc(list, now.Add(-firingFor), func(f heard, t time.Time) int { return f.Last.Compare(t) })
	list = list[i:]
	if err := s.store.rewriteFirings(list); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.seen)
	for _, f := range list {
		s.seen[f.Key] = f
	}
	s.appended = 0
	return nil
}

// jobOf is the job that a firing has had, and whether it has had one, which may have been
// forgotten. One without a verdict so long ago that the alert, which lasts, is worth
// another does not count. mu is held.
func (s *Server) jobOf(a Alert, now time.Time) (*Job, bool) {
	f, had := s.seen[a.key()]
	j := s.jobs[f.Job]
	if j != nil && a.firing && j.State == Done && j.Verdict == Incomplete && now.Sub(j.Ended) >= s.limits.Cooldown {
		return nil, false
	}
	return j, had
}

func keyOf(node string, p Procedure) string { return node + "\x00" + p.String() }

// newID is of time, so that jobs sort, and chance, so that it cannot be guessed.
func newID(now time.Time) string {
	b := make([]byte, 4)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return strings.ReplaceAll(now.UTC().Format("20060102-150405.000000"), ".", "-") + "-" + hex.EncodeToString(b)
}

// storeFailed keeps what cannot be written from being tried at once again.
func (s *Server) storeFailed(err error) {
	s.metrics.storeErrors.Inc()
	s.log.Error("the store cannot be written: what cannot be kept is refused, and nothing is begun until it is tried again", "in", retryStore.String(), "error", err.Error())
	s.mu.Lock()
	s.held = time.Now().Add(retryStore)
	s.mu.Unlock()
}

// owe notes a job that is on the disk otherwise than here.
func (s *Server) owe(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owed[id] = true
}

// settle writes what could not be written, unless that failed a moment ago. turn is held.
func (s *Server) settle(now time.Time) {
	s.mu.Lock()
	held, tooMany, list := now.Before(s.held), s.appended > moreFirings, slices.Sorted(maps.Keys(s.owed))
	s.mu.Unlock()
	if held {
		return
	}
	if tooMany {
		if err := s.compact(now); err != nil {
			s.storeFailed(err)
			return
		}
	}
	for _, id := range list {
		s.mu.Lock()
		job := s.jobs[id]
		var err error
		s.mu.Unlock()
		if job == nil {
			err = s.store.forget(id)
		} else {
			err = s.store.writeJobs(*job)
		}
		if err != nil {
			s.storeFailed(err)
			return
		}
		s.mu.Lock()
		delete(s.owed, id)
		s.mu.Unlock()
	}
}

func (s *Server) rouse() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
