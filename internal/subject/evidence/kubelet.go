package evidence

import (
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/internal/subject/kubelet"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/runtime"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/logs"
	"github.com/calico-probe/calico-probe/probe/node"
)

// KubeletGone holds the checks that fail because the kubelet does not run.
var KubeletGone = append(AboutService(logs.ServiceKubelet), diagnose.Covers(facts.CheckNodeReady, facts.CheckNodeLease,
	facts.CheckNodeTaints, facts.CheckCalicoPod, facts.CheckControllers, facts.CheckPodsStart, facts.CheckPodsEnd,
	kubelet.KubeletHealth.ID)...)

// Askers returns the nodes that reported the findings, without duplicates.
func Askers(fs []diagnose.Finding) []string {
	var out []string
	for _, r := range fs {
		if !slices.Contains(out, r.Node) {
			out = append(out, r.Node)
		}
	}
	return out
}

// NotPlaced returns the access methods that failed for a reason, including those that placed a probe but got no answer
// from it. It omits methods that were skipped for that reason, because they add no evidence.
func NotPlaced(f diagnose.Findings, why facts.Reason) []diagnose.Finding {
	tried := append(f.With(probe.CheckPlaced, probe.FactReason, string(why)),
		f.With(probe.CheckAnswered, probe.FactReason, string(why))...)
	return slices.DeleteFunc(tried, func(r diagnose.Finding) bool { return r.Status == probe.Skip })
}

// SilentExec reports whether a finding comes from exec into a running container. If exec stays silent, the fault may be
// the API server's connection, the kubelet or the runtime.
func SilentExec(r diagnose.Finding) bool { return r.Method == "exec" }

// Since returns " for " and the time since the last lease renewal, "" if the lease has not expired.
func Since(f diagnose.Findings) string {
	for _, r := range f.Failed(facts.CheckNodeLease) {
		if age, ok := r.Facts.Num(facts.Age); ok {
			return " for " + diagnose.Lasting(age)
		}
	}
	return ""
}

// Witnesses splits the neighbours' findings about this node. silent has the findings of neighbours without an answer,
// heard has the answers.
func Witnesses(f diagnose.Findings) (silent, heard []diagnose.Finding) {
	all := FromOutside(f, AnyPort)
	heard = slices.Concat(all.Open, all.Refused)
	return diagnose.Keep(all.Silent, func(r diagnose.Finding) bool { return !slices.Contains(Askers(heard), r.Node) }),
		heard
}

// kubeletPorts sorts the kubelet's answers on its ports, as observed on the node.
type kubeletPorts struct{ Ok, Refused, Silent, Ill []diagnose.Finding }

// KubeletHere sorts the findings of kubelet-health, without those from the kubelet's files.
func KubeletHere(f diagnose.Findings) kubeletPorts {
	var k kubeletPorts
	for _, r := range f.Of(kubelet.KubeletHealth.ID) {
		_, answered := r.Facts.Num(probe.FactCode)
		switch {
		case r.Target == kubelet.TargetCertificate, r.Target == kubelet.TargetAuthority, r.Target == kubelet.TargetState:
		case r.Status == probe.OK:
			k.Ok = append(k.Ok, r)
		case r.Status != probe.Fail:
		case answered:
			k.Ill = append(k.Ill, r)
		case diagnose.ReasonOf(r) == "refused":
			k.Refused = append(k.Refused, r)
		default:
			k.Silent = append(k.Silent, r)
		}
	}
	return k
}

// Answered reports whether any port was checked.
func (k kubeletPorts) Answered() bool { return len(k.Ok)+len(k.Refused)+len(k.Silent)+len(k.Ill) > 0 }

// kind returns the answers of one kind, or all for "any". "dead" returns the refusals if every port refuses.
func (k kubeletPorts) kind(word string) []diagnose.Finding {
	dead := k.Refused
	if !k.dead() {
		dead = nil
	}
	return map[string][]diagnose.Finding{"ok": k.Ok, "refused": k.Refused, "silent": k.Silent, "ill": k.Ill, "dead": dead,
		"any": slices.Concat(k.Ok, k.Refused, k.Silent, k.Ill)}[word]
}

