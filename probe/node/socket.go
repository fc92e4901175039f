package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/socket"
)

const BGPDefaultPort = 179

// Speaking returns the peers of this node's TCP connections that use one of the given ports at either end.
func Speaking(ports ...int) (map[netip.Addr]bool, error) {
	out := map[netip.Addr]bool{}
	slices.Sort(ports)
	for _, port := range slices.Compact(ports) {
		there, err := Connected(uint16(port))
		if err != nil {
			return nil, err
		}
		maps.Copy(out, there)
	}
	return out, nil
}

// Listening returns the addresses in this network namespace on which a process listens on a TCP port.
func Listening(port uint16) ([]string, error) {
	out := []string{}
	err := kernel.TCP(kernel.Listening, port, 0, func(s kernel.Socket) { out = append(out, s.Near.String()) })
	return out, err
}

// Connected returns the peers of the TCP connections in this network namespace that use the given port at either end.
func Connected(port uint16) (map[netip.Addr]bool, error) {
	out := map[netip.Addr]bool{}
	add := func(s kernel.Socket) { out[s.Far.Addr()] = true }
	err := kernel.TCP(kernel.Established, port, 0, add)
	if err == nil {
		err = kernel.TCP(kernel.Established, 0, port, add)
	}
	return out, err
}

// maxHolders is the maximum number of sockets whose processes are looked up.
const maxHolders = 8

// Holder returns the process that has one of these sockets open, or "" if the process is not visible. Sockets that
// the kernel itself opened have no process.
func Holder(ctx context.Context, h *probe.Host, sockets []kernel.Socket) string {
	if len(sockets) == 0 {
		return ""
	}
	one, _, cancel := Part(ctx, 2)
	defer cancel()
	names, _ := socket.Owners(one, h, sockets[:min(len(sockets), maxHolders)])
	for _, s := range sockets {
		if name := names[s.Inode]; name != "" {
			return probe.Quoted(name)
		}
	}
	return ""
}

// HeldTunnel names the process that uses the UDP port of a VXLAN device that is down or missing. The kernel opens that
// port when the device comes up.
func HeldTunnel(ctx context.Context, p *probe.Pass, r probe.Result) probe.Result {
	faults, _ := r.Facts[probe.FactFaults].([]string)
	i := slices.IndexFunc(Encapsulations, func(e Encapsulation) bool { return e.Device == r.Target && e.Name == "VXLAN" })
	if i < 0 || r.Status != probe.Fail || !slices.Contains(faults, "down") && !slices.Contains(faults, "missing") {
		return r
	}
	port := SettingsOf(p, Encapsulations[i]).Port
	if port == 0 {
		port = VXLANPort
	}
	var sockets []kernel.Socket
	err := socket.UDP(uint16(port), func(s kernel.Socket) {
		a := s.Near.Addr()
		if a.Is6() && a.IsUnspecified() || Family(a) == Encapsulations[i].Family { // a wildcard socket may serve both
			sockets = append(sockets, s)
		}
	})
	who := ""
	if err == nil {
		who = Holder(ctx, p.Host, sockets)
	}
	if who == "" {
		return r
	}
	r.Saw += fmt.Sprintf("; another process has UDP port %d, which this tunnel needs: %s", port, who)
	return r.With(probe.FactHeldBy, who).With(probe.FactHeldPort, fmt.Sprintf("UDP %d", port))
}

// If a program other than Felix accepted the connection on Felix's health port, HeldHealth names the process that
// uses the port.
func HeldHealth(ctx context.Context, h *probe.Host, r probe.Result, fromFelix bool) probe.Result {
	at, err := netip.ParseAddrPort(r.Facts.Str(probe.FactAddress))
	silent := []string{"timeout", "reset", "closed"}
	taken := r.Facts[probe.FactCode] != nil || slices.Contains(silent, r.Facts.Str(probe.FactReason))
	if fromFelix || err != nil || !taken {
		return r
	}
	var felixs map[uint32]bool
	if p, ok, err := CalicoProcess(h, "felix"); err == nil && ok {
		felixs = SocketsOf(h, p.PID)
	}
	var sockets []kernel.Socket
	err = kernel.TCP(kernel.Listening, at.Port(), 0, func(s kernel.Socket) {
		a := s.Near.Addr()
		if (a == at.Addr() || a.IsUnspecified()) && !felixs[s.Inode] {
			sockets = append(sockets, s)
		}
	})
	who := ""
	if err == nil {
		who = Holder(ctx, h, sockets)
	}
	if who == "" || strings.HasPrefix(who, "calico-node ") { // perhaps Felix itself, if it was not identified
		return r
	}
	r.Saw += fmt.Sprintf("; another process has the port: %s", who)
	return r.With(probe.FactHeldBy, who).With(probe.FactHeldPort, fmt.Sprintf("TCP %d", at.Port()))
}

