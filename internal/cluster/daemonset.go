package cluster

import (
	"context"
	"fmt"
	"regexp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/probe"
)

// CalicoSet is a DaemonSet that creates calico-node's pods.
type CalicoSet struct {
	appsv1.DaemonSet
	Refused probe.Statement // the API server's answer to its last attempt to create a pod
}

// ReadSets lists the DaemonSets in the trusted namespaces that create calico-node. It is called only if a node has no
// calico-node pod.
func (c *Client) ReadSets(ctx context.Context) ([]CalicoSet, error) {
	out := []CalicoSet{}
	for _, namespace := range c.CalicoIn {
		list, err := c.kube.AppsV1().DaemonSets(namespace).List(ctx, cached)
		if err != nil {
			return nil, fmt.Errorf("listing the DaemonSets of %s: %w", namespace, err)
		}
		for _, set := range list.Items {
			if slices.Contains([]string{"calico-node", "canal"}, set.Spec.Template.Labels["k8s-app"]) {
				out = append(out, CalicoSet{set, c.Refusal(ctx, &set)})
			}
		}
	}
	return out, nil
}

// SetController is the source of a DaemonSet's events.
const SetController = "daemonset-controller"

// Refusal returns why the API server refused a DaemonSet's last attempt to create a pod. Its text is empty if a later
// attempt succeeded, or if there is no event.
func (c *Client) Refusal(ctx context.Context, set *appsv1.DaemonSet) probe.Statement {
	events, err := c.eventsOf(ctx, set)
	if err != nil {
		return probe.Statement{} // the missing pod is reported in any case
	}
	var last *corev1.Event
	for i, e := range events {
		wanted := (e.Reason == eventNotCreated || e.Reason == eventCreated) && e.Source.Component == SetController
		if wanted && (last == nil || eventTime(&events[i]).After(eventTime(last))) {
			last = &events[i]
		}
	}
	if last == nil || last.Reason != eventNotCreated {
		return probe.Statement{}
	}
	return refusalIn(last)
}

// forbiddenPod matches the beginning of a refusal that names a policy. It is cut, because a screen has room only for
// the policy.
var forbiddenPod = regexp.MustCompile(`^[Pp]ods? "[^"]*" is forbidden: `)
