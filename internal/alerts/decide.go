package alerts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// assigned is an alert with its node and procedure.
type assigned struct {
	Alert
	procedure Procedure
	node      string
	err       error // nil, unmapped, or why the cluster query failed
}

// take handles every alert of a notification. When it returns, accepted alerts are on disk. An error means that
// Alertmanager must send the notification again. The alerts that are already accepted are then recognized.
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

// maxLookups limits the concurrent cluster queries for one notification.
const maxLookups = 16

// place finds the nodes of new alerts.
func (s *Server) place(ctx context.Context, list []Alert) []assigned {
	out := make([]assigned, len(list))
	reader := s.cluster
	reader.PodNode = s.podNode
	var all probe.Workers
	turns := make(chan struct{}, maxLookups)
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
				crash := probe.Recovered(func() error {
					p.procedure, p.node, p.err = s.routes.target(ctx, reader, a.Labels)
					return nil
				})
				if crash != nil { // if sent again, the alert would cause the same crash
					s.log.Error("an alert hit a bug in this program", "fault", crash.Error())
					p.err = unmapped("its node was not found: the lookup " + crash.Error())
				}
			})
		}
	}
	all.Wait()
	return out
}

// Limits of podNode's cache of pods without a node. If a notification times out, Alertmanager sends all of it again.
// Without the cache, all lookups would be repeated, and the notification would time out again.
const (
	lostFor = 5 * time.Minute
	maxLost = 20_000
	maxPod  = 2 * 253 // the maximum length of a pod's namespace and name
)

// podNode looks up the node of a pod.
func (s *Server) podNode(ctx context.Context, namespace, pod string) (string, error) {
	if len(namespace)+len(pod) > maxPod {
		return "", nil
	}
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

// decision holds the changes that a notification causes.
type decision struct {
	counts   map[string]int
	made     map[string]*Job // new jobs by ID
	changed  map[string]*Job // changed jobs by ID
	order    []string        // of the new jobs
	unmapped []Unmapped      // the new list
	firings  []heard         // new and renewed firings
	gathered []string        // IDs of jobs that were merged into another job
	refused  error           // why Alertmanager must send some alerts again
}

// decide decides what to do with every alert in a notification, but does not change anything. beyond is the number of
// unread alerts. The caller holds turn.
func (s *Server) decide(all []assigned, beyond int, now time.Time) *decision {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &decision{counts: map[string]int{outcomeUnmapped: beyond}, made: map[string]*Job{}, changed: map[string]*Job{}}
	none := newNoted(s.unmapped)
	waiting, waits, nodes := s.waiting(), s.waitingOf(), s.crowdOf()
	latest, seen := map[string]*Job{}, map[string]*Job{} // of this notification
	refuse := func(why error) {
		t.counts[outcomeRejected]++
		t.refused = why
	}
	for _, a := range all {
		job, had := s.belongs(t, a, seen[a.key()], latest, now)
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
		case seen[a.key()] != nil: // a duplicate in this notification
			t.counts[outcomeSame]++
		case job != nil:
			t.counts[outcomeSame]++
			join(job, a.Alert)
			job.addNode(a.node)
			t.changed[job.ID], seen[a.key()] = job, job
			t.firings = append(t.firings, heard{a.key(), job.ID, now})
		case a.err != nil:
			refuse(a.err)
		case a.node == "": // place recognized it, but its job has since been removed
			refuse(errors.New("the job of an alert was removed meanwhile"))
		case s.stopping:
			refuse(errStopping)
		case waiting >= s.limits.Queue && !nodes.tooMany(a.node):
			refuse(fmt.Errorf("the queue is full: %d jobs are waiting", waiting))
		case waits[a.procedure] >= share(s.limits.Queue) && !nodes.tooMany(a.node):
			refuse(fmt.Errorf("the queue is full for %s: %d jobs are waiting", a.procedure, waits[a.procedure]))
		default:
			waiting++
			waits[a.procedure]++
			job = t.queue(a, now)
			nodes.add(job)
			latest[keyOf(a.node, a.procedure)], seen[a.key()] = job, job
		}
	}
	s.gather(t, nodes, now)
	t.unmapped = none.latest()
	return t
}

