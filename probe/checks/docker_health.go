package checks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/httpget"
)

// DockerHealth asks docker twice, because its ping is no proof of life: in the
// field, dockerd answered it in milliseconds for an hour while the containerd
// behind it was gone and no container could start.
var DockerHealth = &probe.Check{
	ID: "docker-health", Asks: "does dockerd answer, and the containerd behind it?", From: probe.FromNode,
	Tags: []string{tagRuntime}, Access: []string{"run/docker.sock", "uid 0"}, Run: dockerHealth,
	Doc: `/_ping is answered by dockerd alone; /info asks the containerd behind it.
ok: both answer. fail, info without answer while ping is ok: dockerd lives but its containerd does not answer: no container starts or stops on this node, and the state of containers is stale. fail, no answer at all: dockerd itself is frozen. fail, refused: dockerd is dead and its socket was left. fail, no socket: the kubelet uses docker, and it is not there.
skip: the kubelet uses another runtime, or there is no docker on this node; or it is not known which runtime the kubelet uses, and nothing shows that docker is awake, which asking could start.`,
}

// factDockerVersion is dockerd's own version.
const factDockerVersion probe.Fact = "docker_version"

func dockerHealth(ctx context.Context, p *probe.Pass) {
	const socket = socketDocker
	kind, known := runtimeOf(p)
	if known && kind != "docker" {
		// Asking could start it: systemd listens on a sleeping docker's socket.
		p.Report(probe.Found(probe.Skip, "the kubelet uses %s", kind).With(FactRuntime, kind))
		return
	}
	_, err := findSocket(p.Host, []string{socket})
	switch {
	case errors.Is(err, probe.ErrNotVisible):
		p.Report(unseen(err))
		return
	case errors.Is(err, errNoSocket) && known:
		p.Report(noSocketHere(err, kind, known))
		return
	case errors.Is(err, errNoSocket):
		p.Report(probe.Found(probe.Skip, "no docker on this node: %v", err))
		return
	case err != nil:
		p.Report(probe.Failed(err))
		return
	}
	if awake, _, err := nodesDaemon(p.Host, "dockerd"); !known && err == nil && awake == 0 && !behindDocker(p.Host) {
		p.Report(probe.Found(probe.Skip,
			"which runtime the kubelet uses is not known, and asking could start an inactive docker").
			With(FactSocket, socket))
		return
	}
	each([]string{"_ping", "info"}, func(what string) {
		one, limit, cancel := part(ctx, 3)
		defer cancel()
		answer, err := httpget.Get(one, "http://docker/"+what, httpget.Way{Dial: dials(p.Host, socket)})
		if r, cut := cutShort(ctx, err); err != nil && cut {
			p.Report(r.On(what))
			return
		}
		if err != nil {
			p.Report(noAnswer(err, "dockerd /"+what, limit).On(what).With(FactSocket, socket))
			return
		}
		p.Report(dockerSays(what, answer).On(what).With(FactSocket, socket).With(FactCode, answer.Code))
	})
}

// dials connects to a socket of the node.
func dials(h *probe.Host, socket string) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) { return h.Dial(ctx, socket) }
}

func dockerSays(what string, a httpget.Page) probe.Result {
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
