package ask

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/prometheus/procfs"

	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/node"
)

// nodeDiskCheck binds host.NodeDisk to the function that runs it.
var nodeDiskCheck = answers.To(host.NodeDisk, nodeDisk)

func nodeDisk(ctx context.Context, p *probe.Pass) {
	defer checkStorage(ctx, p)
	var seen []uint64
	for _, name := range []string{"/", "/var/lib/kubelet", "/var/lib/containerd", "/var/lib/docker",
		"/var/lib/containers", "/var/lib/cni", "/var/lib/cni/results", "/var/lib/cni/networks", p.Host.Place(probe.PlaceLib),
		"/var/log", "/var/log/pods", "/etc", "/run", "/run/containerd", p.Host.Place(probe.PlaceRun)} {
		d, err := usageOf(p.Host, name)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, probe.ErrNotVisible) && name != "/":
			continue
		case err != nil:
			p.Report(node.Unseen(err).On(name))
			continue
		case slices.Contains(seen, d.Id):
			continue
		}
		seen = append(seen, d.Id)
		frozen := isReadOnly(p.Host, name)
		if frozen && (name == "/" || name == "/etc") {
			p.Report(probe.Found(probe.Info, "read-only, as on immutable systems").On(name).With(host.FactReadOnly, true))
			continue
		}
		p.Report(host.Roomy(d, name, frozen).On(name).With(host.FactReadOnly, frozen))
	}
}

func usageOf(h *probe.Host, name string) (host.Disk, error) {
	at, err := h.Find(name)
	if err != nil {
		return host.Disk{}, err
	}
	defer at.Close()
	return usageAt(at)
}

// isReadOnly reports whether the file system that contains a path on the node is read-only. It reads the mount
// table of the node's first process, because the probe's own mounts are always read-only. If it cannot read that
// table, it returns false.
func isReadOnly(h *probe.Host, name string) bool {
	proc, err := procfs.NewFS(h.Proc)
	if err != nil {
		return false
	}
	first, err := proc.Proc(1)
	if err != nil {
		return false
	}
	mounts, err := first.MountInfo()
	if err != nil {
		return false
	}
	best, frozen := "", false
	for _, m := range mounts {
		inside := name == m.MountPoint || m.MountPoint == "/" || strings.HasPrefix(name, m.MountPoint+"/")
		if inside && len(m.MountPoint) >= len(best) {
			_, frozen = m.SuperOptions["ro"]
			best = m.MountPoint
		}
	}
	return frozen
}
