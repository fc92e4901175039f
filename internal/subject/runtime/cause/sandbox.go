package cause

import (
	"fmt"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// sandboxLogs shows the runtime's own words.
const sandboxLogs = "ssh {node} sudo journalctl -u {runtime} --since -15min | grep -i -e error -e fail | tail -30"

// withoutSandbox is what is said of a runtime as long as nobody says why it makes no sandbox.
var withoutSandbox = []string{"sandbox-fails", "runtime-stuck"}

// pauseImageMissing is kubernetes/kubernetes#72295.
func pauseImageMissing(f diagnose.Findings) []diagnose.Case {
	pods, image := evidence.Obstructed(f, facts.ObstaclePauseImage)
	if len(pods) == 0 {
		return nil
	}
	return []diagnose.Case{{
		Says: fmt.Sprintf("no pod can start on {node}: the image of sandboxes, %s, is not there and cannot be pulled: %s%s", image, refusedBy(pods[0], image), pods[0].Facts.Str(facts.Message)),
		For:  evidence.Said(pods), Covers: evidence.KeptDown(pods),
	}}
}

// refusedBy is the beginning of a sentence about an image that a registry does not give.
func refusedBy(r diagnose.Finding, image string) string {
	refusal := evidence.RefusedWords[facts.PullFailed(r.Facts.Str(facts.Message))]
	if refusal == "" {
		return ""
	}
	return fmt.Sprintf("registry %s: %s: ", facts.RegistryOf(image), refusal)
}

// cgroupDriversDiffer is kubernetes-sigs/kubespray#8122.
func cgroupDriversDiffer(f diagnose.Findings) []diagnose.Case {
	pods, _ := evidence.Obstructed(f, facts.ObstacleCgroupDriver)
	if len(pods) == 0 {
		return nil
	}
	return []diagnose.Case{{
		Says: "no pod can start on {node}: the cgroup drivers of kubelet and runtime differ: " + pods[0].Facts.Str(facts.Message),
		For:  evidence.Said(pods), Covers: evidence.KeptDown(pods),
	}}
}

// resolvConfMissing is kubernetes/kubernetes#103110.
func resolvConfMissing(f diagnose.Findings) []diagnose.Case {
	pods, file := evidence.Obstructed(f, facts.ObstacleResolvConf)
	if len(pods) == 0 {
		return nil
	}
	return []diagnose.Case{{
		Says: fmt.Sprintf("no pod can start on {node}: %s, which the kubelet's resolvConf names, cannot be opened: %s", file, pods[0].Facts.Str(facts.Message)),
		Args: map[string]diagnose.Arg{"file": diagnose.FileArg(file)}, For: evidence.Said(pods),
		Covers: evidence.KeptDown(pods),
	}}
}

// imageStoreBroken is containerd/containerd#3401.
func imageStoreBroken(f diagnose.Findings) []diagnose.Case {
	pods, _ := evidence.Obstructed(f, facts.ObstacleStore, facts.ObstacleStoreDisk)
	if len(pods) == 0 {
		return nil
	}
	c := diagnose.Case{
		Says:   "the image store of the runtime on {node} is damaged: " + pods[0].Facts.Str(facts.Message),
		For:    append(evidence.Said(pods), diagnose.Hints(runtimeLogs(f, logs.SaysStore))...),
		Covers: evidence.KeptDown(pods),
	}
	if pods[0].Facts.Str(facts.Obstacle) == facts.ObstacleStoreDisk {
		c.Says = "the runtime on {node} cannot read its image store, for an error of the disk or file system below: " + pods[0].Facts.Str(facts.Message)
		c.Fix = &storeDiskFix
	}
	return []diagnose.Case{c}
}

// runtimeLogs is what the runtime's own log has of this.
func runtimeLogs(f diagnose.Findings, signature string) []diagnose.Finding {
	return diagnose.Keep(f.With(logs.DaemonLog.ID, logs.FactSignature, signature), diagnose.About(logs.ServiceContainerd))
}

// storeDiskFix is that of a store whose disk fails.
var storeDiskFix = probe.Fix{
	Says: "Look at what the kernel says of the disk. Move the node's pods away before anything is written or checked there.",
	Manifest: []string{"ssh {node} \"sudo dmesg -T | grep -i -e 'I/O error' -e 'ext4-fs error' -e 'xfs.*corrupt' | tail\"",
		"ssh {node} findmnt -T /var/lib/containerd"},
	OnlyIf: []probe.Conditional{{If: "the disk or the file system is broken", Manifest: []string{
		"kubectl drain {node} --ignore-daemonsets --delete-emptydir-data"}}},
	Radius: "reading changes nothing; the drain moves the pods of this node to others, and what their emptyDirs hold is lost",
}

// ociRuntimeBroken is a runc, or a shim, that does not do its work.
func ociRuntimeBroken(f diagnose.Findings) []diagnose.Case {
	pods, program := evidence.Obstructed(f, facts.ObstacleOCI)
	if len(pods) == 0 {
		return nil
	}
	says := "no container can be started on {node}: the program that the runtime starts for each fails itself: "
	if program != "" {
		says = fmt.Sprintf("no container can be started on {node}: %s, which the runtime starts for each, does not run: ", program)
	}
	return []diagnose.Case{{
		Says: says + pods[0].Facts.Str(facts.Message), Covers: evidence.KeptDown(pods),
		For: append(evidence.Said(pods), diagnose.Hints(runtimeLogs(f, logs.SaysOCI))...),
	}}
}

// sandboxFails is a runtime that makes no sandboxes.
func sandboxFails(f diagnose.Findings) []diagnose.Case {
	return evidence.QuotedPods(evidence.WaitingPods(f, facts.StartsSandbox, facts.StartsContainer), "get no sandbox or container from the runtime")
}

// volumeNotMounted is a kubelet that cannot make or mount what a pod asks for.
func volumeNotMounted(f diagnose.Findings) []diagnose.Case {
	return evidence.QuotedPods(evidence.WaitingPods(f, facts.StartsVolume), "wait for a volume")
}

// saidWhy tells whether somebody says why the runtime makes no sandbox; that it does not answer is no reason.
func saidWhy(f diagnose.Findings) bool {
	pods := diagnose.Keep(evidence.WaitingPods(f, facts.StartsSandbox, facts.StartsContainer),
		func(r diagnose.Finding) bool {
			return r.Facts.Str(facts.Message) != "" && r.Facts.Str(facts.Obstacle) != facts.ObstacleSilence
		})
	return len(pods) > 0
}
