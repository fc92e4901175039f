package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// controllersPods selects the pods of Calico's Deployment, by manifest and operator.
const controllersPods = "k8s-app=calico-kube-controllers"

// readControllers lists them where Calico's own pods are looked for: anybody can give a pod
// their label elsewhere.
func (c *Client) readControllers(ctx context.Context) ([]corev1.Pod, error) {
	list, err := c.kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx,
		metav1.ListOptions{LabelSelector: controllersPods, ResourceVersion: "0"})
	if err != nil {
		return nil, fmt.Errorf("listing calico-kube-controllers pods: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return !slices.Contains(c.calicoIn, p.Namespace) }), nil
}

// calicosLogs are Calico's other pods on this node as targets whose logs are read: of its controllers, and of
// Typha among those that run.
func (s *Snapshot) calicosLogs(running []corev1.Pod) []probe.Target {
	var out []probe.Target
	add := func(name string, p *corev1.Pod) {
		if p.Spec.NodeName == s.Node.Name && metav1.GetControllerOf(p) != nil {
			out = append(out, probe.Target{Kind: probe.KindLogs, Name: name, Node: p.Spec.NodeName, Host: p.Name,
				Attrs: map[string]string{probe.AttrLogs: p.Namespace + "_" + p.Name + "_" + string(p.UID)}})
		}
	}
	for i := range s.controllers.Value {
		add("calico-kube-controllers", &s.controllers.Value[i])
	}
	for i := range running {
		if p := &running[i]; p.Labels["k8s-app"] == "calico-typha" && slices.Contains(s.calicoIn, p.Namespace) {
			add("calico-typha", p)
		}
	}
	return out
}

// readAbsent starts reading why calico-kube-controllers has no pod, and with sets why calico-node has none on a node.
func (c *Client) readAbsent(ctx context.Context, of *installation, sets bool, all *probe.Workers) {
	of.noControllers.start(ctx, all, func(ctx context.Context) (string, error) {
		return c.whyNoControllers(ctx, of.controllers)
	})
	if sets {
		of.sets.start(ctx, all, c.readSets)
	}
}

// whyNoControllers says why the Deployment of calico-kube-controllers has no pod, "" where it has one, or
// there is none or wants none.
func (c *Client) whyNoControllers(ctx context.Context, pods Read[[]corev1.Pod]) (string, error) {
	if pods.Err != nil || len(pods.Value) > 0 {
		return "", nil
	}
	for _, namespace := range c.calicoIn {
		list, err := c.kube.AppsV1().Deployments(namespace).List(ctx,
			metav1.ListOptions{LabelSelector: controllersPods, ResourceVersion: "0"})
		if err != nil {
			return "", fmt.Errorf("listing Deployments: %w", err)
		}
		for _, d := range list.Items {
			name := d.Namespace + "/" + d.Name
			if d.Spec.Replicas != nil && *d.Spec.Replicas == 0 { // somebody meant that
				return "", nil
			}
			for _, condition := range d.Status.Conditions {
				if condition.Type == appsv1.DeploymentReplicaFailure && condition.Status == corev1.ConditionTrue {
					now, _ := c.clock.Now()
					said := probe.Statement{Text: probe.Quoted(condition.Message), At: condition.LastUpdateTime.Time}
					return "Deployment " + name + " can make no pod: " + said.Aged(now), nil
				}
			}
			return "Deployment " + name + " has no pod", nil
		}
	}
	return "", nil
}

// calicoControllers says how the pods of calico-kube-controllers are. They may run
// anywhere, and are a matter of this node only while they are on it.
func calicoControllers(s *Snapshot, report func(probe.Result)) {
	if s.controllers.Err != nil {
		report(unread(s.controllers.Err))
		return
	}
	for i := range s.controllers.Value {
		p := &s.controllers.Value[i]
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
	case len(s.controllers.Value) > 0:
	case s.noControllers.Err != nil:
		report(unread(s.noControllers.Err))
	case s.noControllers.Value != "":
		report(probe.Found(probe.Warn, "none runs in this cluster: %s", s.noControllers.Value).
			With(probe.FactReason, facts.ControllersNone).On("calico-kube-controllers"))
	default:
		report(probe.Found(probe.Skip, "this cluster has no calico-kube-controllers (label %s, namespace %s)",
			controllersPods, strings.Join(s.calicoIn, " or ")))
	}
}

func controllersState(s *Snapshot, p *corev1.Pod) probe.Result {
	if len(p.Status.ContainerStatuses) == 0 {
		return probe.Found(probe.Warn, "%s, no container of it has been reported yet", p.Status.Phase)
	}
	c := p.Status.ContainerStatuses[0] // it has one
	restarts := plural(int(c.RestartCount), "restart")
	r := probe.Found(probe.OK, "running and ready, %s", restarts)
	switch {
	case c.State.Waiting != nil:
		r = probe.Found(probe.Warn, "waits: %s, %s%s", c.State.Waiting.Reason, restarts,
			lastRun(c, s.Now)).With(facts.APIReason, c.State.Waiting.Reason)
	case c.State.Terminated != nil:
		r = probe.Found(probe.Warn, "ended: %s, exit code %d, %s", c.State.Terminated.Reason, c.State.Terminated.ExitCode,
			restarts)
	case c.State.Running != nil && c.RestartCount > 0 && s.Now.Sub(c.State.Running.StartedAt.Time) < recent:
		r = probe.Found(probe.Warn, "running for %s, %s%s", probe.Age(s.Now.Sub(c.State.Running.StartedAt.Time)), restarts,
			lastRun(c, s.Now))
	case !c.Ready:
		r = probe.Found(probe.Warn, "not ready, %s", restarts)
	}
	return s.startup.Value.others[p.UID].on(r, c, s.Now).With(facts.Restarts, int(c.RestartCount))
}
