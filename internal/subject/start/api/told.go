package api

import (
	"fmt"

	"github.com/calico-probe/calico-probe/internal/apicheck"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// calicoHistory returns old messages that may no longer apply: why calico-node's probe failed before it was last ready,
// if the kubelet has reported nothing since, or why the DaemonSet failed to create a pod some time ago.
func calicoHistory(s *cluster.Snapshot) []probe.Result {
	var out []probe.Result
	if s.Calico.Value == nil {
		for _, set := range s.Sets.Value {
			if refusal := set.Refused; refusal.Text != "" && !refusal.Current(s.Now.Add(-cluster.RefusalLife)) {
				out = append(out, refusal.History(s.Now).On(set.Namespace+"/"+set.Name+" history"))
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

// withKubeletMessage adds the kubelet's message to a bad result about calico-node's pod: what keeps the pod from
// starting, or why its probe fails.
func withKubeletMessage(s *cluster.Snapshot, r probe.Result) probe.Result {
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
			message := cluster.StatementOf(e)
			message.Text = probe.Quoted(cluster.GeneralText(cluster.Waiter{Pod: s.Calico.Value}, e.Message))
			r.Saw += "; the kubelet reported: " + message.Aged(s.Now)
			return r.With(facts.Starts, starts).With(facts.Message, message.Text)
		}
	}
	if message := s.Startup.Value.Probes; message.Text != "" && r.Facts[facts.BrokenProbe] == nil {
		r.Saw += "; the kubelet reported: " + message.Aged(s.Now)
		r = r.With(facts.ProbeSays, message.Text)
	}
	if s.Startup.Value.Limit != "" {
		r = r.With(facts.Limit, s.Startup.Value.Limit)
	}
	return r
}
