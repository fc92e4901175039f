package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
)

// Facts of init-stall.
const FactAge probe.Fact = "age_s" // age of the process in seconds

// AgeOf returns the kernel's data about a process, and the process's age.
func AgeOf(p procfs.Proc) (procfs.ProcStat, time.Duration, error) {
	stat, err := p.Stat()
	if err != nil {
		return stat, 0, err
	}
	started, err := stat.StartTime()
	return stat, time.Since(time.Unix(int64(started), 0)).Round(time.Second), err
}

// WhoIs returns the name and age of a process, or "" if the process is not visible.
func WhoIs(h *probe.Host, pid int) (string, time.Duration) {
	proc, err := procfs.NewFS(h.Proc)
	if err != nil || pid == 0 {
		return "", 0
	}
	p, err := proc.Proc(pid)
	if err != nil {
		return "", 0
	}
	stat, age, err := AgeOf(p)
	if err != nil {
		return "", 0
	}
	return stat.Comm, age
}

// SeesProcesses reports whether the proc file system shows the node's processes. If the probe has its own process
// namespace, it is process 1 or is not listed.
func SeesProcesses(h *probe.Host) bool {
	comm, err := kernel.ReadProc(h, "1/comm")
	return err == nil && strings.TrimSpace(comm) != "probe"
}

// NoProcesses is the result of a check that needs the node's processes but cannot see them.
var NoProcesses = probe.Found(probe.Skip, "the node's processes are not visible with this access method")

// Running is a process on the node.
type Running struct {
	procfs.Proc
	Args []string // the process's command line, never empty
}

// place reports whether a process runs where a component of the node runs. Any program can give itself any name and
// arguments, but it cannot change where it runs.
type place func(*probe.Host, procfs.Proc) bool

// ProcessesOf lists the processes that run at a place and have a wanted name in the kernel (at most 15 letters). It
// does not read the command lines of other processes. Such a read accesses the process's memory. The read blocks
// while the process holds the lock on that memory, or if userfaultfd or a FUSE file system backs the memory.
func ProcessesOf(h *probe.Host, at place, wanted func(comm string) bool) ([]Running, error) {
	proc, err := procfs.NewFS(h.Proc)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", h.Proc, err)
	}
	all, err := proc.AllProcs()
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	var out []Running
	for _, p := range all {
		comm, err := p.Comm()
		if err != nil || !wanted(comm) || !at(h, p) {
			continue // exited, or was replaced
		}
		if args, err := p.CmdLine(); err == nil && len(args) > 0 {
			out = append(out, Running{p, args})
		}
	}
	return out, nil
}

// OutsidePods reports whether a process may be a daemon of the node itself. Such a process belongs to root and is
// outside all pods' cgroups.
func OutsidePods(h *probe.Host, p procfs.Proc) bool {
	uid, err := UserOf(p)
	return err == nil && uid == 0 && !inPod(h, p)
}

// OnNode reports whether a process may be the kubelet or the container runtime. They are also in the node's
// network, if this probe is allowed to see that.
func OnNode(h *probe.Host, p procfs.Proc) bool {
	same, seen := nodesNetwork(h, p.PID)
	return (same || !seen) && OutsidePods(h, p)
}

// InNodesNetwork reports whether a process may be calico-node or kube-proxy. They are pods in the node's network, which
// tenants should not be allowed to use. If the probe cannot see the network, only root's processes count. Calico's
// processes may run as another user (nonPrivileged).
func InNodesNetwork(h *probe.Host, p procfs.Proc) bool {
	if same, seen := nodesNetwork(h, p.PID); seen {
		return same
	}
	uid, err := UserOf(p)
	return err == nil && uid == 0
}

// nodesNetwork reports whether a process is in this probe's network namespace, which is the node's. It also reports
// whether that is visible, which requires the capability SYS_PTRACE.
func nodesNetwork(h *probe.Host, pid int) (same, seen bool) {
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return false, false
	}
	its, err := os.Readlink(filepath.Join(h.Proc, strconv.Itoa(pid), "ns/net"))
	return its == own, err == nil
}

// UserOf returns the user that owns a process.
func UserOf(p procfs.Proc) (uint64, error) {
	status, err := p.NewStatus()
	if err != nil {
		return 0, err
	}
	return status.UIDs[1], nil
}

// PodCgroup matches the kubelet's names for pod cgroups, with either cgroup driver: kubepods.slice,
// kubepods/burstable, kubelet-kubepods-besteffort.slice, ...-pod0e1f..._....slice, pod0e1f...-.... It also matches the
// cgroups below them, in which containerd and CRI-O start containers.
var PodCgroup = regexp.MustCompile(`kubepods|` +
	`(^|[/-])pod[0-9a-f]{8}[-_]?([0-9a-f]{4}[-_]?){3}[0-9a-f]{12}|` +
	`/(cri-containerd|crio)-[0-9a-f]{64}`)

