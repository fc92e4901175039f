package cause

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/kubelet"
	"github.com/calico-probe/calico-probe/internal/subject/runtime"
	"github.com/calico-probe/calico-probe/internal/subject/start"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// runtimeGone holds the checks that fail because the runtime does not answer.
var runtimeGone = append(evidence.AboutService(logs.ServiceContainerd, logs.ServiceDocker, logs.ServiceCRIO,
	logs.ServiceKubelet), diagnose.Covers(runtime.ContainerdHealth.ID, runtime.CRIHealth.ID, runtime.DockerHealth.ID,
	runtime.RuntimeGhosts.ID, kubelet.KubeletHealth.ID, start.InitStall.ID, probe.CheckPlaced,
	facts.CheckNodeReady, facts.CheckNodeTaints, facts.CheckCalicoPod, facts.CheckControllers, facts.CheckPodsStart,
	facts.CheckPodsEnd)...)

// fixOfRuntime names the fix for a runtime that serves CRI itself: its commands do not query Docker.
var fixOfRuntime = map[string]string{"containerd": "by-cri", "cri-o": "by-cri"}

// runtimeStuck matches a runtime that starts no container while no probe can run on the node. Once containerd-health,
// cri-health or docker-health has an answer from the node, the causes of those checks are more precise.
func runtimeStuck(f diagnose.Findings) []diagnose.Case {
	placed := slices.DeleteFunc(evidence.NotPlaced(f, facts.ReasonRuntime), evidence.SilentExec)
	said := evidence.KubeletSaid(f, facts.UnreadyRuntime, facts.UnreadyPLEG)
	// The kubelet's sync loop blocks on the runtime, while a separate loop renews the lease.
	idle, alive := evidence.NotPlaced(f, facts.ReasonKubelet), diagnose.Good(f, facts.CheckNodeLease)
	if len(alive) == 0 || len(f.Bad(facts.CheckNodeLease)) > 0 { // it was late on the second read
		idle = nil
	}
	if hasReason(f) {
		placed, idle = nil, nil
	}
	logs := slices.Concat(evidence.ServiceWrites(f, logs.ServiceKubelet, logs.FaultRuntimeDown),
		diagnose.Keep(f.Bad(kubelet.KubeletHealth.ID), diagnose.About(probe.TargetRuntime)))
	if len(placed)+len(said)+len(idle)+len(logs) == 0 || f.Answered(runtime.ContainerdHealth.ID) ||
		f.Answered(runtime.CRIHealth.ID) || f.Answered(runtime.DockerHealth.ID) {
		return nil
	}
	c := diagnose.Case{
		Says: "the container runtime of {node} cannot start containers", Covers: runtimeGone,
		For:     slices.Concat(diagnose.Proves(placed), diagnose.Proves(said), diagnose.Suggests(logs)),
		Against: diagnose.Suggests(f.Failed(facts.CheckNodeLease)),
	}
	for _, r := range f.Of(facts.CheckNodeReady) {
		if kind := r.Facts.Str(facts.Runtime); kind != "" {
			c.FixName = fixOfRuntime[kind]
		}
	}
	if silent, heard := evidence.Witnesses(f); len(heard) == 0 { // the lease was read before the wait for the probe
		c.Against = append(c.Against,
			diagnose.Clues(map[bool]int{true: diagnose.Proof, false: diagnose.Strong}[len(evidence.Askers(silent)) > 1],
				silent)...)
	}
	switch {
	case len(said) > 0:
		c.Says += "; the kubelet reports: " + said[0].Saw
	case len(placed) > 0:
		c.Says += ": " + placed[0].Saw
	case len(logs) > 0:
		c.Says += ", according to the kubelet: " + logs[0].Saw
	default:
		c.Says = "the kubelet of {node} renews its lease but starts no pods: the container runtime seems to block its sync loop, or it keeps exiting and restarting"
		c.For = slices.Concat(diagnose.Suggests(idle), diagnose.Shows(alive))
	}
	return []diagnose.Case{c}
}

// hasReason reports whether an event has the reason why the runtime creates no sandbox. A timeout is no reason.
func hasReason(f diagnose.Findings) bool {
	pods := diagnose.Keep(evidence.WaitingPods(f, facts.StartsSandbox, facts.StartsContainer),
		func(r diagnose.Finding) bool {
			return r.Facts.Str(facts.Message) != "" && r.Facts.Str(facts.Obstacle) != facts.ObstacleSilence
		})
	return len(pods) > 0
}

// runtimeEnds matches a container runtime that exits and logs the reason. It returns one case for each runtime.
func runtimeEnds(f diagnose.Findings) []diagnose.Case {
	gone := []string{"refused", "missing"}
	var out []diagnose.Case
	for service, down := range map[string][]diagnose.Finding{
		logs.ServiceContainerd: diagnose.Keep(f.Failed(runtime.ContainerdHealth.ID), diagnose.Because(gone...)),
		logs.ServiceDocker:     diagnose.Keep(f.Failed(runtime.DockerHealth.ID), diagnose.Because(gone...)),
		logs.ServiceCRIO:       diagnose.Keep(f.Failed(runtime.CRIHealth.ID), diagnose.Because(gone...)),
	} {
		lines := evidence.ServiceEnds(f, service)
		if len(lines) == 0 || evidence.ShownElsewhere(f, lines[0]) {
			continue
		}
		c := diagnose.Case{
			About: service, Says: fmt.Sprintf("%s on {node} keeps exiting: %s", service, lines[0].Saw),
			For:    slices.Concat(diagnose.Clues(evidence.EndWeight(lines[0], len(down) > 0), lines), diagnose.Shows(down)),
			Covers: runtimeGone,
		}
		c.FixName, c.Args = fixOfEnd(service, lines[0])
		if service == logs.ServiceContainerd {
			c.Against = diagnose.Suggests(diagnose.Good(f, runtime.ContainerdHealth.ID)) // it has restarted since
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b diagnose.Case) int { return len(a.About) - len(b.About) })
	return out
}

// The place of an error in containerd's configuration: the file, of containerd 1.6 or 2, and the line.
var (
	tomlFile = regexp.MustCompile(`failed to load TOML(?: from|:) (/[^ :]+):`)
	tomlLine = regexp.MustCompile(`(?:TOML at row |: \()(\d{1,6})\b`)
)

// fixOfEnd returns the fix for the last log line of a runtime and its values, "" for the cause's own fix.
func fixOfEnd(service string, line diagnose.Finding) (string, map[string]diagnose.Arg) {
	switch signature := line.Facts.Str(logs.FactSignature); {
	case signature == logs.FaultPortTaken:
		return "taken", nil
	case signature != logs.FaultBadSetting || service != logs.ServiceContainerd:
		return "", nil
	}
	text := evidence.QuotedLine(line)
	file, at := "/etc/containerd/config.toml", ""
	if m := tomlFile.FindStringSubmatch(text); m != nil {
		file = m[1]
	}
	if m := tomlLine.FindStringSubmatch(text); m != nil {
		at = " at line " + m[1]
	}
	return "toml", map[string]diagnose.Arg{"config": diagnose.FileArg(file), "atline": diagnose.OwnArg(at)}
}
