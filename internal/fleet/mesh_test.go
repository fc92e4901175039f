package fleet

import (
	"fmt"
	"testing"

	"github.com/calico-probe/calico-probe/internal/mesh"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	bgpask "github.com/calico-probe/calico-probe/internal/subject/bgp/ask"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/probe"
)

// TestTrials requires the right trial for each answer about a path.
func TestTrials(t *testing.T) {
	t.Parallel()
	ping := func(status probe.Status, sent, received int) probe.Result {
		r := probe.Found(status, "seen").With(probe.FactSent, sent).With(probe.FactReceived, received)
		r.Check = pod.PodPing.ID
		return r
	}
	tcp := func(check *probe.Check, status probe.Status, reason string) probe.Result {
		r := probe.Found(status, "seen")
		if r.Check = check.ID; reason != "" {
			r = r.With(probe.FactReason, reason)
		}
		return r
	}
	mtu := func(status probe.Status, reason string, measured bool) probe.Result {
		r := tcp(pod.PodMTU, status, reason)
		if measured {
			r = r.With(probe.FactPromised, 1500)
		}
		return r
	}
	for name, c := range map[string]struct {
		r      probe.Result
		came   outcome
		failed bool
	}{
		"a ping":                          {ping(probe.OK, 5, 5), isTried, false},
		"a lossy ping":                    {ping(probe.Warn, 5, 2), isTried, false},
		"no ping":                         {ping(probe.Fail, 5, 0), isTried, true},
		"of a node that is not ready":     {ping(probe.Warn, 5, 0), isTried, true},
		"where ping is switched off":      {ping(probe.Warn, 5, 0).With(probe.FactLives, true), isTried, false},
		"to a pod under a policy":         {ping(probe.Warn, 5, 0).With(probe.FactPolicy, "default/deny"), isHeld, false},
		"a ping in spite of a policy":     {ping(probe.OK, 5, 5).With(probe.FactPolicy, "default/deny"), isTried, false},
		"with unread policies":            {ping(probe.Unknown, 5, 0), notKnown, false},
		"more pings than were sent":       {ping(probe.OK, 5, 6), notKnown, false},
		"fewer than none":                 {ping(probe.OK, 5, -1), notKnown, false},
		"no right to ping":                {tcp(link.NodePing, probe.Unknown, "denied"), notKnown, false},
		"a connection":                    {tcp(link.NeighbourReach, probe.OK, ""), isTried, false},
		"a kubelet that is down":          {tcp(link.NeighbourReach, probe.Fail, "refused"), isTried, false},
		"no connection":                   {tcp(link.NeighbourReach, probe.Fail, "timeout"), isTried, true},
		"a firewall":                      {tcp(pod.PodTCP, probe.Fail, "rejected"), isTried, true},
		"a port without a listener":       {tcp(pod.PodTCP, probe.Info, "refused"), isTried, false},
		"a pod of a node not ready":       {tcp(pod.PodTCP, probe.Warn, "timeout"), isTried, true},
		"a full-size packet":              {mtu(probe.OK, "", true), isTried, false},
		"a router that says its MTU":      {mtu(probe.Info, "", true), isTried, false},
		"a full-size packet that is lost": {mtu(probe.Fail, "timeout", true), isTried, true},
		"one to a node not ready":         {mtu(probe.Warn, "timeout", true), isTried, true},
		"no packet at all":                {mtu(probe.Unknown, "", false), notKnown, false},
		"not asked":                       {mtu(probe.Skip, "", false), notKnown, false},
	} {
		trial, came := trialOf(c.r)
		if came != c.came || came == isTried && trial.Failed != c.failed {
			t.Errorf("%s: %v, failed %v, want %v, %v", name, came, trial.Failed, c.came, c.failed)
		}
	}
}

// TestHostileTimes requires that invalid numbers from a node do not reach the drawing.
func TestHostileTimes(t *testing.T) {
	t.Parallel()
	for _, ms := range []float64{-5, -1e308, 1e308, 1e9, 0} {
		r := probe.Found(probe.OK, "seen").With(probe.FactSent, 3).With(probe.FactReceived, 3).With(probe.FactRTT, ms)
		r.Check = link.NodePing.ID
		trial, came := trialOf(r)
		if trial.RTT != 0 || came != isTried {
			t.Errorf("%g: %+v, %v", ms, trial, came)
		}
	}
}

// TestTelling requires a node's sessions, and whether the list is complete.
func TestTelling(t *testing.T) {
	t.Parallel()
	session := func(status probe.Status, peer string) probe.Result {
		return probe.Found(status, "seen").On("node-b "+peer).With(bgp.FactPeer, peer).With(bgp.FactState, "up")
	}
	bird := probe.Found(probe.Info, "BIRD has no peers").On("/run/calico/bird.ctl").With(bgpask.FactPeerCount, 0)
	none := probe.Found(probe.Skip, "Calico's networking backend here is vxlan").On("/run/calico/bird.ctl")
	dead := probe.Found(probe.Unknown, "cannot query peers").On("/run/calico/bird.ctl")
	for name, c := range map[string]struct {
		said []probe.Result
		want string
	}{
		"sessions": {[]probe.Result{session(probe.OK, "10.0.0.2"), session(probe.Fail, "10.0.0.3"), bird, none},
			"[10.0.0.2 true] [10.0.0.3 false] whole"},
		"one that is not Calico's": {[]probe.Result{session(probe.Warn, "10.0.0.2"), bird}, " whole"},
		"a peer that is not ready": {
			[]probe.Result{session(probe.Warn, "10.0.0.2").With(probe.FactNodeState, "NotReady"), bird},
			"[10.0.0.2 false] whole"},
		"no address":        {[]probe.Result{session(probe.OK, "of my own"), bird}, " whole"},
		"no BIRD":           {[]probe.Result{none, none}, " none"},
		"a BIRD that hangs": {[]probe.Result{dead, none}, " silent"},
	} {
		own, s := bgpReport{node: 3}, sessions{silent: map[int]string{}, whole: map[int]bool{}}
		for _, r := range c.said {
			own.take(r)
		}
		s.add(own)
		got := ""
		for i, m := range s.ends {
			if i > 0 {
				got += " "
			}
			got += fmt.Sprintf("[%s %v]", m.Peer, m.Up)
		}
		switch {
		case s.whole[3]:
			got += " whole"
		case s.silent[3] != "":
			got += " silent"
		case s.none != "":
			got += " none"
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestMeshChecks requires that every mesh check belongs to a plane of the reports.
func TestMeshChecks(t *testing.T) {
	t.Parallel()
	have := map[string]bool{mesh.PlaneBGP: true}
	for _, c := range meshChecks(true) {
		if planes[c.ID] == "" && !c.Is(bgp.BGPSession) {
			t.Errorf("%s belongs to no plane", c.ID)
		}
		have[planes[c.ID]] = true
	}
	for _, name := range mesh.Planes() {
		if !have[name] {
			t.Errorf("no check tries the paths of %s", name)
		}
	}
}
