package ask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/procfs"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	runtimefacts "github.com/calico-probe/calico-probe/internal/subject/runtime"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/criconn"
	"github.com/calico-probe/calico-probe/probe/httpget"
	"github.com/calico-probe/calico-probe/probe/node"
	"github.com/calico-probe/calico-probe/probe/reach"
)

// runtimeGhostsCheck binds runtimefacts.RuntimeGhosts to the function that runs it.
var runtimeGhostsCheck = answers.To(runtimefacts.RuntimeGhosts, runtimeGhosts)

// Facts of runtime-ghosts.
const factNoPIDs probe.Fact = "no_pids" // number of containers for which the runtime reports no PID

const (
	maxContainers  = 500             // the kubelet's default limit is 110 pods
	ghostPatience  = 2 * time.Second // the time between two checks of a container that has no process
	maxGhostChecks = 3
)

// claim is a container that the runtime reports as running.
type claim struct {
	id, name string
	pid      int
}

// claimant is a runtime that can be queried.
type claimant interface {
	running(context.Context) ([]claim, error) // without their PIDs
	// returns the PID of the container with the given ID; 0 = the container does not run, or the
	// runtime does not report the PID
	process(context.Context, string) (pid int, _ error)
}

func runtimeGhosts(ctx context.Context, p *probe.Pass) {
	if !node.SeesProcesses(p.Host) {
		p.Report(node.NoProcesses)
		return
	}
	kind, known := node.RuntimeOf(p)
	sockets := node.CRISockets(p)
	if kind == "docker" {
		sockets = []string{node.SocketDocker}
	}
	name, err := node.FindSocket(p.Host, sockets)
	if err != nil {
		p.Report(asUnknown(node.NoSocketHere(err, kind, known)))
		return
	}
	var runtime claimant = dockerd{p.Host}
	if kind != "docker" {
		client, hangUp, err := criconn.CRIAt(p.Host, name)
		if err != nil {
			p.Report(probe.Failed(err))
			return
		}
		defer hangUp()
		runtime = criRuntime{client}
	}
	p.Report(ghosts(ctx, p.Host, runtime).With(probe.FactSocket, name))
}

// asUnknown turns a fault of the runtime itself into unknown, because other checks report that fault.
func asUnknown(r probe.Result) probe.Result {
	if r.Status == probe.Fail {
		r.Status = probe.Unknown
	}
	return r
}

func ghosts(ctx context.Context, h *probe.Host, runtime claimant) probe.Result {
	one, limit, cancel := node.Part(ctx, 3)
	defer cancel()
	all, err := runtime.running(one)
	if err != nil {
		if r, cut := node.CutShort(ctx, err); cut {
			return r
		}
		return asUnknown(reach.Unanswering(err, "which containers run", limit))
	}
	rest := ""
	if more := len(all) - maxContainers; more > 0 {
		rest = fmt.Sprintf("; %d more not checked", more)
	}
	all = all[:min(len(all), maxContainers)]
	found, unanswered := processes(one, runtime, all)
	suspects := slices.DeleteFunc(slices.Clone(found), func(c claim) bool { return processProblem(h, c.pid) == "" })
	r := probe.Found(probe.OK, "each of %d containers reported as running has a process", len(found))
	if n := len(all) - len(found); n > 0 {
		r.Saw += fmt.Sprintf("; the runtime reports no PID for %d other containers", n)
		r = r.With(factNoPIDs, n)
	}
	r = r.With(factContainers, len(all))
	switch {
	case len(all) == 0:
		r.Saw = "the runtime reports no running containers"
	case len(suspects) == 0 && unanswered > 0:
		r.Status = probe.Unknown
		r.Saw = fmt.Sprintf("the runtime did not report the state of %d of %d containers within %v; the other containers have a process", unanswered, len(all), limit)
	case len(found) == 0:
		r.Status = probe.Skip
		r.Saw = fmt.Sprintf("the runtime reports no PID for its %d containers", len(all))
	}
	r.Saw += rest
	if len(suspects) == 0 {
		return r
	}
	return recheck(ctx, h, runtime, r, suspects, len(found), len(all), rest)
}

// recheck queries containers without a process again, because they may have just exited. If they have, the result is
// r. Of all containers, the runtime reports a PID for found.
func recheck(ctx context.Context, h *probe.Host, runtime claimant, r probe.Result, suspects []claim, found, all int,
	rest string) probe.Result {
	still, unanswered := suspects, 0
	for n := 0; n < maxGhostChecks && len(still) > 0; n++ { // on a busy node, the runtime notices an exit late
		select {
		case <-ctx.Done():
			return probe.Failed(fmt.Errorf("checking %d containers without a process again: %w", len(suspects),
				ctx.Err()))
		case <-time.After(ghostPatience):
		}
		still, unanswered = processes(ctx, runtime, still)
		still = slices.DeleteFunc(still, func(c claim) bool { return processProblem(h, c.pid) == "" })
	}
	var names, lines []string
	for _, c := range still {
		names = append(names, c.name)
		lines = append(lines, fmt.Sprintf("%s %.12s: process %d %s", c.name, c.id, c.pid, processProblem(h, c.pid)))
	}
	switch {
	case len(names) == found && len(names) > 0:
		return probe.Found(probe.Unknown,
			"all %d processes that the runtime reports are dead or missing: the containers are gone, or the runtime is on another machine", found).
			With(factContainers, all).Because(lines...)
	case len(names) > 0:
		r = probe.Found(probe.Fail, "%d of %d containers that the runtime reports as running have no live process: %s%s",
			len(names), all, node.Some(names), rest)
		return r.With(runtimefacts.FactGhosts, node.First(names)).With(factContainers, all).Because(lines...)
	case unanswered > 0:
		return probe.Found(probe.Unknown,
			"%d containers have no process, and the runtime did not report whether they still run",
			unanswered).With(factContainers, all)
	}
	r.Saw += fmt.Sprintf("; %d just exited", len(suspects))
	return r
}

