package cluster

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/netpolicy"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// podPolicies names the policies that hold for pods of the node. Where other pods are there to test with, these are
// left out, as what they send or receive may be denied on purpose: so the report says which, and by which policy.
func podPolicies(s *Snapshot, report func(probe.Result)) {
	switch {
	case s.placed.pods.Err != nil:
		report(unread(s.placed.pods.Err))
		return
	case s.policies.Unread != nil:
		report(probe.Found(probe.Info, "which policies there are is not known: %s", probe.OneLine(s.policies.Unread.Error())))
		return
	}
	by, held, all := map[string][]string{}, 0, 0
	denies := map[string]string{}
	for _, p := range s.placed.running() {
		if !ownAddress(p) || p.DeletionTimestamp != nil {
			continue
		}
		all++
		of := s.policies.On(p.Namespace, netpolicy.LabelsOf(&p))
		if policy := of[probe.AttrPolicy]; policy != "" {
			held++
			by[policy] = append(by[policy], nameOf(&p))
			denies[policy] = cmp.Or(denies[policy], of[probe.AttrDenies])
		}
	}
	if held == 0 {
		report(probe.Found(probe.OK, "no policy selects any of %s", plural(all, "pod")))
		return
	}
	names := slices.Sorted(maps.Keys(by))
	for _, policy := range names[:min(len(names), policiesTold)] {
		pods := by[policy]
		slices.Sort(pods)
		r := probe.Found(probe.Info, "it may block traffic of %d of %s (%s)", len(pods), plural(all, "pod"), few(pods))
		if in := denies[policy]; in != "" {
			r = probe.Found(probe.Info, "it selects %d of %s (%s), and denies all %s of the first of them", len(pods),
				plural(all, "pod"), few(pods), strings.ReplaceAll(in, ",", " and "))
		}
		if held < all {
			r.Saw += "; ask its owner. Pods without a policy were tested instead"
		}
		report(r.On(policy).With(facts.Policy, policy).With(facts.NamedPods, pods[:min(len(pods), podsTold)]))
	}
}
