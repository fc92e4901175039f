package logs

import (
	"strings"

	"github.com/calico-probe/calico-probe/probe/lazy"
)

// Signatures of kernel log lines.
const (
	KernelConntrack  = "conntrack-full"
	KernelNeighbours = "neighbours-full"
	KernelKilled     = "killed"     // a component was OOM-killed
	KernelQueue      = "queue-hung" // a network card's transmit queue timed out
	KernelDisk       = "disk"       // an error in a file system or its disk
	KernelStuck      = "cpu-stuck"
	KernelBlocked    = "blocked" // a component has been waiting for the kernel for minutes
	KernelDevice     = "device-held"
	KernelMartian    = "martian"
	KernelKilledPod  = "killed-other"
	kernelLink       = "link-down"
)

// Kernel is the signature of a kernel log line. Its first group captures the subject.
type Kernel struct {
	ID     string
	Source string
	Match  *lazy.Regexp
	Info   bool   // worth knowing, but not a fault
	Other  string // the signature if the subject is not a component of the node, "" = the same signature
}

var kernelSignatures = []Kernel{
	{ID: KernelConntrack, Source: "net/netfilter/nf_conntrack_core.c", Match: lazy.New(`^(?:nf_conntrack: )*(?:nf_conntrack: )table full(?: in netns \d+)?, dropping packet`)},
	{ID: KernelNeighbours, Source: "net/core/neighbour.c", Match: lazy.New(`^neighbour: (\w+): neighbor table overflow!`)},
	{ID: KernelKilled, Other: KernelKilledPod, Source: "mm/oom_kill.c",
		Match: lazy.New(`^(?:Memory cgroup out of memory|Out of memory)[^:]*: Killed process \d+ \(([^)]{1,15})\)`)},
	{ID: KernelQueue, Source: "net/sched/sch_generic.c", Match: lazy.New(`NETDEV WATCHDOG: (?:CPU: \d+: )?([\w.@-]+)(?: \([^)]*\))?: transmit queue \d+ timed out`)},
	{ID: KernelDisk, Source: "fs/ext4/super.c; fs/xfs/xfs_fsops.c; block/blk-core.c",
		Match: lazy.New(`^(?:EXT4-fs error \(device ([\w.-]+)\)|EXT4-fs \(([\w.-]+)\): Remounting filesystem read-only|XFS \(([\w.-]+)\): .*(?:[Ss]hutting down filesystem|Corruption (?:detected|of in-memory data)|metadata I/O error)|(?:blk_update_request: |print_req_error: )?(?:critical medium error|I/O error), dev ([\w.-]+), sector)`)},
	{ID: KernelStuck, Source: "kernel/watchdog.c; kernel/rcu/tree_stall.h",
		Match: lazy.New(`^(?:watchdog: )?BUG: soft lockup - (CPU#\d+) stuck for|^(?:watchdog: )?Watchdog detected hard LOCKUP on (cpu \d+)|^rcu: INFO: (rcu_\w+) (?:self-)?detected (?:expedited )?stalls? on CPU`)},
	{ID: KernelBlocked, Other: "-", Source: "kernel/hung_task.c", Match: lazy.New(`^INFO: task ([^:]{1,15}):\d+ blocked (?:in I/O wait )?for more than \d+ seconds`)},
	{ID: KernelDevice, Source: "net/core/dev.c", Match: lazy.New(`^unregister_netdevice: waiting for ([\w.-]+) to become free`)},
	{ID: KernelMartian, Info: true, Source: "net/ipv4/route.c", Match: lazy.New(`^IPv4: martian source [0-9.]+ from [0-9.]+, on dev ([\w.@-]+)`)},
	{ID: kernelLink, Info: true, Source: "drivers of network cards", Match: lazy.New(`([\w.-]+): (?:NIC )?[Ll]ink is [Dd]own`)},
}

// OfKernel recognises a kernel log line, and returns its subject.
func OfKernel(text string) (s Kernel, subject string, ok bool) {
	for _, s := range kernelSignatures {
		if m := s.Match.FindStringSubmatch(text); m != nil {
			return s, strings.Join(m[1:], ""), true
		}
	}
	return Kernel{}, "", false
}