// dead reports whether the kubelet does not run: every port refuses. A single port may be disabled.
func (k kubeletPorts) dead() bool {
	return len(k.Refused) > 0 && len(k.Ok)+len(k.Silent)+len(k.Ill) == 0
}

const (
	KubeletPort = 10250
	AnyPort     = 0
)

// Reached sorts the answers that neighbours got from this node's port.
type Reached struct{ Open, Refused, Silent []diagnose.Finding }

// FromOutside sorts the findings of other nodes about a port of this node, AnyPort for all ports and ICMP.
func FromOutside(f diagnose.Findings, port float64) Reached {
	var out Reached
	for _, r := range f.Elsewhere(link.NeighbourReach.ID) {
		if dialled, _ := r.Facts.Num(probe.FactPort); !strings.HasPrefix(r.Target, f.Node+" ") ||
			port != AnyPort && dialled != port {
			continue
		}
		switch {
		case r.Status == probe.OK:
			out.Open = append(out.Open, r)
		case r.Status != probe.Fail:
		case probe.IsReply(diagnose.ReasonOf(r)):
			out.Refused = append(out.Refused, r)
		default:
			out.Silent = append(out.Silent, r)
		}
	}
	return out
}

// AboutService covers the findings of daemon-log about services.
func AboutService(names ...string) []diagnose.Cover {
	var out []diagnose.Cover
	for _, name := range names {
		out = append(out, diagnose.Cover{Check: logs.DaemonLog.ID, About: name})
	}
	return out
}

// EndWeight returns the weight of a service's last log line. If the service is down, a known error from its own journal
// is a proof. An unknown error is weaker, and so is a line that any process can write under the service's tag.
func EndWeight(line diagnose.Finding, down bool) int {
	switch {
	case !down:
		return diagnose.Hint
	case line.Facts.Str(logs.FactSignature) == "", line.Facts[logs.FactByTag] == true:
		return diagnose.Strong
	}
	return diagnose.Proof
}

// ended weighs the last log lines of a service that is down.
func ended(_ diagnose.Findings, lines []diagnose.Finding) []diagnose.Clue {
	if len(lines) == 0 {
		return nil
	}
	return diagnose.Clues(EndWeight(lines[0], true), lines)
}

// endsUnseen returns the last log lines of a service if no other check shows why it exited.
func endsUnseen(f diagnose.Findings, service string) []diagnose.Finding {
	lines := ServiceEnds(f, service)
	if len(lines) == 0 || ShownElsewhere(f, lines[0]) {
		return nil
	}
	return lines
}

// ShownElsewhere reports whether another check shows the log line's reason. That check's cause then explains more.
func ShownElsewhere(f diagnose.Findings, line diagnose.Finding) bool {
	outdated := slices.Concat(f.With(kubelet.KubeletHealth.ID, probe.FactReason, node.CertificateExpired),
		f.With(kubelet.KubeletHealth.ID, probe.FactReason, node.CertificateEarly))
	seen := map[string][]diagnose.Finding{
		logs.FaultSwapOn:       f.Failed(host.NodeSwap.ID),
		logs.FaultCertificate:  outdated,
		logs.FaultNoKubeconfig: outdated,
		logs.FaultDiskFull:     f.Failed(host.NodeDisk.ID),
		logs.FaultReadOnly:     f.Failed(host.NodeDisk.ID),
		logs.FaultNoRuntime: slices.Concat(f.Failed(runtime.ContainerdHealth.ID), f.Failed(runtime.CRIHealth.ID),
			f.Failed(runtime.DockerHealth.ID)),
	}
	return len(seen[line.Facts.Str(logs.FactSignature)]) > 0
}
