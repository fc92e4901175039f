// Package host names the checks of the machine: memory, disks, load, clock, limits, its kernel, and the facts they
// report. Both binaries link it.
package host

import (
	"fmt"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/node"
)

// KernelLog reads what the kernel itself said lately.
var KernelLog = &probe.Check{
	ID: "kernel-log", Asks: "did the kernel lately say that it drops, kills, or gives up?", From: probe.FromNode,
	In: probe.Standard, Tags: []string{probe.TagHost},
	Access: []string{"proc", "host processes", "var/log", "run/log/journal", "uid 0"},
	Doc: `Some faults show nowhere else, or not any more: a table that was full for a minute, a process that the kernel killed, a network card whose queue hangs. Read is the end of the kernel's own ring, where this access method may (it takes the capability SYSLOG, which no check asks for), else the kernel's lines in systemd's journal, each of the last 30 minutes; what programs write into them is left out. Nothing is taken out of the ring by reading it.
warn: a line that names a fault, with its count and age: connection tracking table full, neighbour table overflow, a component of the node killed for want of memory (by its cgroup, for a pod may call a program as it likes), a transmit queue that timed out, an error of a file system or disk, a CPU that was stuck, a component that was blocked for minutes, a network device of a pod that cannot be given back. info: others that may matter: martian sources (packets that come in by another way than answers leave), a program of a pod's that was killed, a link that went down; or the journal could not be read whole. ok: none of these.
skip: neither is to be read by this access method, or the node is a container and the kernel's log is of the machine below it, which others share.`,
}

// Facts of kernel-log, besides those of calico-log.
const FactAgo probe.Fact = "ago_s" // how long ago it was said last

// NodeClock asks whether the node lives in the same time as the API server:
// tokens and certificates are not valid before their time, nor after it.
var NodeClock = &probe.Check{
	ID: "node-clock", Asks: "is the node's clock right?", From: probe.FromNode,
	Tags: []string{probe.TagHost}, Access: []string{"clock"},
	Doc: `The node's clock against the API server's, which has whole seconds, and whether the kernel calls it synchronised.
ok: within 5 s. warn: 5 s to a minute apart. fail: more than a minute: tokens, certificates and leases go wrong. info: right, and not synchronised by anybody, so it will drift; or there is no API server's clock to compare with.`,
}

// Facts of node-clock.
const FactSkew probe.Fact = "skew_s" // the node's clock minus the API server's, seconds

