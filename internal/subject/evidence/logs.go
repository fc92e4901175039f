package evidence

import (
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// kernelFresh is the age in seconds up to which a kernel message explains a current fault.
const kernelFresh = 600

// hasSignature reports whether a line has one of these signatures.
func hasSignature(r diagnose.Finding, signatures []string) bool {
	return slices.Contains(signatures, r.Facts.Str(logs.FactSignature))
}

// LogLines returns the last lines of runs of calico-node or of its init containers that exited recently. Lines of a
// running container prove nothing: calico-node also logs tenants' input, such as pod annotations.
func LogLines(f diagnose.Findings, signatures ...string) []diagnose.Finding {
	return diagnose.Keep(f.With(logs.CalicoLog.ID, logs.FactEnded, true), func(r diagnose.Finding) bool {
		return diagnose.IsBad(r.Status) && (len(signatures) == 0 || hasSignature(r, signatures))
	})
}

// Writes returns the errors that a running calico-node logs and that have not stopped.
func Writes(f diagnose.Findings, signatures ...string) []diagnose.Finding {
	return diagnose.Keep(f.Bad(logs.CalicoErrors.ID), func(r diagnose.Finding) bool { return hasSignature(r, signatures) })
}

// ServiceEnds returns the last log lines of a service of the node that exited recently.
func ServiceEnds(f diagnose.Findings, service string, signatures ...string) []diagnose.Finding {
	return diagnose.Keep(f.With(logs.DaemonLog.ID, logs.FactEnded, true), func(r diagnose.Finding) bool {
		return diagnose.IsBad(r.Status) && r.Target == service && (len(signatures) == 0 || hasSignature(r, signatures))
	})
}

// ServiceWrites returns the log lines of a service that keeps running.
func ServiceWrites(f diagnose.Findings, service string, signatures ...string) []diagnose.Finding {
	return diagnose.Keep(f.With(logs.DaemonLog.ID, logs.FactEnded, false), func(r diagnose.Finding) bool {
		return diagnose.IsBad(r.Status) && r.Target == service && hasSignature(r, signatures)
	})
}

// kubeEnds returns the last log lines of a component of Kubernetes, Typha or calico-kube-controllers that exited
// recently.
func kubeEnds(f diagnose.Findings, component string) []diagnose.Finding {
	return diagnose.Keep(f.With(logs.KubeLog.ID, probe.FactOfContainer, component), func(r diagnose.Finding) bool {
		return diagnose.IsBad(r.Status) && r.Facts[logs.FactEnded] == true
	})
}

// kubeWrites returns the lines that a running component of Kubernetes has logged for a while and recently. For a
// kube-proxy that does not finish its startup, recent lines are enough.
func kubeWrites(f diagnose.Findings, component string, signatures ...string) []diagnose.Finding {
	starts := component == "kube-proxy" &&
		len(f.With(service.KubeProxyHealth.ID, probe.FactReason, service.ReasonNotUp)) > 0
	return diagnose.Keep(f.With(logs.KubeLog.ID, probe.FactOfContainer, component), func(r diagnose.Finding) bool {
		info := r.Status == probe.Info && (starts || r.Facts.Str(logs.FactSignature) == logs.FaultUpstream)
		return (diagnose.IsBad(r.Status) || info) && r.Facts[logs.FactEnded] == false && hasSignature(r, signatures)
	})
}

// KernelSays returns the kernel's log lines of the last ten minutes.
func KernelSays(f diagnose.Findings, signatures ...string) []diagnose.Finding {
	return diagnose.Keep(f.Bad(host.KernelLog.ID), func(r diagnose.Finding) bool {
		ago, known := r.Facts.Num(host.FactAgo)
		return hasSignature(r, signatures) && known && ago <= kernelFresh
	})
}
