// Package host declares the checks of the machine and the facts they report: memory, disks, load, clock, limits and
// its kernel. Both binaries link it. Checks is the entry point. Package ask beside it reads the node, and package
// cause draws the conclusions. The Judge functions here are shared with the client, which gets some of the same
// numbers from the kubelet. Package suite draws the whole flow.
package host

import (
	"fmt"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/node"
)

// Checks returns the checks of this subject in display order.
func Checks() []*probe.Check {
	return []*probe.Check{KernelLog, NodeSwap, NodeLoad, NodeMemory, NodeDisk, NodeClock, NodeLimits}
}

// KernelLog reads the kernel's recent messages.
var KernelLog = &probe.Check{
	ID: "kernel-log", From: probe.FromNode,
	In: probe.Standard, Tags: []string{probe.TagHost},
	Access: []string{"proc", "host processes", "var/log", "run/log/journal", "uid 0"},
}

// FactAgo is the age in seconds of the last such message. kernel-log shares its other facts with calico-log.
const FactAgo probe.Fact = "ago_s"

// NodeClock compares the node's clock with the API server's. Tokens and certificates are valid only for a certain time.
var NodeClock = &probe.Check{
	ID: "node-clock", From: probe.FromNode,
	Tags: []string{probe.TagHost}, Access: []string{"clock"},
}

// Facts of node-clock.
const FactSkew probe.Fact = "skew_s" // the node's clock minus the API server's, in seconds

// NodeDisk finds file systems that are full, read-only or out of inodes. The kubelet then evicts pods, and runtimes
// fail with messages that do not mention the disk.
var NodeDisk = &probe.Check{
	ID: probe.CheckNodeDisk, From: probe.FromNode,
	Tags: []string{probe.TagHost}, Access: []string{"/", "var/lib", "var/log", "run", "proc", "host network"},
	Limit: 25 * time.Second,
}

// Facts of node-disk.
const (
	FactFree       probe.Fact = "free_percent"        // of the space
	FactFreeInodes probe.Fact = "free_inodes_percent" // 100 where the file system counts none
	FactReadOnly   probe.Fact = "read_only"
)

// diskEvict is the kubelet's default evictionHard threshold (nodefs.available).
const diskEvict = 10 // percent of the space free

// Disk is the state of one file system, as the kernel reports it.
type Disk struct {
	Id               uint64  // distinguishes file systems
	Free, FreeInodes float64 // percent
	Total            uint64  // bytes
}

