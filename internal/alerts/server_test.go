package alerts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/calico-probe/calico-probe/internal/gate"
	"github.com/calico-probe/calico-probe/internal/page"
	"github.com/calico-probe/calico-probe/probe/must"
)

const token = "0123456789abcdef"

// lab is a fake cluster whose nodes are examined immediately, or for as long as a test needs.
type lab struct {
	mu     sync.Mutex
	nodes  []string
	looked []string       // nodes, in order
	now    map[string]int // how often each is being looked at
	most   int            // nodes at once
	twice  bool           // one node was, at once
	told   []Job
	look   func(ctx context.Context, job Job) (Report, error)
	asking error // what the cluster answers instead
	page   func([]byte) (page.Page, error)
}

func nodesOf(n int) *lab {
	l := &lab{now: map[string]int{}}
	for i := range n {
		l.nodes = append(l.nodes, fmt.Sprintf("node-%d", i))
	}
	return l
}

func (l *lab) cluster() Cluster {
	return Cluster{
		Page: l.page,
		Node: func(_ context.Context, name string) (string, error) {
			if slices.Contains(l.nodes, name) {
				return name, nil
			}
			return "", l.asking
		},
		PodNode: func(context.Context, string, string) (string, error) { return "", l.asking },
		Look: func(ctx context.Context, job Job, _ string) (Report, error) {
			l.mu.Lock()
			l.looked = append(l.looked, job.Node)
			l.now[job.Node]++
			l.twice = l.twice || l.now[job.Node] > 1
			l.most = max(l.most, len(l.now))
			look := l.look
			l.mu.Unlock()
			defer func() {
				l.mu.Lock()
				if l.now[job.Node]--; l.now[job.Node] == 0 {
					delete(l.now, job.Node)
				}
				l.mu.Unlock()
			}()
			if look != nil {
				return look(ctx, job)
			}
			return Report{Verdict: Fault, Says: "bird-dead: it is", JSON: []byte("{}"), Markdown: []byte("# it is\n")}, nil
		},
		Tell: func(_ context.Context, job Job) (bool, error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.told = append(l.told, job)
			return true, nil
		},
	}
}

func (l *lab) times() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.looked)
}

// atOnce returns how many nodes runs examined at once, and whether two runs examined one node at once.
func (l *lab) atOnce() (nodes int, twice bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.most, l.twice
}

