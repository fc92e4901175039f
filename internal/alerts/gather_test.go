package alerts

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/calico-probe/calico-probe/probe/must"
)

// manyAtMost returns limits with which alerts for more nodes than this become one run.
func manyAtMost(n int) Limits {
	l := usual
	l.Many, l.Queue, l.Workers = n, 10, 1
	return l
}

// outage returns alerts for this many nodes.
func outage(first, n int) []sent {
	var out []sent
	for i := range n {
		node := fmt.Sprintf("node-%d", first+i)
		out = append(out, firing(node, "of-"+node))
	}
	return out
}

// TestOutage posts alerts for forty nodes, in one notification and in forty. There is one run over many nodes, even if
// the queue has no room for forty jobs, and repeated alerts start nothing.
func TestOutage(t *testing.T) {
	t.Parallel()
	for name, notifications := range map[string][][]sent{
		"one notification": {outage(0, 40)},
		"one for each":     slices.Collect(slices.Chunk(outage(0, 40), 1)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, access, routes, l := t.TempDir(), tokens(t), anyAlert(t), nodesOf(40)
			synctest.Test(t, func(t *testing.T) {
				s := must.Get(New(dir, routes, manyAtMost(5), access, l.cluster(), quiet()))(t)
				for range 2 {
					for _, list := range notifications {
						if code := post(t, s, body(t, list...)); code != http.StatusOK {
							t.Fatalf("answered %d", code)
						}
					}
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ended := make(chan struct{})
				go func() { s.Run(ctx); close(ended) }()
				time.Sleep(manyWait + time.Second)
				synctest.Wait()
				if !slices.Equal(l.looked, []string{ManyNodes}) || len(l.told) != 1 || len(l.told[0].Nodes) != 40 {
					t.Errorf("looked at %v, told: %+v", l.looked, l.told)
				}
				if job := l.told[0]; len(job.Alerts) != 40 || job.Procedure.String() != "many-standard" {
					t.Errorf("%d alerts, %s", len(job.Alerts), job.Procedure)
				}
				// another alert of one of the nodes is of the same outage, one of a node that was not named is not
				post(t, s, body(t, firing("node-3", "another"), sent{Status: statusFiring, StartsAt: since, Fingerprint: "x",
					Labels: map[string]string{"alertname": "BGPDown", "node": "node-3"}}))
				time.Sleep(time.Second)
				synctest.Wait()
				if len(l.looked) != 1 {
					t.Errorf("looked at %v", l.looked)
				}
				l.nodes = append(l.nodes, "node-40")
				post(t, s, body(t, outage(40, 1)...))
				time.Sleep(time.Second)
				synctest.Wait()
				if !slices.Equal(l.looked, []string{ManyNodes, "node-40"}) {
					t.Errorf("looked at %v", l.looked)
				}
				cancel()
				<-ended
				if left, err := os.ReadDir(filepath.Join(dir, folderJobs)); err != nil || len(left) != 2 {
					t.Errorf("%d jobs are on the disk, %v", len(left), err)
				}
				if sum := s.count(outcomeQueued) + s.count(outcomeSame); sum != 2*40+3 || s.count(outcomeRejected) > 0 {
					t.Errorf("%d alerts have an outcome", sum)
				}
				reopened(t, s)
				again := must.Get(New(dir, routes, manyAtMost(5), access, l.cluster(), quiet()))(t)
				defer reopened(t, again)
				if code := post(t, again, body(t, outage(0, 41)...)); code != http.StatusOK || again.busy() {
					t.Errorf("after a start what is sent again is answered %d, and begun: %v", code, again.busy())
				}
			})
		})
	}
}

// TestFewNodes requires separate jobs for few nodes, and with limit 0 for any number.
func TestFewNodes(t *testing.T) {
	t.Parallel()
	for most, nodes := range map[int]int{5: 5, 0: 7} {
		l := nodesOf(nodes)
		s := opened(t, t.TempDir(), manyAtMost(most), l)
		post(t, s, body(t, outage(0, nodes)...))
		began(t, s)
		for l.times() < nodes || s.busy() {
			time.Sleep(time.Millisecond)
		}
		if slices.Contains(l.looked, ManyNodes) {
			t.Errorf("at most %d: looked at %v", most, l.looked)
		}
	}
}

// TestBegunIsNotGathered requires running jobs, and jobs during which the program was killed, to stay separate.
func TestBegunIsNotGathered(t *testing.T) {
	t.Parallel()
	l := nodesOf(12)
	var hold chan struct{}
	l.look = func(_ context.Context, job Job) (Report, error) {
		if job.Node == "node-0" {
			<-hold
		}
		return Report{Verdict: Fault, JSON: []byte("{}"), Markdown: []byte("x")}, nil
	}
	dir, access, routes := t.TempDir(), tokens(t), anyAlert(t)
	killed := Job{ID: newID(time.Now()), Node: "node-11", Procedure: Procedure{Profile: "quick"}, State: Queued,
		Attempts: 1, Alerts: []Alert{{Name: "x"}}, Queued: time.Now()}
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		hold = release
		s := must.Get(New(dir, routes, manyAtMost(3), access, l.cluster(), quiet()))(t)
		s.add(killed)
		began(t, s)
		post(t, s, body(t, outage(0, 1)...))
		synctest.Wait()
		post(t, s, body(t, outage(1, 8)...))
		s.mu.Lock()
		states := map[string]State{}
		for _, j := range s.jobs {
			states[j.Node] = j.State
		}
		s.mu.Unlock()
		if len(states) != 3 || states["node-11"] == "" || states["node-0"] == "" || states[ManyNodes] != Queued {
			t.Errorf("%v", states)
		}
		close(release)
		time.Sleep(manyWait + time.Minute)
		synctest.Wait()
		for _, job := range l.told {
			if job.Node == ManyNodes && len(job.Nodes) != 8 {
				t.Errorf("it names %v", job.Nodes)
			}
		}
		if !slices.Contains(l.looked, ManyNodes) || len(l.looked) != 3 {
			t.Errorf("looked at %v", l.looked)
		}
	})
}

// TestNoNode requires an alert without a node to start a run over all nodes.
func TestNoNode(t *testing.T) {
	t.Parallel()
	routes := must.Get(ParseRoutes([]byte("apiVersion: calico-probe.io/v1alpha1\nkind: AlertRoutes\n"+
		"spec: {routes: [{match: ['alertname=\"TooManyNotReady\"'], many: true}]}\n"), nil, nil))(t)
	dir, access, l := t.TempDir(), tokens(t), nodesOf(3)
	synctest.Test(t, func(t *testing.T) {
		s := must.Get(New(dir, routes, usual, access, l.cluster(), quiet()))(t)
		began(t, s)
		alert := sent{Status: statusFiring, Labels: map[string]string{"alertname": "TooManyNotReady"}, StartsAt: since}
		for range 3 {
			post(t, s, body(t, alert))
		}
		time.Sleep(manyWait + time.Second)
		synctest.Wait()
		if !slices.Equal(l.looked, []string{ManyNodes}) || len(l.told) > 0 {
			t.Errorf("looked at %v, told: %+v", l.looked, l.told)
		}
	})
	for _, both := range []string{"many: true, profile: quick", "many: true, runbook: x", "many: false"} {
		_, err := ParseRoutes([]byte("apiVersion: calico-probe.io/v1alpha1\nkind: AlertRoutes\n"+
			"spec: {routes: [{match: ['a=\"b\"'], "+both+"}]}\n"), []string{"x"}, []string{"quick"})
		if err == nil {
			t.Errorf("%s is taken", both)
		}
	}
}
