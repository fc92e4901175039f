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

// BirdOf are the results of a check about the BIRD of one family.
func BirdOf(f diagnose.Findings, check string, family int) []diagnose.Finding {
	return diagnose.Keep(f.Of(check), func(r diagnose.Finding) bool { return diagnose.FamilyOf(r) == family })
}

// calicoIll are the signs beside its log that calico-node is not up: its health, and the API's word of its pod.
func calicoIll(f diagnose.Findings) []diagnose.Finding {
	return slices.Concat(f.Failed(felix.FelixReady.ID), f.Failed(felix.FelixLive.ID), f.Failed(facts.CheckCalicoPod))
}

// QuotedLine is the line of a result, without the source file that it begins with.
func QuotedLine(r diagnose.Finding) string { return r.Facts.Str(logs.FactLine) }

// Written weighs lines that calico-node writes: they fit, and are sure where it is also seen not to be up.
func Written(f diagnose.Findings, lines []diagnose.Finding) []diagnose.Clue {
	return append(diagnose.Suggests(lines), diagnose.Hints(calicoIll(f)[:min(1, len(calicoIll(f)))])...)
}

// FelixIll is what a health port leaves behind that does not answer the kubelet: it
// kills calico-node, with BIRD in it.
var FelixIll = slices.Concat(diagnose.Covers(felix.FelixLive.ID, felix.FelixReady.ID), CalicoDown)

// OfLiveness are the findings of felix-live with one reason; felix-ready says the
// same where that was not asked.
func OfLiveness(f diagnose.Findings, reason string) []diagnose.Finding {
	if fs := f.With(felix.FelixLive.ID, probe.FactReason, reason); len(fs) > 0 {
		return fs
	}
	return f.With(felix.FelixReady.ID, probe.FactReason, reason)
}

// SilentAtHome are daemons of the node that take no connection on its loopback, one answer of each.
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

// kubeletAnswers is the kubelet's answer to a question by the network, where it gave no bad one; what
// is read of its files says nothing about the loopback or the load.
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

// lastError is the last error that calico-node's own container wrote. Where runit starts Felix again
// and again the container goes on, and nothing in its log ends.
func lastError(f diagnose.Findings) []diagnose.Finding {
	return diagnose.Keep(f.Of(logs.CalicoLog.ID), func(r diagnose.Finding) bool {
		return r.Facts.Str(probe.FactOfContainer) == "calico-node" && r.Facts.Str(logs.FactLine) != ""
	})
}

// NotStarted is what a calico-node that has not begun leaves undone.
var NotStarted = diagnose.Covers(facts.CheckCalicoPod, facts.CheckControllers, facts.CheckNodeReady,
	facts.CheckNodeTaints,
	start.InitStall.ID, cni.IPAMFiles.ID, cni.CNIConfig.ID, cni.CNINodename.ID, cni.CNIToken.ID,
	felix.FelixLive.ID, felix.FelixReady.ID, bgp.BirdSocket.ID, bgp.BirdConfig.ID, bgp.BGPSession.ID,
	bgp.BGPPort.ID, bgp.BGPExpected.ID, start.StartupBudget.ID, logs.CalicoLog.ID, facts.CheckPodsStart)

// InitByAPI is the init container that the API calls running.
func InitByAPI(f diagnose.Findings) []diagnose.Finding {
	return f.Where(func(r diagnose.Finding) bool {
		return r.Check == facts.CheckCalicoPod && diagnose.IsBad(r.Status) &&
			strings.HasPrefix(r.Facts.Str(facts.APIReason), "Init:")
	})
}

// networkUnavailable is the name of the condition, and of the result about it.
const networkUnavailable = "NetworkUnavailable"

// CalicoDown is what a calico-node that is not up leaves behind, on its own node.
// its own port; those of peers are another matter
var CalicoDown = append(append([]diagnose.Cover{{Check: bgp.BGPPort.ID, About: "port "},
	{Check: facts.CheckNodeReady, About: networkUnavailable}}, PodsUnconnected...), diagnose.Covers(
	facts.CheckCalicoPod, facts.CheckControllers, facts.CheckCalicoBudget, start.StartupBudget.ID, felix.FelixLive.ID,
	felix.FelixReady.ID,
	bgp.BirdSocket.ID, bgp.BirdConfig.ID, bgp.BGPSession.ID, bgp.BGPExpected.ID, route.RouteBlocks.ID,
	pod.PodPing.ID, pod.PodTCP.ID, pod.PodMTU.ID, logs.CalicoLog.ID,
)...)

// CutShort are the findings that say a start of calico-node does not get to its end.
func CutShort(f diagnose.Findings) []diagnose.Finding {
	out := f.Failed(facts.CheckCalicoBudget)
	for _, r := range f.With(start.StartupBudget.ID, start.FactOver, false) {
		if r.Status == probe.Fail {
			out = append(out, r)
		}
	}
	return out
}

// Loads are the findings of node-load about the node itself.
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

// StartsPods are the probes that the kubelet started in a new pod for this run: it hears of pods from the API server.
func StartsPods(f diagnose.Findings) []diagnose.Finding {
	return diagnose.Keep(diagnose.Good(f, probe.CheckPlaced), func(r diagnose.Finding) bool { return r.Way == "pod" })
}
