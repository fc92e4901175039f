package do

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/reach"
)

// runtimeLimit is the time limit for one query to the container runtime.
const runtimeLimit = 5 * time.Second

// runtime is the node's container runtime. It is queried in the same way as by the kubelet.
type runtime struct {
	conn   *grpc.ClientConn
	socket string
}

// container is a container on the node.
type container struct {
	id, sandbox, namespace, pod, name, image string
	state                                    cri.ContainerState
	attempt                                  uint32
	created                                  time.Time
}

func (c container) String() string { return c.namespace + "/" + c.pod + "/" + c.name }

// ask applies the time limit, and adds the runtime's name to an error.
func ask[In, Out any](ctx context.Context, f func(context.Context, *In, ...grpc.CallOption) (*Out, error),
	in *In) (*Out, error) {
	one, cancel := context.WithTimeout(ctx, runtimeLimit)
	defer cancel()
	return f(one, in)
}

// silent explains why a query to the runtime failed.
func (r runtime) silent(ctx context.Context, err error) probe.Result {
	return reach.RuntimeSilent(ctx, err, r.socket, runtimeLimit)
}

// containers lists all containers, including those that have exited. It sorts them by pod and name,
// with the newest attempt first.
func (r runtime) containers(ctx context.Context) ([]container, error) {
	a, err := ask(ctx, cri.NewRuntimeServiceClient(r.conn).ListContainers, &cri.ListContainersRequest{})
	if err != nil {
		return nil, err
	}
	var out []container
	for _, c := range a.Containers {
		labels := c.GetLabels() // set by the kubelet
		out = append(out, container{
			id: c.Id, sandbox: c.PodSandboxId, namespace: labels["io.kubernetes.pod.namespace"],
			pod:   labels["io.kubernetes.pod.name"],
			name:  c.GetMetadata().GetName(),
			image: cmp.Or(c.GetImage().GetUserSpecifiedImage(), c.GetImage().GetImage()),
			state: c.State, attempt: c.GetMetadata().GetAttempt(), created: time.Unix(0, c.CreatedAt),
		})
	}
	slices.SortStableFunc(out, func(a, b container) int {
		return cmp.Or(strings.Compare(a.String(), b.String()), b.created.Compare(a.created))
	})
	return out, nil
}

// status returns the status that the runtime reports for one container.
func (r runtime) status(ctx context.Context, id string) (*cri.ContainerStatus, error) {
	a, err := ask(ctx, cri.NewRuntimeServiceClient(r.conn).ContainerStatus,
		&cri.ContainerStatusRequest{ContainerId: id})
	return a.GetStatus(), err
}

// ended describes how a container ended: "exited 1 (Error) 3m ago".
func ended(s *cri.ContainerStatus, now time.Time) string {
	out := fmt.Sprintf("exited %d", s.GetExitCode())
	if why := s.GetReason(); why != "" && why != "Completed" {
		out += " (" + why + ")"
	}
	if at := s.GetFinishedAt(); at > 0 {
		out += " " + probe.Age(now.Sub(time.Unix(0, at))) + " ago"
	}
	return out
}

// stateName returns a short form of the runtime's name for a state.
func stateName(s cri.ContainerState) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "CONTAINER_"))
}
