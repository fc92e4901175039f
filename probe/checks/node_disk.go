package checks

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"github.com/calico-probe/calico-probe/probe"
)

// NodeDisk asks for what makes a kubelet evict pods and a runtime fail in odd
// ways: a full or read-only file system, and one without inodes.
var NodeDisk = &probe.Check{
	ID: probe.CheckNodeDisk, Asks: "is a file system the node needs full, out of inodes or read-only?", From: probe.FromNode,
	Tags: []string{tagHost}, Access: []string{"/", "var/lib", "var/log", "run", "proc", "host network"},
	Run: nodeDisk, Limit: 25 * time.Second,
	Doc: `The file systems under /, the data of kubelet, runtime, CNI and Calico, the logs, and /run, in which the runtime keeps its sockets and what it knows of each container; one result for each.
ok: room enough. warn: less than 15 % of the space is free, where the kubelet begins to delete images. fail: less than 10 % of the space or 5 % of the inodes is free, where the kubelet evicts pods (its defaults); or the file system has turned read-only, as after an error of the disk. /run is memory, and no kubelet looks there: warn below 10 %, fail below 2 % of its space or inodes. info: / or /etc is read-only, which immutable systems want.
The servers of NFS and SMB mounts (up to 8, by TCP) are asked for a connection; the mounts are not touched, for that would hang with them. ok: it answers. warn: it does not within 2 s, so processes that touch the mount hang: the kubelet, du, umount.
skip: not visible by this access method.`,
}

// Facts of node-disk.
const (
	FactFree       probe.Fact = "free_percent"        // of the space
	FactFreeInodes probe.Fact = "free_inodes_percent" // 100 where the file system counts none
	FactReadOnly   probe.Fact = "read_only"
)

// The kubelet's default thresholds (evictionHard, imageGCHighThresholdPercent).
const (
	diskEvict   = 10 // percent of the space free
	diskCollect = 15
	inodesEvict = 5
	runFull     = 2
	runShort    = 10
)

// disk is what the kernel says about one file system.
type disk struct {
	id               uint64  // tells file systems apart
	free, freeInodes float64 // percent
	total            uint64  // bytes
}

func nodeDisk(ctx context.Context, p *probe.Pass) {
	defer askStorage(ctx, p)
	var seen []uint64
	for _, name := range []string{"/", "/var/lib/kubelet", "/var/lib/containerd", "/var/lib/docker",
		"/var/lib/containers", "/var/lib/cni", "/var/lib/cni/results", "/var/lib/cni/networks", p.Host.Place(probe.PlaceLib),
		"/var/log", "/var/log/pods", "/etc", "/run", "/run/containerd", p.Host.Place(probe.PlaceRun)} {
		d, err := usageOf(p.Host, name)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, probe.ErrNotVisible) && name != "/":
			continue
		case err != nil:
			p.Report(unseen(err).On(name))
			continue
		case slices.Contains(seen, d.id):
			continue
		}
		seen = append(seen, d.id)
		frozen := readOnly(p.Host, name)
		if frozen && (name == "/" || name == "/etc") {
			p.Report(probe.Found(probe.Info, "read-only, as on immutable systems").On(name).With(FactReadOnly, true))
			continue
		}
		p.Report(roomy(d, name, frozen).On(name).With(FactReadOnly, frozen))
	}
}

func usageOf(h *probe.Host, name string) (disk, error) {
	at, err := h.Find(name)
	if err != nil {
		return disk{}, err
	}
	defer at.Close()
	return usage(at)
}

func roomy(d disk, name string, frozen bool) probe.Result {
	size := fmt.Sprintf("%.1f GB", float64(d.total)/1e9)
	if d.total < 1e8 {
		size = fmt.Sprintf("%.1f MB", float64(d.total)/1e6)
	}
	saw := fmt.Sprintf("%.0f %% of %s free, %.0f %% of the inodes", d.free, size, d.freeInodes)
	r := probe.Found(probe.OK, "%s", saw)
	switch {
	case frozen:
		r = probe.Found(probe.Fail, "read-only: remounted by the kernel after an error, or mounted so; %s", saw)
	case name == "/run" || strings.HasPrefix(name, "/run/"):
		if least := min(d.free, d.freeInodes); least < runFull {
			r.Status = probe.Fail
		} else if least < runShort {
			r.Status = probe.Warn
		}
	case d.free < diskEvict || d.freeInodes < inodesEvict:
		r.Status = probe.Fail
	case d.free < diskCollect:
		r.Status = probe.Warn
	}
	return r.With(FactFree, d.free).With(FactFreeInodes, d.freeInodes)
}

// readOnly tells whether the file system under a path of the node is read-only,
// by the mount table of the node's first process: the probe's own view always
// is. Without that table nobody can tell, and it is not claimed.
func readOnly(h *probe.Host, name string) bool {
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
