package api

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/apicheck"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/netpolicy"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// podPolicies lists the policies that apply to pods of the node. Other checks skip these pods if they can test other
// pods, because a policy may deny traffic on purpose. So the report names the pods and policies.
func podPolicies(s *cluster.Snapshot, report func(probe.Result)) {
	switch {
	case s.Placed.Pods.Err != nil:
		report(apicheck.Unread(s.Placed.Pods.Err))
		return
	case s.Policies.Unread != nil:
		report(probe.Found(probe.Info, "cannot read the policies: %s", probe.OneLine(s.Policies.Unread.Error())))
		return
	}
	by, held, all := map[string][]string{}, 0, 0
	denies := map[string]string{}
	for _, p := range s.Placed.Running() {
		if !cluster.OwnAddress(p) || p.DeletionTimestamp != nil {
			continue
		}
		all++
		of := s.Policies.On(p.Namespace, netpolicy.LabelsOf(&p))
		if policy := of[probe.AttrPolicy]; policy != "" {
			held++
			by[policy] = append(by[policy], cluster.NameOf(&p))
			denies[policy] = cmp.Or(denies[policy], of[probe.AttrDenies])
		}
	}
	if held == 0 {
		report(probe.Found(probe.OK, "no policy selects any of %s", cluster.Plural(all, "pod")))
		return
	}
	names := slices.Sorted(maps.Keys(by))
	for _, policy := range names[:min(len(names), apicheck.MaxPolicies)] {
		pods := by[policy]
		slices.Sort(pods)
		r := probe.Found(probe.Info, "the policy may block traffic of %d of %s (%s)", len(pods), cluster.Plural(all, "pod"), cluster.Few(pods))
		if in := denies[policy]; in != "" {
			r = probe.Found(probe.Info, "the policy selects %d of %s (%s), and denies all %s of the first pod", len(pods),
				cluster.Plural(all, "pod"), cluster.Few(pods), strings.ReplaceAll(in, ",", " and "))
		}
		if held < all {
			r.Saw += "; ask the policy's owner. Other checks used pods without a policy"
		}
		report(r.On(policy).With(facts.Policy, policy).With(facts.NamedPods, pods[:min(len(pods), apicheck.MaxPods)]))
	}
}
