package ask

import (
	"context"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/calico-probe/calico-probe/internal/subject/runtime"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/criconn"
	"github.com/calico-probe/calico-probe/probe/node"
	"github.com/calico-probe/calico-probe/probe/reach"
)

// criHealthCheck binds runtime.CRIHealth to the function that runs it.
var criHealthCheck = answers.To(runtime.CRIHealth, criHealth)

// factContainers is the number of containers that the runtime reports as running.
const factContainers probe.Fact = "containers"

func criHealth(ctx context.Context, p *probe.Pass) {
	kind, known := node.RuntimeOf(p)
	name, err := node.FindSocket(p.Host, node.CRISockets(p))
	if err != nil {
		p.Report(node.NoSocketHere(err, kind, known))
		return
	}
	if r, ok := reach.Dialable(ctx, p.Host, name); !ok {
		p.Report(r.On(name))
		return
	}
	client, hangUp, err := criconn.CRIAt(p.Host, name)
	if err != nil {
		p.Report(probe.Failed(err).On(name))
		return
	}
	defer hangUp()
	questions := []node.Question{
		{Name: "version", Ask: func(ctx context.Context) (probe.Result, error) { return runtimeVersion(ctx, client) }},
		{Name: "containers", Ask: func(ctx context.Context) (probe.Result, error) { return runtimeContainers(ctx, client) }},
	}
	if !node.IsContainerd(kind, name) {
		questions = append(questions,
			node.Question{Name: "status", Ask: func(ctx context.Context) (probe.Result,
				error) {
				return runtimeStatus(ctx, client)
			}})
	}
	reach.CallEach(ctx, p, name, name+" ", questions)
}

func runtimeVersion(ctx context.Context, client cri.RuntimeServiceClient) (probe.Result, error) {
	v, err := client.Version(ctx, &cri.VersionRequest{})
	if err != nil {
		return probe.Result{}, err
	}
	return probe.Found(probe.OK, "%s %s, interface %s", v.RuntimeName, v.RuntimeVersion, v.RuntimeApiVersion).
		With(probe.FactVersion, v.RuntimeVersion), nil
}

func runtimeContainers(ctx context.Context, client cri.RuntimeServiceClient) (probe.Result, error) {
	running := &cri.ContainerFilter{State: &cri.ContainerStateValue{State: cri.ContainerState_CONTAINER_RUNNING}}
	a, err := client.ListContainers(ctx, &cri.ListContainersRequest{Filter: running})
	if err != nil {
		return probe.Result{}, err
	}
	return probe.Found(probe.OK, "%d containers running", len(a.Containers)).
		With(factContainers, len(a.Containers)), nil
}