// inPod reports whether a process is in a pod's cgroup. The part of the path that the process shares with the node's
// first process is where the node itself runs. That may be a pod in another cluster. A pod has a cgroup namespace.
// Seen from inside it, an outer path begins with "..", and an inner path belongs to that pod.
func inPod(h *probe.Host, p procfs.Proc) bool {
	groups, err := p.Cgroups()
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) // a kernel without cgroups has no pods
	}
	outer := map[int]string{}
	if first, err := kernel.ReadProc(h, "1/cgroup"); err == nil {
		outer = cgroupPaths(first)
	}
	return slices.ContainsFunc(groups, func(g procfs.Cgroup) bool {
		first := outer[g.HierarchyID]
		if strings.HasPrefix(first, "/..") && !strings.HasPrefix(g.Path, "/..") {
			return true
		}
		return PodCgroup.MatchString(below(g.Path, first))
	})
}

// cgroupPaths parses a file /proc/PID/cgroup. It returns the path in each hierarchy, by the hierarchy's number.
func cgroupPaths(text string) map[int]string {
	out := map[int]string{}
	for line := range strings.Lines(text) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if n, err := strconv.Atoi(f[0]); err == nil && len(f) == 3 {
			out[n] = f[2]
		}
	}
	return out
}

// below returns the part of a path that follows the folders it shares with another path.
func below(name, other string) string {
	parts, others := strings.Split(name, "/"), strings.Split(other, "/")
	n := 0
	for n < min(len(parts), len(others)) && parts[n] == others[n] {
		n++
	}
	return "/" + strings.Join(parts[n:], "/")
}

// NodesDaemon finds the process of the node's kubelet or dockerd, and returns its arguments. If the process is not
// visible, it returns 0. That proves nothing if the node's processes are not visible. If there are several
// candidates, it returns an error.
func NodesDaemon(h *probe.Host, name string) (pid int, args []string, _ error) {
	all, err := ProcessesOf(h, OnNode, func(comm string) bool { return comm == name })
	if err != nil || len(all) == 0 { // without the proc file system, no process is visible
		return 0, nil, nil
	}
	first, _ := mountsOf(h, 1) // if it is not visible, this proves nothing
	found := all
	for _, likelier := range []func(Running) bool{
		// A script that starts the daemon also has the daemon's name. A program that combines several components has
		// another name (hyperkube), so the name is only a hint.
		func(p Running) bool { return strings.HasPrefix(programOf(p.Proc), name) },
		// If a daemon starts another program, there are two such processes for a moment.
		func(p Running) bool {
			stat, err := p.Stat()
			return err == nil && !slices.ContainsFunc(found, func(o Running) bool { return o.PID == stat.PPID })
		},
		// Some distributions run the daemon in a container, so this is also only a hint.
		func(p Running) bool { its, err := mountsOf(h, p.PID); return err == nil && its == first },
	} {
		better := slices.DeleteFunc(slices.Clone(found), func(p Running) bool { return !likelier(p) })
		if len(better) > 0 {
			found = better
		}
	}
	if len(found) == 1 {
		return found[0].PID, found[0].Args, nil
	}
	return 0, nil, fmt.Errorf("%d processes may be the node's %s, such as %d and %d: cannot determine which one it is",
		len(found), name, found[0].PID, found[1].PID)
}

// programOf returns the file name of a process's program, or "" if it is not visible.
func programOf(p procfs.Proc) string {
	program, err := p.Executable()
	if err != nil {
		return ""
	}
	return path.Base(program)
}

// mountsOf returns a process's mount namespace.
func mountsOf(h *probe.Host, pid int) (string, error) {
	return os.Readlink(filepath.Join(h.Proc, strconv.Itoa(pid), "ns/mnt"))
}

// SocketsOf returns the inode numbers of a process's sockets. If they are not visible, it returns an empty map.
func SocketsOf(h *probe.Host, pid int) map[uint32]bool {
	dir := filepath.Join(h.Proc, strconv.Itoa(pid), "fd")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	out := map[uint32]bool{}
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil {
			out[kernel.SocketInode(to)] = true
		}
	}
	delete(out, 0)
	return out
}

// EnvironmentOf returns the requested variables from a process's initial environment, by name. It returns
// false if the environment is not visible. It ignores all other variables, because they may be secrets.
func EnvironmentOf(h *probe.Host, pid int, names ...string) (map[string]string, bool) {
	text, err := kernel.ReadProc(h, strconv.Itoa(pid)+"/environ")
	if err != nil || text == "" {
		return nil, false
	}
	out := map[string]string{}
	for variable := range strings.SplitSeq(text, "\x00") {
		if name, value, _ := strings.Cut(variable, "="); slices.Contains(names, name) {
			out[name] = value
		}
	}
	return out, true
}

// CalicoProcess finds the calico-node process that performs a given task: "calico-node -felix", or
// "calico component felix".
func CalicoProcess(h *probe.Host, what string) (stat procfs.ProcStat, found bool, _ error) {
	all, err := ProcessesOf(h, InNodesNetwork, func(comm string) bool { return strings.HasPrefix(comm, "calico") })
	if err != nil {
		return procfs.ProcStat{}, false, err
	}
	for _, p := range all {
		if !slices.ContainsFunc(p.Args[1:], func(a string) bool { return strings.TrimLeft(a, "-") == what }) {
			continue
		}
		if stat, err := p.Stat(); err == nil {
			return stat, true, nil
		}
	}
	return procfs.ProcStat{}, false, nil
}
