package cluster

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/probe"
)

// CalicoSet is a DaemonSet that makes calico-node.
type CalicoSet struct {
	appsv1.DaemonSet
	Refused probe.Statement // what the API server answered it when it last wanted to make a pod
}

// ReadSets lists the DaemonSets that make calico-node, in the namespaces where it is looked for. They are
// read only where a node has no pod of it.
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

// SetController is who writes the events of a DaemonSet.
const SetController = "daemonset-controller"

// Refusal is what the API server answered a DaemonSet that wanted to make a pod, without a text where it has made one
// since, or nothing is known of that.
func (c *Client) Refusal(ctx context.Context, set *appsv1.DaemonSet) probe.Statement {
	events, err := c.eventsOf(ctx, set)
	if err != nil {
		return probe.Statement{} // that there is no pod is said all the same
	}
	var last *corev1.Event
	for i, e := range events {
		wanted := (e.Reason == "FailedCreate" || e.Reason == "SuccessfulCreate") && e.Source.Component == SetController
		if wanted && (last == nil || eventTime(&events[i]).After(eventTime(last))) {
			last = &events[i]
		}
	}
	if last == nil || last.Reason != "FailedCreate" {
		return probe.Statement{}
	}
	text := last.Message[:min(len(last.Message), LongestEvent)]
	text = strings.TrimPrefix(text, "(combined from similar events): ")
	text = forbiddenPod.ReplaceAllString(strings.TrimPrefix(text, "Error creating: "), "")
	return probe.Statement{By: SetController, Text: probe.Quoted(text), At: eventTime(last)}
}

// forbiddenPod is how a refusal begins that names the policy behind it: a screen has room for one of the two.
var forbiddenPod = regexp.MustCompile(`^pods "[^"]*" is forbidden: `)
