package cluster

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/calico-probe/calico-probe/internal/cluster/roles"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// shownKeys is the maximum number of a selector's labels to quote.
const shownKeys = 4

// whyEmpty explains a Service without a ready endpoint. It returns the state of the pods behind the Service, one of the
// Empty words ("" = unknown), and the node on which all these pods run ("" = several nodes, or no pods).
func (c *Client) whyEmpty(ctx context.Context, svc *corev1.Service) (says, why, on string) {
	says = fmt.Sprintf("Service %s/%s has no ready endpoint", svc.Namespace, svc.Name)
	if len(svc.Spec.Selector) == 0 {
		return says + ": it has no selector, and no EndpointSlice created for it has a ready address",
			facts.EmptyNoSelector, ""
	}
	pods, podErr := c.kube.CoreV1().Pods(svc.Namespace).List(ctx, cached)
	if podErr != nil {
		pods = &corev1.PodList{}
	}
	wanted := labels.SelectorFromSet(svc.Spec.Selector)
	there := slices.DeleteFunc(slices.Clone(pods.Items), func(p corev1.Pod) bool {
		return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed || p.DeletionTimestamp != nil
	})
	selected := slices.DeleteFunc(slices.Clone(there), func(p corev1.Pod) bool {
		return !wanted.Matches(labels.Set(p.Labels))
	})
	if len(selected) > 0 {
		now, _ := c.clock.Now()
		text, why := unserving(svc, selected, now)
		return says + ": " + text, why, soleNode(selected)
	}
	sets, setErr := c.kube.AppsV1().Deployments(svc.Namespace).List(ctx, cached)
	if setErr == nil {
		for _, d := range sets.Items {
			if wanted.Matches(labels.Set(d.Spec.Template.Labels)) {
				now, _ := c.clock.Now()
				text, why := unmade(&d, now)
				return says + ": " + text, why, ""
			}
		}
	}
	if podErr != nil {
		return says, "", ""
	}
	says += fmt.Sprintf(": no pod of the namespace has the labels of its selector, %s", shown(svc.Spec.Selector, svc.Spec.Selector))
	if p := nearest(svc, there); p != nil {
		return says + fmt.Sprintf("; pod %s has %s", NameOf(p), shown(p.Labels, svc.Spec.Selector)), facts.EmptySelector, ""
	}
	return says, facts.EmptyAbsent, ""
}

// soleNode returns the node on which all the pods run, or "" if there is no such node.
func soleNode(pods []corev1.Pod) string {
	on := pods[0].Spec.NodeName
	if slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Spec.NodeName != on }) {
		return ""
	}
	return on
}

// unmade explains why a Deployment has no pod.
func unmade(d *appsv1.Deployment, now time.Time) (says, why string) {
	wanted := int32(1) // the default
	if d.Spec.Replicas != nil {
		wanted = *d.Spec.Replicas
	}
	says = fmt.Sprintf("Deployment %s/%s wants %d replicas, and %d are ready", d.Namespace, d.Name, wanted,
		d.Status.ReadyReplicas)
	if wanted == 0 {
		return says, facts.EmptyScaled
	}
	for _, cond := range d.Status.Conditions {
		if cond.Type == appsv1.DeploymentReplicaFailure && cond.Status == corev1.ConditionTrue {
			said := probe.Statement{Text: quotedEvent(cond.Message), At: cond.LastUpdateTime.Time}
			return says + "; it cannot create a pod: " + said.Aged(now), facts.EmptyNotMade
		}
	}
	return says, ""
}

// quotedEvent quotes an API message that a tenant may have influenced, up to a limit.
func quotedEvent(text string) string { return probe.Quoted(text[:min(len(text), LongestEvent)]) }

// unserving explains why the pods that a Service selects are not among its ready endpoints.
func unserving(svc *corev1.Service, selected []corev1.Pod, now time.Time) (says, why string) {
	ready := slices.DeleteFunc(slices.Clone(selected), func(p corev1.Pod) bool { return !PodReady(&p) })
	if len(ready) == 0 {
		return fmt.Sprintf("it selects %s, and none is ready: pod %s %s", Plural(len(selected), "pod"), NameOf(&selected[0]),
			podState(&selected[0], now)), facts.EmptyUnready
	}
	for _, p := range svc.Spec.Ports {
		has := func(pod corev1.Pod) bool { return declares(&pod, p.TargetPort.StrVal) }
		if p.TargetPort.Type == intstr.String && !slices.ContainsFunc(ready, has) {
			return fmt.Sprintf("its targetPort %s is not a container port of pod %s, which is ready",
				probe.Quoted(p.TargetPort.StrVal), NameOf(&ready[0])), facts.EmptyPort
		}
	}
	return fmt.Sprintf("its selected pod %s is ready, but no EndpointSlice has it: "+
		"does kube-controller-manager run?", NameOf(&ready[0])), facts.EmptyController
}

// declares reports whether a container of a pod has a port of that name.
func declares(p *corev1.Pod, port string) bool {
	return slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Ports, func(of corev1.ContainerPort) bool { return of.Name == port })
	})
}

