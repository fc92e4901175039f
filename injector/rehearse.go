package injector

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/probe/facts"
)

// Decided reports whether the real request would fail as its dry run did. Both kinds of request need a dry run: a pod
// whose priority is too high evicts other pods immediately, and an ephemeral container cannot be removed. If the API
// server does not support dry runs, the object is created first and then compared.
func Decided(err error) bool {
	pe, refused := errors.AsType[*PlacementError](err)
	return err != nil && (!refused || pe.Reason != facts.ReasonSupport)
}

// RehearsePod sends the probe's pod to the API server as a dry run. Policies and quotas apply, but the pod is not
// created. RehearsePod returns the error that the access method would return.
func (c *Client) RehearsePod(ctx context.Context, o Options) error {
	requested := podFor(o, nil)
	got, err := c.kube.CoreV1().Pods(o.Namespace).Create(ctx, requested,
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return refusedCreate("a pod in namespace "+o.Namespace, err)
	}
	if what := alteredPod(requested, got); what != "" {
		return alteredBy(what)
	}
	return nil
}

// RehearseJob does the same as RehearsePod for the clean-up Job. The access method also works without this Job.
func (c *Client) RehearseJob(ctx context.Context, o Options) error {
	requested := janitorFor(o)
	got, err := c.kube.BatchV1().Jobs(o.Namespace).Create(ctx, requested,
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return refusedCreate("a clean-up job in namespace "+o.Namespace, err)
	}
	if what := alteredJob(requested, got); what != "" {
		return alteredBy(what)
	}
	return nil
}

// RehearseEphemeral does the same as RehearsePod for the ephemeral container. Options.Calico must be set.
func (c *Client) RehearseEphemeral(ctx context.Context, o Options) error {
	if !o.Calico.Spec.HostNetwork {
		return refuse(facts.ReasonNoCalico, "pod %s/%s is not in the host network, so it is not a calico-node pod: check --calico-namespace %s",
			o.Calico.Namespace, o.Calico.Name, o.Calico.Namespace)
	}
	pod, container, err := c.join(ctx, o, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return err
	}
	if what := alteredEphemeral(container, o.Node, o.Calico.UID, pod); what != "" {
		return alteredBy(what)
	}
	return nil
}

// ExecTargets returns the containers that MethodExec would try, in order, as NAMESPACE/POD/CONTAINER. calico is the
// verified calico-node pod, or nil.
func ExecTargets(pods []corev1.Pod, calico *corev1.Pod) []string {
	var out []string
	for _, t := range execTargets(pods, calico) {
		if !t.lowMemory() && len(out) < maxExecTargets {
			out = append(out, t.String())
		}
	}
	return out
}

// HostKeyKnown checks whether the user's ssh knows the node's host key. It uses ssh's configuration and does not open a
// connection. The error explains why the key is missing.
func HostKeyKnown(ctx context.Context, o Options) error {
	if o.Destination == "" {
		return fmt.Errorf(noAddress, o.Node)
	}
	return hostKeyKnown(ctx, o)
}
