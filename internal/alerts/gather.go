package alerts

import (
	"slices"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// ManyNodes replaces the node name of a job over many nodes. Node names contain no spaces.
const ManyNodes = "many nodes"

const (
	// maxNodes limits the list of nodes in a job. The run examines all nodes anyway.
	maxNodes = 500
	// manyWait is the time that a run over many nodes waits for more alerts: one outage's alerts arrive within seconds.
	manyWait = 10 * time.Second
)

// addNode adds a node to the list of a job.
func (j *Job) addNode(node string) {
	if j.Procedure.Many && node != ManyNodes && len(j.Nodes) < maxNodes && !slices.Contains(j.Nodes, node) {
		j.Nodes = append(slices.Clone(j.Nodes), node) // a reader may still use the old slice
	}
}

// manyFor returns the job over many nodes that covers an alert for a node: a waiting job, or a recent job that listed
// this node. It returns nil if there is no such job. The caller holds mu.
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

// manyProcedure is the procedure for alerts about many nodes.
var manyProcedure = Procedure{Profile: string(probe.Standard), Many: true}

// crowd has the nodes of the waiting jobs that one run over many nodes may replace.
type crowd struct {
	most  int // 0 = never
	nodes map[string]bool
}

// single reports whether a job waits, is about one node, and was never started.
func (j *Job) single() bool { return j.State == Queued && j.Attempts == 0 && !j.Procedure.Many }

// crowdOf returns the crowd of the existing jobs. The caller holds mu.
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

// tooMany reports whether the crowd, with one more node, is too large for one job per node.
func (c crowd) tooMany(node string) bool {
	n := len(c.nodes)
	if !c.nodes[node] {
		n++
	}
	return c.most > 0 && n > c.most
}

// gather replaces waiting jobs for too many nodes with one run over many nodes. The caller holds mu.
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
	if fresh > 0 { // this job is new: it came from an alert of this notification
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
	t.firings = append(before, t.firings...) // for the same alert, the last firing in the list counts
}

// forgetGathered removes the replaced jobs after the new job is written. The caller holds turn.
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
