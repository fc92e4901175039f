package checks

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/calico-probe/calico-probe/probe"
)

// CRIHealth asks the container runtime what the kubelet asks it, whichever
// runtime that is.
var CRIHealth = &probe.Check{
	ID: "cri-health", Asks: "does the container runtime answer the kubelet's interface?", From: probe.FromNode,
	Tags: []string{tagRuntime}, Access: []string{"run", "uid 0"}, Run: criHealth, Limit: 6 * time.Second,
	Doc: `Every socket of a container runtime on the node (containerd, k3s, CRI-O, cri-dockerd, dockershim) is asked for its version, its status and its containers, each with two seconds of its own.
ok: answered, and in order. fail: no answer in time, refused, or RuntimeReady or NetworkReady is false. NetworkReady turns false when there is no usable file in /etc/cni/net.d.
skip: no such socket on this node, or not visible this way onto the node. unknown: the runtime does not speak this version of the interface.`,
}

// criSockets are where runtimes listen for the kubelet.
var criSockets = []string{
	"/run/containerd/containerd.sock", "/run/k3s/containerd/containerd.sock", "/run/crio/crio.sock", "/run/cri-dockerd.sock", "/run/dockershim.sock",
}

// FactContainers is how many containers the runtime calls running.
const FactContainers probe.Fact = "containers"

func criHealth(ctx context.Context, p *probe.Pass) {
	var last error
	found := 0
	for _, name := range criSockets {
		_, full, err := findSocket(p.Host, []string{name})
		if err != nil {
			last = err
			continue
		}
		found++
		askRuntime(ctx, p, name, full)
	}
	switch {
	case found > 0:
	case errors.Is(last, errNoSocket):
		p.Report(probe.Found(probe.Skip, "no socket at %s", strings.Join(criSockets, ", ")))
	default:
		p.Report(unseen(last))
	}
}

func askRuntime(ctx context.Context, p *probe.Pass, name, full string) {
	if err := dialable(ctx, full); err != nil {
		p.Report(unanswering(err, "the socket").On(name))
		return
	}
	conn, err := grpc.NewClient("unix:"+full, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16<<20)))
	if err != nil {
		p.Report(unanswering(err, "the connection").On(name))
		return
	}
	defer conn.Close()
	client := cri.NewRuntimeServiceClient(conn)
	askEach(ctx, p, name, name+" ", []question{
		{"version", func(ctx context.Context) (probe.Result, error) { return runtimeVersion(ctx, client) }},
		{"status", func(ctx context.Context) (probe.Result, error) { return runtimeStatus(ctx, client) }},
		{"containers", func(ctx context.Context) (probe.Result, error) { return runtimeContainers(ctx, client) }},
	})
}

func runtimeVersion(ctx context.Context, client cri.RuntimeServiceClient) (probe.Result, error) {
	v, err := client.Version(ctx, &cri.VersionRequest{})
	if err != nil {
		return probe.Result{}, err
	}
	return probe.Found(probe.OK, "%s %s, interface %s", v.RuntimeName, v.RuntimeVersion, v.RuntimeApiVersion).With(FactVersion, v.RuntimeVersion), nil
}

func runtimeContainers(ctx context.Context, client cri.RuntimeServiceClient) (probe.Result, error) {
	running := &cri.ContainerFilter{State: &cri.ContainerStateValue{State: cri.ContainerState_CONTAINER_RUNNING}}
	a, err := client.ListContainers(ctx, &cri.ListContainersRequest{Filter: running})
	if err != nil {
		return probe.Result{}, err
	}
	return probe.Found(probe.OK, "%d containers running", len(a.Containers)).With(FactContainers, len(a.Containers)), nil
}
