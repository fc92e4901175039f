package api

import (
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

func proxyRights(s *cluster.Snapshot, report func(probe.Result)) {
	switch r, err := s.Proxy.Value, s.Proxy.Err; {
	case cluster.UsesEndpoints(s.Node.Status.NodeInfo.KubeletVersion):
		report(probe.Found(probe.Skip, "a kube-proxy of this version may still read endpoints instead of endpointslices"))
	case r.Account == "" && err == nil:
		report(probe.Found(probe.Skip, "kube-proxy's account is unknown"))
	case apierrors.IsForbidden(err):
		report(probe.Found(probe.Skip, "the rights of %s are unknown: you may not create subjectaccessreviews or read "+
			"roles and bindings", r.Account))
	case err != nil:
		report(probe.Failed(err))
	case len(r.Lacks) == 0:
		report(probe.Found(probe.OK, "%s has all %d rights that kube-proxy needs%s", r.Account, r.Checked, r.Source()))
	default:
		status, needs := probe.Warn, "which a kube-proxy outside a DaemonSet needs"
		if r.Sure {
			needs = "which kube-proxy needs"
		}
		if r.Sure && !r.ByRoles { // else another authorizer may grant it
			status = probe.Fail
		}
		report(probe.Found(status, "%s may not %s, %s%s", r.Account, strings.Join(r.Lacks, ", "), needs, r.Source()).
			With(facts.Account, r.Account).With(facts.Lacks, r.Lacks))
	}
}