var usual = Limits{
	Workers: 2, Queue: 100, RunsPerHour: 1000, Cooldown: 15 * time.Minute, Job: time.Minute, Grace: 30 * time.Second,
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func anyAlert(t testing.TB) Routes {
	t.Helper()
	r, err := ParseRoutes([]byte("apiVersion: calico-probe.io/v1alpha1\nkind: AlertRoutes\nspec: {routes: [{match: ['alertname=~\".+\"'], profile: quick}]}\n"), nil, []string{"quick"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func tokens(t testing.TB) gate.Access {
	t.Helper()
	name := filepath.Join(t.TempDir(), "token")
	must.Do(t, os.WriteFile(name, []byte(token+"\n"), 0o600))
	return gate.Access{TokenFile: name}
}

func opened(t testing.TB, dir string, limits Limits, l *lab) *Server {
	t.Helper()
	s := must.Get(New(dir, anyAlert(t), limits, tokens(t), l.cluster(), quiet()))(t)
	t.Cleanup(func() { _ = s.Close() }) // some have closed it before
	return s
}

// reopened closes a server, so that the next one can open its store.
func reopened(t testing.TB, s *Server) {
	t.Helper()
	must.Do(t, s.Close())
}

// began runs a server until the test ends.
func began(t testing.TB, s *Server) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { s.Run(ctx); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended })
}

type sent struct {
	Status      string            `json:"status"`
	Labels      map[string]string `json:"labels"`
	StartsAt    time.Time         `json:"startsAt"`
	EndsAt      time.Time         `json:"endsAt"`
	Fingerprint string            `json:"fingerprint"`
}

var since = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

func firing(node, fingerprint string) sent {
	return sent{
		Status: statusFiring, Labels: map[string]string{"alertname": "BGPDown", "node": node}, StartsAt: since,
		Fingerprint: fingerprint,
	}
}

func body(t testing.TB, list ...sent) []byte {
	t.Helper()
	b := must.Get(json.Marshal(map[string]any{"version": "4", "alerts": list}))(t)
	return b
}

// post returns a server's response to a notification.
func post(t testing.TB, s *Server, b []byte) int {
	t.Helper()
	return ask(s, http.MethodPost, PathAlerts, token, b).Code
}

func ask(s *Server, method, path, with string, b []byte) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, bytes.NewReader(b))
	r.Header.Set("Content-Type", contentTypeJSON)
	if with != "" {
		r.Header.Set("Authorization", "Bearer "+with)
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

// healthOf returns a server's response to a health check.
func healthOf(t testing.TB, s *Server, path string) int {
	t.Helper()
	w := httptest.NewRecorder()
	s.HealthHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code
}

func (s *Server) count(outcome string) int {
	return int(testutil.ToFloat64(s.metrics.alerts.WithLabelValues(outcome)))
}

func wantCounts(t *testing.T, s *Server, want map[string]int) {
	t.Helper()
	got := map[string]int{}
	for _, o := range outcomes() {
		if n := s.count(o); n > 0 {
			got[o] = n
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
}

// TestBurst posts 1,000 alerts for 200 nodes concurrently, and each again until it is accepted. The work stays within
// its limits, every node is examined once, and every received alert has an outcome.
func TestBurst(t *testing.T) {
	t.Parallel()
	l := nodesOf(200)
	l.look = func(context.Context, Job) (Report, error) {
		time.Sleep(time.Millisecond)
		return Report{Verdict: Healthy, JSON: []byte("{}"), Markdown: []byte("fine")}, nil
	}
	limits := usual
	limits.Workers, limits.Queue = 3, 20
	s := opened(t, t.TempDir(), limits, l)
	began(t, s)
	var all sync.WaitGroup
	var mu sync.Mutex
	posted, again, longest := 0, 0, 0
	for from := range 20 { // each has 50 alerts, five of which are about each of ten nodes
		all.Go(func() {
			var list []sent
			for i := range 50 {
				list = append(list, firing(fmt.Sprintf("node-%d", from*10+i%10), fmt.Sprintf("%d-%d", from, i)))
			}
			for b := body(t, list...); ; {
				code := post(t, s, b)
				s.mu.Lock()
				waiting := s.waiting()
				s.mu.Unlock()
				mu.Lock()
				posted += len(list)
				longest = max(longest, waiting)
				if code != http.StatusOK {
					again++
				}
				mu.Unlock()
				if code == http.StatusOK {
					return
				}
				if code != http.StatusServiceUnavailable {
					t.Errorf("answered %d", code)
					return
				}
				time.Sleep(2 * time.Millisecond)
			}
		})
	}
	all.Wait()
	for l.times() < 200 || s.busy() {
		time.Sleep(time.Millisecond)
	}
	if got := slices.Compact(slices.Sorted(slices.Values(l.looked))); len(got) != 200 || len(l.looked) != 200 {
		t.Errorf("%d nodes were looked at, %d times", len(got), len(l.looked))
	}
	if nodes, twice := l.atOnce(); nodes > 3 || twice {
		t.Errorf("%d nodes were examined at once, one of them twice: %v", nodes, twice)
	}
	if longest > 20 || again == 0 {
		t.Errorf("%d jobs waited, %d notifications had to be sent again", longest, again)
	}
	sum := 0
	for _, o := range outcomes() {
		sum += s.count(o)
	}
	if sum != posted || s.count(outcomeQueued) != 200 || s.count(outcomeRejected) == 0 {
		t.Errorf("%d alerts were posted, the outcomes add up to %d: %d queued, %d rejected", posted, sum, s.count(outcomeQueued), s.count(outcomeRejected))
	}
	known := 0
	for _, j := range s.jobs {
		known += len(j.Alerts)
	}
	if known != 1000 {
		t.Errorf("the reports name %d of 1000 alerts", known)
	}
}

// busy reports whether a job is unfinished.
func (s *Server) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting()+s.inState(Running) > 0
}

// TestOnce sends what Alertmanager sends while an alert lasts and fires again.
func TestOnce(t *testing.T) {
	t.Parallel()
	dir, access := t.TempDir(), tokens(t)
	synctest.Test(t, func(t *testing.T) {
		l := nodesOf(2)
		limits := usual
		s := must.Get(New(dir, anyAlert(t), limits, access, l.cluster(), quiet()))(t)
		began(t, s)
		step := func(what string, looked int, a sent) {
			t.Helper()
			if code := post(t, s, body(t, a)); code != http.StatusOK {
				t.Errorf("%s: answered %d", what, code)
			}
			synctest.Wait()
			if l.times() != looked {
				t.Errorf("%s: looked %d times, want %d", what, l.times(), looked)
			}
		}
		first := firing("node-0", "a")
		step("fires", 1, first)
		step("is sent again", 1, first)
		step("another one about the same", 1, firing("node-0", "b"))
		step("another node", 2, firing("node-1", "c"))
		over := first
		over.Status, over.EndsAt = statusResolved, since.Add(time.Hour)
		step("is over", 2, over)
		back := first
		back.StartsAt = since.Add(2 * time.Hour)
		step("comes back at once", 2, back)
		time.Sleep(limits.Cooldown)
		step("is sent again, later", 2, first)
		back.StartsAt = since.Add(3 * time.Hour)
		step("comes back later", 3, back)
		wantCounts(t, s, map[string]int{outcomeQueued: 3, outcomeSame: 4, outcomeResolved: 1})
		job := s.jobs[s.seen[Alert{Fingerprint: "a", StartsAt: since}.key()].Job]
		if len(job.Alerts) != 3 || job.Alerts[0].Resolved.IsZero() || job.Verdict != Fault {
			t.Errorf("the report says %+v", job)
		}
	})
}

// TestAgain sends an alert again whose job was incomplete: after a while it gets another job, until there is a verdict.
func TestAgain(t *testing.T) {
	t.Parallel()
	dir, access := t.TempDir(), tokens(t)
	synctest.Test(t, func(t *testing.T) {
		l := nodesOf(1)
		verdict := Incomplete
		l.look = func(context.Context, Job) (Report, error) { return Report{Verdict: verdict}, nil }
		s := must.Get(New(dir, anyAlert(t), usual, access, l.cluster(), quiet()))(t)
		began(t, s)
		both := body(t, firing("node-0", "a"), firing("node-0", "b"))
		for i, want := range []int{1, 1, 2, 2, 2, 2} {
			if i == 2 {
				verdict = Healthy
			}
			if code := post(t, s, both); code != http.StatusOK {
				t.Errorf("answered %d", code)
			}
			synctest.Wait()
			if l.times() != want {
				t.Errorf("sent for the %d. time: looked %d times, want %d", i+1, l.times(), want)
			}
			time.Sleep(usual.Cooldown/2 + time.Second)
		}
	})
}

// TestRate queues more jobs than may start within an hour: they wait, and run later.
func TestRate(t *testing.T) {
	t.Parallel()
	dir, access := t.TempDir(), tokens(t)
	synctest.Test(t, func(t *testing.T) {
		l := nodesOf(5)
		limits := usual
		limits.RunsPerHour = 2
		s := must.Get(New(dir, anyAlert(t), limits, access, l.cluster(), quiet()))(t)
		began(t, s)
		for i, node := range l.nodes {
			post(t, s, body(t, firing(node, fmt.Sprint(i))))
		}
		for _, want := range []int{2, 4, 5} {
			synctest.Wait()
			limited := testutil.CollectAndCount(s.metrics.registry, "calico_probe_rate_limited")
			if l.times() != want || limited != 1 {
				t.Errorf("looked %d times, want %d", l.times(), want)
			}
			page := ask(s, http.MethodGet, "/", token, nil).Body.String()
			if strings.Contains(page, "hourly limit of") != (want < 5) {
				t.Errorf("with %d done the page says: %.600s", want, page)
			}
			time.Sleep(time.Hour)
		}
	})
}

// TestKilled opens the store of a killed program. Queued and running jobs run, finished ones stay, and a job that kills
// the program each time is given up.
func TestKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := nodesOf(3)
	held := make(chan struct{})
	first.look = func(_ context.Context, job Job) (Report, error) {
		if job.Node == "node-0" {
			return Report{
				Verdict: Fault, Says: "seen before", JSON: []byte(`{"seen": "before"}`), Markdown: []byte("seen before"),
			}, nil
		}
		<-held
		return Report{}, errors.New("too late")
	}
	limits := usual
	limits.Workers = 1
	s := opened(t, dir, limits, first)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { s.Run(ctx); close(ended) }() // and is left alone, as if it were not there any more
	t.Cleanup(func() { close(held); cancel(); <-ended })
	for _, node := range first.nodes {
		post(t, s, body(t, firing(node, node)))
		for first.times() < 1 || node == "node-1" && first.times() < 2 {
			time.Sleep(time.Millisecond)
		}
	}
	copied := t.TempDir()
	must.Do(t, os.CopyFS(copied, os.DirFS(dir)))
	second := nodesOf(3)
	s = opened(t, copied, limits, second)
	began(t, s)
	for second.times() < 2 || s.busy() {
		time.Sleep(time.Millisecond)
	}
	if !slices.Equal(second.looked, []string{"node-1", "node-2"}) {
		t.Errorf("after its start it looked at %v", second.looked)
	}
	for id, j := range s.jobs {
		if got := ask(s, http.MethodGet, "/reports/"+id+".json", token,
			nil).Body.String(); (j.Node == "node-0") != strings.Contains(got, "before") {
			t.Errorf("the report of %s: %s", j.Node, got)
		}
	}
	if code := post(t, s, body(t, firing("node-2", "node-2"))); code != http.StatusOK || second.times() != 2 {
		t.Errorf("what is sent again is answered %d and looked at %d times", code, second.times())
	}

	deadly := Job{
		ID: newID(time.Now()), Node: "node-1", Procedure: Procedure{Profile: "quick"}, State: Running,
		Attempts: maxAttempts, Alerts: []Alert{{Name: "x"}},
	}
	must.Do(t, s.store.writeJobs(deadly))
	third := nodesOf(3)
	reopened(t, s)
	s = opened(t, copied, limits, third)
	began(t, s)
	for s.busy() {
		time.Sleep(time.Millisecond)
	}
	if left, err := os.ReadDir(filepath.Join(copied, folderWork)); err != nil || len(left) > 0 {
		t.Errorf("of jobs that are done there is left %v (%v)", left, err)
	}
	if got := ask(s, http.MethodGet, "/reports/"+deadly.ID+".md", token, nil).Body.String(); len(third.told) != 1 ||
		!strings.Contains(got, "given up") {
		t.Errorf("told %v, the report of what was given up is %q", third.told, got)
	}
	if third.times() > 0 || s.jobs[deadly.ID].Verdict != Incomplete ||
		!strings.Contains(s.jobs[deadly.ID].Says, "given up") {
		t.Errorf("looked %d times: %+v", third.times(), s.jobs[deadly.ID])
	}
}

// TestKilledBehindTelling kills the program between writing an event and recording that. The next start writes the same
// event again, for the same job.
func TestKilledBehindTelling(t *testing.T) {
	t.Parallel()
	dir, copied := t.TempDir(), t.TempDir()
	l := nodesOf(1)
	cluster := l.cluster()
	tell := cluster.Tell
	cluster.Tell = func(ctx context.Context, job Job) (bool, error) {
		if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
			t.Error(err)
		}
		return tell(ctx, job)
	}
	s := must.Get(New(dir, anyAlert(t), usual, tokens(t), cluster, quiet()))(t)
	defer s.Close()
	began(t, s)
	post(t, s, body(t, firing("node-0", "a")))
	for s.busy() {
		time.Sleep(time.Millisecond)
	}
	again := opened(t, copied, usual, l)
	began(t, again)
	for again.busy() {
		time.Sleep(time.Millisecond)
	}
	if len(l.told) != 2 || l.told[0].ID != l.told[1].ID || len(again.jobs) != 1 || again.jobs[l.told[1].ID].State != Done {
		t.Errorf("told %+v", l.told)
	}
}

// TestStopped stops a program while it works.
func TestStopped(t *testing.T) {
	t.Parallel()
	dir, access := t.TempDir(), tokens(t)
	synctest.Test(t, func(t *testing.T) {
		l := nodesOf(3)
		cleaned := false
		l.look = func(ctx context.Context, job Job) (Report, error) {
			long := time.Hour
			if job.Node == "node-0" { // within the grace
				long = 20 * time.Second
			}
			select {
			case <-time.After(long):
				return Report{Verdict: Healthy}, nil
			case <-ctx.Done():
				time.Sleep(5 * time.Second) // removing what was made
				cleaned = true
				return Report{}, ctx.Err()
			}
		}
		limits := usual
		limits.Job = 2 * time.Hour
		s := must.Get(New(dir, anyAlert(t), limits, access, l.cluster(), quiet()))(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { s.Run(ctx); close(ended) }()
		for _, node := range l.nodes {
			post(t, s, body(t, firing(node, node)))
		}
		synctest.Wait()
		told := time.Now()
		cancel()
		synctest.Wait()
		if code := post(t, s, body(t, firing("node-2", "later"))); code != http.StatusOK { // it has a job already
			t.Errorf("an alert with a job is answered %d", code)
		}
		if code := healthOf(t, s, "/readyz"); code != http.StatusServiceUnavailable {
			t.Errorf("ready: %d", code)
		}
		<-ended
		if took := time.Since(told); took != limits.Grace+5*time.Second || !cleaned {
			t.Errorf("it took %v to stop, cleaned up: %v", took, cleaned)
		}
		states := map[string]string{}
		jobs := must.Get(s.store.jobs(func(err error) { t.Error(err) }))(t)
		for _, j := range jobs {
			states[j.Node] = fmt.Sprint(j.State, " ", j.Attempts)
		}
		want := map[string]string{"node-0": "done 1", "node-1": "queued 0", "node-2": "queued 0"}
		if !maps.Equal(states, want) {
			t.Errorf("left is %v, want %v", states, want)
		}
	})
}

// TestLimit stops a job that takes too long.
func TestLimit(t *testing.T) {
	t.Parallel()
	dir, access := t.TempDir(), tokens(t)
	synctest.Test(t, func(t *testing.T) {
		l := nodesOf(1)
		l.look = func(ctx context.Context, _ Job) (Report, error) {
			<-ctx.Done()
			return Report{}, ctx.Err()
		}
		s := must.Get(New(dir, anyAlert(t), usual, access, l.cluster(), quiet()))(t)
		began(t, s)
		post(t, s, body(t, firing("node-0", "a")))
		time.Sleep(usual.Job)
		synctest.Wait()
		if len(l.told) != 1 || l.told[0].Verdict != Incomplete || l.told[0].Says != "it took longer than 1m0s" {
			t.Errorf("told %+v", l.told)
		}
	})
}

// TestStore makes the store unwritable: no alert is accepted until it is writable again, and rejected alerts leave
// nothing.
func TestStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := nodesOf(2)
	s := opened(t, dir, usual, l)
	if code := healthOf(t, s, "/readyz"); code != http.StatusOK {
		t.Errorf("ready: %d", code)
	}
	away := dir + ".away"
	must.Do(t, os.Rename(dir, away))
	b := body(t, firing("node-0", "a"), firing("node-9", "b"))
	if code := post(t, s, b); code != http.StatusServiceUnavailable {
		t.Errorf("without a store an alert is answered %d", code)
	}
	if code := healthOf(t, s, "/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("ready without a store: %d", code)
	}
	if len(s.jobs)+len(s.unmapped) > 0 {
		t.Errorf("known without being stored: %v %v", s.jobs, s.unmapped)
	}
	wantCounts(t, s, map[string]int{outcomeRejected: 2})
	must.Do(t, os.Rename(away, dir))
	if code := post(t, s, b); code != http.StatusOK {
		t.Errorf("with its store back an alert is answered %d", code)
	}
	wantCounts(t, s, map[string]int{outcomeRejected: 2, outcomeQueued: 1, outcomeUnmapped: 1})
	reopened(t, s)
	s = opened(t, dir, usual, l)
	if len(s.jobs) != 1 || len(s.unmapped) != 1 || s.unmapped[0].Alert.Labels["node"] != "node-9" {
		t.Errorf("after a start there is %v %v", s.jobs, s.unmapped)
	}
	for name, mode := range map[string]os.FileMode{folderJobs: 0o700, fileUnmapped: 0o600} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v %v, want %v", name, info.Mode(), err, mode)
		}
	}
}

