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
const FactAge probe.Fact = "age_s" // seconds the process has lived

// AgeOf is what the kernel says of a process, and for how long there has been one.
func AgeOf(p procfs.Proc) (procfs.ProcStat, time.Duration, error) {
	stat, err := p.Stat()
	if err != nil {
		return stat, 0, err
	}
	started, err := stat.StartTime()
	return stat, time.Since(time.Unix(int64(started), 0)).Round(time.Second), err
}

// WhoIs is the name of a process and how long it has run; "" where it is not seen.
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

// SeesProcesses tells whether the proc file system shows the node's processes:
// in a process namespace of its own the probe is the first one, or hidden.
func SeesProcesses(h *probe.Host) bool {
	comm, err := kernel.ReadProc(h, "1/comm")
	return err == nil && strings.TrimSpace(comm) != "probe"
}

// NoProcesses is the result of a check that needs them.
var NoProcesses = probe.Found(probe.Skip, "the node's processes are not visible with this access method")

// Running is one of the node's processes.
type Running struct {
	procfs.Proc
	Args []string // its command line, never empty
}

// place tells whether a process is where a component of the node's runs. Any program can
// give itself any name and any arguments; what the kernel says of where it is, it cannot.
type place func(*probe.Host, procfs.Proc) bool

// ProcessesOf lists the processes at a place whose name in the kernel, which has at most
// 15 letters, is wanted. Of others the command line is not read: a read of it
// touches the process's memory, and blocks while the process holds that memory's lock in the
// kernel, or where userfaultfd or a FUSE file system stands behind that memory.
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
			continue // gone, or another
		}
		if args, err := p.CmdLine(); err == nil && len(args) > 0 {
			out = append(out, Running{p, args})
		}
	}
	return out, nil
}

// OutsidePods is where what the node itself starts is: it is root's, and in no pod's cgroup.
func OutsidePods(h *probe.Host, p procfs.Proc) bool {
	uid, err := UserOf(p)
	return err == nil && uid == 0 && !inPod(h, p)
}

// OnNode is where the kubelet and the container runtime run: also in the node's network, as
// far as this probe has the right to see that.
func OnNode(h *probe.Host, p procfs.Proc) bool {
	same, seen := nodesNetwork(h, p.PID)
	return (same || !seen) && OutsidePods(h, p)
}

// InNodesNetwork is where calico-node and kube-proxy run, which are pods: in the node's
// network, which takes more rights than a tenant should have. Where that is not to be
// seen, only root's processes are taken. Calico's need not be root's (nonPrivileged).
func InNodesNetwork(h *probe.Host, p procfs.Proc) bool {
	if same, seen := nodesNetwork(h, p.PID); seen {
		return same
	}
	uid, err := UserOf(p)
	return err == nil && uid == 0
}

// nodesNetwork tells whether a process is in the network namespace that this probe is in,
// which is the node's, and whether that is to be seen: it takes the capability SYS_PTRACE.
func nodesNetwork(h *probe.Host, pid int) (same, seen bool) {
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return false, false
	}
	its, err := os.Readlink(filepath.Join(h.Proc, strconv.Itoa(pid), "ns/net"))
	return its == own, err == nil
}

// UserOf is the user that a process works as.
func UserOf(p procfs.Proc) (uint64, error) {
	status, err := p.NewStatus()
	if err != nil {
		return 0, err
	}
	return status.UIDs[1], nil
}

// PodCgroup is how the kubelet names the cgroups of pods, with either driver: kubepods.slice,
// kubepods/burstable, kubelet-kubepods-besteffort.slice, ...-pod0e1f..._....slice, pod0e1f...-....
// Containers that containerd and CRI-O start for pods have cgroups of their own in these.
var PodCgroup = regexp.MustCompile(`kubepods|` +
	`(^|[/-])pod[0-9a-f]{8}[-_]?([0-9a-f]{4}[-_]?){3}[0-9a-f]{12}|` +
	`/(cri-containerd|crio)-[0-9a-f]{64}`)

// inPod tells whether a process is in a pod's cgroup. What its cgroup has in common with
// that of the node's first process is where the node itself is, which may be a pod of
// another cluster. Seen out of a pod, which has a cgroup namespace, the path of what is
// outside begins with "..", and what is inside is that pod's.
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

// cgroupPaths reads a file /proc/PID/cgroup: the path in each hierarchy, by its number.
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

// below is what a path has beyond the folders that it shares with another.
func below(name, other string) string {
	parts, others := strings.Split(name, "/"), strings.Split(other, "/")
	n := 0
	for n < min(len(parts), len(others)) && parts[n] == others[n] {
		n++
	}
	return "/" + strings.Join(parts[n:], "/")
}

// NodesDaemon finds the one process of the node that is its kubelet, or its dockerd, and
// gives its arguments: 0 when none is seen, which without the node's processes in sight
// means nothing. Where several may be it, that is an error.
func NodesDaemon(h *probe.Host, name string) (pid int, args []string, _ error) {
	all, err := ProcessesOf(h, OnNode, func(comm string) bool { return comm == name })
	if err != nil || len(all) == 0 { // without the proc file system there are none to be seen
		return 0, nil, nil
	}
	first, _ := mountsOf(h, 1) // where that is not to be seen, it tells nothing
	found := all
	for _, likelier := range []func(Running) bool{
		// A script that starts it has its name too. A program for many components has another
		// (hyperkube), so this is no must.
		func(p Running) bool { return strings.HasPrefix(programOf(p.Proc), name) },
		// One that starts another program is two for a moment.
		func(p Running) bool {
			stat, err := p.Stat()
			return err == nil && !slices.ContainsFunc(found, func(o Running) bool { return o.PID == stat.PPID })
		},
		// Some distributions run it in a container, so this is none either.
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

// programOf is the file name of a process's program, "" where that is not to be seen.
func programOf(p procfs.Proc) string {
	program, err := p.Executable()
	if err != nil {
		return ""
	}
	return path.Base(program)
}

// mountsOf names the mount namespace of a process.
func mountsOf(h *probe.Host, pid int) (string, error) {
	return os.Readlink(filepath.Join(h.Proc, strconv.Itoa(pid), "ns/mnt"))
}

// SocketsOf are the numbers of a process's sockets, none where they are not to be seen.
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

// EnvironmentOf are some variables that a process was started with, by name; false where its
// environment is not to be seen. The others, which may be secrets, are left alone.
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

// CalicoProcess finds the process of calico-node that does one thing: calico-node
// -felix, or calico component felix.
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
