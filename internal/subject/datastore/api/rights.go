package api

import (
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/calico-probe/calico-probe/internal/apicheck"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

func calicoRights(s *cluster.Snapshot, report func(probe.Result)) {
	switch r, err := s.Rights.Value, s.Rights.Err; {
	case s.Calico.Err != nil:
		report(apicheck.Unread(cluster.SeeCalicoPod(s.Calico.Err)))
		return
	case r.Account == "" && err == nil:
		report(probe.Found(probe.Skip, "no calico-node with the Kubernetes datastore was found"))
		return
	case apierrors.IsForbidden(err):
		report(probe.Found(probe.Skip, "the rights of %s are unknown: you may not create subjectaccessreviews or read "+
			"roles and bindings", r.Account).
			On("account"))
	case err != nil:
		report(probe.Failed(err).On("account"))
	case len(r.Lacks) == 0:
		report(probe.Found(probe.OK, "%s has all %d rights that were checked%s", r.Account, r.Checked, r.Source()).On("account"))
	default:
		report(needs(s, "%s may not %s, which calico-node needs%s", r.Account,
			strings.Join(r.Lacks, ", "), r.Source()).On("account").
			With(facts.Account, r.Account).With(facts.Lacks, r.Lacks))
	}
	pluginRights(s, report)
	switch k := s.Kinds.Value; {
	case s.Kinds.Err != nil:
		report(apicheck.Unread(s.Kinds.Err).On("kinds"))
	case len(k.Absent) == 0:
		report(probe.Found(probe.OK, "the API server has all %d kinds that calico-node needs", len(cluster.KindsNeeded)).On("kinds"))
	default:
		report(needs(s, "the API server lacks %s of %s, which calico-node needs", strings.Join(k.Absent, ", "), k.Group).
			On("kinds").With(facts.Lacks, k.Absent))
	}
}

// pluginRights reports missing rights of the CNI plugin's account. The next pod that starts needs them.
func pluginRights(s *cluster.Snapshot, report func(probe.Result)) {
	const target = "CNI plugin"
	switch r, err := s.Plugin.Value, s.Plugin.Err; {
	case r.Account == "" && err == nil:
	case apierrors.IsForbidden(err): // for the same reason, calico-node's account is reported as unknown
	case err != nil:
		report(probe.Failed(err).On(target))
	case len(r.Lacks) == 0:
		report(probe.Found(probe.OK, "%s has all %d rights that the CNI plugin needs", r.Account, r.Checked).On(target))
	default:
		found := probe.Found(probe.Fail, "%s may not %s, which the CNI plugin needs for each new pod%s", r.Account,
			strings.Join(r.Lacks, ", "), r.Source())
		if r.ByRoles { // another authorizer may grant the right
			found.Status = probe.Warn
		}
		report(found.On(target).With(facts.Account, r.Account).With(facts.Lacks, r.Lacks).With(facts.OfPlugin, true))
	}
}

// needs returns the result for something that calico-node lacks. If calico-node does not start, the result is a fault
// now, otherwise at the next start.
func needs(s *cluster.Snapshot, format string, args ...any) probe.Result {
	if s.Rights.Value.ByRoles && len(s.Rights.Value.Lacks) > 0 { // another authorizer may grant the right
		return probe.Found(probe.Warn, format, args...)
	}
	if cluster.PodReady(s.Calico.Value) {
		r := probe.Found(probe.Warn, format, args...)
		r.Saw += "; the running calico-node fails at its next start at the latest"
		return r.With(facts.Later, true)
	}
	return probe.Found(probe.Fail, format, args...).With(facts.Later, false)
}
