package injector

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/probe/facts"
)

// decided tells whether the real thing would meet what its rehearsal met. A pod of the
// wrong priority has others ended at once, and an ephemeral container stays for good, so
// each is rehearsed before it is made; what nobody rehearses is made and looked at then.
func decided(err error) bool {
	pe, refused := errors.AsType[*PlacementError](err)
	return err != nil && !(refused && pe.Reason == facts.ReasonSupport)
}

// RehearsePod has the API server take the probe's pod as if it were created, policy and
// quota and all, and creates nothing. The error is the one that the way would meet.
func (c *Client) RehearsePod(ctx context.Context, o Options) error {
	asked := podFor(o, nil)
	got, err := c.kube.CoreV1().Pods(o.Namespace).Create(ctx, asked, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return refusedCreate("a pod in namespace "+o.Namespace, err)
	}
	if what := alteredPod(asked, got); what != "" {
		return alteredBy(what)
	}
	return nil
}

// RehearseJob does the same with the pod's clean-up job, without which the way works.
func (c *Client) RehearseJob(ctx context.Context, o Options) error {
	asked := janitorFor(o)
	got, err := c.kube.BatchV1().Jobs(o.Namespace).Create(ctx, asked, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return refusedCreate("a clean-up job in namespace "+o.Namespace, err)
	}
	if what := alteredJob(asked, got); what != "" {
		return alteredBy(what)
	}
	return nil
}

// RehearseEphemeral does the same with the ephemeral container; there is a calico-node
// pod to join.
func (c *Client) RehearseEphemeral(ctx context.Context, o Options) error {
	if !o.Calico.Spec.HostNetwork {
		return refuse(facts.ReasonNoCalico, "pod %s/%s is not in the node's network, so it is not calico-node's: is --calico-namespace %s right?",
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

// Doors are the running containers that the way exec would try, in that order, as
// NAMESPACE/POD/CONTAINER; calico is calico-node's pod, verified, or nil.
func Doors(pods []corev1.Pod, calico *corev1.Pod) []string {
	var out []string
	for _, d := range doorsOf(pods, calico) {
		if !d.tight() && len(out) < mostDoors {
			out = append(out, d.String())
		}
	}
	return out
}

// HostKeyKnown asks the user's ssh, by its own configuration and without connecting to
// anything, whether it knows the host key of where it would go. The error says why not.
func HostKeyKnown(ctx context.Context, o Options) error {
	if o.Destination == "" {
		return fmt.Errorf(noAddress, o.Node)
	}
	return hostKeyKnown(ctx, o)
}
