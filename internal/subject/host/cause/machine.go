package cause

import (
	"fmt"
	"math"
	"path"
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
	"github.com/calico-probe/calico-probe/probe/node"
)

// exhausted is the percentage of free space that counts as none: a write of any size may fail.
const exhausted = 1

// diskFull matches a file system without free bytes or inodes. It returns one case for each file system. An error
// message of a pod counts for the file system that holds its file.
func diskFull(f diagnose.Findings) []diagnose.Case {
	pressure := diagnose.Keep(f.Failed(facts.CheckNodeReady), diagnose.About("DiskPressure"))
	pods, file := evidence.Obstructed(f, facts.ObstacleSpace)
	var ended []diagnose.Finding // services that log it themselves
	for _, service := range []string{logs.ServiceContainerd, logs.ServiceDocker, logs.ServiceCRIO,
		logs.ServiceKubelet} {
		ended = append(ended, evidence.ServiceEnds(f, service, logs.FaultDiskFull)...)
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
		lacks, fix := "is full", ""
		switch {
		case inodes < exhausted && inodes < free:
			lacks, fix = "has no inode left for a new file", "inodes"
		case inodes < node.InodesEvict && inodes < free:
			lacks, fix = "has few inodes left for new files", "inodes"
		}
		c := diagnose.Case{FixName: fix,
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
	if len(pods) > 0 { // a file system that was not checked, or has room again
		folder := folderOf(file)
		out = append(out, diagnose.Case{
			About: folder, Args: map[string]diagnose.Arg{"path": diagnose.FileArg(folder)}, For: evidence.Said(pods),
			Covers: append(evidence.KeptDown(pods), waitFor(f, facts.ObstacleSpace)...),
			Says: fmt.Sprintf("no pod can start on {node}: no space for a file in %s: %s", folder,
				pods[0].Facts.Str(facts.Message)),
		})
	}
	if roomy := plentyOfDisk(f); len(out) == 0 && len(pressure) > 0 {
		out = []diagnose.Case{{
			Args: map[string]diagnose.Arg{"path": diagnose.FileArg("/var/lib/kubelet")}, For: diagnose.Suggests(pressure),
			Against: diagnose.Hints(roomy[:min(1, len(roomy))]),
			Covers:  diagnose.Covers(facts.CheckNodeTaints, facts.CheckPodsStart),
			Says:    "the kubelet of {node} is short of disk space: it evicts pods and rejects new ones",
		}}
	}
	return out
}

// waitFor covers the pods that an obstacle keeps from starting. "" selects pods whose message has no obstacle.
func waitFor(f diagnose.Findings, obstacle string) []diagnose.Cover {
	var out []diagnose.Cover
	for _, r := range f.Bad(facts.CheckPodsStart) {
		if r.Facts.Str(facts.Obstacle) == obstacle {
			out = append(out, diagnose.Cover{Check: facts.CheckPodsStart, About: r.Target})
		}
	}
	return out
}

// folderOf returns the directory of a file that is usually a mount point: /run, /var/lib/containerd.
func folderOf(file string) string {
	file = path.Clean(file)
	if strings.HasPrefix(file, "/var/run/") || strings.HasPrefix(file, "/run/") {
		return "/run"
	}
	return strings.Join(strings.SplitN(file, "/", 5)[:min(4, strings.Count(file, "/"))], "/")
}

// sameSkew is the largest difference, in seconds, at which the skews of two nodes count as the same.
var sameSkew = node.SkewOdd.Seconds()

// clockWrong matches a wrong clock. Another node's clock decides whose clock is wrong: if it agrees with this node's
// clock, the API server's clock is wrong.
func clockWrong(f diagnose.Findings) []diagnose.Case {
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
			// only these follow from the clock: an unresponsive server has another fault
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
	return []diagnose.Case{c}
}
