package api

import (
	"fmt"

	"github.com/calico-probe/calico-probe/internal/apicheck"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// calicoHistory shows why a probe of calico-node failed before it was last ready, if it is not ready again and the
// kubelet has not yet reported the reason. If no pod exists, it shows why the DaemonSet failed to create one some time
// ago.
func calicoHistory(s *cluster.Snapshot) []probe.Result {
	var out []probe.Result
	if s.Calico.Value == nil {
		for _, set := range s.Sets.Value {
			if why := set.Refused; why.Text != "" && !why.Current(s.Now.Add(-refusedFor)) {
				out = append(out, why.History(s.Now).On(set.Namespace+"/"+set.Name+" history"))
			}
		}
	} else if s.Startup.Value.Before.Text != "" && s.Startup.Value.Probes.Text == "" {
		out = append(out, s.Startup.Value.Before.History(s.Now).On(cluster.NameOf(s.Calico.Value)+" history"))
	}
	if err := s.Startup.Err; err != nil {
		out = append(out, apicheck.SkipDenied(fmt.Errorf("reading the kubelet's events: %w", err)).On("kubelet's events"))
	}
	return out
}

// kubeletSays adds the kubelet's message to a bad result about calico-node's pod: what keeps the pod from starting, or
// why its probe fails.
func kubeletSays(s *cluster.Snapshot, r probe.Result) probe.Result {
	if r.Status != probe.Fail && r.Status != probe.Warn || r.Facts[facts.NotStarted] == true {
		return r
	}
	if e := s.Startup.Value.Waits; e != nil && !cluster.Begun(s.Calico.Value) {
		starts := map[string]string{
			cluster.EventMount: facts.StartsVolume, cluster.EventAttach: facts.StartsVolume,
			cluster.EventMap:     facts.StartsVolume,
			cluster.EventSandbox: facts.StartsSandbox, cluster.EventCgroup: facts.StartsSandbox,
			cluster.EventNetwork: facts.StartsNetwork,
		}[e.Reason]
		if starts != "" {
			said := cluster.StatementOf(e)
			said.Text = probe.Quoted(cluster.GeneralText(cluster.Waiter{Pod: s.Calico.Value}, e.Message))
			r.Saw += "; the kubelet reported: " + said.Aged(s.Now)
			return r.With(facts.Starts, starts).With(facts.Message, said.Text)
		}
	}
	if said := s.Startup.Value.Probes; said.Text != "" && r.Facts[facts.BrokenProbe] == nil {
		r.Saw += "; the kubelet reported: " + said.Aged(s.Now)
		r = r.With(facts.ProbeSays, said.Text)
	}
	if s.Startup.Value.Limit != "" {
		r = r.With(facts.Limit, s.Startup.Value.Limit)
	}
	return r
}
