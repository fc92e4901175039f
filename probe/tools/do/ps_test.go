package do

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/calico-probe/calico-probe/probe"
)

// made is a runtime with few containers that can be silent about one of them, which a real one never is on demand.
type made struct {
	cri.UnimplementedRuntimeServiceServer
}

func (made) ListContainers(context.Context, *cri.ListContainersRequest) (*cri.ListContainersResponse, error) {
	one := func(id, pod, name string, state cri.ContainerState, created int64) *cri.Container {
		return &cri.Container{
			Id: id, Metadata: &cri.ContainerMetadata{Name: name}, State: state, CreatedAt: created,
			Image:  &cri.ImageSpec{Image: "image"},
			Labels: map[string]string{"io.kubernetes.pod.namespace": "ns", "io.kubernetes.pod.name": pod},
		}
	}
	return &cri.ListContainersResponse{Containers: []*cri.Container{
		one("web2", "web-1", "web", cri.ContainerState_CONTAINER_RUNNING, 2),
		one("web1", "web-1", "web", cri.ContainerState_CONTAINER_EXITED, 1),
		one("well", "calico-1", "install-cni", cri.ContainerState_CONTAINER_EXITED, 1),
		one("bad", "batch-1", "batch", cri.ContainerState_CONTAINER_EXITED, 1),
		one("mute", "mute-1", "mute", cri.ContainerState_CONTAINER_EXITED, 1),
	}}, nil
}

func (made) ContainerStatus(_ context.Context, r *cri.ContainerStatusRequest) (*cri.ContainerStatusResponse, error) {
	if r.ContainerId == "mute" {
		return nil, errors.New("it does not tell")
	}
	status := &cri.ContainerStatus{ExitCode: map[string]int32{"bad": 1}[r.ContainerId],
		FinishedAt: time.Now().UnixNano()}
	return &cri.ContainerStatusResponse{Status: status}, nil
}

func (made) ListPodSandbox(context.Context, *cri.ListPodSandboxRequest) (*cri.ListPodSandboxResponse, error) {
	return &cri.ListPodSandboxResponse{Items: []*cri.PodSandbox{{Id: "old",
		Metadata: &cri.PodSandboxMetadata{Namespace: "ns", Name: "web-0"},
		State:    cri.PodSandboxState_SANDBOX_NOTREADY}}}, nil
}

// TestPS checks that unlisted items are counted, and never reported as missing.
func TestPS(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	cri.RegisterRuntimeServiceServer(server, made{})
	go func() { _ = server.Serve(l) }() // until it is stopped
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient("unix:"+l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	for name, c := range map[string]struct {
		list   func(context.Context, *probe.Job, runtime, bool, string) probe.Result
		all    bool
		word   string
		status probe.Status
		saw    string
		out    string
	}{
		"usual": {listContainers, false, "", probe.OK, "3 containers, of which 1 exited with an error",
			"exited 1 "},
		"not told": {listContainers, false, "mute", probe.OK, "1 container", "exited ?"},
		"ended well": {listContainers, false, "install-cni", probe.OK,
			`of 1 container with "install-cni" none runs, or failed in its last attempt: 'ps -a install-cni' lists them`, "(of 1 container"},
		"earlier attempt": {listContainers, false, "web1", probe.OK, "'ps -a web1' lists them", ""},
		"all":             {listContainers, true, "install-cni", probe.OK, "1 container", "exited 0 "},
		"none": {listContainers, false, "nothing", probe.Fail,
			`the runtime has no container with "nothing"`, ""},
		"pod that is over": {listPods, false, "web", probe.OK,
			`of 1 pod with "web" none is ready: 'ps -a pods web' lists them`, ""},
		"pods that all are": {listPods, false, "", probe.OK, "of 1 pod none is ready: 'ps -a pods' lists them", ""},
	} {
		var out strings.Builder
		r := c.list(t.Context(), &probe.Job{Out: &out}, runtime{conn: conn}, c.all, c.word)
		wants(t, r, c.status, c.saw)
		if !strings.Contains(out.String(), c.out) {
			t.Errorf("%s: no %q in\n%s", name, c.out, out.String())
		}
	}
}
