package ask

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/node"
)

// scriptedRuntime reports PIDs of containers. The second query of a container may return another PID.
type scriptedRuntime struct {
	first, again map[string]int // -1: no answer
	mu           sync.Mutex
	queried      map[string]bool
}

func (s *scriptedRuntime) running(context.Context) ([]claim, error) {
	var out []claim
	for id := range s.first {
		out = append(out, claim{id: id, name: "ns/" + id})
	}
	return out, nil
}

func (s *scriptedRuntime) process(_ context.Context, id string) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := s.first
	if s.queried[id] {
		from = s.again
	}
	s.queried[id] = true
	if from[id] < 0 {
		return 0, errors.New("no answer")
	}
	return from[id], nil
}

func TestGhosts(t *testing.T) {
	t.Parallel()
	stat := func(pid int, state string, threads int) string {
		return fmt.Sprintf("%d (x) %s 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 %d 0 100 0 0%s\n", pid, state, threads,
			strings.Repeat(" 0", 28))
	}
	h := checktest.Node(t, map[string]string{"proc/1/comm": "systemd\n", "proc/7/stat": stat(7, "S", 1),
		"proc/8/stat": stat(8, "Z", 1), "proc/9/stat": stat(9, "Z", 3)})
	type pids = map[string]int
	for name, c := range map[string]struct {
		first, again pids
		status       probe.Status
		saw          string
	}{
		"none":     {nil, nil, probe.OK, "no running containers"},
		"all live": {pids{"a": 7, "b": 9}, nil, probe.OK, "each of 2 containers"},
		"one gone": {pids{"a": 7, "b": 6}, pids{"b": 6}, probe.Fail,
			"1 of 2 containers that the runtime reports as running have no live process: ns/b"},
		"one a zombie":     {pids{"a": 7, "b": 8}, pids{"b": 8}, probe.Fail, "ns/b"},
		"one has exited":   {pids{"a": 7, "b": 6}, pids{"b": 0}, probe.OK, "1 just exited"},
		"one restarted":    {pids{"a": 7, "b": 6}, pids{"b": 7}, probe.OK, "1 just exited"},
		"then no answer":   {pids{"a": 7, "b": 6}, pids{"b": -1}, probe.Unknown, "did not report whether"},
		"no answer at all": {pids{"a": 7, "b": -1}, nil, probe.Unknown, "state of 1 of 2"},
		"another machine's": {pids{"a": 6, "b": 5}, pids{"a": 6, "b": 5}, probe.Unknown,
			"all 2 processes"},
		"no PIDs (VMs)": {pids{"a": 0, "b": 0}, nil, probe.Skip, "reports no PID"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := ghosts(t.Context(), h, &scriptedRuntime{first: c.first, again: c.again, queried: map[string]bool{}})
			if r.Status != c.status || !strings.Contains(r.Saw, c.saw) {
				t.Errorf("%s %s", r.Status, r.Saw)
			}
		})
	}
	many := pids{}
	for i := range maxContainers + 7 {
		many[fmt.Sprint("c", i)] = 7
	}
	if r := ghosts(t.Context(), h, &scriptedRuntime{first: many, queried: map[string]bool{}}); r.Status != probe.OK ||
		!strings.Contains(r.Saw, "each of 500 containers") || !strings.Contains(r.Saw, "7 more not checked") {
		t.Errorf("%s %s", r.Status, r.Saw)
	}
	inPod := checktest.Node(t, map[string]string{"proc/1/comm": "probe\n"})
	checktest.Want(t, checktest.Run(t, runtimeGhostsCheck, inPod), "", probe.Skip, "processes are not visible")
	if processProblem(&probe.Host{Proc: "/proc"}, os.Getpid()) != "" {
		t.Error("the test's own process does not run")
	}
}

// TestDockerGhost has a server that answers like dockerd (API v1.41) about a pod's container.
func TestDockerGhost(t *testing.T) {
	t.Parallel()
	h := checktest.Node(t, map[string]string{"run/x": "", "proc/1/comm": "systemd\n",
		"proc/7/stat": "7 (x) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 100 0 0" + strings.Repeat(" 0", 28) + "\n"})
	l := must.Get(net.Listen("unix", filepath.Join(h.Root, node.SocketDocker)))(t)
	mux := http.NewServeMux()
	mux.Handle("/containers/json",
		checktest.Says(200, `[{"Id":"aa","Names":["/k8s_web_web-1_default_u_0"],"State":"running","Labels":{"io.kubernetes.pod.name":"web-1","io.kubernetes.pod.namespace":"default","io.kubernetes.container.name":"web"}},{"Id":"bb","Names":["/own"]}]`))
	mux.Handle("/containers/aa/json", checktest.Says(200, `{"Id":"aa","State":{"Status":"running","Running":true,"Pid":6}}`))
	mux.Handle("/containers/bb/json", checktest.Says(200, `{"Id":"bb","State":{"Status":"running","Running":true,"Pid":7}}`))
	s := httptest.NewUnstartedServer(mux)
	s.Listener.Close()
	s.Listener = l
	s.Start()
	asDocker := probe.Target{Kind: probe.KindRuntime, Name: "docker://20.10.24"}
	checktest.Want(t, checktest.Run(t, runtimeGhostsCheck, h, asDocker), "", probe.Fail, "1 of 2 containers",
		"default/web-1/web")
	s.Close()
	checktest.Want(t, checktest.Run(t, runtimeGhostsCheck, h, asDocker), "", probe.Unknown, "no socket")
}

// FuzzPID reads arbitrary verbose info of a runtime.
func FuzzPID(f *testing.F) {
	f.Add([]byte(`{"sandboxID":"1f","pid":4711,"removing":false,"runtimeSpec":{"ociVersion":"1.3.0"}}`)) // containerd 2.4.2
	f.Add([]byte(`{"pid":1e400}`))
	f.Fuzz(func(_ *testing.T, info []byte) { pidIn(info) })
}
