package ask

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/containerd/containerd/api/services/tasks/v1"
	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/calico-probe/calico-probe/internal/subject/runtime"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/criconn"
	"github.com/calico-probe/calico-probe/probe/node"
	"github.com/calico-probe/calico-probe/probe/reach"
)

// containerdHealthCheck binds runtime.ContainerdHealth to the function that runs it.
var containerdHealthCheck = answers.To(runtime.ContainerdHealth, containerdHealth)

// Facts of containerd-health.
const (
	factRuntime  probe.Fact = "runtime"  // the runtime that the kubelet reports
	factTasks    probe.Fact = "tasks"    // number of running containers
	factRevision probe.Fact = "revision" // commit from which containerd was built
)

// namespaceOf returns containerd's namespace for the kubelet's containers. It is k8s.io, or docker's namespace.
func namespaceOf(runtime string) string {
	if runtime == "docker" {
		return "moby"
	}
	return "k8s.io"
}

func containerdHealth(ctx context.Context, p *probe.Pass) {
	kind, known := node.RuntimeOf(p)
	if known && kind != "containerd" && kind != "docker" {
		p.Report(probe.Found(probe.Skip, "the kubelet uses %s", kind).With(factRuntime, kind))
		return
	}
	socket, err := node.FindSocket(p.Host, node.ContainerdSockets(p))
	if err != nil {
		p.Report(node.NoSocketHere(err, kind, known))
		return
	}
	// First dial directly, because gRPC does not show whether a connection was refused or denied.
	if r, ok := reach.Dialable(ctx, p.Host, socket); !ok {
		p.Report(r.On(socket).With(probe.FactSocket, socket))
		return
	}
	conn, err := criconn.RuntimeConn(p.Host, socket)
	if err != nil {
		p.Report(probe.Failed(err).On(socket).With(probe.FactSocket, socket))
		return
	}
	client, err := containerd.NewWithConn(conn)
	if err != nil {
		_ = conn.Close()
		p.Report(probe.Failed(fmt.Errorf("opening the connection: %w", err)).On(socket).With(probe.FactSocket, socket))
		return
	}
	defer client.Close()
	ctx = namespaces.WithNamespace(ctx, namespaceOf(kind))
	with := func(query func(context.Context, *containerd.Client) (probe.Result,
		error)) func(context.Context) (probe.Result, error) {
		return func(ctx context.Context) (probe.Result, error) { return query(ctx, client) }
	}
	questions := []node.Question{{Name: "version", Ask: with(versionOf)}, {Name: "health", Ask: with(healthOf)},
		{Name: "tasks", Ask: func(ctx context.Context) (probe.Result, error) { return taskList(ctx, client, p.Host) }}}
	if kind != "docker" {
		questions = append(questions, node.Question{Name: "cri-status", Ask: func(ctx context.Context) (probe.Result, error) {
			r, err := criStatus(ctx, client)
			if r.Facts.Str(probe.FactReason) == "unimplemented" && !known && node.BehindDocker(p.Host) {
				r = probe.Found(probe.Skip,
					"the CRI plugin is not loaded, as usual with docker, and the kubelet seems to use docker")
			}
			if r.Facts.Str(probe.FactReason) == "unimplemented" && r.Status == probe.Fail {
				r = withPluginError(ctx, client, r)
			}
			return r, err
		}})
	}
	reach.CallEach(ctx, p, socket, "", questions)
}

// factPlugin is the plugin that containerd failed to load.
const factPlugin probe.Fact = "plugin"

// withPluginError adds containerd's error about its CRI plugin. containerd lists all plugins, with an error for each
// plugin that it failed to load. It does not list disabled plugins.
func withPluginError(ctx context.Context, c *containerd.Client, r probe.Result) probe.Result {
	a, err := c.IntrospectionService().Plugins(ctx)
	if err != nil {
		return r
	}
	listed := false
	for _, p := range a.GetPlugins() {
		ofCRI := p.GetID() == "cri" || strings.HasPrefix(p.GetType(), "io.containerd.cri.")
		listed = listed || p.GetID() == "cri" // the service; containerd 2 has its parts in plugins of their own
		if why := p.GetInitErr().GetMessage(); ofCRI && why != "" {
			r.Saw = fmt.Sprintf("the CRI plugin is not loaded: %s %s: %s", p.GetType(), p.GetID(), probe.Quoted(why))
			return r.With(factPlugin, p.GetID())
		}
	}
	if !listed {
		r.Saw = "the CRI plugin is not loaded: containerd does not list it, so its configuration disables it (disabled_plugins)"
		r = r.With(factPluginOff, true)
	}
	return r
}