// TestTwo allows only one server per folder.
func TestTwo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := opened(t, dir, usual, nodesOf(0))
	if _, err := New(dir, anyAlert(t), usual, tokens(t), nodesOf(0).cluster(), quiet()); err == nil || !strings.Contains(err.Error(), "another calico-probe serve uses "+dir) {
		t.Errorf("a second one: %v", err)
	}
	reopened(t, s)
	opened(t, dir, usual, nodesOf(0))
}

// TestLost posts many alerts about deleted pods before a valid one, to a cluster that is too slow for all of them.
// Repeated notifications reach the valid one.
func TestLost(t *testing.T) {
	t.Parallel()
	dir, access := t.TempDir(), tokens(t)
	synctest.Test(t, func(t *testing.T) {
		l := nodesOf(1)
		c := l.cluster()
		asked := 0
		c.PodNode = func(ctx context.Context, _, _ string) (string, error) {
			l.mu.Lock()
			asked++
			l.mu.Unlock()
			select {
			case <-time.After(time.Second):
				return "", nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}
		s := must.Get(New(dir, anyAlert(t), usual, access, c, quiet()))(t)
		defer s.Close()
		var list []sent
		for i := range 1000 {
			a := firing("", fmt.Sprint(i))
			a.Labels = map[string]string{"alertname": "PodDown", "namespace": "shop", "pod": fmt.Sprint("pod-", i)}
			list = append(list, a)
		}
		b := body(t, append(list, firing("node-0", "good"))...)
		times := 1
		for ; times < 10 && post(t, s, b) != http.StatusOK; times++ {
			time.Sleep(10 * time.Second)
		}
		if times < 2 || times > 4 || len(s.jobs) != 1 || asked > 1000+times*maxLookups {
			t.Errorf("taken when it was sent for the %d. time, after %d questions, with %d jobs", times, asked, len(s.jobs))
		}
	})
}

// TestOwed makes the store unwritable during a job: the result is written later.
func TestOwed(t *testing.T) {
	t.Parallel()
	dir, access := t.TempDir(), tokens(t)
	synctest.Test(t, func(t *testing.T) {
		l := nodesOf(1)
		l.look = func(context.Context, Job) (Report, error) {
			return Report{Verdict: Fault, Says: "it is"}, os.Rename(dir, dir+".away")
		}
		s := must.Get(New(dir, anyAlert(t), usual, access, l.cluster(), quiet()))(t)
		defer s.Close()
		began(t, s)
		post(t, s, body(t, firing("node-0", "a")))
		synctest.Wait()
		must.Do(t, os.Rename(dir+".away", dir))
		state := func() string {
			t.Helper()
			jobs, err := s.store.jobs(func(err error) { t.Error(err) })
			if err != nil || len(jobs) != 1 {
				t.Fatalf("in the store: %v %v", jobs, err)
			}
			return string(jobs[0].State)
		}
		if got := state(); got != string(Running) {
			t.Errorf("without a store a job was written as %s", got)
		}
		time.Sleep(2 * retryStore)
		synctest.Wait()
		if got := state(); got != string(Done) || len(s.owed) > 0 {
			t.Errorf("with its store back it is %s there", got)
		}
	})
}

// TestRefusedFiring fails to write the firing of an accepted alert. The response is an error, and the repeated alert is
// new, even after a restart. If the line cannot be removed immediately, it is removed with the next write.
func TestRefusedFiring(t *testing.T) {
	t.Parallel()
	for name, full := range map[string]func(*os.File) error{
		"the line can be taken away": func(*os.File) error { return errors.New("input/output error") },
		"it cannot": func(f *os.File) error {
			return errors.Join(errors.New("input/output error"), f.Close())
		},
	} {
		dir, access := t.TempDir(), tokens(t)
		synctest.Test(t, func(t *testing.T) {
			l := nodesOf(2)
			s := must.Get(New(dir, anyAlert(t), usual, access, l.cluster(), quiet()))(t)
			if code := post(t, s, body(t, firing("node-0", "a"))); code != http.StatusOK {
				t.Errorf("answered %d", code)
			}
			s.store.flush = full
			b := body(t, firing("node-1", "b"))
			if code := post(t, s, b); code != http.StatusServiceUnavailable {
				t.Errorf("with a disk that takes nothing it is answered %d", code)
			}
			if name == "it cannot" {
				time.Sleep(retryStore)
				s.settle(time.Now())
			}
			reopened(t, s)
			s = must.Get(New(dir, anyAlert(t), usual, access, l.cluster(), quiet()))(t)
			defer s.Close()
			if code := post(t, s, b); code != http.StatusOK || s.count(outcomeQueued) != 1 || len(s.jobs) != 2 ||
				len(s.seen) != 2 {
				t.Errorf("%s: sent again it is answered %d, with %d jobs and %v", name, code, len(s.jobs), s.seen)
			}
		})
	}
}

// TestUnasked makes queries of the cluster fail: alerts whose node is unknown must be sent again.
func TestUnasked(t *testing.T) {
	t.Parallel()
	l := nodesOf(1)
	l.asking = errors.New("the API server cannot be reached")
	s := opened(t, t.TempDir(), usual, l)
	if code := post(t, s, body(t, firing("node-0", "a"), firing("10.0.0.7", "b"))); code != http.StatusServiceUnavailable {
		t.Errorf("answered %d", code)
	}
	wantCounts(t, s, map[string]int{outcomeQueued: 1, outcomeRejected: 1})
	l.asking = nil
	if code := post(t, s, body(t, firing("node-0", "a"), firing("10.0.0.7", "b"))); code != http.StatusOK {
		t.Errorf("answered %d", code)
	}
	wantCounts(t, s, map[string]int{outcomeQueued: 1, outcomeRejected: 1, outcomeSame: 1, outcomeUnmapped: 1})
}

// TestMany fires for more nodes than there are stored reports, and more alerts of one node than its report lists.
// Repeated alerts start no job, even after a restart.
func TestMany(t *testing.T) {
	t.Parallel()
	dir, access := t.TempDir(), tokens(t)
	synctest.Test(t, func(t *testing.T) {
		const nodes, kept = 30, 20
		l := nodesOf(nodes)
		limits := usual
		limits.Queue = 2 * nodes
		limits.RunsPerHour = 4 * nodes
		var list []sent
		for i := range nodes {
			list = append(list, firing(l.nodes[i], l.nodes[i]))
		}
		for i := range 2 * maxAlerts {
			list = append(list, firing("node-1", fmt.Sprint(i)))
		}
		b := body(t, list...)
		for range 2 {
			s := must.Get(New(dir, anyAlert(t), limits, access, l.cluster(), quiet()))(t)
			s.keep = kept
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { s.Run(ctx); close(ended) }()
			for range 3 {
				if code := post(t, s, b); code != http.StatusOK {
					t.Errorf("answered %d", code)
				}
				time.Sleep(limits.Cooldown + time.Minute)
			}
			cancel()
			<-ended
			reopened(t, s)
			if l.times() != nodes || len(s.order) > kept {
				t.Errorf("looked %d times at %d nodes; %d jobs are kept", l.times(), nodes, len(s.order))
			}
		}
	})
}

// TestPanic makes one job hit a bug in this program.
func TestPanic(t *testing.T) {
	t.Parallel()
	l := nodesOf(2)
	l.look = func(_ context.Context, job Job) (Report, error) {
		if job.Node == "node-0" {
			panic("of nil")
		}
		return Report{Verdict: Healthy}, nil
	}
	s := opened(t, t.TempDir(), usual, l)
	began(t, s)
	post(t, s, body(t, firing("node-0", "a"), firing("node-1", "b")))
	for l.times() < 2 || s.busy() {
		time.Sleep(time.Millisecond)
	}
	for _, j := range s.jobs {
		if want := map[string]string{"node-0": Incomplete, "node-1": Healthy}[j.Node]; j.Verdict != want || (j.Node == "node-0") != strings.Contains(j.Says, "a bug in this program: of nil") {
			t.Errorf("%s: %s %s, want %s", j.Node, j.Verdict, j.Says, want)
		}
	}
}

// TestPanicBesideTheProcedure makes this program panic before a job, during its event, and while the node of an alert
// is looked up. Each affects only that job or alert.
func TestPanicBesideTheProcedure(t *testing.T) {
	t.Parallel()
	l := nodesOf(3)
	s := opened(t, t.TempDir(), usual, l)
	tell, node := s.cluster.Tell, s.cluster.Node
	s.cluster.Tell = func(ctx context.Context, job Job) (bool, error) {
		if job.Node == "node-0" {
			panic("of nil")
		}
		return tell(ctx, job)
	}
	s.cluster.Node = func(ctx context.Context, name string) (string, error) {
		if name == "node-lost" {
			panic("of nil")
		}
		return node(ctx, name)
	}
	s.log = slog.New(&panics{slog.DiscardHandler, "started", "node-1"})
	began(t, s)
	if code := post(t, s, body(t, firing("node-0", "a"), firing("node-1", "b"), firing("node-2", "c"),
		firing("node-lost", "d"))); code != http.StatusOK {
		t.Errorf("answered %d", code)
	}
	for l.times() < 2 || s.busy() {
		time.Sleep(time.Millisecond)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	want := map[string]string{"node-0": Fault, "node-1": Incomplete, "node-2": Fault}
	if len(s.jobs) != len(want) || len(s.unmapped) != 1 {
		t.Errorf("%d jobs, %d alerts without a node", len(s.jobs), len(s.unmapped))
	}
	for _, j := range s.jobs {
		untold := j.Node == "node-0" && strings.Contains(j.NoEvent, "crashed: of nil")
		says := j.Node == "node-1" && strings.Contains(j.Says, "a bug in this program: of nil")
		if j.State != Done || j.Verdict != want[j.Node] || !untold && !says && j.Node != "node-2" {
			t.Errorf("%s: %s %s %s %q", j.Node, j.State, j.Verdict, j.Says, j.NoEvent)
		}
	}
}

// panics is a log handler that panics at a message about a node.
type panics struct {
	slog.Handler
	message, node string
}

func (p *panics) Enabled(context.Context, slog.Level) bool { return true }

func (p *panics) WithAttrs(attrs []slog.Attr) slog.Handler {
	own := *p
	for _, a := range attrs {
		if a.Key == "node" && a.Value.String() == p.node {
			own.node = ""
		}
	}
	return &own
}

func (p *panics) Handle(_ context.Context, r slog.Record) error {
	if p.node == "" && r.Message == p.message {
		panic("of nil")
	}
	return nil
}

// TestAhead opens a store that was written while the clock was a day ahead.
func TestAhead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	limits := usual
	limits.RunsPerHour = 1
	s := opened(t, dir, limits, nodesOf(1))
	day := time.Now().Add(24 * time.Hour)
	j := Job{
		ID: newID(day), Node: "node-0", Procedure: Procedure{Profile: "quick"}, State: Done, Verdict: Fault, Queued: day,
		Started: day, Ended: day, Alerts: []Alert{{Name: "x"}},
	}
	must.Do(t, s.store.writeJobs(j))
	reopened(t, s)
	s = opened(t, dir, limits, nodesOf(1))
	now := time.Now()
	if until := s.limited(j.Procedure, now); until.After(now.Add(time.Hour)) || s.jobs[j.ID].Ended.After(now) {
		t.Errorf("no job is begun until %v; the last ended at %v", until, s.jobs[j.ID].Ended)
	}
}

// TestUnsound requires invalid jobs in the store to be ignored.
func TestUnsound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := opened(t, dir, usual, nodesOf(1))
	good := Job{
		ID: newID(time.Now()), Node: "node-0", Procedure: Procedure{Profile: "quick"}, State: Queued,
		Alerts: []Alert{{Name: "x"}},
	}
	for i, spoil := range []func(*Job){
		func(*Job) {}, func(j *Job) { j.Alerts = nil }, func(j *Job) { j.State = "other" }, func(j *Job) { j.Node = "" },
		func(j *Job) { j.State = Done }, func(j *Job) { j.Procedure = Procedure{} },
	} {
		j := good
		j.ID += fmt.Sprint("-", i)
		spoil(&j)
		must.Do(t, s.store.writeJobs(j))
	}
	reopened(t, s)
	if s = opened(t, dir, usual, nodesOf(1)); len(s.jobs) != 1 || s.jobs[good.ID+"-0"] == nil {
		t.Errorf("taken for jobs: %v", s.jobs)
	}
}

