package checks

import (
	"context"
	"fmt"
	"net"
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
	Tags: []string{tagRuntime}, Access: []string{"run", "uid 0"}, Run: criHealth,
	Doc: `The socket that the kubelet is set to use, or the usual one of the runtime it reports (containerd, k3s, RKE2, k0s, MicroK8s, CRI-O, cri-dockerd, dockershim), is asked for its version, its running containers and its status, each with two fifths of the check's time (two seconds). The status of containerd is asked by containerd-health.
ok: answered, and in order. fail: no answer in time, refused, or RuntimeReady or NetworkReady is false. NetworkReady turns false when there is no usable file in /etc/cni/net.d.
skip: not visible by this access method. unknown: there is no socket, and the plan does not say which runtime the node uses.`,
}

// factContainers is how many containers the runtime calls running.
const factContainers probe.Fact = "containers"

func criHealth(ctx context.Context, p *probe.Pass) {
	kind, known := runtimeOf(p)
	name, err := findSocket(p.Host, criSockets(p))
	if err != nil {
		p.Report(noSocketHere(err, kind, known))
		return
	}
	if r, ok := dialable(ctx, p.Host, name); !ok {
		p.Report(r.On(name))
		return
	}
	client, hangUp, err := criAt(p.Host, name)
	if err != nil {
		p.Report(probe.Failed(err).On(name))
		return
	}
	defer hangUp()
	questions := []question{
		{name: "version", ask: func(ctx context.Context) (probe.Result, error) { return runtimeVersion(ctx, client) }},
		{name: "containers", ask: func(ctx context.Context) (probe.Result, error) { return runtimeContainers(ctx, client) }},
	}
	if !isContainerd(kind, name) {
		questions = append(questions,
			question{name: "status", ask: func(ctx context.Context) (probe.Result, error) { return runtimeStatus(ctx, client) }})
	}
	askEach(ctx, p, name, name+" ", questions)
}

// maxMessage bounds one answer: a thousand containers take about 2 MB.
const maxMessage = 16 << 20

// criAt asks on a socket, which is connected to with the first call.
func criAt(h *probe.Host, socket string) (client cri.RuntimeServiceClient, hangUp func(), err error) {
	conn, err := runtimeConn(h, socket)
	if err != nil {
		return nil, nil, err
	}
	return cri.NewRuntimeServiceClient(conn), func() { conn.Close() }, nil
}

// runtimeConn is a connection to a runtime's socket that is made with the first call.
func runtimeConn(h *probe.Host, socket string) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return h.Dial(ctx, socket) }),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return nil, fmt.Errorf("opening the connection: %w", err)
	}
	return conn, nil
}

// Runtime finds the socket on which the kubelet's runtime answers, where no plan tells
// which runtime that is, and gives a connection that is made with the first question.
func Runtime(h *probe.Host) (conn *grpc.ClientConn, socket string, err error) {
	socket, err = findSocket(h, criSockets(&probe.Pass{Host: h}))
	if err != nil {
		return nil, "", err
	}
	conn, err = runtimeConn(h, socket)
	return conn, socket, err
}

// RuntimeSilent judges an error of asking a runtime about something for so long.
func RuntimeSilent(ctx context.Context, err error, what string, limit time.Duration) probe.Result {
	if r, cut := cutShort(ctx, err); cut {
		return r
	}
	return unanswering(err, what, limit)
}

func runtimeVersion(ctx context.Context, client cri.RuntimeServiceClient) (probe.Result, error) {
	v, err := client.Version(ctx, &cri.VersionRequest{})
	if err != nil {
		return probe.Result{}, err
	}
	return probe.Found(probe.OK, "%s %s, interface %s", v.RuntimeName, v.RuntimeVersion, v.RuntimeApiVersion).
		With(FactVersion, v.RuntimeVersion), nil
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
