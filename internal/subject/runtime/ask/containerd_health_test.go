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
	checktest.Want(t, checktest.Run(t, containerdHealthCheck, empty), "", probe.Unknown, "is unknown")
	blind := checktest.Node(t, nil)
	blind.Only = []string{"/etc"}
	checktest.Want(t, checktest.Run(t, containerdHealthCheck, blind, runs("containerd://2.4.2")), "", probe.Skip,
		"not visible")
}

// TestContainerdSilent has a daemon that accepts connections but never answers. It expects a failure for each request,
// within the time of one.
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
		t.Errorf("the four requests ran one after the other: %v", took)
	}
	l.Close()
	checktest.Want(t, checktest.Run(t, containerdHealthCheck, h), "/run/containerd/containerd.sock", probe.Fail, "nothing listens")
}

// heldUp lists tasks as containerd does while a shim hangs: at the deadline it returns the tasks that it has so far,
// here none.
type heldUp struct{ tasks.TasksClient }

func (heldUp) List(ctx context.Context, _ *tasks.ListTasksRequest, _ ...grpc.CallOption) (*tasks.ListTasksResponse,
	error) {
	end, _ := ctx.Deadline()
	time.Sleep(time.Until(end))
	return &tasks.ListTasksResponse{}, nil
}

// lateTimer is a context with a timer that fires late, as on a busy node.
type lateTimer struct {
	context.Context
	end time.Time
}

func (c lateTimer) Deadline() (time.Time, bool) { return c.end, true }

// TestContainerdListsTooLate expects an error for a list that came after the deadline, because it may be incomplete.
func TestContainerdListsTooLate(t *testing.T) {
	t.Parallel()
	client, err := containerd.New("", containerd.WithServices(containerd.WithTaskClient(heldUp{})))
	if err != nil {
		t.Fatal(err)
	}
	r, err := taskList(lateTimer{t.Context(), time.Now().Add(50 * time.Millisecond)}, client, checktest.Node(t, nil))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, %v", r, err)
	}
}
