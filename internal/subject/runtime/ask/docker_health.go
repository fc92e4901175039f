package ask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/calico-probe/calico-probe/internal/subject/runtime"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/httpget"
	"github.com/calico-probe/calico-probe/probe/node"
)

// dockerHealthCheck binds runtime.DockerHealth to the function that runs it.
var dockerHealthCheck = answers.To(runtime.DockerHealth, dockerHealth)

// factDockerVersion is the version of dockerd itself.
const factDockerVersion probe.Fact = "docker_version"

func dockerHealth(ctx context.Context, p *probe.Pass) {
	const socket = node.SocketDocker
	kind, known := node.RuntimeOf(p)
	if known && kind != "docker" {
		// A connection could start docker, because systemd listens on the socket if docker is inactive.
		p.Report(probe.Found(probe.Skip, "the kubelet uses %s", kind).With(factRuntime, kind))
		return
	}
	_, err := node.FindSocket(p.Host, []string{socket})
	switch {
	case errors.Is(err, probe.ErrNotVisible):
		p.Report(node.Unseen(err))
		return
	case errors.Is(err, node.ErrNoSocket) && known:
		p.Report(node.NoSocketHere(err, kind, known))
		return
	case errors.Is(err, node.ErrNoSocket):
		p.Report(probe.Found(probe.Skip, "no docker on this node: %v", err))
		return
	case err != nil:
		p.Report(probe.Failed(err))
		return
	}
	if awake, _, err := node.NodesDaemon(p.Host, "dockerd"); !known && err == nil && awake == 0 &&
		!node.BehindDocker(p.Host) {
		p.Report(probe.Found(probe.Skip,
			"the kubelet's runtime is unknown, and a connection could start an inactive docker").
			With(probe.FactSocket, socket))
		return
	}
	node.Each([]string{"_ping", "info"}, func(what string) {
		one, limit, cancel := node.Part(ctx, 3)
		defer cancel()
		answer, err := httpget.Get(one, "http://docker/"+what, httpget.Options{Dial: dials(p.Host, socket)})
		if r, cut := node.CutShort(ctx, err); err != nil && cut {
			p.Report(r.On(what))
			return
		}
		if err != nil {
			p.Report(node.NoAnswer(err, "dockerd /"+what, limit).On(what).With(probe.FactSocket, socket))
			return
		}
		p.Report(judgeDocker(what, answer).On(what).With(probe.FactSocket, socket).With(probe.FactCode, answer.Code))
	})
}

// dials returns a function that connects to a socket on the node.
func dials(h *probe.Host, socket string) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) { return h.Dial(ctx, socket) }
}

func judgeDocker(what string, a httpget.Page) probe.Result {
	if a.Code != http.StatusOK {
		return probe.Found(probe.Fail, "dockerd answers %d: %.200s", a.Code, a.Body)
	}
	if what == "_ping" {
		return probe.Found(probe.OK, "dockerd answers %.20s", a.Body)
	}
	var info struct {
		ServerVersion     string
		ContainersRunning int
		Containers        int
	}
	if err := json.Unmarshal(a.Body, &info); err != nil {
		return probe.Failed(fmt.Errorf("reading dockerd's /info: %w", err))
	}
	return probe.Found(probe.OK, "docker %s, %d of %d containers running", info.ServerVersion, info.ContainersRunning,
		info.Containers).
		With(factDockerVersion, info.ServerVersion)
}