// processes queries the process of each container, a few at a time. It returns the containers that have a process,
// in order, and the number of queries that failed.
func processes(ctx context.Context, runtime claimant, all []claim) (found []claim, unanswered int) {
	const atATime = 4
	next := make(chan int, len(all)) // filled first, so that a worker that panics does not block the sender
	for i := range all {
		next <- i
	}
	close(next)
	pids := make([]int, len(all))
	var mu sync.Mutex
	var workers probe.Workers
	for range atATime {
		workers.Go(func() {
			for i := range next {
				pid, err := runtime.process(ctx, all[i].id)
				mu.Lock()
				if err != nil {
					unanswered++
				}
				pids[i] = pid
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	for i, c := range all {
		if c.pid = pids[i]; c.pid > 0 {
			found = append(found, c)
		}
	}
	return found, unanswered
}

// processProblem describes why a process is not running. If the process is running, it returns "".
func processProblem(h *probe.Host, pid int) string {
	proc, err := procfs.NewFS(h.Proc)
	if err != nil {
		return "" // if it is not visible, it may still be alive
	}
	p, err := proc.Proc(pid)
	if errors.Is(err, fs.ErrNotExist) {
		return "is gone"
	}
	if err != nil {
		return ""
	}
	stat, err := p.Stat()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "is gone"
	case err == nil && stat.State == "Z" && stat.NumThreads < 2: // the first thread may exit before the others
		return "is a zombie: its parent has not reaped it"
	}
	return ""
}

// criRuntime is a runtime that is queried through CRI.
type criRuntime struct{ client cri.RuntimeServiceClient }

func (r criRuntime) running(ctx context.Context) ([]claim, error) {
	running := &cri.ContainerFilter{State: &cri.ContainerStateValue{State: cri.ContainerState_CONTAINER_RUNNING}}
	a, err := r.client.ListContainers(ctx, &cri.ListContainersRequest{Filter: running})
	if err != nil {
		return nil, err
	}
	var out []claim
	for _, c := range a.Containers {
		labels := c.GetLabels() // the kubelet sets them
		name := c.GetMetadata().GetName()
		if pod := labels["io.kubernetes.pod.name"]; pod != "" {
			name = labels["io.kubernetes.pod.namespace"] + "/" + pod + "/" + name
		}
		out = append(out, claim{id: c.Id, name: name})
	}
	return out, nil
}

func (r criRuntime) process(ctx context.Context, id string) (int, error) {
	a, err := r.client.ContainerStatus(ctx, &cri.ContainerStatusRequest{ContainerId: id, Verbose: true})
	if status.Code(err) == codes.NotFound { // removed after the list was created
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if a.GetStatus().GetState() != cri.ContainerState_CONTAINER_RUNNING {
		return 0, nil
	}
	return pidIn([]byte(a.GetInfo()["info"])), nil
}

// pidIn reads the PID from the verbose info of containerd and CRI-O. The CRI does not define this
// info. 0 means that the PID is not reported.
func pidIn(info []byte) int {
	var verbose struct {
		PID int `json:"pid"`
	}
	if json.Unmarshal(info, &verbose) != nil {
		return 0
	}
	return verbose.PID
}

// dockerd is docker, queried on docker's own socket.
type dockerd struct{ host *probe.Host }

func (d dockerd) get(ctx context.Context, path string, into any) error {
	page, err := httpget.Get(ctx, "http://docker/"+path,
		httpget.Options{Dial: dials(d.host, node.SocketDocker), Most: criconn.MaxMessage})
	if err != nil {
		return err
	}
	if page.Code != http.StatusOK {
		return fmt.Errorf("dockerd answers %d to /%s", page.Code, path)
	}
	if err := json.Unmarshal(page.Body, into); err != nil {
		return fmt.Errorf("reading dockerd's /%s: %w", path, err)
	}
	return nil
}

func (d dockerd) running(ctx context.Context) ([]claim, error) {
	var list []struct {
		ID     string `json:"Id"`
		Names  []string
		Labels map[string]string
	}
	if err := d.get(ctx, "containers/json", &list); err != nil {
		return nil, err
	}
	var out []claim
	for _, c := range list {
		name := c.ID
		if len(c.Names) > 0 {
			name = strings.TrimPrefix(c.Names[0], "/")
		}
		if pod := c.Labels["io.kubernetes.pod.name"]; pod != "" {
			name = c.Labels["io.kubernetes.pod.namespace"] + "/" + pod + "/" + c.Labels["io.kubernetes.container.name"]
		}
		out = append(out, claim{id: c.ID, name: name})
	}
	return out, nil
}

func (d dockerd) process(ctx context.Context, id string) (int, error) {
	var one struct {
		State struct {
			Running bool
			Pid     int
		}
	}
	if err := d.get(ctx, "containers/"+id+"/json", &one); err != nil || !one.State.Running {
		return 0, err
	}
	return one.State.Pid, nil
}