// TestNodeIsBusy posts two alerts about one node that start different procedures, with two workers. One run ends before
// the other starts.
func TestNodeIsBusy(t *testing.T) {
	t.Parallel()
	dir, access := t.TempDir(), tokens(t)
	routes := must.Get(ParseRoutes([]byte("apiVersion: calico-probe.io/v1alpha1\nkind: AlertRoutes\nspec: {routes: "+
		"[{match: ['about=\"node\"'], profile: deep}, {match: ['alertname=~\".+\"'], profile: quick}]}\n"), nil,
		[]string{"quick", "deep"}))(t)
	synctest.Test(t, func(t *testing.T) {
		l := nodesOf(1)
		l.look = func(context.Context, Job) (Report, error) {
			time.Sleep(time.Minute / 2)
			return Report{Verdict: Healthy}, nil
		}
		s := must.Get(New(dir, routes, usual, access, l.cluster(), quiet()))(t)
		defer s.Close()
		began(t, s)
		other := firing("node-0", "b")
		other.Labels["about"] = "node"
		if code := post(t, s, body(t, firing("node-0", "a"), other)); code != http.StatusOK {
			t.Errorf("answered %d", code)
		}
		time.Sleep(2 * time.Minute)
		if _, twice := l.atOnce(); twice || l.times() != 2 {
			t.Errorf("%d runs, two at once: %v", l.times(), twice)
		}
	})
}

