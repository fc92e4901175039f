package evidence

import (
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/internal/subject/felix"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/internal/subject/kubelet"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/internal/subject/start"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// BirdOf returns the results of a check for the BIRD of one family.
func BirdOf(f diagnose.Findings, check string, family int) []diagnose.Finding {
	return diagnose.Keep(f.Of(check), func(r diagnose.Finding) bool { return diagnose.FamilyOf(r) == family })
}

// calicoIll returns the signs, beside its log, that calico-node is down: its health endpoints and its pod's status.
func calicoIll(f diagnose.Findings) []diagnose.Finding {
	return slices.Concat(f.Failed(felix.FelixReady.ID), f.Failed(felix.FelixLive.ID), f.Failed(facts.CheckCalicoPod))
}

// QuotedLine returns the log line of a result, without the source file at its beginning.
func QuotedLine(r diagnose.Finding) string { return r.Facts.Str(logs.FactLine) }

// Written weighs lines that calico-node logs. They suggest a cause, and count for more if calico-node is also seen to
// be down.
func Written(f diagnose.Findings, lines []diagnose.Finding) []diagnose.Clue {
	return append(diagnose.Suggests(lines), diagnose.Hints(calicoIll(f)[:min(1, len(calicoIll(f)))])...)
}

// FelixIll covers the results that follow from a health port that does not answer: the kubelet kills calico-node, and
// with it BIRD.
var FelixIll = slices.Concat(diagnose.Covers(felix.FelixLive.ID, felix.FelixReady.ID), CalicoDown)

// OfLiveness returns the findings of felix-live with a reason, or those of felix-ready if felix-live has none.
func OfLiveness(f diagnose.Findings, reason string) []diagnose.Finding {
	if fs := f.With(felix.FelixLive.ID, probe.FactReason, reason); len(fs) > 0 {
		return fs
	}
	return f.With(felix.FelixReady.ID, probe.FactReason, reason)
}

// SilentAtHome returns one answer of each daemon on the node that accepts no connection on the loopback.
func SilentAtHome(f diagnose.Findings) []diagnose.Finding {
	var silent []diagnose.Finding
	for _, id := range []string{felix.FelixLive.ID, kubelet.KubeletHealth.ID, service.KubeProxyHealth.ID} {
		for _, r := range f.With(id, probe.FactTaken, false) {
			if at := r.Facts.Str(probe.FactAddress); diagnose.IsBad(r.Status) && strings.HasPrefix(at, "127.") {
				silent = append(silent, r)
				break
			}
		}
	}
	return silent
}

// kubeletAnswers returns one answer of the kubelet over the network, if it gave no bad one. Results about its files
// prove nothing about the loopback or the load.
func kubeletAnswers(f diagnose.Findings) []diagnose.Finding {
	if !f.Fine(kubelet.KubeletHealth.ID) {
		return nil
	}
	all := diagnose.Keep(f.Of(kubelet.KubeletHealth.ID), func(r diagnose.Finding) bool {
		return diagnose.IsAnswered(r.Status) &&
			r.Target != kubelet.TargetCertificate && r.Target != kubelet.TargetAuthority && r.Target != kubelet.TargetState
	})
	return all[:min(len(all), 1)]
}

// lastError returns the last error that calico-node's own container logged. If runit keeps restarting Felix, the
// container goes on running and its log does not end.
func lastError(f diagnose.Findings) []diagnose.Finding {
	return diagnose.Keep(f.Of(logs.CalicoLog.ID), func(r diagnose.Finding) bool {
		return r.Facts.Str(probe.FactOfContainer) == "calico-node" && r.Facts.Str(logs.FactLine) != ""
	})
}

// NotStarted covers the results that follow from a calico-node that has not started.
var NotStarted = diagnose.Covers(facts.CheckCalicoPod, facts.CheckControllers, facts.CheckNodeReady,
	facts.CheckNodeTaints,
	start.InitStall.ID, cni.IPAMFiles.ID, cni.CNIConfig.ID, cni.CNINodename.ID, cni.CNIToken.ID,
	felix.FelixLive.ID, felix.FelixReady.ID, bgp.BirdSocket.ID, bgp.BirdConfig.ID, bgp.BGPSession.ID,
	bgp.BGPPort.ID, bgp.BGPExpected.ID, start.StartupBudget.ID, logs.CalicoLog.ID, facts.CheckPodsStart)

// InitByAPI returns calico-node's pod if the API reports it in an init container.
func InitByAPI(f diagnose.Findings) []diagnose.Finding {
	return f.Where(func(r diagnose.Finding) bool {
		return r.Check == facts.CheckCalicoPod && diagnose.IsBad(r.Status) &&
			strings.HasPrefix(r.Facts.Str(facts.APIReason), "Init:")
	})
}

// networkUnavailable is the name of the Node's condition, and of the result about it.
const networkUnavailable = "NetworkUnavailable"

// CalicoDown covers the results that follow, on its own node, from a calico-node that is down. Of bgp-port it covers
// the node's own port, and not those of the peers.
var CalicoDown = append(append([]diagnose.Cover{{Check: bgp.BGPPort.ID, About: "port "},
	{Check: facts.CheckNodeReady, About: networkUnavailable}}, PodsUnconnected...), diagnose.Covers(
	facts.CheckCalicoPod, facts.CheckControllers, facts.CheckCalicoBudget, start.StartupBudget.ID, felix.FelixLive.ID,
	felix.FelixReady.ID,
	bgp.BirdSocket.ID, bgp.BirdConfig.ID, bgp.BGPSession.ID, bgp.BGPExpected.ID, route.RouteBlocks.ID,
	pod.PodPing.ID, pod.PodTCP.ID, pod.PodMTU.ID, logs.CalicoLog.ID,
)...)

// CutShort returns the findings that calico-node is killed before its start is complete.
func CutShort(f diagnose.Findings) []diagnose.Finding {
	out := f.Failed(facts.CheckCalicoBudget)
	for _, r := range f.With(start.StartupBudget.ID, start.FactOver, false) {
		if r.Status == probe.Fail {
			out = append(out, r)
		}
	}
	return out
}

// Loads returns the findings of node-load about the node itself.
func Loads(fs []diagnose.Finding) []diagnose.Finding {
	return slices.DeleteFunc(slices.Clone(fs), func(r diagnose.Finding) bool {
		_,
			ok := r.Facts.Num(host.FactLoad)
		return !ok
	})
}

// OfDisks reports whether a load is of tasks that wait for disks, and leaves a start its CPU time.
func OfDisks(r diagnose.Finding) bool {
	p, ok := r.Facts.Num(host.FactCPUPressure)
	return ok && p < 50
}

// StartsPods returns the probes for which the kubelet started a new pod during this run. The kubelet gets pods from
// the API server, so it reaches that.
func StartsPods(f diagnose.Findings) []diagnose.Finding {
	return diagnose.Keep(diagnose.Good(f, probe.CheckPlaced), func(r diagnose.Finding) bool { return r.Way == "pod" })
}
