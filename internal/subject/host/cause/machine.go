package cause

import (
	"fmt"
	"math"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// exhausted is how many percent are as good as none: a write of any size may fail.
const exhausted = 1

// diskFull is a file system without room, in bytes or in files.
var diskFull = &diagnose.Rule{
	ID: "disk-full", Layer: diagnose.LayerMachine, Title: "a file system on the node is full",
	Doc: `Where less than 10 % of the kubelet's or the runtime's file system is free, or 5 % of its inodes, the kubelet sets DiskPressure, evicts pods and takes no new ones; a full one makes the runtime fail in odd ways ("no space left on device", containers that do not start, images that cannot be unpacked), calico-node cannot write its nodename file and install-cni its plugins. Out of inodes looks like a full disk with room to spare: many small files, mostly of logs or of images. /run is memory: when it is full, by a journal that is kept there or by what a daemon left behind, the runtime makes no sandbox and no container, calico-node's and the probe's neither, and no kubelet sets a condition for it.`,
	Fix: probe.Fix{
		Says: "See what fills it, remove what is not needed; images no container uses go first.",
		Manifest: []string{
			"ssh {node} df -h {path}; ssh {node} df -i {path}",
			"ssh {node} sudo du -xh --max-depth 2 {path} | sort -h | tail -15",
			"ssh {node} sudo find {path} -xdev | cut -d/ -f1-5 | sort | uniq -c | sort -n | tail -15  # where it lacks inodes",
		},
		OnlyIf: []probe.Conditional{
			{If: "images fill it", Manifest: []string{"ssh {node} sudo crictl rmi --prune"}},
			{If: "the journal fills it", Manifest: []string{"ssh {node} sudo journalctl --vacuum-size 200M"}},
		},
		Radius: "images that are removed are pulled again when they are needed; old journal entries are gone. DiskPressure ends some minutes after there is room",
	},
	Match: func(f diagnose.Findings) []diagnose.Case {
		pressure := diagnose.Keep(f.Failed(facts.CheckNodeReady), diagnose.About("DiskPressure"))
		pods, file := evidence.Obstructed(f, facts.ObstacleSpace)
		var ended []diagnose.Finding // that say so themselves
		for _, service := range []string{logs.ServiceContainerd, logs.ServiceDocker, logs.ServiceCRIO,
			logs.ServiceKubelet} {
			ended = append(ended, evidence.ServiceEnds(f, service, logs.SaysDiskFull)...)
		}
		var out []diagnose.Case
		for _, r := range f.Failed(host.NodeDisk.ID) {
			if diagnose.Holds(r.Facts, host.FactReadOnly, true) {
				continue
			}
			weight := diagnose.Strong
			free, _ := r.Facts.Num(host.FactFree)
			inodes, _ := r.Facts.Num(host.FactFreeInodes)
			if min(free, inodes) < exhausted {
				weight = diagnose.Proof
			}
			lacks := "is full"
			if inodes < exhausted && inodes < free {
				lacks = "has no inode left for a new file"
			}
			c := diagnose.Case{
				About: r.Target, Args: map[string]diagnose.Arg{"path": diagnose.FileArg(r.Target)},
				Says: fmt.Sprintf("%s of {node} %s: %s", r.Target, lacks, r.Saw),
				For: slices.Concat(diagnose.Clues(weight, []diagnose.Finding{r}), diagnose.Hints(pressure),
					diagnose.Suggests(ended)),
				Covers: append(waitFor(f, ""), diagnose.Covers(facts.CheckNodeTaints)...),
			}
			if len(pods) > 0 && strings.HasPrefix(folderOf(file)+"/", strings.TrimSuffix(r.Target, "/")+"/") {
				c.For = append(c.For, evidence.Said(pods)...)
				c.Covers = slices.Concat(c.Covers, evidence.KeptDown(pods), waitFor(f, facts.ObstacleSpace))
				pods = nil
			}
			out = append(out, c)
		}
		if len(pods) > 0 { // on a file system that was not seen, or has room again
			folder := folderOf(file)
			out = append(out, diagnose.Case{
				About: folder, Args: map[string]diagnose.Arg{"path": diagnose.FileArg(folder)}, For: evidence.Said(pods),
				Covers: append(evidence.KeptDown(pods), waitFor(f, facts.ObstacleSpace)...),
				Says: fmt.Sprintf("no pod can start on {node}: there is no room for a file in %s: %s", folder,
					pods[0].Facts.Str(facts.Message)),
			})
		}
		if roomy := plentyOfDisk(f); len(out) == 0 && len(pressure) > 0 {
			out = []diagnose.Case{{
				Args: map[string]diagnose.Arg{"path": diagnose.FileArg("/var/lib/kubelet")}, For: diagnose.Suggests(pressure),
				Against: diagnose.Hints(roomy[:min(1, len(roomy))]),
				Covers:  diagnose.Covers(facts.CheckNodeTaints, facts.CheckPodsStart),
				Says:    "the kubelet of {node} has too little room on a disk, evicts pods and takes no new ones",
			}}
		}
		return out
	},
}

// waitFor are the pods that do not start for one obstacle, or with "" for none that their message names.
func waitFor(f diagnose.Findings, obstacle string) []diagnose.Cover {
	var out []diagnose.Cover
	for _, r := range f.Bad(facts.CheckPodsStart) {
		if r.Facts.Str(facts.Obstacle) == obstacle {
			out = append(out, diagnose.Cover{Check: facts.CheckPodsStart, About: r.Target})
		}
	}
	return out
}

// folderOf is the folder of a file that has, or may have, a file system of its own: /run, /var/lib/containerd.
func folderOf(file string) string {
	file = path.Clean(file)
	if strings.HasPrefix(file, "/var/run/") || strings.HasPrefix(file, "/run/") {
		return "/run"
	}
	return strings.Join(strings.SplitN(file, "/", 5)[:min(4, strings.Count(file, "/"))], "/")
}

// saysReadOnly is what the kubelet says of a pod for which it cannot make folders.
var saysReadOnly = regexp.MustCompile(`pod data directories: mkdir \S+: read-only file system`)

// diskReadOnly is a disk that failed.
var diskReadOnly = &diagnose.Rule{
	ID: "disk-read-only", Layer: diagnose.LayerMachine, Title: "a file system on the node is read-only",
	Doc: `After an error of the disk, or of the storage behind it, the kernel turns a file system read-only. What runs goes on from memory; nothing that writes does: the kubelet, the runtime, calico-node's files. / and /etc of immutable systems are read-only by intent and not meant.
Told from a full disk by its mount options.`,
	Fix: probe.Fix{
		Says: "Move the pods away, then repair or replace the disk; a remount that works for now does not mend it.",
		Manifest: []string{
			"ssh {node} sudo dmesg -T | grep -iE 'remount|I/O error|EXT4-fs|XFS' | tail -20",
		},
		OnlyIf: []probe.Conditional{
			{If: "its pods can be spared, and what they have in emptyDir volumes", Manifest: []string{
				"kubectl drain {node} --ignore-daemonsets --delete-emptydir-data",
				"# then reboot into a file system check, or replace the disk",
			}},
		},
		Radius: "drain moves every pod of this node elsewhere, with a restart each, and what they have in emptyDir volumes is lost; pods that hang on the dead disk may need --force",
	},
	Explains: []string{"install-cni-fails", "kubelet-dead", "disk-full", "runtime-stuck"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		var out []diagnose.Case
		if said := evidence.InWords(evidence.NotPlaced(f, facts.ReasonRuntime), saysReadOnly); len(said) > 0 {
			out = append(out, diagnose.Case{
				For: diagnose.Suggests(said[:1]), Covers: diagnose.Covers(facts.CheckPodsStart),
				Says: "the kubelet of {node} cannot write where it keeps its pods: " + said[0].Saw,
			})
		}
		for _, r := range f.Failed(host.NodeDisk.ID) {
			if diagnose.Holds(r.Facts, host.FactReadOnly, true) {
				out = append(out, diagnose.Case{
					About: r.Target, Says: fmt.Sprintf("%s of {node} is read-only, and nothing there can be written", r.Target),
					For:    append(diagnose.Proves([]diagnose.Finding{r}), diagnose.Shows(evidence.KernelSays(f, logs.KernelDisk))...),
					Covers: diagnose.Covers(facts.CheckNodeTaints, facts.CheckPodsStart, cni.CNINodename.ID),
				})
			}
		}
		if lines := evidence.KernelSays(f, logs.KernelDisk); len(out) == 0 && len(lines) > 0 {
			out = append(out, diagnose.Case{About: lines[0].Facts.Str(probe.FactKernelOf), For: diagnose.Suggests(lines),
				Says: "a disk or file system of {node} fails, by the kernel: " + lines[0].Saw})
		}
		return out
	},
}

// memoryShort is a node without memory.
var memoryShort = &diagnose.Rule{
	ID: "memory-short", Layer: diagnose.LayerMachine, Title: "the node is out of memory",
	Doc: `Below 100 MiB available the kubelet evicts pods (MemoryPressure); before and beside that the kernel kills processes, and one of them may be calico-node, Felix or BIRD inside it, which Kubernetes shows as OOMKilled or not at all. A node short of memory is slow in everything, so probes time out that have nothing to do with it.
That something was once killed since boot is no sign by itself. A kill because of calico-node's own limit (calico-out-of-memory) is told from one because of the node by what is available.`,
	Fix: probe.Fix{
		Says: "See who takes it; drain the node if it cannot be spared at once.",
		Manifest: []string{
			"kubectl top pods -A --sort-by memory | head; ssh {node} ps -eo rss,pid,comm --sort -rss | head",
		},
		OnlyIf: []probe.Conditional{
			{If: "the memory cannot be had back at once",
				Manifest: []string{"kubectl drain {node} --ignore-daemonsets --delete-emptydir-data"}},
		},
		Radius: "drain moves every pod of this node elsewhere, with a restart each, and what they have in emptyDir volumes is lost",
	},
	Match: func(f diagnose.Findings) []diagnose.Case {
		short, pressure := evidence.ShortOfMemory(f)
		if len(short)+len(pressure) == 0 {
			return nil
		}
		c := diagnose.Case{
			Says: "{node} has hardly any memory left: " + slices.Concat(short, pressure)[0].Saw,
			For: slices.Concat(diagnose.Suggests(short), diagnose.Suggests(pressure),
				diagnose.Hints(evidence.KilledForMemory(f))),
			Against: diagnose.Hints(plentyOfMemory(f)),
			Covers:  diagnose.Covers(facts.CheckNodeTaints, facts.CheckPodsStart, host.NodeMemory.ID),
		}
		if len(f.Failed(host.NodeMemory.ID)) == 0 && len(pressure) == 0 {
			c.For[0].Weight = diagnose.Hint // short, and not yet out of it
		}
		return []diagnose.Case{c}
	},
}

// sameSkew is how many seconds apart two nodes may be that are called alike: what
// node-clock calls odd.
const sameSkew = 5

// clockWrong is a node that lives in another time.
var clockWrong = &diagnose.Rule{
	ID: "clock-wrong", Layer: diagnose.LayerMachine, Title: "the node's clock is wrong",
	Doc: `Tokens and certificates hold between two dates. With a clock that is minutes off, the API server's are not valid yet or no more for this node, and this node's leases look old: "x509: certificate has expired or is not yet valid", "Unauthorized". The clock of a virtual machine that was suspended, or without NTP, is off so.
Told from a token nobody renewed by the clocks, which are compared. The clock it is compared with is the API server's: where other nodes are off by as much, that one is wrong, and until another node was asked either may be.`,
	Fix: probe.Fix{
		Says: "Set the clock by NTP, and see that something keeps it.",
		Manifest: []string{"ssh {host} timedatectl",
			"ssh {host} sudo systemctl restart chronyd || ssh {host} sudo systemctl restart systemd-timesyncd"},
		Radius: "that machine only; a clock that jumps back by much may confuse programs on it, so look first whether etcd runs there",
	},
	Explains: []string{"cni-token-expired"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		off := f.Failed(host.NodeClock.ID)
		if len(off) == 0 {
			return nil
		}
		c := diagnose.Case{
			Says: "the clock of {node} is wrong: " + off[0].Saw, For: diagnose.Suggests(off),
			Args:   map[string]diagnose.Arg{"host": diagnose.NodeArg(f.Node)},
			Covers: diagnose.Covers(cni.CNIToken.ID, facts.CheckNodeLease, host.NodeClock.ID),
		}
		for _, r := range f.Bad(datastore.DatastoreLatency.ID) {
			if r.Facts.Str(probe.FactExpires) != "" || diagnose.ReasonOf(r) == "certificate-refused" {
				// a server that does not answer has no clock at fault
				c.Covers = append(c.Covers, diagnose.Cover{Check: r.Check, About: r.Target})
			}
		}
		c.Covers = append(c.Covers, evidence.Unpulled(f, func(why string) bool { return why == facts.RefusedUntrusted })...)
		var alike, right []diagnose.Finding
		for _, r := range f.Elsewhere(host.NodeClock.ID) {
			switch skew, ok := r.Facts.Num(host.FactSkew); {
			case !ok:
			case !diagnose.IsBad(r.Status):
				right = append(right, r)
			case math.Abs(skew-diagnose.Num(off, host.FactSkew)) < sameSkew:
				alike = append(alike, r)
			}
		}
		switch {
		case len(right) > 0:
			c.For = append(c.For, diagnose.Hints(right)...)
		case len(alike) > 0:
			c.About, c.Args["host"] = "API server", diagnose.OwnArg("CONTROL-PLANE-NODE")
			c.Says = fmt.Sprintf("the API server's clock is wrong: {node} and %s agree with each other and not with it (%s)",
				alike[0].Node, off[0].Saw)
			c.For = append(c.For, diagnose.Shows(alike)...)
		default:
			c.Says = "the clock of {node} is wrong, or the API server's is: " + off[0].Saw
		}
		if late := evidence.Starved(f); len(late) > 0 { // what the question took to get there counts as skew
			c.Against = diagnose.Suggests(late[:1])
		}
		return []diagnose.Case{c}
	},
}