// TestShare floods the server with one procedure: another one still gets its share of the queue and of the hourly
// limit.
func TestShare(t *testing.T) {
	t.Parallel()
	dir, access := t.TempDir(), tokens(t)
	routes, err := ParseRoutes([]byte("apiVersion: calico-probe.io/v1alpha1\nkind: AlertRoutes\nspec: {routes: [{match: ['about=\"node\"'], profile: deep}, {match: ['alertname=~\".+\"'], profile: quick}]}\n"), nil, []string{"quick", "deep"})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		l := nodesOf(30)
		l.look = func(context.Context, Job) (Report, error) {
			time.Sleep(time.Minute / 2)
			return Report{Verdict: Healthy}, nil
		}
		limits := usual
		limits.Workers, limits.Queue, limits.RunsPerHour = 1, 12, 8
		s := must.Get(New(dir, routes, limits, access, l.cluster(), quiet()))(t)
		defer s.Close()
		began(t, s)
		crashing := func(from, to, code int) {
			t.Helper()
			var list []sent
			for _, node := range l.nodes[from:to] {
				list = append(list, firing(node, node))
			}
			if got := post(t, s, body(t, list...)); got != code {
				t.Errorf("answered %d, want %d", got, code)
			}
			synctest.Wait()
		}
		crashing(0, 9, http.StatusOK)
		crashing(9, 20, http.StatusServiceUnavailable)
		time.Sleep(59 * time.Minute)
		if l.times() != share(limits.RunsPerHour) {
			t.Errorf("one procedure had %d runs of %d", l.times(), limits.RunsPerHour)
		}
		crashing(20, 29, http.StatusServiceUnavailable)
		a := firing("node-29", "x")
		a.Labels["about"] = "node"
		if code := post(t, s, body(t, a)); code != http.StatusOK {
			t.Errorf("another one is answered %d", code)
		}
		synctest.Wait()
		if last := l.looked[len(l.looked)-1]; last != "node-29" {
			t.Errorf("looked at %s before", last)
		}
	})
}

