package api

import (
	"github.com/calico-probe/calico-probe/internal/apicheck"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// kubeletStarts returns a result about the kubelet's recent starts. It returns false for too few starts.
func kubeletStarts(s *cluster.Snapshot) (probe.Result, bool) {
	var r probe.Result
	switch {
	case s.Starts.Err != nil:
		r = apicheck.SkipDenied(s.Starts.Err)
	case s.Starts.Value.N < cluster.StartsMost:
		return r, false
	default:
		age := s.Now.Sub(s.Starts.Value.Last)
		r = probe.Found(probe.Warn, "the kubelet has started %d times in the last %s, most recently %s ago", s.Starts.Value.N,
			probe.Age(cluster.StartsCounted), probe.Age(age)).
			With(facts.KubeletStarts, s.Starts.Value.N).With(facts.Age, age.Seconds())
	}
	return r.On("kubelet"), true
}
