package diagnose

import (
	"slices"

	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// The functions of this file select what components logged, by the signature with which a check recognised the line.
// logLines and serviceEnds return any line where no signature is named.
//
//	who wrote it             before it exited   while it goes on
//	calico-node              logLines           writes
//	a service of the node    serviceEnds        serviceWrites
//	kube-proxy, CoreDNS ...  kubeEnds           kubeSays
//	the kernel                                  kernelSays

// kernelFresh is how old the kernel's line may be to be about what is bad now, in seconds.
const kernelFresh = 600

// hasSignature reports whether a line has one of these signatures.
func hasSignature(r Finding, signatures []string) bool {
	return slices.Contains(signatures, r.Facts.Str(logs.FactSignature))
}

// logLines are the lines with which a run of calico-node or of one of its init containers exited lately. Those of a
// run that goes on explain nothing: calico-node logs also what tenants wrote, such as a pod's annotations.
func logLines(f Findings, signatures ...string) []Finding {
	return keep(f.With(logs.CalicoLog.ID, logs.FactEnded, true), func(r Finding) bool {
		return bad(r.Status) && (len(signatures) == 0 || hasSignature(r, signatures))
	})
}

// writes are the lines that calico-node logs while it runs and that are not over.
func writes(f Findings, signatures ...string) []Finding {
	return keep(f.Bad(logs.CalicoErrors.ID), func(r Finding) bool { return hasSignature(r, signatures) })
}

// serviceEnds are the lines with which a service of the node exited lately.
func serviceEnds(f Findings, service string, signatures ...string) []Finding {
	return keep(f.With(logs.DaemonLog.ID, logs.FactEnded, true), func(r Finding) bool {
		return bad(r.Status) && r.Target == service && (len(signatures) == 0 || hasSignature(r, signatures))
	})
}

// serviceWrites are the lines of a service that goes on.
func serviceWrites(f Findings, service string, signatures ...string) []Finding {
	return keep(f.With(logs.DaemonLog.ID, logs.FactEnded, false), func(r Finding) bool {
		return bad(r.Status) && r.Target == service && hasSignature(r, signatures)
	})
}

// kubeEnds are the lines with which a component of Kubernetes, Typha or calico-kube-controllers exited lately.
func kubeEnds(f Findings, component string) []Finding {
	return keep(f.With(logs.KubeLog.ID, probe.FactOfContainer, component), func(r Finding) bool {
		return bad(r.Status) && r.Facts[logs.FactEnded] == true
	})
}

// kubeSays are the lines of a component of Kubernetes that goes on, which it has logged for a while and lately.
// A kube-proxy that does not get through its start need not have logged it for long.
func kubeSays(f Findings, component string, signatures ...string) []Finding {
	starts := component == "kube-proxy" &&
		len(f.With(service.KubeProxyHealth.ID, probe.FactReason, service.ReasonNotUp)) > 0
	return keep(f.With(logs.KubeLog.ID, probe.FactOfContainer, component), func(r Finding) bool {
		info := r.Status == probe.Info && (starts || r.Facts.Str(logs.FactSignature) == logs.SaysUpstream)
		return (bad(r.Status) || info) && r.Facts[logs.FactEnded] == false && hasSignature(r, signatures)
	})
}

// kernelSays are the kernel's lines of the last ten minutes.
func kernelSays(f Findings, signatures ...string) []Finding {
	return keep(f.Bad(host.KernelLog.ID), func(r Finding) bool {
		ago, known := r.Facts.Num(host.FactAgo)
		return hasSignature(r, signatures) && known && ago <= kernelFresh
	})
}