// factPluginOff is true if containerd is configured not to load its CRI plugin.
const factPluginOff probe.Fact = "plugin_off"

func versionOf(ctx context.Context, c *containerd.Client) (probe.Result, error) {
	v, err := c.Version(ctx)
	if err != nil {
		return probe.Result{}, err
	}
	return probe.Found(probe.OK, "containerd %s", v.Version).With(probe.FactVersion, v.Version).
		With(factRevision, v.Revision), nil
}

func healthOf(ctx context.Context, c *containerd.Client) (probe.Result, error) {
	a, err := c.HealthService().Check(ctx, &grpc_health_v1.HealthCheckRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return probe.Result{}, err
	}
	if a.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		return probe.Found(probe.Fail, "the health service reports %s", a.Status), nil
	}
	return probe.Found(probe.OK, "the health service reports %s", a.Status), nil
}

func criStatus(ctx context.Context, c *containerd.Client) (probe.Result, error) {
	conn, ok := c.Conn().(grpc.ClientConnInterface)
	if !ok {
		return probe.Result{}, fmt.Errorf("containerd's client has a %T instead of a gRPC connection", c.Conn())
	}
	return runtimeStatus(ctx, cri.NewRuntimeServiceClient(conn))
}

// runtimeStatus queries the two conditions that the kubelet uses.
func runtimeStatus(ctx context.Context, client cri.RuntimeServiceClient) (probe.Result, error) {
	a, err := client.Status(ctx, &cri.StatusRequest{})
	if status.Code(err) == codes.Unimplemented {
		return probe.Found(probe.Fail,
			"the CRI plugin is not loaded, so the kubelet cannot use the runtime (disabled_plugins in its configuration?)").
			With(probe.FactReason, "unimplemented"), nil
	}
	if err != nil {
		return probe.Result{}, err
	}
	var bad, good, not []string
	for _, cond := range a.GetStatus().GetConditions() {
		switch {
		case cond.Status:
			good = append(good, cond.Type)
		case cond.Type == cri.RuntimeReady, cond.Type == cri.NetworkReady:
			not = append(not, cond.Type)
			bad = append(bad, fmt.Sprintf("%s is false: %s %s", cond.Type, cond.Reason, cond.Message))
		}
	}
	switch {
	case len(bad) > 0:
		return probe.Found(probe.Fail, "%s", strings.Join(bad, "; ")).With(runtime.FactNotReady, not), nil
	case len(good) == 0:
		return probe.Found(probe.Unknown, "the runtime reports no conditions"), nil
	}
	return probe.Found(probe.OK, "%s", strings.Join(good, ", ")), nil
}

func taskList(ctx context.Context, c *containerd.Client, h *probe.Host) (probe.Result, error) {
	a, err := c.TaskService().List(ctx, &tasks.ListTasksRequest{})
	if err == nil && isOver(ctx) {
		err = context.DeadlineExceeded // in that case, containerd omits shims that did not answer
	}
	if err == nil {
		return probe.Found(probe.OK, "%d tasks listed", len(a.Tasks)).With(factTasks, len(a.Tasks)), nil
	}
	// containerd queries its shims one at a time, so a frozen shim delays the list.
	if frozen := frozenShims(h); isOver(ctx) && len(frozen) > 0 {
		return probe.Found(probe.Fail, "listing the running containers times out; %d of their shims are frozen: %s",
			len(frozen), node.Some(frozen)).
			With(probe.FactReason, "timeout").With(runtime.FactShims, node.First(frozen)), nil
	}
	return probe.Result{}, err
}

// isOver reports whether a context's deadline has passed, even if its timer has not fired yet.
func isOver(ctx context.Context) bool {
	end, limited := ctx.Deadline()
	return ctx.Err() != nil || limited && !time.Now().Before(end)
}

// frozenShims returns the pods or containers of the shims that are stopped or in uninterruptible sleep.
func frozenShims(h *probe.Host) []string {
	// containerd-shim-runc-v2
	shims, err := node.ProcessesOf(h, node.OutsidePods, func(comm string) bool { return comm == "containerd-shim" })
	if err != nil {
		return nil
	}
	var out []string
	for _, p := range shims {
		if stat, err := p.Stat(); err == nil && strings.Contains("TtD", stat.State) {
			out = append(out, fmt.Sprintf("%.13s (process %d, state %s)", node.FlagOf(p.Args, "-id"), p.PID, stat.State))
		}
	}
	return out
}
