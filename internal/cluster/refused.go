package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/calico-probe/calico-probe/probe"
)

// Reasons of the events in which a controller reports the creation of a pod.
const (
	eventNotCreated = "FailedCreate"
	eventCreated    = "SuccessfulCreate"
)

const (
	// RefusalLife is the time for which a refusal counts as current. The controller retries after at most 1000 s
	// (client-go, util/workqueue). After 25 events of one object, an event recorder writes one event every 5 min
	// (client-go, tools/record).
	RefusalLife = 1000*time.Second + 5*time.Minute

	maxRefusals = 200 // maximum number of events to read
	maxRefused  = 10  // maximum number of workloads to report, the most recent first
)

// podControllers are the sources of these events in kube-controller-manager.
var podControllers = []string{"replicaset-controller", SetController, "statefulset-controller", "job-controller",
	"replication-controller"}

// An Unmade is a workload whose new pods the API server refuses.
type Unmade struct {
	Kind, Namespace, Name string
	Lacks                 int // number of missing pods; 0 = unknown, or it only cannot replace old pods
	Said                  probe.Statement
}

// ReadRefused finds the workloads whose last attempt to create a pod failed, except calico-node (see Refusal). One list
// covers all namespaces. Anyone with the right to create events can forge these events, so ReadRefused also reads the
// workloads themselves.
func (c *Client) ReadRefused(ctx context.Context) ([]Unmade, error) {
	events, err := c.events(ctx, metav1.NamespaceAll, "reason="+eventNotCreated, maxRefusals)
	if err != nil {
		return nil, fmt.Errorf("listing events: %w", err)
	}
	now, _ := c.clock.Now()
	var last []*corev1.Event // one for each object
	for i := range events {
		e := &events[i]
		if !slices.Contains(podControllers, e.Source.Component) || now.Sub(eventTime(e)) > RefusalLife || c.isCalicoSet(e) {
			continue
		}
		at := slices.IndexFunc(last, func(o *corev1.Event) bool { return o.InvolvedObject.UID == e.InvolvedObject.UID })
		switch {
		case at < 0:
			last = append(last, e)
		case eventTime(e).After(eventTime(last[at])):
			last[at] = e
		}
	}
	slices.SortStableFunc(last, func(a, b *corev1.Event) int { return eventTime(b).Compare(eventTime(a)) })
	found, err := whole(forEach(last[:min(len(last), maxRefused)], func(e *corev1.Event) (*Unmade, error) {
		return c.refusedOf(ctx, e)
	}))
	var out []Unmade
	for _, r := range found {
		same := func(o Unmade) bool { return r.Kind == o.Kind && r.Namespace == o.Namespace && r.Name == o.Name }
		if r != nil && !slices.ContainsFunc(out, same) { // two ReplicaSets of a Deployment
			out = append(out, *r)
		}
	}
	return out, err
}

// isCalicoSet reports whether an event is about a DaemonSet of calico-node, which Refusal covers.
func (c *Client) isCalicoSet(e *corev1.Event) bool {
	of := e.InvolvedObject
	return of.Kind == "DaemonSet" && slices.Contains(c.CalicoIn, of.Namespace) &&
		slices.Contains([]string{"calico-node", "canal"}, of.Name)
}

// refusedOf returns an event's workload. It returns nil if the workload now has its pods, or does not need any.
func (c *Client) refusedOf(ctx context.Context, e *corev1.Event) (*Unmade, error) {
	of := e.InvolvedObject
	r := Unmade{Kind: of.Kind, Namespace: of.Namespace, Name: of.Name, Said: refusalIn(e)}
	later, err := c.events(ctx, of.Namespace, "reason="+eventCreated+",involvedObject.uid="+
		fields.EscapeValue(string(of.UID)), maxEvents)
	if err != nil {
		return nil, fmt.Errorf("listing events: %w", err)
	}
	if slices.ContainsFunc(later, func(o corev1.Event) bool { return eventTime(&o).After(eventTime(e)) }) {
		return nil, nil
	}
	current := true
	switch of.Kind {
	case "ReplicaSet":
		current, err = c.ofDeployment(ctx, &r)
	case "DaemonSet":
		current, err = c.ofDaemonSet(ctx, &r)
	}
	if Denied(err) { // the event still shows the refusal
		err = nil
	}
	if err != nil || !current {
		return nil, err
	}
	return &r, nil
}

// ofDeployment replaces a ReplicaSet with its Deployment, and reports whether the Deployment still lacks a pod.
func (c *Client) ofDeployment(ctx context.Context, r *Unmade) (current bool, err error) {
	list, err := c.kube.AppsV1().Deployments(r.Namespace).List(ctx, cached)
	if err != nil {
		return true, fmt.Errorf("listing Deployments: %w", err)
	}
	i := slices.IndexFunc(list.Items, func(d appsv1.Deployment) bool {
		hash, of := strings.CutPrefix(r.Name, d.Name+"-")
		return of && !strings.Contains(hash, "-")
	})
	if i < 0 { // a ReplicaSet without a Deployment
		return true, nil
	}
	d := &list.Items[i]
	r.Kind, r.Name = "Deployment", d.Name
	wanted := int32(1) // the default
	if d.Spec.Replicas != nil {
		wanted = *d.Spec.Replicas
	}
	r.Lacks = max(0, int(wanted-d.Status.Replicas))
	return wanted > 0 && slices.ContainsFunc(d.Status.Conditions, func(of appsv1.DeploymentCondition) bool {
		return of.Type == appsv1.DeploymentReplicaFailure && of.Status == corev1.ConditionTrue
	}), nil
}

// ofDaemonSet reports whether a DaemonSet still lacks a pod.
func (c *Client) ofDaemonSet(ctx context.Context, r *Unmade) (current bool, err error) {
	list, err := c.kube.AppsV1().DaemonSets(r.Namespace).List(ctx, cached)
	if err != nil {
		return true, fmt.Errorf("listing DaemonSets: %w", err)
	}
	i := slices.IndexFunc(list.Items, func(d appsv1.DaemonSet) bool { return d.Name == r.Name })
	if i < 0 {
		return false, nil
	}
	of := list.Items[i].Status
	r.Lacks = max(0, int(of.DesiredNumberScheduled-of.CurrentNumberScheduled))
	return r.Lacks > 0, nil
}

// refusalIn returns the API server's answer that an event quotes.
func refusalIn(e *corev1.Event) probe.Statement {
	text := e.Message[:min(len(e.Message), LongestEvent)]
	text = strings.TrimPrefix(text, "(combined from similar events): ")
	if _, own, of := strings.Cut(text, " failed error: "); of && e.Source.Component == "statefulset-controller" {
		text = own // of "create Pod web-0 in StatefulSet web failed error: ..."
	}
	text = forbiddenPod.ReplaceAllString(strings.TrimPrefix(text, "Error creating: "), "")
	return probe.Statement{By: e.Source.Component, Text: probe.Quoted(text), At: eventTime(e)}
}
