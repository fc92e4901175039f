package api

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/internal/apicheck"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// calicoControllers reports on the pods of calico-kube-controllers. They may run anywhere, and concern this node only
// if they are on it.
func calicoControllers(s *cluster.Snapshot, report func(probe.Result)) {
	if s.Controllers.Err != nil {
		report(apicheck.Unread(s.Controllers.Err))
		return
	}
	for i := range s.Controllers.Value {
		p := &s.Controllers.Value[i]
		r := controllersState(s, p)
		if r.Status == probe.Warn && p.Spec.NodeName != s.Node.Name {
			r.Status = probe.Info
		}
		if p.Spec.NodeName != "" {
			r.Saw += ", on " + p.Spec.NodeName
		}
		report(r.On(p.Namespace + "/" + p.Name))
	}
	switch {
	case len(s.Controllers.Value) > 0:
	case s.NoControllers.Err != nil:
		report(apicheck.Unread(s.NoControllers.Err))
	case s.NoControllers.Value != "":
		report(probe.Found(probe.Warn, "not running in this cluster: %s", s.NoControllers.Value).
			With(probe.FactReason, facts.ControllersNone).On("calico-kube-controllers"))
	default:
		report(probe.Found(probe.Skip, "this cluster has no calico-kube-controllers (label %s, namespace %s)",
			cluster.ControllersPods, strings.Join(s.CalicoIn, " or ")))
	}
}

func controllersState(s *cluster.Snapshot, p *corev1.Pod) probe.Result {
	if len(p.Status.ContainerStatuses) == 0 {
		return probe.Found(probe.Warn, "%s, no container reported yet", p.Status.Phase)
	}
	c := p.Status.ContainerStatuses[0] // it has only one
	restarts := cluster.Plural(int(c.RestartCount), "restart")
	r := probe.Found(probe.OK, "running and ready, %s", restarts)
	switch {
	case c.State.Waiting != nil:
		r = probe.Found(probe.Warn, "waiting: %s, %s%s", c.State.Waiting.Reason, restarts,
			lastRun(c, s.Now)).With(facts.APIReason, c.State.Waiting.Reason)
	case c.State.Terminated != nil:
		r = probe.Found(probe.Warn, "terminated: %s, exit code %d, %s", c.State.Terminated.Reason, c.State.Terminated.ExitCode,
			restarts)
	case c.State.Running != nil && c.RestartCount > 0 && s.Now.Sub(c.State.Running.StartedAt.Time) < cluster.Recent:
		r = probe.Found(probe.Warn, "running for %s, %s%s", probe.Age(s.Now.Sub(c.State.Running.StartedAt.Time)), restarts,
			lastRun(c, s.Now))
	case !c.Ready:
		r = probe.Found(probe.Warn, "not ready, %s", restarts)
	}
	return s.Startup.Value.Others[p.UID].On(r, c, s.Now).With(facts.Restarts, int(c.RestartCount))
}
