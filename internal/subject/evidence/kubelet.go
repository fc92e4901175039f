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
)

// KubeletGone covers the results that follow from a kubelet that does not run.
var KubeletGone = append(AboutService(logs.ServiceKubelet), diagnose.Covers(facts.CheckNodeReady, facts.CheckNodeLease,
	facts.CheckNodeTaints, facts.CheckCalicoPod, facts.CheckControllers, facts.CheckPodsStart, facts.CheckPodsEnd,
	kubelet.KubeletHealth.ID)...)

// Askers returns the nodes from which findings come.
func Askers(fs []diagnose.Finding) []string {
	var out []string
	for _, r := range fs {
		if !slices.Contains(out, r.Node) {
			out = append(out, r.Node)
		}
	}
	return out
}

// NotPlaced returns the access methods that failed for a reason, also those that started a probe and got no answer
// from it. A method that was skipped for the same reason proves no more than the one that was tried.
func NotPlaced(f diagnose.Findings, why facts.Reason) []diagnose.Finding {
	tried := append(f.With(probe.CheckPlaced, probe.FactReason, string(why)),
		f.With(probe.CheckAnswered, probe.FactReason, string(why))...)
	return slices.DeleteFunc(tried, func(r diagnose.Finding) bool { return r.Status == probe.Skip })
}

// SilentExec reports whether a finding is from access method exec. If exec returns nothing, the API server's
// connection, the kubelet or the runtime may be at fault.
func SilentExec(r diagnose.Finding) bool { return r.Way == "exec" }

// Since says how long the kubelet has been silent, "" if its lease has not expired.
func Since(f diagnose.Findings) string {
	for _, r := range f.Failed(facts.CheckNodeLease) {
		if age, ok := r.Facts.Num(facts.Age); ok {
			return " for " + diagnose.Lasting(age)
		}
	}
	return ""
}

// Witnesses returns the neighbours' results: those without any answer from this node, and those with one.
func Witnesses(f diagnose.Findings) (silent, heard []diagnose.Finding) {
	all := FromOutside(f, AnyPort)
	heard = slices.Concat(all.Open, all.Refused)
	return diagnose.Keep(all.Silent, func(r diagnose.Finding) bool { return !slices.Contains(Askers(heard), r.Node) }),
		heard
}

// kubeletSays are the kubelet's answers on its own ports, on the node.
type kubeletSays struct{ Ok, Refused, Silent, Ill []diagnose.Finding }

func KubeletHere(f diagnose.Findings) kubeletSays {
	var k kubeletSays
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

func (k kubeletSays) Answered() bool { return len(k.Ok)+len(k.Refused)+len(k.Silent)+len(k.Ill) > 0 }

// kind returns the answers of one kind, "any" for all. "dead" are the refusals of a kubelet that does not run.
func (k kubeletSays) kind(word string) []diagnose.Finding {
	dead := k.Refused
	if !k.dead() {
		dead = nil
	}
	return map[string][]diagnose.Finding{"ok": k.Ok, "refused": k.Refused, "silent": k.Silent, "ill": k.Ill, "dead": dead,
		"any": slices.Concat(k.Ok, k.Refused, k.Silent, k.Ill)}[word]
}

// dead reports whether the kubelet does not run, because each port refuses. A single port may be disabled.
func (k kubeletSays) dead() bool {
	return len(k.Refused) > 0 && len(k.Ok)+len(k.Silent)+len(k.Ill) == 0
}

const (
	KubeletPort = 10250
	AnyPort     = 0
)

// Reached are the neighbours' connections to this node.
type Reached struct{ Open, Refused, Silent []diagnose.Finding }

func FromOutside(f diagnose.Findings, port float64) Reached {
	var out Reached
	for _, r := range f.Elsewhere(link.NeighbourReach.ID) {
		if asked, _ := r.Facts.Num(probe.FactPort); !strings.HasPrefix(r.Target, f.Node+" ") || port != AnyPort &&
			asked != port {
			continue
		}
		switch {
		case r.Status == probe.OK:
			out.Open = append(out.Open, r)
		case r.Status != probe.Fail:
		case probe.SomebodyAnswered(diagnose.ReasonOf(r)):
			out.Refused = append(out.Refused, r)
		default:
			out.Silent = append(out.Silent, r)
		}
	}
	return out
}

// AboutService covers daemon-log's results about some services.
func AboutService(names ...string) []diagnose.Cover {
	var out []diagnose.Cover
	for _, name := range names {
		out = append(out, diagnose.Cover{Check: logs.DaemonLog.ID, About: name})
	}
	return out
}

// EndWeight is the weight of the line with which a service exited. down is true if the service was seen not to answer.
func EndWeight(line diagnose.Finding, down bool) int {
	switch {
	case !down:
		return diagnose.Hint
	case line.Facts.Str(logs.FactSignature) == "", line.Facts[logs.FactByTag] == true:
		return diagnose.Strong
	}
	return diagnose.Proof
}

// ended weighs the lines with which a service exited that was seen not to answer.
func ended(_ diagnose.Findings, lines []diagnose.Finding) []diagnose.Clue {
	if len(lines) == 0 {
		return nil
	}
	return diagnose.Clues(EndWeight(lines[0], true), lines)
}

// endsUnseen returns the lines with which a service exited, if no check on the node shows the reason.
func endsUnseen(f diagnose.Findings, service string) []diagnose.Finding {
	lines := ServiceEnds(f, service)
	if len(lines) == 0 || ShownElsewhere(f, lines[0]) {
		return nil
	}
	return lines
}

// ShownElsewhere reports whether a check on the node itself shows what the line reports. The cause of that explains
// more.
func ShownElsewhere(f diagnose.Findings, line diagnose.Finding) bool {
	seen := map[string][]diagnose.Finding{
		logs.SaysSwapOn:       f.Failed(host.NodeSwap.ID),
		logs.SaysCertificate:  f.With(kubelet.KubeletHealth.ID, probe.FactReason, kubelet.CertificateExpired),
		logs.SaysNoKubeconfig: f.With(kubelet.KubeletHealth.ID, probe.FactReason, kubelet.CertificateExpired),
		logs.SaysDiskFull:     f.Failed(host.NodeDisk.ID),
		logs.SaysReadOnly:     f.Failed(host.NodeDisk.ID),
		logs.SaysNoRuntime: slices.Concat(f.Failed(runtime.ContainerdHealth.ID), f.Failed(runtime.CRIHealth.ID),
			f.Failed(runtime.DockerHealth.ID)),
	}
	return len(seen[line.Facts.Str(logs.FactSignature)]) > 0
}