// queue creates a job for an alert.
func (t *decision) queue(a assigned, now time.Time) *Job {
	job := &Job{ID: newID(now), Node: a.node, Procedure: a.procedure, State: Queued, Queued: now}
	join(job, a.Alert)
	t.counts[outcomeQueued]++
	t.made[job.ID], t.order = job, append(t.order, job.ID)
	t.firings = append(t.firings, heard{a.key(), job.ID, now})
	return job
}

// waitingOf returns the number of waiting jobs of each procedure. The caller holds mu.
func (s *Server) waitingOf() map[Procedure]int {
	waits := map[Procedure]int{}
	for _, j := range s.jobs {
		if j.State == Queued {
			waits[j.Procedure]++
		}
	}
	return waits
}

// belongs returns the existing job for an alert, or nil. known is the job for the same alert in this notification.
// latest has the jobs that this notification created. had reports whether the alert already had a job.
func (s *Server) belongs(
	t *decision, a assigned, known *Job, latest map[string]*Job, now time.Time,
) (job *Job, had bool) {
	if known != nil {
		return known, false
	}
	job, had = s.jobOf(a.Alert, now)
	if job = t.version(job); job != nil || had || a.node == "" {
		return job, had
	}
	key := keyOf(a.node, a.procedure)
	if job = latest[key]; job == nil {
		job = t.version(s.jobs[s.latest[key]])
	}
	if job != nil && job.State == Done && now.Sub(job.Ended) >= s.limits.Cooldown {
		job = nil
	}
	if job == nil {
		job = t.version(s.manyFor(a.node, now))
	}
	return job, false
}

// reject undoes a decision that could not be written: Alertmanager must send all its alerts again.
func (s *Server) reject(t *decision, err error) error {
	s.storeFailed(err)
	for id := range t.made { // otherwise the next start would load these jobs
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

// version returns the notification's copy of a job. All alerts in the notification share this copy.
func (t *decision) version(j *Job) *Job {
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

// join adds a new alert to a job.
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

// noted collects the alerts that do not start anything.
type noted struct {
	list []Unmapped
	at   map[string]int // index in list, by alert and reason
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
		n.list[i].Times = 0 // moved to the end
	}
	u.Times++
	u.Last = now
	n.at[key] = len(n.list)
	n.list = append(n.list, u)
}

// latest returns the alerts to keep.
func (n *noted) latest() []Unmapped {
	list := slices.DeleteFunc(n.list, func(u Unmapped) bool { return u.Times == 0 })
	return list[max(0, len(list)-maxUnmapped):]
}

// accept writes a decision to disk, then applies it. The caller holds turn.
func (s *Server) accept(t *decision) error {
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
	if err == nil { // write firings last: after a restart, a rejected alert must count as new
		if err = s.store.addFirings(t.firings); err != nil {
			s.mu.Lock()
			s.appended = moreFirings + 1 // causes a rewrite of the file as soon as possible
			s.mu.Unlock()
		}
	}
	if err != nil {
		return s.reject(t, err)
	}
	s.mu.Lock()
	for _, id := range t.order {
		s.add(*t.made[id])
	}
	for id, j := range t.changed {
		if t.made[id] == nil {
			s.jobs[id].Alerts, s.jobs[id].More, s.jobs[id].Nodes = j.Alerts, j.More, j.Nodes
		}
	}
	for _, f := range t.firings {
		s.seen[f.Key] = f
	}
	defer s.forgetGathered(t.gathered) // no job starts before this, because turn is held
	s.unmapped = t.unmapped
	s.appended += len(t.firings)
	s.mu.Unlock()
	for _, id := range t.order {
		j := t.made[id]
		s.log.Info("queued", "job", id, "node", j.Node, "procedure", j.Procedure.String(),
			"alert", probe.Plain(j.Alerts[0].Name))
	}
	if n := t.counts[outcomeUnmapped]; n > 0 {
		last := t.unmapped[len(t.unmapped)-1]
		s.log.Warn("alerts start nothing: the page lists these alerts", "alerts", n, "last", probe.Plain(probe.Cut(last.Alert.Name, 200)), "why", probe.Plain(last.Reason))
	}
	s.rouse()
	return t.refused
}