// Roomy judges the free space and inodes of a file system. frozen means that it is read-only. /run has other
// thresholds: it is a tmpfs, which the kubelet's eviction does not watch.
func Roomy(d Disk, name string, frozen bool) probe.Result {
	size := fmt.Sprintf("%.1f GB", float64(d.Total)/1e9)
	if d.Total < 1e8 {
		size = fmt.Sprintf("%.1f MB", float64(d.Total)/1e6)
	}
	saw := fmt.Sprintf("%.0f %% of %s free, %.0f %% of the inodes free", d.Free, size, d.FreeInodes)
	r := probe.Found(probe.OK, "%s", saw)
	switch {
	case frozen:
		r = probe.Found(probe.Fail, "read-only: remounted by the kernel after an error, or mounted that way; %s", saw)
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

// NodeLimits checks limits of the kernel and of cgroups. Programs that reach a limit often report something else
// (containerd/cri#448, Azure/aks-engine#1270).
var NodeLimits = &probe.Check{
	ID: "node-limits", From: probe.FromNode,
	Tags: []string{probe.TagHost, probe.TagRuntime}, Access: []string{"proc", "sys/fs/cgroup", "uid 0"},
}

// Facts of node-limits.
const (
	FactLimitOf probe.Fact = "limit_of" // owner of the limit: a program, a cgroup, the kernel
	FactFrozen  probe.Fact = "frozen"   // the folder of the frozen cgroup
	FactProgram probe.Fact = "program"  // the cgroup's program: calico-node, containerd
)

// NodeLoad checks whether the node is too busy to do anything in time. In the field, a load tens of times higher
// than on other nodes made each start exceed its budget.
var NodeLoad = &probe.Check{
	ID: "node-load", From: probe.FromNode,
	Tags: []string{probe.TagHost}, Access: []string{"proc", "host processes", "sys/fs/cgroup"},
	Limit: 15 * time.Second, // a busy node gives this check little CPU time
}

// Facts of node-load.
const (
	FactLoad        probe.Fact = "load"         // of the last minute
	FactCPUs        probe.Fact = "cpus"         // count
	FactOverloaded  probe.Fact = "overloaded"   // whether the load per CPU is so high that processes mostly wait
	FactCPUPressure probe.Fact = "cpu_pressure" // percent of the last 10 s in which some tasks waited for a CPU

	FactStuck     probe.Fact = "stuck"     // number of processes in uninterruptible sleep
	FactStuckIn   probe.Fact = "stuck_in"  // the first of these: thread NAME in kernel function WHERE
	FactThrottled probe.Fact = "throttled" // percent of the CFS periods in which calico-node hit its CPU limit
)

// NodeMemory checks whether the node is short of memory, or has OOM-killed a process.
var NodeMemory = &probe.Check{
	ID: probe.CheckNodeMemory, From: probe.FromNode,
	Tags: []string{probe.TagHost}, Access: []string{"proc", "host processes", "sys/fs/cgroup"},
}

// Facts of node-memory.
const (
	FactAvailable probe.Fact = "available_bytes"
	FactTotal     probe.Fact = "total_bytes"

	FactLimited probe.Fact = "limited" // whether the container has a memory limit
)

// TargetCalicoMemory is the target of node-memory's result about calico-node's container.
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

// FactMounts counts the mounts of one file server, in a result of node-disk about that server.
const FactMounts probe.Fact = "mounts"

// StorageSilent is the reason of node-disk for a file server that does not answer.
const StorageSilent = "server-silent"

// NodeSwap looks for swap: by default a kubelet exits at its next start if swap is on (failSwapOn). In the field, swap
// was disabled by hand, and a reboot enabled it again.
var NodeSwap = &probe.Check{
	ID: probe.CheckNodeSwap, From: probe.FromNode,
	Tags:   []string{probe.TagHost},
	Access: []string{"proc", "etc/fstab", "etc/systemd", "usr/lib/systemd", "var/lib/kubelet/config.yaml"},
}

// Facts of node-swap.
const (
	factSwaps   probe.Fact = "swaps"   // swap files and devices in use by name, or their total size if names are unknown
	factReturns probe.Fact = "returns" // what turns swap on at the next boot: file, and line in it
)

// JudgeSwap judges the swap in use (names), and the settings that enable swap at boot (back). hidden means that these
// settings are not visible.
func JudgeSwap(names, back []string, hidden bool, k node.Kubelet) probe.Result {
	r := probe.Found(probe.OK, "no swap")
	switch {
	case len(names) > 0 && k.TakesSwap():
		r = probe.Found(probe.Info, "swap is on, and the kubelet accepts it (failSwapOn: false): %s",
			strings.Join(names, ", "))
	case len(names) > 0 && !k.Seen():
		r = probe.Found(probe.Warn, "swap is on, and the kubelet's failSwapOn is not visible: %s",
			strings.Join(names, ", "))
	case len(names) > 0:
		r = probe.Found(probe.Fail, "swap is on, and the kubelet does not start with swap: %s", strings.Join(names, ", "))
	case len(back) > 0 && k.TakesSwap():
		r = probe.Found(probe.Info,
			"swap is off but returns at the next reboot, and the kubelet accepts it: %s",
			strings.Join(back, ", "))
	case hidden && len(names) == 0:
		r = probe.Found(probe.Info, "no swap now; this access method cannot see whether a reboot enables it")
	case len(back) > 0:
		r = probe.Found(probe.Warn,
			"swap is off but returns at the next reboot, and then the kubelet will not start: %s",
			strings.Join(back, ", "))
	}
	return r.With(factSwaps, names).With(factReturns, back).With(node.FactAllowed, k.TakesSwap())
}
