package alerts

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// Limits bound the work.
type Limits struct {
	Workers     int           // jobs that run at once; one node has one at most
	Queue       int           // jobs that wait
	RunsPerHour int           // jobs begun within any hour; others wait
	Cooldown    time.Duration // how long after a job an alert of the same node and procedure is taken for the same trouble
	Job         time.Duration // limit of a job
	Grace       time.Duration // how long running jobs may go on when the program is told to stop
}

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
	// cleanUp is how long a job that was told to stop may take to remove what it made.
	cleanUp = 20 * time.Second
)

// The outcomes of an alert, each of which was received has one.
const (
	outcomeQueued   = "queued"       // a job was made for it
	outcomeSame     = "deduplicated" // a job there is, or was, is for it too
	outcomeUnmapped = "unmapped"     // nothing is done about it, and why is kept
	outcomeResolved = "resolved"
	outcomeRejected = "rejected" // could not be taken now: Alertmanager is told to send it again
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
	access  *access
	wake    chan struct{} // has one when something may be begun
	refused refusals
	taking  chan struct{} // one for each notification that is read

	// turn is held by whoever changes what is below and in the store, so that both agree;
	// mu by whoever looks at it or changes it, never while something is written.
	turn     sync.Mutex
	beat     atomic.Int64 // when jobs were last seen to, in seconds
	checking sync.Mutex   // held by whoever tries the store
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
func New(dir string, routes Routes, limits Limits, access Access, cluster Cluster, log *slog.Logger) (*Server, error) {
	s := &Server{
		cluster: cluster, keep: maxJobs, routes: routes, limits: limits, log: log,
		wake: make(chan struct{}, 1), taking: make(chan struct{}, 4),
		jobs: map[string]*Job{}, lost: map[[2]string]time.Time{}, latest: map[string]string{}, seen: map[string]heard{}, owed: map[string]bool{},
	}
	var err error
	if s.access, err = openAccess(access, log); err != nil {
		return nil, err
	}
	if s.store, err = openStore(dir); err != nil {
		return nil, err
	}
	odd := func(err error) { log.Error(err.Error()) }
	if s.unmapped, err = s.store.unmapped(odd); err != nil {
		return nil, err
	}
	jobs, err := s.store.jobs(odd)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	past := func(t time.Time) time.Time { // the clock may have been ahead
		if t.After(now) {
			return now
		}
		return t
	}
	for _, j := range jobs {
		if j.State == Running {
			j.State = Queued
			log.Info("a job is done again: the program ended in it", "job", j.ID, "node", j.Node, "attempt", j.Attempts)
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
		return nil, err
	}
	for _, f := range known {
		f.Last = past(f.Last)
		s.seen[f.Key] = f
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

// Close leaves the store to others. Nothing may be done with the server after it.
func (s *Server) Close() error { return s.store.close() }

// add makes a job known. mu is held, or nobody else there yet.
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
// the others. turn is held, or nobody else there yet.
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

// newID is of time, so that jobs sort, and chance, so that nobody guesses it.
func newID(now time.Time) string {
	b := make([]byte, 4)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return strings.ReplaceAll(now.UTC().Format("20060102-150405.000000"), ".", "-") + "-" + hex.EncodeToString(b)
}

// placed is an alert with what is to be done about it.
type placed struct {
	Alert
	procedure Procedure
	node      string
	err       error // nil, unmapped, or why the cluster could not be asked
}

// take decides about every alert of a notification. What it accepts is on the disk when it
// returns. An error says that some were not accepted, and have to be sent again; those
// that were are then known.
func (s *Server) take(ctx context.Context, n notice) (map[string]int, error) {
	all := s.place(ctx, n.alerts)
	s.turn.Lock()
	defer s.turn.Unlock()
	took := s.decide(all, n.beyond, time.Now())
	err := s.accept(took)
	for outcome, count := range took.counts {
		s.metrics.alerts.WithLabelValues(outcome).Add(float64(count))
	}
	s.metrics.truncated.Add(float64(n.truncated))
	return took.counts, err
}

// asksAtOnce is how many questions of a notification wait for the cluster at once.
const asksAtOnce = 16

// place asks the cluster about the alerts that are new.
func (s *Server) place(ctx context.Context, list []Alert) []placed {
	out := make([]placed, len(list))
	asked := s.cluster
	asked.PodNode = s.podNode
	var all sync.WaitGroup
	turns := make(chan struct{}, asksAtOnce)
	for i, a := range list {
		out[i].Alert = a
		s.mu.Lock()
		_, known := s.jobOf(a, time.Now())
		s.mu.Unlock()
		switch {
		case a.odd != "":
			out[i].err = unmapped(a.odd)
		case a.firing && !known:
			turns <- struct{}{}
			all.Go(func() {
				defer func() { <-turns }()
				p := &out[i]
				p.procedure, p.node, p.err = s.routes.target(ctx, asked, a.Labels)
			})
		}
	}
	all.Wait()
	return out
}

// How long a pod that was on no node is not asked for again, and of how many that is
// known: a notification that took too long is sent again with all of them, and would
// else never be done with.
const (
	lostFor = 5 * time.Minute
	maxLost = 20_000
)

// podNode asks for the node of a pod.
func (s *Server) podNode(ctx context.Context, namespace, pod string) (string, error) {
	at := [2]string{namespace, pod}
	s.mu.Lock()
	when, known := s.lost[at]
	s.mu.Unlock()
	if known && time.Since(when) < lostFor {
		return "", nil
	}
	if err := ctx.Err(); err != nil {
		return "", fmt.Errorf("reading pod %s/%s: %w", namespace, pod, err)
	}
	node, err := s.cluster.PodNode(ctx, namespace, pod)
	if err != nil || node != "" {
		return node, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lost) >= maxLost {
		maps.DeleteFunc(s.lost, func(_ [2]string, when time.Time) bool { return time.Since(when) >= lostFor })
	}
	if len(s.lost) < maxLost {
		s.lost[at] = time.Now()
	}
	return "", nil
}

// taken is what is made of a notification.
type taken struct {
	counts   map[string]int
	made     map[string]*Job // jobs that are new, by ID
	changed  map[string]*Job // jobs as they become
	order    []string        // of those that are new
	unmapped []Unmapped      // as they become
	firings  []heard         // that are new, or heard of again
	refused  error           // why some are to be sent again
}

// decide changes nothing. beyond is how many alerts there were that were not read. turn
// is held.
func (s *Server) decide(all []placed, beyond int, now time.Time) *taken {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &taken{counts: map[string]int{}, made: map[string]*Job{}, changed: map[string]*Job{}}
	t.counts[outcomeUnmapped] = beyond
	none := newNoted(s.unmapped)
	waiting, waits := s.waiting(), map[Procedure]int{}
	for _, j := range s.jobs {
		if j.State == Queued {
			waits[j.Procedure]++
		}
	}
	latest, seen := map[string]*Job{}, map[string]*Job{} // of this notification
	refuse := func(why error) {
		t.counts[outcomeRejected]++
		t.refused = why
	}
	for _, a := range all {
		job, had := seen[a.key()], false
		if job == nil {
			job, had = s.jobOf(a.Alert, now)
			job = t.version(job)
		}
		if job == nil && !had && a.node != "" {
			key := keyOf(a.node, a.procedure)
			if job = latest[key]; job == nil {
				job = t.version(s.jobs[s.latest[key]])
			}
			if job != nil && job.State == Done && now.Sub(job.Ended) >= s.limits.Cooldown {
				job = nil
			}
		}
		why, isUnmapped := errors.AsType[unmapped](a.err)
		switch {
		case isUnmapped:
			t.counts[outcomeUnmapped]++
			none.add(a.Alert, string(why), now)
		case !a.firing:
			t.counts[outcomeResolved]++
			if job != nil && resolve(job, a.Alert) {
				t.changed[job.ID] = job
			}
		case had:
			t.counts[outcomeSame]++
			if f := s.seen[a.key()]; now.Sub(f.Last) >= heardAgain {
				t.firings = append(t.firings, heard{f.Key, f.Job, now})
			}
		case seen[a.key()] != nil: // twice in one notification
			t.counts[outcomeSame]++
		case job != nil:
			t.counts[outcomeSame]++
			join(job, a.Alert)
			t.changed[job.ID], seen[a.key()] = job, job
			t.firings = append(t.firings, heard{a.key(), job.ID, now})
		case a.err != nil:
			refuse(a.err)
		case a.node == "": // it was known when it was placed, and its job has been forgotten since
			refuse(errors.New("an alert was forgotten meanwhile"))
		case s.stopping:
			refuse(errStopping)
		case waiting >= s.limits.Queue:
			refuse(fmt.Errorf("the queue is full: %d jobs wait", waiting))
		case waits[a.procedure] >= share(s.limits.Queue):
			refuse(fmt.Errorf("the queue is full for %s: %d jobs wait", a.procedure, waits[a.procedure]))
		default:
			t.counts[outcomeQueued]++
			waiting++
			waits[a.procedure]++
			t.firings = append(t.firings, heard{a.key(), "", now})
			job = &Job{ID: newID(now), Node: a.node, Procedure: a.procedure, State: Queued, Queued: now}
			t.firings[len(t.firings)-1].Job = job.ID
			join(job, a.Alert)
			t.made[job.ID], latest[keyOf(a.node, a.procedure)], seen[a.key()] = job, job, job
			t.order = append(t.order, job.ID)
		}
	}
	t.unmapped = none.latest()
	return t
}

// version is a job as this notification has it: a copy, the same for all its alerts.
func (t *taken) version(j *Job) *Job {
	if j == nil {
		return nil
	}
	if c := t.changed[j.ID]; c != nil {
		return c
	}
	c := *j
	c.Alerts = slices.Clone(j.Alerts)
	return &c
}

// join adds an alert to a job that it is new to.
func join(j *Job, a Alert) {
	if len(j.Alerts) >= maxAlerts {
		j.More++
		return
	}
	if len(j.Alerts) >= maxLabelled {
		a.Labels = nil
	}
	j.Alerts = append(j.Alerts, a)
}

func resolve(j *Job, a Alert) bool {
	i := slices.IndexFunc(j.Alerts, func(b Alert) bool { return b.key() == a.key() })
	if i < 0 || !j.Alerts[i].Resolved.IsZero() {
		return false
	}
	j.Alerts[i].Resolved = a.Resolved
	return true
}

// noted are the alerts about which nothing is done as a notification makes them.
type noted struct {
	list []Unmapped
	at   map[string]int // by alert and reason: the place in the list
}

func newNoted(list []Unmapped) *noted {
	n := &noted{list: slices.Clone(list), at: map[string]int{}}
	for i, u := range list {
		n.at[u.Alert.key()+u.Reason] = i
	}
	return n
}

func (n *noted) add(a Alert, why string, now time.Time) {
	u, key := Unmapped{Alert: a, Reason: why}, a.key()+why
	if i, known := n.at[key]; known {
		u = n.list[i]
		n.list[i].Times = 0 // it has moved
	}
	u.Times++
	u.Last = now
	n.at[key] = len(n.list)
	n.list = append(n.list, u)
}

// latest are those to keep.
func (n *noted) latest() []Unmapped {
	list := slices.DeleteFunc(n.list, func(u Unmapped) bool { return u.Times == 0 })
	return list[max(0, len(list)-maxUnmapped):]
}

// accept writes what was decided, and makes it so once it is written. turn is held.
func (s *Server) accept(t *taken) error {
	var jobs []Job
	for _, id := range t.order {
		jobs = append(jobs, *t.made[id])
	}
	for _, id := range slices.Sorted(maps.Keys(t.changed)) {
		if t.made[id] == nil {
			jobs = append(jobs, *t.changed[id])
		}
	}
	err := s.store.writeJobs(jobs...)
	if err == nil && t.counts[outcomeUnmapped] > 0 {
		err = s.store.writeUnmapped(t.unmapped)
	}
	if err == nil { // the last: what is refused is not to be known after a start
		if err = s.store.addFirings(t.firings); err != nil {
			s.appended = moreFirings // written anew as soon as that goes again
		}
	}
	if err != nil {
		s.storeFailed(err)
		for id := range t.made { // or the next start would find them
			if gone := s.store.forget(id); gone != nil {
				err = errors.Join(err, gone)
				s.owe(id)
			}
		}
		all := 0
		for _, n := range t.counts {
			all += n
		}
		t.counts = map[string]int{outcomeRejected: all}
		return err
	}
	s.mu.Lock()
	for _, id := range t.order {
		s.add(*t.made[id])
	}
	for id, j := range t.changed {
		if t.made[id] == nil {
			s.jobs[id].Alerts, s.jobs[id].More = j.Alerts, j.More
		}
	}
	for _, f := range t.firings {
		s.seen[f.Key] = f
	}
	s.unmapped = t.unmapped
	s.appended += len(t.firings)
	tooMany := s.appended > moreFirings
	s.mu.Unlock()
	if tooMany {
		if err := s.compact(time.Now()); err != nil {
			s.storeFailed(err)
		}
	}
	for _, id := range t.order {
		j := t.made[id]
		s.log.Info("queued", "job", id, "node", j.Node, "procedure", j.Procedure.String(), "alert", probe.Plain(j.Alerts[0].Name))
	}
	if n := t.counts[outcomeUnmapped]; n > 0 {
		last := t.unmapped[len(t.unmapped)-1]
		s.log.Warn("nothing is done about alerts: the page lists them", "alerts", n, "last", probe.Plain(probe.Cut(last.Alert.Name, 200)), "why", probe.Plain(last.Reason))
	}
	s.rouse()
	return t.refused
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
	var list []string
	if !now.Before(s.held) {
		list = slices.Sorted(maps.Keys(s.owed))
	}
	s.mu.Unlock()
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

// waiting is how many jobs do; mu is held.
func (s *Server) waiting() int { return s.inState(Queued) }

func (s *Server) inState(state string) int {
	n := 0
	for _, j := range s.jobs {
		if j.State == state {
			n++
		}
	}
	return n
}

// share is how much of a limit one procedure may take: the rest is left to others, so that
// pods that crash all over do not keep a node that is not ready waiting.
func share(limit int) int { return limit - limit/4 }

// limited is until when no job of a procedure may be begun since as many as allowed were
// within the hour; zero = one may. mu is held.
func (s *Server) limited(p Procedure, now time.Time) time.Time {
	for len(s.begun) > 0 && now.Sub(s.begun[0].at) >= time.Hour {
		s.begun = s.begun[1:]
	}
	var of []start
	for _, b := range s.begun {
		if b.procedure == p {
			of = append(of, b)
		}
	}
	var until time.Time
	if n := s.limits.RunsPerHour; len(s.begun) >= n {
		until = s.begun[len(s.begun)-n].at.Add(time.Hour)
	}
	if n := share(s.limits.RunsPerHour); len(of) >= n {
		if later := of[len(of)-n].at.Add(time.Hour); later.After(until) {
			until = later
		}
	}
	return until
}

// held is until when no job that waits may be begun, zero = none waits for that. mu is held.
func (s *Server) heldUp(now time.Time) (until time.Time) {
	for _, j := range s.jobs {
		if j.State != Queued {
			continue
		}
		u := s.limited(j.Procedure, now)
		if u.IsZero() {
			return u
		}
		if until.IsZero() || u.Before(until) {
			until = u
		}
	}
	return until
}

// next is the job to begin now; else when to look again, zero = when roused. It is of the
// procedure that was begun least within the hour, and the oldest of that. One in which the
// program ended is alone: who knows which of those that ran it was. mu is held.
func (s *Server) next(now time.Time) (*Job, time.Time) {
	busy, alone := map[string]bool{}, false
	for _, j := range s.jobs {
		if j.State == Running {
			busy[j.Node] = true
			alone = alone || j.Attempts > 1
		}
	}
	if alone || len(busy) >= s.limits.Workers || s.waiting() == 0 {
		return nil, time.Time{}
	}
	if now.Before(s.held) {
		return nil, s.held
	}
	if until := s.heldUp(now); !until.IsZero() {
		return nil, until
	}
	begun := map[Procedure]int{}
	for _, b := range s.begun {
		begun[b.procedure]++
	}
	var next *Job
	for _, id := range s.order {
		j := s.jobs[id]
		if j.State != Queued || busy[j.Node] || j.Attempts > 0 && len(busy) > 0 || !s.limited(j.Procedure, now).IsZero() {
			continue
		}
		if next == nil || begun[j.Procedure] < begun[next.Procedure] {
			next = j
		}
	}
	return next, time.Time{}
}

// Run has jobs done until ctx ends. Those that run may then go on for the grace, are
// stopped after that, and queued for the next start. It returns once all have ended.
func (s *Server) Run(ctx context.Context) {
	var all sync.WaitGroup
	working, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	for ctx.Err() == nil {
		s.turn.Lock()
		s.settle(time.Now())
		job, again := s.begin(time.Now())
		s.turn.Unlock()
		s.beat.Store(time.Now().Unix())
		if job != nil {
			all.Go(func() { s.do(working, *job) })
			continue
		}
		pause := beatEvery
		if !again.IsZero() {
			pause = min(pause, time.Until(again))
		}
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-time.After(pause):
		}
	}
	s.mu.Lock()
	s.stopping = true
	running := s.inState(Running)
	s.mu.Unlock()
	s.log.Info("stopping: no alert is taken any more", "running", running, "grace", s.limits.Grace.String())
	ended := make(chan struct{})
	go func() { all.Wait(); close(ended) }()
	select {
	case <-ended:
		return
	case <-time.After(s.limits.Grace):
	}
	stop(errStopping)
	select {
	case <-ended:
	case <-time.After(cleanUp): // queued on the disk they are: as running
		s.log.Error("jobs do not end: what they made ends by itself")
	}
}

// begin notes that the next job runs, and returns it. turn is held.
func (s *Server) begin(now time.Time) (*Job, time.Time) {
	s.mu.Lock()
	next, again := s.next(now)
	if next == nil {
		s.mu.Unlock()
		return nil, again
	}
	job := *next
	s.mu.Unlock()
	job.State, job.Started = Running, now
	job.Attempts++
	if err := s.store.writeJobs(job); err != nil {
		s.storeFailed(err)
		return nil, now.Add(retryStore)
	}
	s.mu.Lock()
	*next = job
	if job.Attempts <= maxAttempts {
		s.begun = append(s.begun, start{now, job.Procedure})
	}
	s.mu.Unlock()
	return &job, time.Time{}
}

// do carries out a job that was begun.
func (s *Server) do(ctx context.Context, job Job) {
	log := s.log.With("job", job.ID, "node", job.Node, "procedure", job.Procedure.String())
	log.Info("begun", "attempt", job.Attempts)
	report, err := s.look(ctx, job)
	if errors.Is(context.Cause(ctx), errStopping) && (err != nil || report.Verdict == Incomplete) {
		s.change(job.ID, func(j *Job) { j.State, j.Attempts = Queued, j.Attempts-1 })
		log.Info("stopped, and queued again")
		return
	}
	if err != nil {
		says := probe.Plain(err.Error())
		report = Report{Verdict: Incomplete, Says: says, JSON: fmt.Appendf(nil, "{\"error\": %q}\n", says), Markdown: []byte("Could not be carried out: " + says + "\n")}
	}
	job.Verdict, job.Says, job.Ended = report.Verdict, probe.Cut(probe.Plain(report.Says), 1000), time.Now()
	report.bound()
	s.turn.Lock()
	err = s.store.writeReport(job.ID, report)
	s.turn.Unlock()
	if err != nil {
		s.storeFailed(err)
		job.Says += " (the report could not be stored)"
	}
	job.Untold = s.tell(ctx, job)
	s.metrics.ran(job)
	s.change(job.ID, func(j *Job) {
		j.State, j.Verdict, j.Says, j.Ended, j.Untold = Done, job.Verdict, job.Says, job.Ended, job.Untold
	})
	log.Info("done", "verdict", job.Verdict, "says", job.Says, "took", job.Ended.Sub(job.Started).Round(time.Millisecond).String(), "untold", job.Untold)
	if err := s.store.doneWith(job.ID); err != nil {
		log.Error(err.Error())
	}
	s.prune(time.Now())
}

// look carries out the procedure within the limit of a job.
func (s *Server) look(ctx context.Context, job Job) (report Report, err error) {
	if job.Attempts > maxAttempts {
		return Report{}, fmt.Errorf("given up: the program ended %d times while it was done", maxAttempts)
	}
	defer func() {
		if p := recover(); p != nil { // one job is no reason to lose the others
			s.log.Error("a job met a fault of this program", "job", job.ID, "fault", fmt.Sprint(p), "stack", string(debug.Stack()))
			report, err = Report{}, fmt.Errorf("a fault of this program: %v", p)
		}
	}()
	folder, err := s.store.work(job.ID)
	if err != nil {
		return Report{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.limits.Job, fmt.Errorf("it was not done within %v", s.limits.Job))
	defer cancel()
	report, err = s.cluster.Look(ctx, job, folder)
	switch {
	case err != nil && errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil:
		return Report{}, context.Cause(ctx)
	case err != nil:
		return Report{}, err
	case !slices.Contains(Verdicts(), report.Verdict):
		return Report{}, fmt.Errorf("its verdict is %q, which is none", report.Verdict)
	}
	return report, nil
}

// How much of a report is kept: a node that talks without end is not to fill the store.
const (
	maxJSON     = 8 << 20
	maxMarkdown = 2 << 20
)

func (r *Report) bound() {
	if len(r.JSON) > maxJSON {
		r.JSON = fmt.Appendf(nil, "{\"error\": \"the report has %d MiB, more than is kept\"}\n", len(r.JSON)>>20)
	}
	if len(r.Markdown) > maxMarkdown {
		r.Markdown = []byte(probe.Cut(string(r.Markdown), maxMarkdown) + "\n\nThe rest is not kept.\n")
	}
}

// tell returns why the node was not told, "" = it was.
func (s *Server) tell(ctx context.Context, job Job) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellLimit)
	defer cancel()
	told, err := s.cluster.Tell(ctx, job)
	switch {
	case err != nil:
		s.metrics.told.WithLabelValues(toldFailed).Inc()
		s.log.Error("the node cannot be told", "job", job.ID, "node", job.Node, "error", probe.Plain(err.Error()))
		return probe.Cut(probe.Plain(err.Error()), 300)
	case !told:
		s.metrics.told.WithLabelValues(toldSuppressed).Inc()
		return "it was told often enough of late"
	}
	s.metrics.told.WithLabelValues(toldWritten).Inc()
	return ""
}

// change changes a job here and in the store. Where that cannot be written, the next
// start does it again.
func (s *Server) change(id string, how func(*Job)) {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.mu.Lock()
	job := *s.jobs[id]
	s.mu.Unlock()
	how(&job)
	if err := s.store.writeJobs(job); err != nil {
		s.storeFailed(err)
		s.owe(id)
	}
	s.mu.Lock()
	*s.jobs[id] = job
	s.mu.Unlock()
	s.rouse()
}

// prune forgets what is done and old, or too much.
func (s *Server) prune(now time.Time) {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.mu.Lock()
	var old []string
	anew := false // an alert is to count for new
	for i, id := range s.order {
		if j := s.jobs[id]; j.State == Done && (len(s.order)-i > s.keep || now.Sub(j.Ended) > maxAge) {
			old = append(old, id)
		}
	}
	s.mu.Unlock()
	for _, id := range old {
		if err := s.store.forget(id); err != nil {
			s.storeFailed(err)
			return
		}
		s.mu.Lock()
		j := s.jobs[id]
		delete(s.jobs, id)
		s.order = slices.DeleteFunc(s.order, func(other string) bool { return other == id })
		if key := keyOf(j.Node, j.Procedure); s.latest[key] == id {
			delete(s.latest, key)
		}
		delete(s.owed, id)
		if j.Verdict == Incomplete { // its alerts are worth another one
			anew = true
			maps.DeleteFunc(s.seen, func(_ string, f heard) bool { return f.Job == id })
		}
		s.mu.Unlock()
	}
	if anew {
		if err := s.compact(now); err != nil {
			s.storeFailed(err)
		}
	}
}
