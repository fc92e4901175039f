package api

import (
	"slices"

	"github.com/calico-probe/calico-probe/internal/cluster"
	kubeletapi "github.com/calico-probe/calico-probe/internal/subject/kubelet/api"
	podapi "github.com/calico-probe/calico-probe/internal/subject/pod/api"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// StartsNothing is the result about a node that cannot start containers now, as far as the API shows it, false if
// nothing shows it. A container runtime that hangs shows after half a minute at the earliest.
func StartsNothing(s *cluster.Snapshot) (probe.Result, bool) {
	const instead = "; try --via ssh, or --via local on the node itself: neither needs a new container"
	switch {
	case cluster.KubeletSilent(s):
		return probe.Found(probe.Fail, "the kubelet of %s is silent (its lease has expired), so no container can start there%s", s.Node.Name, instead), true
	case kubeletapi.RuntimeDown(s):
		return probe.Found(probe.Fail, "the container runtime of %s does not answer the kubelet, so no container can start there%s", s.Node.Name, instead), true
	}
	var held []probe.Result
	podapi.PodsStart(s, func(r probe.Result) {
		if r.Status == probe.Fail && slices.Contains([]string{facts.StartsSandbox, facts.StartsContainer, facts.StartsUnsaid},
			r.Facts.Str(facts.Starts)) {
			held = append(held, r)
		}
	})
	if len(held) == 0 {
		return probe.Result{}, false
	}
	return probe.Found(probe.Unknown, "unknown whether %s can start containers now: %s", s.Node.Name, held[0].Saw), true
}
