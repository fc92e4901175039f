package alerts

import (
	"slices"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// ManyNodes stands where a job has its node, of one that looks at many at once: no node has a name with a space.
const ManyNodes = "many nodes"

const (
	// maxNodes bounds the nodes that a job names; of others it is the look at all that tells.
	maxNodes = 500
	// manyWait is how long a look at many nodes waits for more of them: the alerts of one outage come within seconds.
	manyWait = 10 * time.Second
)

// addNode names a node whose alerts a job is for.
func (j *Job) addNode(node string) {
	if j.Procedure.Many && node != ManyNodes && len(j.Nodes) < maxNodes && !slices.Contains(j.Nodes, node) {
		j.Nodes = append(slices.Clone(j.Nodes), node) // others may read the old list
	}
}

// manyFor is the look at many nodes that an alert for a node belongs to, nil = none: one that waits, or one for this
// node that is not long ago. mu is held.
func (s *Server) manyFor(node string, now time.Time) *Job {
	j := s.jobs[s.latest[keyOf(ManyNodes, manyProcedure)]]
	switch {
	case j == nil:
		return nil
	case j.State == Queued && j.Attempts == 0:
		return j
	case !slices.Contains(j.Nodes, node), j.State == Done && now.Sub(j.Ended) >= s.limits.Cooldown:
		return nil
	}
	return j
}

// manyProcedure is what is done about alerts for many nodes.
var manyProcedure = Procedure{Profile: string(probe.Standard), Many: true}

// crowd are the nodes of jobs that wait and may become one look at all of them.
type crowd struct {
	most  int // 0 = they never do
	nodes map[string]bool
}

// single tells whether a job waits that is about one node, and was never begun.
func (j *Job) single() bool { return j.State == Queued && j.Attempts == 0 && !j.Procedure.Many }

// crowdOf are those of the jobs there are. mu is held.
func (s *Server) crowdOf() crowd {
	c := crowd{s.limits.Many, map[string]bool{}}
	for _, j := range s.jobs {
		c.add(j)
	}
	return c
}

func (c crowd) add(j *Job) {
	if j.single() {
		c.nodes[j.Node] = true
	}
}

// tooMany tells whether they are too many to look at one by one, with one more.
func (c crowd) tooMany(node string) bool {
	n := len(c.nodes)
	if !c.nodes[node] {
		n++
	}
	return c.most > 0 && n > c.most
}

// gather makes one look at many nodes of the jobs that wait, where they are about too many nodes. mu is held.
func (s *Server) gather(t *decision, c crowd, now time.Time) {
	if c.most == 0 || len(c.nodes) <= c.most {
		return
	}
	many := &Job{ID: newID(now), Node: ManyNodes, Procedure: manyProcedure, State: Queued, Queued: now}
	gone := map[string]bool{}
	take := func(j *Job) {
		for _, a := range j.Alerts {
			join(many, a)
		}
		many.More += j.More
		many.addNode(j.Node)
		gone[j.ID] = true
	}
	for _, id := range s.order {
		if s.jobs[id].single() {
			take(t.version(s.jobs[id]))
			t.gathered = append(t.gathered, id)
			delete(t.changed, id)
		}
	}
	fresh := 0
	t.order = slices.DeleteFunc(t.order, func(id string) bool {
		j := t.made[id]
		if !j.single() {
			return false
		}
		take(j)
		delete(t.made, id)
		delete(t.changed, id)
		fresh++
		return true
	})
	if fresh > 0 { // of the alerts for which jobs were made one makes this
		t.counts[outcomeQueued] -= fresh - 1
		t.counts[outcomeSame] += fresh - 1
	}
	t.made[many.ID], t.order = many, append(t.order, many.ID)
	for i := range t.firings {
		if gone[t.firings[i].Job] {
			t.firings[i].Job = many.ID
		}
	}
	var before []heard
	for key, f := range s.seen {
		if gone[f.Job] {
			before = append(before, heard{key, many.ID, f.Last})
		}
	}
	t.firings = append(before, t.firings...) // of the same alert the last counts
}

// forgetGathered removes the jobs that became part of another one, which is written. turn is held.
func (s *Server) forgetGathered(ids []string) {
	for _, id := range ids {
		if err := s.store.forget(id); err != nil {
			s.storeFailed(err)
			s.owe(id)
		}
		s.mu.Lock()
		if j := s.jobs[id]; s.latest[keyOf(j.Node, j.Procedure)] == id {
			delete(s.latest, keyOf(j.Node, j.Procedure))
		}
		delete(s.jobs, id)
		s.mu.Unlock()
	}
	s.mu.Lock()
	s.order = slices.DeleteFunc(s.order, func(id string) bool { return s.jobs[id] == nil })
	s.mu.Unlock()
	s.metrics.gathered.Add(float64(len(ids)))
}
