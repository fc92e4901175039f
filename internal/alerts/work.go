package alerts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// waiting returns the number of waiting jobs. The caller holds mu.
func (s *Server) waiting() int { return s.inState(Queued) }

func (s *Server) inState(state State) int {
	n := 0
	for _, j := range s.jobs {
		if j.State == state {
			n++
		}
	}
	return n
}

// share returns the part of a limit that one procedure may use. The rest is reserved for other procedures: many
// crashing pods must not delay the job for a NotReady node.
func share(limit int) int { return limit - limit/4 }

// limited returns the time until which the hourly limit blocks a procedure's jobs. Zero = a job may start. The caller
// holds mu.
func (s *Server) limited(p Procedure, now time.Time) time.Time {
	for len(s.starts) > 0 && now.Sub(s.starts[0].at) >= time.Hour {
		s.starts = s.starts[1:]
	}
	var of []start
	for _, b := range s.starts {
		if b.procedure == p {
			of = append(of, b)
		}
	}
	var until time.Time
	if n := s.limits.RunsPerHour; len(s.starts) >= n {
		until = s.starts[len(s.starts)-n].at.Add(time.Hour)
	}
	if n := share(s.limits.RunsPerHour); len(of) >= n {
		if later := of[len(of)-n].at.Add(time.Hour); later.After(until) {
			until = later
		}
	}
	return until
}

// heldUp returns the time until which the limit blocks all waiting jobs. Zero = at least one job is not blocked. The
// caller holds mu.
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

// next returns the job to start now, or the time at which to look again. Zero = when woken. It prefers the procedure
// with the fewest starts within the hour, and that procedure's oldest job. If the program ended during a job, that job
// runs alone, because it may have crashed the program and must not interrupt other jobs. The caller holds mu.
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
	recent, soon := map[Procedure]int{}, time.Time{}
	for _, b := range s.starts {
		recent[b.procedure]++
	}
	var next *Job
	for _, id := range s.order {
		j := s.jobs[id]
		if j.State != Queued || busy[j.Node] || j.Attempts > 0 && len(busy) > 0 || !s.limited(j.Procedure, now).IsZero() {
			continue
		}
		if full := j.Queued.Add(manyWait); j.Procedure.Many && j.Attempts == 0 && now.Before(full) {
			soon = full
			continue
		}
		if next == nil || recent[j.Procedure] < recent[next.Procedure] {
			next = j
		}
	}
	if next != nil {
		soon = time.Time{}
	}
	return next, soon
}

// Run runs jobs until ctx ends. Running jobs may then continue for the grace period. After that Run stops them and
// queues them for the next start. Run returns when all jobs have ended.
func (s *Server) Run(ctx context.Context) {
	var all probe.Workers
	working, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	for ctx.Err() == nil {
		s.turn.Lock()
		s.settle(time.Now())
		job, again := s.begin(time.Now())
		s.turn.Unlock()
		s.beat.Store(time.Now().Unix())
		if job != nil {
			all.Go(func() { s.doSafely(working, *job) })
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
	s.log.Info("stopping: no more alerts are accepted", "running", running, "grace", s.limits.Grace.String())
	ended := probe.Async(func() error { all.Wait(); return nil })
	crashed := func(err error) {
		if err != nil {
			s.reportBug(err)
		}
	}
	select {
	case err := <-ended:
		crashed(err)
		return
	case <-time.After(s.limits.Grace):
	}
	stop(errStopping)
	select {
	case err := <-ended:
		crashed(err)
	case <-time.After(cleanUp): // on disk they are still running, so the next start queues them
		s.log.Error("jobs do not end: the objects that they created expire automatically")
	}
}

// begin marks the next job as running, and returns it. The caller holds turn.
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
		s.starts = append(s.starts, start{now, job.Procedure})
	}
	s.mu.Unlock()
	return &job, time.Time{}
}

// doSafely runs a started job. A crash affects only that job.
func (s *Server) doSafely(ctx context.Context, job Job) {
	crash := probe.Recovered(func() error { s.do(ctx, job); return nil })
	if crash == nil {
		return
	}
	says := s.reportBug(crash, "job", job.ID)
	s.change(job.ID, func(j *Job) { j.State, j.Verdict, j.Says, j.Ended = Done, Incomplete, says, time.Now() })
}

// reportBug logs this program's crash during a job, and returns the text for the job's page.
func (s *Server) reportBug(crash error, of ...any) string {
	text := strings.TrimPrefix(crash.Error(), "crashed: ")
	s.log.Error("a job hit a bug in this program", append(of, "fault", text, "stack", stackOf(crash))...)
	return "a bug in this program: " + text
}

