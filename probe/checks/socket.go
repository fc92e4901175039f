package checks

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/calico-probe/calico-probe/probe"
)

// errNoSocket says that none of the sockets looked for is on the node.
var errNoSocket = errors.New("no socket")

// findSocket gives the first of the candidates that is there. The error wraps
// probe.ErrNotVisible when none of the places is visible to this probe.
func findSocket(h *probe.Host, candidates []string) (string, error) {
	hidden := 0
	for _, name := range candidates {
		_, err := h.Stat(name)
		switch {
		case err == nil:
			return name, nil
		case errors.Is(err, probe.ErrNotVisible):
			hidden++
		case !errors.Is(err, fs.ErrNotExist):
			return "", err
		}
	}
	if hidden == len(candidates) {
		return "", fmt.Errorf("%s: %w", candidates[0], probe.ErrNotVisible)
	}
	return "", fmt.Errorf("%w at %s", errNoSocket, strings.Join(candidates, ", "))
}

// Where containerd listens: its own default, which docker's packages use too;
// k3s and RKE2; k0s; MicroK8s; a docker that brought its own.
const (
	socketContainerd = "/run/containerd/containerd.sock"
	socketK3s        = "/run/k3s/containerd/containerd.sock"
	socketK0s        = "/run/k0s/containerd.sock"
	socketMicroK8s   = "/var/snap/microk8s/common/run/containerd.sock"
	socketDockers    = "/run/docker/containerd/containerd.sock"
)

// Where dockerd listens.
const socketDocker = "/run/docker.sock"

// containerdSockets are where the containerd behind the kubelet is looked for.
func containerdSockets(p *probe.Pass) []string {
	kind, _ := runtimeOf(p)
	if kind == "docker" {
		return []string{socketContainerd, socketDockers}
	}
	usual := []string{socketContainerd, socketK3s, socketK0s, socketMicroK8s, socketDockers}
	if strings.Contains(named(p, probe.KindRuntime), "-k3s") { // docker's may be beside it
		usual = slices.Insert(usual, 0, socketK3s)
	}
	told := toldSocket(p.Host)
	if told == "" || !isContainerd(kind, told) {
		return usual
	}
	return slices.Insert(usual, 0, told)
}

// criSockets are where the kubelet's runtime is looked for: where the kubelet is
// told to, and the usual places.
func criSockets(p *probe.Pass) []string {
	var out []string
	if told := toldSocket(p.Host); told != "" {
		out = append(out, told)
	}
	kind, known := runtimeOf(p)
	if kind == "cri-o" || !known {
		out = append(out, "/run/crio/crio.sock")
	}
	if kind == "docker" || !known {
		out = append(out, "/run/cri-dockerd.sock", "/run/dockershim.sock")
	}
	if kind == "containerd" || !known {
		out = append(out, containerdSockets(p)...)
	}
	return slices.DeleteFunc(out, func(name string) bool { return name == socketDockers }) // has no CRI
}

// toldSocket is where the kubelet's own settings say its runtime is. Settings that
// cannot be understood are for the checks of the kubelet.
func toldSocket(h *probe.Host) string {
	k, _ := readKubelet(h)
	return k.runtimeSocket()
}

// isContainerd tells whether a socket is containerd's, by what the kubelet reports
// or, where that is not known, by its name.
func isContainerd(kind, socket string) bool {
	return kind == "containerd" || kind == "" && path.Base(socket) == path.Base(socketContainerd)
}

// runtimeOf is the kind of runtime the kubelet reports, "containerd" or "cri-o";
// false when the plan does not say.
func runtimeOf(p *probe.Pass) (string, bool) {
	kind, _, known := strings.Cut(named(p, probe.KindRuntime), "://")
	return kind, known
}

// behindDocker tells, where the plan does not say, whether the kubelet here seems to
// use docker: by what it is told, or by the socket between the two.
func behindDocker(h *probe.Host) bool {
	shims := []string{"/run/cri-dockerd.sock", "/run/dockershim.sock"}
	if told := toldSocket(h); told != "" {
		return slices.ContainsFunc(shims, func(s string) bool { return path.Base(s) == path.Base(told) })
	}
	_, err := findSocket(h, shims)
	return err == nil
}

// noSocketHere is the result of a runtime whose socket was not found.
func noSocketHere(err error, kind string, known bool) probe.Result {
	switch {
	case !errors.Is(err, errNoSocket):
		return unseen(err)
	case known:
		return probe.Found(probe.Fail, "%v, though the kubelet uses %s", err, kind).With(probe.FactReason, "missing")
	}
	return probe.Found(probe.Unknown, "%v, and which runtime this node uses is not known", err).
		With(probe.FactReason, "missing")
}

// dialable connects to a socket and hangs up; the result says why it cannot.
func dialable(ctx context.Context, h *probe.Host, name string) (probe.Result, bool) {
	one, limit, cancel := part(ctx, 2)
	defer cancel()
	c, err := h.Dial(one, name)
	if err == nil {
		err = c.Close()
	}
	if err == nil {
		return probe.Result{}, true
	}
	if r, cut := cutShort(ctx, err); cut {
		return r, false
	}
	if probe.Reason(err) == "refused" {
		return probe.Found(probe.Fail, "the socket exists but nothing listens: the daemon is dead or restarting").
			With(probe.FactReason, "refused"), false
	}
	return unanswering(err, "the socket", limit), false
}

// question is one call to a runtime.
type question struct {
	name string
	ask  func(context.Context) (probe.Result, error)
}

// askEach asks side by side, each with two fifths of the check's time, and
// reports every answer about the question's name after the prefix.
func askEach(ctx context.Context, p *probe.Pass, socket, prefix string, questions []question) {
	each(questions, func(q question) {
		one, limit, cancel := part(ctx, 2)
		defer cancel()
		r, err := q.ask(one)
		if err != nil {
			var cut bool
			if r, cut = cutShort(ctx, err); !cut {
				if one.Err() != nil { // whatever gRPC makes of it
					err = one.Err()
				}
				r = unanswering(err, q.name, limit)
			}
		}
		p.Report(r.On(prefix+q.name).With(FactSocket, socket))
	})
}

// unanswering judges an error of asking a runtime over gRPC.
func unanswering(err error, what string, limit time.Duration) probe.Result {
	reason := probe.Reason(err)
	if status.Code(err) == codes.DeadlineExceeded {
		reason = "timeout"
	}
	var r probe.Result
	switch {
	case reason == "timeout":
		r = probe.Found(probe.Fail, "%s: accepts the connection but does not answer within %v", what, limit)
	case status.Code(err) == codes.Unavailable, reason == "reset", reason == "closed":
		r = probe.Found(probe.Fail, "%s: accepted the connection but does not answer: %v", what, err)
	default:
		r = probe.Found(probe.Unknown, "%s: %v", what, err)
	}
	return r.With(probe.FactReason, reason)
}
