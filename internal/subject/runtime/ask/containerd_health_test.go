package ask

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/containerd/containerd/api/services/tasks/v1"
	containerd "github.com/containerd/containerd/v2/client"
	"google.golang.org/grpc"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/must"
)

func TestContainerdNotThere(t *testing.T) {
	t.Parallel()
	empty := checktest.Node(t, map[string]string{"run/x": ""})
	runs := func(name string) probe.Target { return probe.Target{Kind: probe.KindRuntime, Name: name} }
	checktest.Want(t, checktest.Run(t, containerdHealthCheck, empty, runs("cri-o://1.34.1")), "", probe.Skip, "cri-o")
	checktest.Want(t, checktest.Run(t, containerdHealthCheck, empty, runs("containerd://2.4.2")), "", probe.Fail,
		"no socket")
	checktest.Want(t, checktest.Run(t, containerdHealthCheck, empty), "", probe.Unknown, "not known")
	blind := checktest.Node(t, nil)
	blind.Only = []string{"/etc"}
	checktest.Want(t, checktest.Run(t, containerdHealthCheck, blind, runs("containerd://2.4.2")), "", probe.Skip,
		"not visible")
}

// TestContainerdSilent wants a daemon that accepts and does not answer named in
// each of its parts, in the time of one call.
func TestContainerdSilent(t *testing.T) {
	t.Parallel()
	h := checktest.Node(t, map[string]string{"run/containerd/x": ""})
	l := must.Get(net.ListenUnix("unix",
		&net.UnixAddr{Name: filepath.Join(h.Root, "run/containerd/containerd.sock"), Net: "unix"}))(t)
	l.SetUnlinkOnClose(false)
	began := time.Now()
	got := checktest.Run(t, containerdHealthCheck, h)
	for _, part := range []string{"version", "health", "cri-status", "tasks"} {
		checktest.Want(t, got, part, probe.Fail, "does not answer within ")
	}
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("the four calls waited for each other: %v", took)
	}
	l.Close()
	checktest.Want(t, checktest.Run(t, containerdHealthCheck, h), "/run/containerd/containerd.sock", probe.Fail, "nothing listens")
}

// heldUp lists tasks as containerd does when a shim holds it up: once the time is over
// it gives those it has asked by then, which are none.
type heldUp struct{ tasks.TasksClient }

func (heldUp) List(ctx context.Context, _ *tasks.ListTasksRequest, _ ...grpc.CallOption) (*tasks.ListTasksResponse,
	error) {
	end, _ := ctx.Deadline()
	time.Sleep(time.Until(end))
	return &tasks.ListTasksResponse{}, nil
}

// lateTimer is a context whose timer has not told yet that its time is over, as on a node
// that is busy.
type lateTimer struct {
	context.Context
	end time.Time
}

func (c lateTimer) Deadline() (time.Time, bool) { return c.end, true }

// TestContainerdListsTooLate wants no list taken for a whole one that came when its time
// was over.
func TestContainerdListsTooLate(t *testing.T) {
	t.Parallel()
	client, err := containerd.New("", containerd.WithServices(containerd.WithTaskClient(heldUp{})))
	if err != nil {
		t.Fatal(err)
	}
	r, err := askTasks(lateTimer{t.Context(), time.Now().Add(50 * time.Millisecond)}, client, checktest.Node(t, nil))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, %v", r, err)
	}
}