// stackOf returns the stack of a crash.
func stackOf(err error) string {
	if crash, is := errors.AsType[*probe.Crash](err); is {
		return crash.Stack
	}
	return ""
}

// do runs a started job.
func (s *Server) do(ctx context.Context, job Job) {
	log := s.log.With("job", job.ID, "node", job.Node, "procedure", job.Procedure.String())
	log.Info("started", "attempt", job.Attempts)
	report, err := s.look(ctx, job)
	if errors.Is(context.Cause(ctx), errStopping) && (err != nil || report.Verdict == Incomplete) {
		s.change(job.ID, func(j *Job) { j.State, j.Attempts = Queued, j.Attempts-1 })
		log.Info("stopped, and queued again")
		return
	}
	if err != nil {
		says := probe.Plain(err.Error())
		report = Report{
			Verdict: Incomplete, Says: says, JSON: fmt.Appendf(nil, "{\"error\": %q}\n", says),
			Markdown: []byte("Failed: " + says + "\n"),
		}
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
	job.NoEvent = s.tell(ctx, job)
	s.metrics.ran(job)
	s.change(job.ID, func(j *Job) {
		j.State, j.Verdict, j.Says, j.Ended, j.NoEvent = Done, job.Verdict, job.Says, job.Ended, job.NoEvent
	})
	took := job.Ended.Sub(job.Started).Round(time.Millisecond)
	log.Info("done", "verdict", job.Verdict, "says", job.Says, "took", took.String(), "untold", job.NoEvent)
	if err := s.store.doneWith(job.ID); err != nil {
		log.Error(err.Error())
	}
	s.prune(time.Now())
}

// look runs a job's procedure within the time limit.
func (s *Server) look(ctx context.Context, job Job) (report Report, err error) {
	if job.Attempts > maxAttempts {
		return Report{}, fmt.Errorf("given up: the program ended %d times during this job", maxAttempts)
	}
	folder, err := s.store.work(job.ID)
	if err != nil {
		return Report{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.limits.Job, fmt.Errorf("it took longer than %v", s.limits.Job))
	defer cancel()
	err = probe.Recovered(func() (err error) { // a crash must not affect other jobs
		report, err = s.cluster.Look(ctx, job, folder)
		return err
	})
	switch {
	case errors.As(err, new(*probe.Crash)):
		return Report{}, errors.New(s.reportBug(err, "job", job.ID))
	case err != nil && errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil:
		return Report{}, context.Cause(ctx)
	case err != nil:
		return Report{}, err
	case !slices.Contains(verdicts(), report.Verdict):
		return Report{}, fmt.Errorf("invalid verdict %q", report.Verdict)
	}
	return report, nil
}

// Size limits for a stored report. A node that sends endless results must not fill the store.
const (
	MaxJSON     = 8 << 20
	maxMarkdown = 2 << 20
)

func (r *Report) bound() {
	if len(r.JSON) > MaxJSON {
		r.JSON = fmt.Appendf(nil, "{\"error\": \"the report has more than %d MiB, the maximum\"}\n", MaxJSON>>20)
	}
	if len(r.Markdown) > maxMarkdown {
		r.Markdown = []byte(probe.Cut(string(r.Markdown), maxMarkdown) + "\n\nThe rest was dropped.\n")
	}
}

// tell returns why the node did not get an event, or "" if it got an event.
func (s *Server) tell(ctx context.Context, job Job) string {
	if job.Procedure.Many && len(job.Nodes) == 0 {
		return "no alert names a node"
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellLimit)
	defer cancel()
	written := false
	err := probe.Recovered(func() (err error) { // the result is kept even if this panics
		written, err = s.cluster.Tell(ctx, job)
		return err
	})
	switch {
	case err != nil:
		s.metrics.nodeEvents.WithLabelValues(eventFailed).Inc()
		s.log.Error("writing an event on the node failed", "job", job.ID, "node", job.Node, "error", probe.Plain(err.Error()))
		return probe.Cut(probe.Plain(err.Error()), 300)
	case !written:
		s.metrics.nodeEvents.WithLabelValues(eventSuppressed).Inc()
		return "it got too many events recently"
	}
	s.metrics.nodeEvents.WithLabelValues(eventWritten).Inc()
	return ""
}

// change changes a job in memory and in the store. If the write fails, the next start runs the job again.
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

// prune removes old and surplus finished jobs.
func (s *Server) prune(now time.Time) {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.mu.Lock()
	var old []string
	again := false // an alert may start a job again
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
		if j.Verdict == Incomplete { // the job's alerts may get another job
			again = true
			maps.DeleteFunc(s.seen, func(_ string, f heard) bool { return f.Job == id })
		}
		s.mu.Unlock()
	}
	if again {
		if err := s.compact(now); err != nil {
			s.storeFailed(err)
		}
	}
}