// podState explains why a pod is not ready, in the API's words.
func podState(p *corev1.Pod, now time.Time) string {
	for _, cond := range p.Status.Conditions {
		if cond.Type == corev1.PodScheduled && cond.Status == corev1.ConditionFalse {
			said := probe.Statement{Text: quotedEvent(cond.Reason + ": " + cond.Message), At: cond.LastTransitionTime.Time}
			return "has no node: " + said.Aged(now)
		}
	}
	at := ""
	if p.Spec.NodeName != "" {
		at = " on " + p.Spec.NodeName
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		last := ""
		if end := c.LastTerminationState.Terminated; end != nil {
			said := probe.Statement{Text: cmp.Or(probe.OneLine(end.Reason), "an error"), At: end.FinishedAt.Time}
			last = fmt.Sprintf("; its previous container exited %d: %s", end.ExitCode, said.Aged(now))
		}
		switch {
		case c.State.Waiting != nil && c.State.Waiting.Reason != "PodInitializing":
			said := strings.TrimSuffix(c.State.Waiting.Reason+": "+c.State.Waiting.Message, ": ")
			return "waits" + at + ": " + quotedEvent(said) + last
		case c.State.Terminated != nil && c.State.Terminated.ExitCode != 0:
			return fmt.Sprintf("ended%s with %s (exit %d)", at, cmp.Or(probe.OneLine(c.State.Terminated.Reason), "an error"),
				c.State.Terminated.ExitCode)
		case c.State.Running != nil && !c.Ready && last != "":
			return fmt.Sprintf("runs%s and is not ready, %d restarts%s", at, c.RestartCount, last)
		}
	}
	if len(p.Status.ContainerStatuses) > 0 && !slices.ContainsFunc(p.Status.ContainerStatuses,
		func(c corev1.ContainerStatus) bool { return !c.Ready }) {
		return "runs" + at + " and is marked not ready, although its containers are ready: the kubelet has gone silent"
	}
	return "runs" + at + " and its readiness probe fails"
}

// nearest returns the pod for which a Service's selector was most likely meant, or nil if no pod is similar.
func nearest(svc *corev1.Service, pods []corev1.Pod) *corev1.Pod {
	var best *corev1.Pod
	most := 0
	for i := range pods {
		p := &pods[i]
		score := 0
		for key, value := range svc.Spec.Selector {
			have, has := p.Labels[key]
			if has && (have == value || have == svc.Name || have == svc.Labels[key]) {
				score += 2
			}
			if has && strings.Contains(p.Name, value) {
				score += 2
			}
		}
		if strings.HasPrefix(p.Name, svc.Name+"-") {
			score += 2
		}
		for key, value := range svc.Labels { // charts set the same labels on a Service and its pods
			if key != "kubernetes.io/cluster-service" && p.Labels[key] == value {
				score++
			}
		}
		if score > most {
			best, most = p, score
		}
	}
	if most < 2 {
		return nil
	}
	return best
}

// shown formats the selector's label keys, with the values that these keys have in a set of labels.
func shown(have, selector map[string]string) string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(selector)) {
		if value, has := have[key]; has {
			out = append(out, key+"="+value)
		} else {
			out = append(out, "no "+key)
		}
	}
	if len(out) > shownKeys {
		out = append(out[:shownKeys], "...")
	}
	return strings.Join(out, ",")
}

// watches returns the permissions to list and watch some resources, each given as GROUP and RESOURCE.
func watches(of ...[2]string) []authorizationv1.ResourceAttributes {
	var out []authorizationv1.ResourceAttributes
	for _, r := range of {
		for _, verb := range []string{"list", "watch"} {
			out = append(out, authorizationv1.ResourceAttributes{Verb: verb, Group: r[0], Resource: r[1]})
		}
	}
	return out
}

// DNSServers is the API's data about the cluster's CoreDNS.
type DNSServers struct {
	Rights Rights
	Ready  int // number of ready pods
	Config Read[Corefile]
	Pods   []corev1.Pod // pods with the label k8s-app=kube-dns in kube-system
}

// ReadDNSServers queries whether the CoreDNS account has the permissions that the plugin kubernetes needs. It skips
// other programs with this label, because they need other permissions.
func (c *Client) ReadDNSServers(ctx context.Context) (out DNSServers, err error) {
	list, err := c.kube.CoreV1().Pods(metav1.NamespaceSystem).List(ctx,
		metav1.ListOptions{LabelSelector: "k8s-app=kube-dns", ResourceVersion: "0"})
	if err != nil {
		return out, fmt.Errorf("listing CoreDNS' pods: %w", err)
	}
	var who roles.Account
	out.Pods = list.Items
	for i := range list.Items {
		p := &list.Items[i]
		core := func(c corev1.Container) bool { return c.Name == "coredns" || strings.Contains(c.Image, "/coredns") }
		if metav1.GetControllerOf(p) == nil || !slices.ContainsFunc(p.Spec.Containers, core) {
			continue
		}
		if PodReady(p) {
			out.Ready++
		}
		if name := p.Spec.ServiceAccountName; who.Name == "" && name != "" {
			who = roles.Account{Namespace: p.Namespace, Name: name}
			out.Config.read(ctx, func(ctx context.Context) (Corefile, error) { return c.readCorefile(ctx, list.Items) })
		}
	}
	if who.Name == "" {
		return out, nil
	}
	out.Rights, err = c.rightsOf(ctx, who, watches([2]string{"", "services"}, [2]string{"", "namespaces"},
		[2]string{"discovery.k8s.io", "endpointslices"}))
	return out, err
}

// ProxyName is the label that assigns a Service to a proxy other than kube-proxy (Kubernetes, well-known labels).
const ProxyName = "service.kubernetes.io/service-proxy-name"