// TestPrune keeps the configured number of reports, and unfinished jobs of any age.
func TestPrune(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := opened(t, dir, usual, nodesOf(0))
	now := time.Now()
	for i := range maxJobs + 3 {
		j := Job{
			ID: newID(now.Add(time.Duration(i) * time.Second)), Node: fmt.Sprint(i), Procedure: Procedure{Profile: "quick"},
			State: Done, Verdict: Fault, Queued: now, Ended: now, Alerts: []Alert{{Fingerprint: fmt.Sprint(i)}},
		}
		switch i {
		case 0:
			j.State = Queued
		case maxJobs:
			j.Ended = now.Add(-maxAge - time.Minute)
		}
		must.Do(t, errors.Join(s.store.writeJobs(j), s.store.writeReport(j.ID, Report{})))
	}
	reopened(t, s)
	s = opened(t, dir, usual, nodesOf(0))
	s.prune(now)
	var left []string
	for _, id := range s.order {
		left = append(left, s.jobs[id].Node)
	}
	if len(left) != maxJobs || left[0] != "0" || left[1] != "3" || slices.Contains(left, fmt.Sprint(maxJobs)) ||
		len(s.seen) != maxJobs+3 || len(s.latest) != len(left) {
		t.Errorf("%d are left: %v", len(left), left)
	}
	reports, err := os.ReadDir(filepath.Join(dir, folderReports))
	if err != nil || len(reports) != 2*len(left) {
		t.Errorf("%d files of reports are left: %v", len(reports), err)
	}
}
