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

// Limits for the history, and for the attempts of a job.
const (
	maxJobs     = 500
	maxAge      = 30 * 24 * time.Hour
	maxAlerts   = 200 // of one job
	maxLabelled = 10  // of these, how many keep their labels
	maxUnmapped = 200
	maxAttempts = 3 // a job must not crash the program again and again
	retryStore  = 10 * time.Second
	tellLimit   = 10 * time.Second
	beatEvery   = 10 * time.Second
	// cleanUp is the time limit for a stopped job to remove the objects that it created.
	cleanUp = 20 * time.Second
)

// The outcomes of an alert. Each received alert has exactly one.
const (
	outcomeQueued   = "queued"       // a new job
	outcomeSame     = "deduplicated" // part of an existing or earlier job
	outcomeUnmapped = "unmapped"     // starts nothing; the page shows why
	outcomeResolved = "resolved"
	outcomeRejected = "rejected" // not accepted yet: Alertmanager must send it again
)

func outcomes() []string {
	return []string{outcomeQueued, outcomeSame, outcomeUnmapped, outcomeResolved, outcomeRejected}
}

// errStopping cancels a job that will run again after the next start.
var errStopping = errors.New("the program is stopping; the job runs after the next start")

// Server receives alerts and runs jobs.
type Server struct {
	cluster Cluster
	routes  Routes
	limits  Limits
	log     *slog.Logger
	store   *store
	metrics *metrics
	access  *gate.Keeper
	wake    chan struct{} // receives an item when a job may start
	taking  chan struct{} // a slot for each notification that is being read
	reading chan struct{} // a slot for each page that is being sent

	// turn is held while jobs change in memory and in the store, which keeps both consistent. mu is held to read or change
	// memory, but never during a disk write.
	turn     sync.Mutex
	beat     atomic.Int64 // when the workers last ran, in seconds
	checking sync.Mutex   // held while the store is tested
	checked  time.Time    // when the store was tested
	broken   error        // result of that test
	mu       sync.Mutex
	jobs     map[string]*Job   // by ID
	order    []string          // of jobs, oldest first
	latest   map[string]string // the ID of the last job, by node and procedure
	seen     map[string]heard  // by the key of an alert
	keep     int               // number of reports
	appended int               // lines added to the firings file since it was last rewritten
	starts   []start           // within the last hour
	owed     map[string]bool   // jobs whose copy on disk is stale
	unmapped []Unmapped        // latest last
	stopping bool
	lost     map[[2]string]time.Time // pods without a node, and when they were looked up
	held     time.Time               // do not try to write the store before this time
}

// start records that a job was started.
type start struct {
	at        time.Time
	procedure Procedure
}

// New opens the store. It queues the jobs that were queued or running when the program ended.
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

// restore loads the store and queues interrupted jobs.
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
	past := func(t time.Time) time.Time { // the clock may have been wrong
		if t.After(now) {
			return now
		}
		return t
	}
	for _, j := range jobs {
		if j.State == Running {
			j.State = Queued
			s.log.Info("a job runs again: the program ended during it", "job", j.ID, "node", j.Node, "attempt", j.Attempts)
		}
		j.Started, j.Ended = past(j.Started), past(j.Ended)
		s.add(j)
		if !j.Started.IsZero() && now.Sub(j.Started) < time.Hour {
			s.starts = append(s.starts, start{j.Started, j.Procedure})
		}
	}
	slices.SortFunc(s.starts, func(a, b start) int { return a.at.Compare(b.at) })
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

// Close releases the store. The server must not be used afterwards.
func (s *Server) Close() error { return s.store.close() }

// add adds a job in memory. The caller holds mu, or is the only user of the server.
func (s *Server) add(j Job) {
	s.jobs[j.ID] = &j
	s.order = append(s.order, j.ID)
	s.latest[keyOf(j.Node, j.Procedure)] = j.ID
	for _, a := range j.Alerts {
		s.seen[a.key()] = heard{a.key(), j.ID, j.Queued}
	}
}

// The time for which a firing is remembered after it was last received, and the maximum number of firings. Alertmanager
// repeats a firing alert every few hours (repeat_interval). A burst of jobs removes reports sooner.
const (
	firingFor   = 7 * 24 * time.Hour
	heardAgain  = 12 * time.Hour // until a repeated firing is written again
	maxFirings  = 50_000
	moreFirings = 10_000 // extra lines in the file beyond maxFirings before it is rewritten
)

// compact forgets old and surplus firings, and rewrites the file. The caller holds turn, or is the only user of the
// server.
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

// jobOf returns a firing's job, and whether the firing ever had a job, which may be forgotten. After a while an
// incomplete job no longer counts, so an alert that keeps firing gets another job. The caller holds mu.
func (s *Server) jobOf(a Alert, now time.Time) (*Job, bool) {
	f, had := s.seen[a.key()]
	j := s.jobs[f.Job]
	if j != nil && a.firing && j.State == Done && j.Verdict == Incomplete && now.Sub(j.Ended) >= s.limits.Cooldown {
		return nil, false
	}
	return j, had
}

func keyOf(node string, p Procedure) string { return node + "\x00" + p.String() }

// newID combines the time, which sorts jobs, and random bytes, which make IDs hard to guess.
func newID(now time.Time) string {
	b := make([]byte, 4)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return strings.ReplaceAll(now.UTC().Format("20060102-150405.000000"), ".", "-") + "-" + hex.EncodeToString(b)
}

// storeFailed delays the next attempt to write the store.
func (s *Server) storeFailed(err error) {
	s.metrics.storeErrors.Inc()
	s.log.Error("the store is not writable: alerts are rejected and no job starts until the next attempt", "in", retryStore.String(), "error", err.Error())
	s.mu.Lock()
	s.held = time.Now().Add(retryStore)
	s.mu.Unlock()
}

// owe marks a job whose copy on disk is stale.
func (s *Server) owe(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owed[id] = true
}

// settle retries failed writes, unless a write failed a moment ago. The caller holds turn.
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
