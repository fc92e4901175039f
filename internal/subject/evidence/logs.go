package evidence

import (
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// kernelFresh is how old the kernel's line may be to be about what is bad now, in seconds.
const kernelFresh = 600

// hasSignature reports whether a line has one of these signatures.
func hasSignature(r diagnose.Finding, signatures []string) bool {
	return slices.Contains(signatures, r.Facts.Str(logs.FactSignature))
}

// LogLines are the lines with which a run of calico-node or of one of its init containers exited lately. Those of a
// run that goes on explain nothing: calico-node logs also what tenants wrote, such as a pod's annotations.
func LogLines(f diagnose.Findings, signatures ...string) []diagnose.Finding {
	return diagnose.Keep(f.With(logs.CalicoLog.ID, logs.FactEnded, true), func(r diagnose.Finding) bool {
		return diagnose.IsBad(r.Status) && (len(signatures) == 0 || hasSignature(r, signatures))
	})
}

// Writes are the lines that calico-node logs while it runs and that are not over.
func Writes(f diagnose.Findings, signatures ...string) []diagnose.Finding {
	return diagnose.Keep(f.Bad(logs.CalicoErrors.ID), func(r diagnose.Finding) bool { return hasSignature(r, signatures) })
}

// ServiceEnds are the lines with which a service of the node exited lately.
func ServiceEnds(f diagnose.Findings, service string, signatures ...string) []diagnose.Finding {
	return diagnose.Keep(f.With(logs.DaemonLog.ID, logs.FactEnded, true), func(r diagnose.Finding) bool {
		return diagnose.IsBad(r.Status) && r.Target == service && (len(signatures) == 0 || hasSignature(r, signatures))
	})
}

// ServiceWrites are the lines of a service that goes on.
func ServiceWrites(f diagnose.Findings, service string, signatures ...string) []diagnose.Finding {
	return diagnose.Keep(f.With(logs.DaemonLog.ID, logs.FactEnded, false), func(r diagnose.Finding) bool {
		return diagnose.IsBad(r.Status) && r.Target == service && hasSignature(r, signatures)
	})
}

// kubeEnds are the lines with which a component of Kubernetes, Typha or calico-kube-controllers exited lately.
func kubeEnds(f diagnose.Findings, component string) []diagnose.Finding {
	return diagnose.Keep(f.With(logs.KubeLog.ID, probe.FactOfContainer, component), func(r diagnose.Finding) bool {
		return diagnose.IsBad(r.Status) && r.Facts[logs.FactEnded] == true
	})
}

// kubeSays are the lines of a component of Kubernetes that goes on, which it has logged for a while and lately.
// A kube-proxy that does not get through its start need not have logged it for long.
func kubeSays(f diagnose.Findings, component string, signatures ...string) []diagnose.Finding {
	starts := component == "kube-proxy" &&
		len(f.With(service.KubeProxyHealth.ID, probe.FactReason, service.ReasonNotUp)) > 0
	return diagnose.Keep(f.With(logs.KubeLog.ID, probe.FactOfContainer, component), func(r diagnose.Finding) bool {
		info := r.Status == probe.Info && (starts || r.Facts.Str(logs.FactSignature) == logs.SaysUpstream)
		return (diagnose.IsBad(r.Status) || info) && r.Facts[logs.FactEnded] == false && hasSignature(r, signatures)
	})
}

// KernelSays are the kernel's lines of the last ten minutes.
func KernelSays(f diagnose.Findings, signatures ...string) []diagnose.Finding {
	return diagnose.Keep(f.Bad(host.KernelLog.ID), func(r diagnose.Finding) bool {
		ago, known := r.Facts.Num(host.FactAgo)
		return hasSignature(r, signatures) && known && ago <= kernelFresh
	})
}