// NodeDisk asks for what makes a kubelet evict pods and a runtime fail in odd
// ways: a full or read-only file system, and one without inodes.
var NodeDisk = &probe.Check{
	ID: probe.CheckNodeDisk, Asks: "is a file system the node needs full, out of inodes or read-only?", From: probe.FromNode,
	Tags: []string{probe.TagHost}, Access: []string{"/", "var/lib", "var/log", "run", "proc", "host network"},
	Limit: 25 * time.Second,
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
const diskEvict = 10 // percent of the space free

// Disk is what the kernel says about one file system.
type Disk struct {
	Id               uint64  // tells file systems apart
	Free, FreeInodes float64 // percent
	Total            uint64  // bytes
}

func Roomy(d Disk, name string, frozen bool) probe.Result {
	size := fmt.Sprintf("%.1f GB", float64(d.Total)/1e9)
	if d.Total < 1e8 {
		size = fmt.Sprintf("%.1f MB", float64(d.Total)/1e6)
	}
	saw := fmt.Sprintf("%.0f %% of %s free, %.0f %% of the inodes", d.Free, size, d.FreeInodes)
	r := probe.Found(probe.OK, "%s", saw)
	switch {
	case frozen:
		r = probe.Found(probe.Fail, "read-only: remounted by the kernel after an error, or mounted so; %s", saw)
	case name == "/run" || strings.HasPrefix(name, "/run/"):
		if least := min(d.Free, d.FreeInodes); least < node.RunFull {
			r.Status = probe.Fail
		} else if least < node.RunShort {
			r.Status = probe.Warn
		}
	case d.Free < diskEvict || d.FreeInodes < node.InodesEvict:
		r.Status = probe.Fail
	case d.Free < node.DiskCollect:
		r.Status = probe.Warn
	}
	return r.With(FactFree, d.Free).With(FactFreeInodes, d.FreeInodes)
}

// NodeLimits asks for the limits at which programs fail in words of their own (containerd/cri#448,
// Azure/aks-engine#1270).
var NodeLimits = &probe.Check{
	ID: "node-limits", Asks: "is there room below the limits of open files, processes and inotify instances?", From: probe.FromNode,
	Tags: []string{probe.TagHost, probe.TagRuntime}, Access: []string{"proc", "sys/fs/cgroup", "uid 0"},
	Doc: `A program at its limit of open files says "too many open files", one that may not start one more process or thread "resource temporarily unavailable", and each fails somewhere else: no sandbox is made, a plugin ends without a message, a Go program ends with "failed to create new OS thread".
Read are the limit of open files and the files that are open of kubelet, container runtime, calico-node and kube-proxy; the limit of processes (pids.max) of the cgroups that they are in, each with those above it, where the kubelet's podPidsLimit and systemd's TasksMax are; the kernel's limits of processes, threads and open files; and how many inotify instances root has (fs.inotify.max_user_instances), of which kubelet and containerd need some.
ok: less than 90 % of each is used. warn: 90 % or more. fail: none is left, or so few open files that no process can be started. skip: neither is to be seen.`,
}

// Facts of node-limits.
const FactLimitOf probe.Fact = "limit_of" // who has it: a program, a cgroup, the kernel

// NodeLoad asks whether the node is too busy to do anything in time: in the
// field, a load of tens of times the peers' made every start outlast its budget.
var NodeLoad = &probe.Check{
	ID: "node-load", Asks: "is the node overloaded, and by what?", From: probe.FromNode,
	Tags: []string{probe.TagHost}, Access: []string{"proc", "host processes", "sys/fs/cgroup"},
	Limit: 15 * time.Second, // on the very node it asks about it gets little time
	Doc: `The load average of the last minute against the number of CPUs, and the kernel's own measure of how long tasks waited (pressure stall information), where it has one. Twice within half a second (not in a quick run): how much time the hypervisor gave to others, and which processes wait in the kernel without being interruptible.
ok: less than 4 for each CPU. info: the load is low, but a process was stuck both times. warn: 4 or more: starts and probes get slow; or the hypervisor kept three tenths of the time for others. fail: 10 or more: processes wait for most of their time, and a container's start can outlast its liveness budget.
The load also counts processes stuck in disk or network file systems: then it is high while the CPUs are idle, and the pressure on CPU is low. They are named.
calico-node cpu, where its container has a CPU limit: ok: rarely at its limit. warn: it was stopped in a quarter of all periods since it was started, so Felix and its probes are late although the node is idle.`,
}

// Facts of node-load.
const (
	FactLoad        probe.Fact = "load"         // of the last minute
	FactCPUs        probe.Fact = "cpus"         // count
	FactCPUPressure probe.Fact = "cpu_pressure" // percent of the last 10 s in which some task waited for a CPU

	FactStuck     probe.Fact = "stuck"     // processes that wait uninterruptibly
	FactStuckIn   probe.Fact = "stuck_in"  // the first of them: NAME in WHERE in the kernel, by the thread
	FactThrottled probe.Fact = "throttled" // percent of the periods in which calico-node was at its CPU limit
)

// NodeMemory asks whether the node runs out of memory, or has killed for it.
var NodeMemory = &probe.Check{
	ID: probe.CheckNodeMemory, Asks: "is memory short, or was something killed for it?", From: probe.FromNode,
	Tags: []string{probe.TagHost}, Access: []string{"proc", "host processes", "sys/fs/cgroup"},
	Doc: `What is available without swapping, as the kernel estimates it, and how many processes it has killed for memory since boot.
ok: enough, nothing killed. info: something was killed since boot, in this or another cgroup; calico-node's own state says whether it was that. warn: less than 5 % is available. fail: less than 100 MiB, where the kubelet evicts pods.
calico-node memory, where its container can be seen: ok: nothing in it was killed. warn: something in it was killed for memory since it was started, for the container's limit or the node's want, and runit started it anew, of which Kubernetes does not tell.`,
}

// Facts of node-memory.
const (
	FactAvailable probe.Fact = "available_bytes"
	FactTotal     probe.Fact = "total_bytes"

	FactLimited probe.Fact = "limited" // whether the container has a memory limit of its own
)

// TargetCalicoMemory is node-memory's answer about calico-node's container.
const TargetCalicoMemory = "calico-node memory"

// memoryEvict is the kubelet's default threshold (evictionHard), in bytes.
const memoryEvict = 100 << 20

// JudgeMemory judges how much of the memory is available, in bytes.
func JudgeMemory(available, total uint64) probe.Result {
	r := probe.Found(probe.OK, "%.1f of %.1f GB available", float64(available)/1e9, float64(total)/1e9)
	switch {
	case available < memoryEvict:
		r.Status = probe.Fail
	case available < total/20:
		r.Status = probe.Warn
	}
	return r.With(FactAvailable, available).With(FactTotal, total)
}

// Facts of node-disk about a server of file systems.
const FactMounts probe.Fact = "mounts" // how many there are of it

// StorageSilent is the reason of a server of file systems that does not answer.
const StorageSilent = "server-silent"

// NodeSwap asks for what kills a kubelet at its next start: in the field, swap
// that was turned off by hand and came back with a reboot.
var NodeSwap = &probe.Check{
	ID: probe.CheckNodeSwap, Asks: "is swap on, or will it be after a reboot?", From: probe.FromNode,
	Tags: []string{probe.TagHost}, Access: []string{"proc", "etc/fstab", "etc/systemd", "var/lib/kubelet/config.yaml"},
	Doc: `A kubelet that is not told otherwise (failSwapOn) ends at its start when swap is on: "running with swap on is not supported". A kubelet that runs already is not touched, so the fault shows at the next restart.
ok: no swap, and nothing that would bring it back. fail: swap is on. warn: swap is on, and how the kubelet is set is not visible; or swap is off now, and a line of /etc/fstab, a systemd swap unit or a zram generator brings it back at the next reboot. info: the kubelet is set to accept swap; or no swap now, and the files that would bring it back are not visible by this access method.`,
}

// Facts of node-swap.
const (
	FactSwaps   probe.Fact = "swaps"   // file names of what is swapped to now
	FactReturns probe.Fact = "returns" // what turns swap on at the next boot: file, and line in it
)

// JudgeSwap judges what is swapped to now and what turns swap on at the next boot, which may be hidden.
func JudgeSwap(names, back []string, hidden bool, k node.Kubelet) probe.Result {
	r := probe.Found(probe.OK, "no swap")
	switch {
	case len(names) > 0 && k.TakesSwap():
		r = probe.Found(probe.Info, "swap is on, and the kubelet is set to accept it (failSwapOn: false): %s",
			strings.Join(names, ", "))
	case len(names) > 0 && !k.Seen():
		r = probe.Found(probe.Warn, "swap is on, and whether the kubelet starts with it is not visible: %s",
			strings.Join(names, ", "))
	case len(names) > 0:
		r = probe.Found(probe.Fail, "swap is on, and the kubelet does not start with it: %s", strings.Join(names, ", "))
	case len(back) > 0 && k.TakesSwap():
		r = probe.Found(probe.Info,
			"swap is off now, comes back at the next reboot, and the kubelet is set to accept it: %s",
			strings.Join(back, ", "))
	case hidden && len(names) == 0:
		r = probe.Found(probe.Info, "no swap now; whether a reboot brings it back is not visible by this access method")
	case len(back) > 0:
		r = probe.Found(probe.Warn,
			"swap is off now and comes back at the next reboot, when the kubelet will not start with it: %s",
			strings.Join(back, ", "))
	}
	return r.With(FactSwaps, names).With(FactReturns, back).With(node.FactAllowed, k.TakesSwap())
}
