package diagnose

import (
	"fmt"
	"slices"

	"github.com/calico-probe/calico-probe/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checks"
)

// machineRules are those of the machine's disks and memory.
func machineRules() []*Rule { return []*Rule{DiskReadOnly, DiskFull, MemoryShort} }

// exhausted is how many percent are as good as none: a write of any size may fail.
const exhausted = 1

// DiskFull is a file system without room, in bytes or in files.
var DiskFull = &Rule{
	ID: "disk-full", Title: "a file system of the node is full",
	Doc: `Where less than 10 % of the kubelet's or the runtime's file system is free, or 5 % of its inodes, the kubelet sets DiskPressure, evicts pods and takes no new ones; a full one makes the runtime fail in odd ways ("no space left on device", containers that do not start, images that cannot be unpacked), calico-node cannot write its nodename file and install-cni its plugins. Out of inodes looks like a full disk with room to spare: many small files, mostly of logs or of images.`,
	Fix: probe.Fix{
		Says: "See what fills it, remove what is not needed; images no container uses go first.",
		Manifest: []string{
			"ssh {node} df -h {path}; ssh {node} df -i {path}",
			"ssh {node} sudo du -xh --max-depth 2 {path} | sort -h | tail -15",
			"ssh {node} sudo crictl rmi --prune",
			"ssh {node} sudo journalctl --vacuum-size 200M",
		},
		Radius: "images that are removed are pulled again when they are needed; old journal entries are gone. DiskPressure ends some minutes after there is room",
	},
	Match: func(f Findings) []Case {
		pressure := keep(f.Failed(cluster.CheckNodeReady), about("DiskPressure"))
		var out []Case
		for _, r := range f.Failed(checks.NodeDisk.ID) {
			if holds(r.Facts, checks.FactReadOnly, true) {
				continue
			}
			weight := strong
			free, _ := r.Facts.Num(checks.FactFree)
			inodes, _ := r.Facts.Num(checks.FactFreeInodes)
			if min(free, inodes) < exhausted {
				weight = proof
			}
			out = append(out, Case{
				About: r.Target, Args: map[string]string{"path": r.Target},
				Says: fmt.Sprintf("%s of {node} is full: %s", r.Target, r.Saw), For: append(clues(weight, []Finding{r}), clues(hint, pressure)...),
				Covers: Covers(cluster.CheckNodeTaints),
			})
		}
		if len(out) == 0 && len(pressure) > 0 {
			out = []Case{{
				Args: map[string]string{"path": "/var/lib/kubelet"}, For: clues(strong, pressure), Covers: Covers(cluster.CheckNodeTaints),
				Says: "the kubelet of {node} has too little room on a disk, evicts pods and takes no new ones",
			}}
		}
		return out
	},
}

// DiskReadOnly is a disk that failed.
var DiskReadOnly = &Rule{
	ID: "disk-read-only", Title: "a file system of the node has turned read-only",
	Doc: `After an error of the disk, or of the storage behind it, the kernel turns a file system read-only. What runs goes on from memory; nothing that writes does: the kubelet, the runtime, calico-node's files. / and /etc of immutable systems are read-only by intent and not meant.
Told from a full disk by its mount options.`,
	Fix: probe.Fix{
		Says: "Move the pods away, then repair or replace the disk; a remount that works for now does not mend it.",
		Manifest: []string{
			"ssh {node} sudo dmesg -T | grep -iE 'remount|I/O error|EXT4-fs|XFS' | tail -20",
			"kubectl drain {node} --ignore-daemonsets --delete-emptydir-data",
			"# then reboot into a file system check, or replace the disk",
		},
		Radius: "drain moves every pod of this node elsewhere, with a restart each; pods that hang on the dead disk may need --force",
	},
	Explains: []string{"install-cni-fails", "kubelet-dead", "disk-full"},
	Match: func(f Findings) []Case {
		var out []Case
		for _, r := range f.Failed(checks.NodeDisk.ID) {
			if holds(r.Facts, checks.FactReadOnly, true) {
				out = append(out, Case{
					About: r.Target, Says: fmt.Sprintf("%s of {node} is read-only, and nothing there can be written", r.Target),
					For: clues(proof, []Finding{r}), Covers: Covers(cluster.CheckNodeTaints, checks.CNINodename.ID),
				})
			}
		}
		return out
	},
}

// MemoryShort is a node without memory.
var MemoryShort = &Rule{
	ID: "memory-short", Title: "the node has no memory left",
	Doc: `Below 100 MiB available the kubelet evicts pods (MemoryPressure); before and beside that the kernel kills processes, and one of them may be calico-node, Felix or BIRD inside it, which Kubernetes shows as OOMKilled or not at all. A node short of memory is slow in everything, so probes time out that have nothing to do with it.
That something was once killed since boot is no sign by itself. A kill because of calico-node's own limit (calico-out-of-memory) is told from one because of the node by what is available.`,
	Fix: probe.Fix{
		Says: "See who takes it; drain the node if it cannot be spared at once.",
		Manifest: []string{
			"kubectl top pods -A --sort-by memory | head; ssh {node} ps -eo rss,pid,comm --sort -rss | head",
			"kubectl drain {node} --ignore-daemonsets --delete-emptydir-data",
		},
		Radius: "drain moves every pod of this node elsewhere, with a restart each",
	},
	Match: func(f Findings) []Case {
		short, pressure := shortOfMemory(f)
		if len(short)+len(pressure) == 0 {
			return nil
		}
		c := Case{
			Says:   "{node} has hardly any memory left: " + slices.Concat(short, pressure)[0].Saw,
			For:    slices.Concat(clues(strong, short), clues(strong, pressure), clues(hint, killedForMemory(f))),
			Covers: Covers(cluster.CheckNodeTaints, checks.NodeMemory.ID),
		}
		if len(f.Failed(checks.NodeMemory.ID)) == 0 && len(pressure) == 0 {
			c.For[0].Weight = hint // short, and not yet out of it
		}
		return []Case{c}
	},
}

// shortOfMemory is the node's want, by its own count and by the kubelet's word.
func shortOfMemory(f Findings) (short, pressure []Finding) {
	return keep(f.Bad(checks.NodeMemory.ID), about("")), keep(f.Failed(cluster.CheckNodeReady), about("MemoryPressure"))
}

// killedForMemory are the signs that something of calico-node's was.
func killedForMemory(f Findings) []Finding {
	killed := slices.Concat(f.With(cluster.CheckCalicoPod, cluster.FactLastEnd, "OOMKilled"), keep(f.Bad(checks.NodeMemory.ID), about(checks.TargetCalicoMemory)))
	return slices.DeleteFunc(killed, func(r Finding) bool { return !bad(r.Status) })
}