// ErrNoSocket reports that none of the expected sockets exists on the node.
var ErrNoSocket = errors.New("no socket")

// FindSocket returns the first candidate that exists. If no location is visible to this probe, the error wraps
// probe.ErrNotVisible.
func FindSocket(h *probe.Host, candidates []string) (string, error) {
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
	return "", fmt.Errorf("%w at %s", ErrNoSocket, strings.Join(candidates, ", "))
}

// containerd's sockets: the default, which docker's packages also use; those of k3s and RKE2, k0s and MicroK8s; and
// that of the containerd that dockerd starts.
const (
	socketContainerd = "/run/containerd/containerd.sock"
	socketK3s        = "/run/k3s/containerd/containerd.sock"
	socketK0s        = "/run/k0s/containerd.sock"
	socketMicroK8s   = "/var/snap/microk8s/common/run/containerd.sock"
	socketDockers    = "/run/docker/containerd/containerd.sock"
)

// dockerd's sockets.
const SocketDocker = "/run/docker.sock"

// ContainerdSockets returns the possible sockets of the containerd that the kubelet uses.
func ContainerdSockets(p *probe.Pass) []string {
	kind, _ := RuntimeOf(p)
	if kind == "docker" {
		return []string{socketContainerd, socketDockers}
	}
	usual := []string{socketContainerd, socketK3s, socketK0s, socketMicroK8s, socketDockers}
	if strings.Contains(Named(p, probe.KindRuntime), "-k3s") { // docker's socket may exist as well
		usual = slices.Insert(usual, 0, socketK3s)
	}
	configured := configuredSocket(p.Host)
	if configured == "" || !IsContainerd(kind, configured) {
		return usual
	}
	return slices.Insert(usual, 0, configured)
}

// CRISockets returns the possible sockets of the kubelet's runtime: the configured socket, and the usual ones.
func CRISockets(p *probe.Pass) []string {
	var out []string
	if configured := configuredSocket(p.Host); configured != "" {
		out = append(out, configured)
	}
	kind, known := RuntimeOf(p)
	if kind == "cri-o" || !known {
		out = append(out, "/run/crio/crio.sock")
	}
	if kind == "docker" || !known {
		out = append(out, "/run/cri-dockerd.sock", "/run/dockershim.sock")
	}
	if kind == "containerd" || !known {
		out = append(out, ContainerdSockets(p)...)
	}
	return slices.DeleteFunc(out, func(name string) bool { return name == socketDockers }) // it does not support CRI
}

// configuredSocket returns the runtime socket from the kubelet's own settings. If settings cannot be parsed, the
// kubelet's checks report that.
func configuredSocket(h *probe.Host) string {
	k, _ := ReadKubelet(h)
	return k.runtimeSocket()
}

// IsContainerd reports whether a socket belongs to containerd. It uses the kubelet's report or, if there is
// none, the socket's name.
func IsContainerd(kind, socket string) bool {
	return kind == "containerd" || kind == "" && path.Base(socket) == path.Base(socketContainerd)
}

// RuntimeOf returns the kind of runtime that the kubelet reports: "containerd" or "cri-o". It returns false if the plan
// does not contain the runtime.
func RuntimeOf(p *probe.Pass) (string, bool) {
	kind, _, known := strings.Cut(Named(p, probe.KindRuntime), "://")
	return kind, known
}

// BehindDocker reports whether the kubelet seems to use docker. If the plan does not contain the runtime, it
// checks the kubelet's configuration, and the socket between the kubelet and docker.
func BehindDocker(h *probe.Host) bool {
	shims := []string{"/run/cri-dockerd.sock", "/run/dockershim.sock"}
	if configured := configuredSocket(h); configured != "" {
		return slices.ContainsFunc(shims, func(s string) bool { return path.Base(s) == path.Base(configured) })
	}
	_, err := FindSocket(h, shims)
	return err == nil
}

// NoSocketHere returns the result for a runtime whose socket was not found.
func NoSocketHere(err error, kind string, known bool) probe.Result {
	switch {
	case !errors.Is(err, ErrNoSocket):
		return Unseen(err)
	case known:
		return probe.Found(probe.Fail, "%v, though the kubelet uses %s", err, kind).With(probe.FactReason, "missing")
	}
	return probe.Found(probe.Unknown, "%v, and this node's runtime is unknown", err).
		With(probe.FactReason, "missing")
}

// Question is one call to a runtime.
type Question struct {
	Name string
	Ask  func(context.Context) (probe.Result, error)
}
