package cause

import (
	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// cgroupsExhausted is kubernetes/kubernetes#96701.
func cgroupsExhausted(f diagnose.Findings) []diagnose.Case {
	pods, _ := evidence.Obstructed(f, facts.ObstacleCgroups)
	if len(pods) == 0 {
		return nil
	}
	return []diagnose.Case{{
		Says: "no pod can start on {node}: the kernel makes no more cgroups: " + pods[0].Facts.Str(facts.Message),
		For:  evidence.Said(pods), Covers: diagnose.Covers(probe.CheckPlaced),
	}}
}

// systemdUnanswering is kubernetes/kubernetes#100328.
func systemdUnanswering(f diagnose.Findings) []diagnose.Case {
	pods, _ := evidence.Obstructed(f, facts.ObstacleSystemd)
	if len(pods) == 0 {
		return nil
	}
	return []diagnose.Case{{
		Says: "no pod can start on {node}: systemd or its bus does not answer who makes the pod's cgroup: " + pods[0].Facts.Str(facts.Message),
		For:  evidence.Said(pods), Covers: diagnose.Covers(probe.CheckPlaced),
	}}
}
