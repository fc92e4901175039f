package api

import (
	"slices"

	"github.com/calico-probe/calico-probe/internal/cluster"
	kubeletapi "github.com/calico-probe/calico-probe/internal/subject/kubelet/api"
	podapi "github.com/calico-probe/calico-probe/internal/subject/pod/api"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// StartsNothing returns a result about a node that cannot start containers now. It is false if the API shows no sign of
// that. The API shows a hanging container runtime only after half a minute.
func StartsNothing(s *cluster.Snapshot) (probe.Result, bool) {
	const instead = "; try --via ssh, or --via local on the node itself: neither needs a new container"
	switch {
	case cluster.KubeletSilent(s):
		return probe.Found(probe.Fail, "the kubelet of %s is silent (its lease has expired), so no container can start there%s", s.Node.Name, instead), true
	case kubeletapi.RuntimeDown(s):
		return probe.Found(probe.Fail, "the container runtime of %s does not answer the kubelet, so no container can start there%s", s.Node.Name, instead), true
	}
	var waiting []probe.Result
	podapi.PodsStart(s, func(r probe.Result) {
		if r.Status == probe.Fail && slices.Contains([]string{facts.StartsSandbox, facts.StartsContainer,
			facts.StartsUnreported}, r.Facts.Str(facts.Starts)) {
			waiting = append(waiting, r)
		}
	})
	if len(waiting) == 0 {
		return probe.Result{}, false
	}
	return probe.Found(probe.Unknown, "unknown whether %s can start containers now: %s", s.Node.Name, waiting[0].Saw), true
}
