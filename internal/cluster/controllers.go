package cluster

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/probe"
)

// ControllersPods selects the calico-kube-controllers pods that the manifests or the operator create.
const ControllersPods = "k8s-app=calico-kube-controllers"

// readControllers lists the calico-kube-controllers pods in the trusted namespaces. In other namespaces, any user can
// create a pod with this label.
func (c *Client) readControllers(ctx context.Context) ([]corev1.Pod, error) {
	list, err := c.kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx,
		metav1.ListOptions{LabelSelector: ControllersPods, ResourceVersion: "0"})
	if err != nil {
		return nil, fmt.Errorf("listing calico-kube-controllers pods: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return !slices.Contains(c.CalicoIn, p.Namespace) }), nil
}

// calicosLogs returns the calico-kube-controllers and running Typha pods on this node as targets for reading logs.
func (s *Snapshot) calicosLogs(running []corev1.Pod) []probe.Target {
	var out []probe.Target
	add := func(name string, p *corev1.Pod) {
		if p.Spec.NodeName == s.Node.Name && metav1.GetControllerOf(p) != nil {
			out = append(out, probe.Target{Kind: probe.KindLogs, Name: name, Node: p.Spec.NodeName, Host: p.Name,
				Attrs: map[string]string{probe.AttrLogs: p.Namespace + "_" + p.Name + "_" + string(p.UID)}})
		}
	}
	for i := range s.Controllers.Value {
		add("calico-kube-controllers", &s.Controllers.Value[i])
	}
	for i := range running {
		if p := &running[i]; p.Labels["k8s-app"] == "calico-typha" && slices.Contains(s.CalicoIn, p.Namespace) {
			add("calico-typha", p)
		}
	}
	return out
}

// ReadAbsent starts reading why calico-kube-controllers has no pod. If sets is true, it also reads why a node has no
// calico-node pod.
func (c *Client) ReadAbsent(ctx context.Context, of *Installation, sets bool, all *probe.Workers) {
	of.NoControllers.start(ctx, all, func(ctx context.Context) (string, error) {
		return c.whyNoControllers(ctx, of.Controllers)
	})
	if sets {
		of.Sets.start(ctx, all, c.ReadSets)
	}
}

// whyNoControllers returns why the Deployment calico-kube-controllers has no pod. It returns "" if the Deployment has a
// pod, does not need a pod, or does not exist.
func (c *Client) whyNoControllers(ctx context.Context, pods Read[[]corev1.Pod]) (string, error) {
	if pods.Err != nil || len(pods.Value) > 0 {
		return "", nil
	}
	for _, namespace := range c.CalicoIn {
		list, err := c.kube.AppsV1().Deployments(namespace).List(ctx,
			metav1.ListOptions{LabelSelector: ControllersPods, ResourceVersion: "0"})
		if err != nil {
			return "", fmt.Errorf("listing Deployments: %w", err)
		}
		for _, d := range list.Items {
			name := d.Namespace + "/" + d.Name
			if d.Spec.Replicas != nil && *d.Spec.Replicas == 0 { // scaled down on purpose
				return "", nil
			}
			for _, condition := range d.Status.Conditions {
				if condition.Type == appsv1.DeploymentReplicaFailure && condition.Status == corev1.ConditionTrue {
					now, _ := c.clock.Now()
					said := probe.Statement{Text: probe.Quoted(condition.Message), At: condition.LastUpdateTime.Time}
					return "Deployment " + name + " cannot create a pod: " + said.Aged(now), nil
				}
			}
			return "Deployment " + name + " has no pod", nil
		}
	}
	return "", nil
}
