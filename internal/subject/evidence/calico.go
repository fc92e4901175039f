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

// BirdOf returns the findings of a check about the BIRD of one family.
func BirdOf(f diagnose.Findings, check string, family int) []diagnose.Finding {
	return diagnose.Keep(f.Of(check), func(r diagnose.Finding) bool { return diagnose.FamilyOf(r) == family })
}

// calicoIll returns the signs outside the log that calico-node is down: its health, and its pod's state in the API.
func calicoIll(f diagnose.Findings) []diagnose.Finding {
	return slices.Concat(f.Failed(felix.FelixReady.ID), f.Failed(felix.FelixLive.ID), f.Failed(facts.CheckCalicoPod))
}

// QuotedLine returns the log line of a finding, without the source file at its beginning.
func QuotedLine(r diagnose.Finding) string { return r.Facts.Str(logs.FactLine) }

// Written weighs calico-node's log lines: strong, or proof with a second sign that calico-node is down.
func Written(f diagnose.Findings, lines []diagnose.Finding) []diagnose.Clue {
	return append(diagnose.Suggests(lines), diagnose.Hints(calicoIll(f)[:min(1, len(calicoIll(f)))])...)
}

// FelixIll covers the consequences of a Felix health port that does not answer: the kubelet kills calico-node,
// including BIRD.
var FelixIll = slices.Concat(diagnose.Covers(felix.FelixLive.ID, felix.FelixReady.ID), CalicoDown)

// OfLiveness returns the findings of felix-live with one reason. If that check did not run, it returns the findings of
// felix-ready.
func OfLiveness(f diagnose.Findings, reason string) []diagnose.Finding {
	if fs := f.With(felix.FelixLive.ID, probe.FactReason, reason); len(fs) > 0 {
		return fs
	}
	return f.With(felix.FelixReady.ID, probe.FactReason, reason)
}

// SilentAtHome returns one finding for each daemon of the node that accepts no connection on its loopback.
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

// kubeletAnswers returns one good answer of the kubelet over the network, if all its answers are good. It omits
// findings from files, which show nothing about the loopback or the load.
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

// lastError returns the last error that calico-node's own container logged. While runit keeps restarting Felix the
// container stays up, so no run in its log ends.
func lastError(f diagnose.Findings) []diagnose.Finding {
	return diagnose.Keep(f.Of(logs.CalicoLog.ID), func(r diagnose.Finding) bool {
		return r.Facts.Str(probe.FactOfContainer) == "calico-node" && r.Facts.Str(logs.FactLine) != ""
	})
}

// NotStarted covers what fails while calico-node has not started.
var NotStarted = diagnose.Covers(facts.CheckCalicoPod, facts.CheckControllers, facts.CheckNodeReady,
	facts.CheckNodeTaints,
	start.InitStall.ID, cni.IPAMFiles.ID, cni.CNIConfig.ID, cni.CNINodename.ID, cni.CNIToken.ID,
	felix.FelixLive.ID, felix.FelixReady.ID, bgp.BirdSocket.ID, bgp.BirdConfig.ID, bgp.BGPSession.ID,
	bgp.BGPPort.ID, bgp.BGPExpected.ID, start.StartupBudget.ID, logs.CalicoLog.ID, facts.CheckPodsStart)

// InitByAPI returns the finding of an init container that the API reports as running.
func InitByAPI(f diagnose.Findings) []diagnose.Finding {
	return f.Where(func(r diagnose.Finding) bool {
		return r.Check == facts.CheckCalicoPod && diagnose.IsBad(r.Status) &&
			strings.HasPrefix(r.Facts.Str(facts.APIReason), "Init:")
	})
}

// networkUnavailable is the name of the Node's condition, and of the result about it.
const networkUnavailable = "NetworkUnavailable"

// CalicoDown covers what fails on a node whose calico-node is down. Of bgp-port it covers the node's own port, not the
// peers' ports.
var CalicoDown = append(append([]diagnose.Cover{{Check: bgp.BGPPort.ID, About: "port "},
	{Check: facts.CheckNodeReady, About: networkUnavailable}}, PodsUnconnected...), diagnose.Covers(
	facts.CheckCalicoPod, facts.CheckControllers, facts.CheckCalicoBudget, start.StartupBudget.ID, felix.FelixLive.ID,
	felix.FelixReady.ID,
	bgp.BirdSocket.ID, bgp.BirdConfig.ID, bgp.BGPSession.ID, bgp.BGPExpected.ID, route.RouteBlocks.ID,
	pod.PodPing.ID, pod.PodTCP.ID, pod.PodMTU.ID, logs.CalicoLog.ID,
)...)

// CutShort returns the findings that show a start of calico-node that does not finish.
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

// Overloaded returns the findings of node-load about a node with far more tasks than CPUs.
func Overloaded(f diagnose.Findings) []diagnose.Finding {
	return diagnose.Keep(f.Bad(host.NodeLoad.ID), func(r diagnose.Finding) bool {
		return r.Facts[host.FactOverloaded] == true
	})
}

// OfDisks reports whether a load consists of tasks that wait for disks: CPU pressure is low, so a start gets its CPU
// time.
func OfDisks(r diagnose.Finding) bool {
	p, ok := r.Facts.Num(host.FactCPUPressure)
	return ok && p < 50
}

// StartsPods returns the probes that the kubelet started in a new pod for this run. Such a kubelet reads from the API
// server, because it learns of pods there.
func StartsPods(f diagnose.Findings) []diagnose.Finding {
	return diagnose.Keep(diagnose.Good(f, probe.CheckPlaced), func(r diagnose.Finding) bool { return r.Method == "pod" })
}
