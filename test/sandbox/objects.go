package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/calico-probe/calico-probe/test/sandbox/machine"
)

// objects writes the cluster's contents to its API.
type objects struct {
	kube  kubernetes.Interface
	calls dynamic.Interface
}

// newObjects returns a client for use inside the cluster's network.
func newObjects(l layout) (*objects, error) {
	return clientFor(&rest.Config{
		Host: fmt.Sprintf("https://%s:%d", fabric4, apiPort), QPS: 200, Burst: 200,
		TLSClientConfig: rest.TLSClientConfig{
			CAFile: l.state("pki", "ca.crt"), CertFile: l.state("pki", "admin.crt"), KeyFile: l.state("pki", "admin.key"),
		},
	})
}

func clientFor(config *rest.Config) (*objects, error) {
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	calls, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return &objects{kube, calls}, nil
}

// until calls ok until it returns true.
func until(ctx context.Context, what string, ok func(context.Context) (bool, error)) error {
	var last error
	for {
		good, err := ok(ctx)
		if good && err == nil {
			return nil
		}
		if err != nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, errors.Join(ctx.Err(), last))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (o *objects) waitAnswering(ctx context.Context) error {
	return until(ctx, "the API server", func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := o.kube.CoreV1().Namespaces().Get(ctx, "kube-system", metav1.GetOptions{})
		return err == nil, err
	})
}

// apply writes every object of an embedded template.
func (o *objects) apply(ctx context.Context, name string, data any) error {
	text, err := render(name, data)
	if err != nil {
		return err
	}
	return o.applyAll(ctx, name, []byte(text))
}

func (o *objects) applyAll(ctx context.Context, name string, text []byte) error {
	objs, err := documents(text)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, obj := range objs {
		if guestImages != "" {
			machine.Stretch(obj.Object)
		}
		if err := o.applyOne(ctx, obj); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// documents parses the objects of a manifest.
func documents(text []byte) ([]*unstructured.Unstructured, error) {
	var objs []*unstructured.Unstructured
	docs := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		obj := new(unstructured.Unstructured)
		if err := docs.Decode(&obj.Object); errors.Is(err, io.EOF) {
			return objs, nil
		} else if err != nil {
			return nil, fmt.Errorf("document %d: %w", len(objs)+1, err)
		}
		if len(obj.Object) == 0 {
			continue
		}
		if obj.GetAPIVersion() == "" || obj.GetKind() == "" || obj.GetName() == "" {
			return nil, fmt.Errorf("document %d has no apiVersion, kind or name", len(objs)+1)
		}
		objs = append(objs, obj)
	}
}

func (o *objects) applyOne(ctx context.Context, obj *unstructured.Unstructured) error {
	gvr, _ := meta.UnsafeGuessKindToResource(obj.GroupVersionKind())
	body, err := json.Marshal(obj.Object)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	force := true
	var refused error
	err = until(ctx, obj.GetKind()+" "+obj.GetName(), func(ctx context.Context) (bool, error) {
		_, err := o.calls.Resource(gvr).Namespace(obj.GetNamespace()).Patch(ctx, obj.GetName(), types.ApplyPatchType, body,
			metav1.PatchOptions{FieldManager: "sandbox", Force: &force})
		if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err) {
			refused = err // a retry would not help
			return true, nil
		}
		return err == nil, err
	})
	return errors.Join(err, refused)
}

// furnish fills a cluster once its API answers, and waits until all of it is ready.
func furnish(ctx context.Context, l layout, o *objects, stage func(string) error) error {
	setting := settingOf(members()[0])
	calico, err := exists(l.calicoManifest())
	if err != nil {
		return err
	}
	setting.StandIn = !calico
	if setting.StandIn {
		if err := o.standIn(ctx, setting, stage); err != nil {
			return err
		}
	}
	for _, ns := range []string{"default", "kube-system"} {
		if err := until(ctx, "the default service account of "+ns, func(ctx context.Context) (bool, error) {
			_, err := o.kube.CoreV1().ServiceAccounts(ns).Get(ctx, "default", metav1.GetOptions{})
			return err == nil, err
		}); err != nil {
			return err
		}
	}
	if err := stage("the images to be imported"); err != nil {
		return err
	}
	for _, m := range members() {
		if err := until(ctx, "the images of "+m.Name, func(context.Context) (bool, error) {
			if why, err := os.ReadFile(l.state("nodes", m.Name, "failed")); err == nil {
				return false, errors.New(string(why))
			}
			return exists(l.state("nodes", m.Name, "images"))
		}); err != nil {
			return err
		}
	}
	if err := o.startPods(ctx, l, setting); err != nil {
		return err
	}
	return o.waitFurnished(ctx, stage)
}

// standIn writes what Calico itself would have written before its first pod.
func (o *objects) standIn(ctx context.Context, s setting, stage func(string) error) error {
	if err := o.apply(ctx, "crds.yaml", []string{
		"IPPool", "BlockAffinity", "IPAMBlock", "IPAMHandle", "IPAMConfig", "BGPConfiguration", "BGPPeer", "BGPFilter",
		"FelixConfiguration", "ClusterInformation", "CalicoNodeStatus", "IPReservation", "KubeControllersConfiguration",
	}); err != nil {
		return err
	}
	if err := o.apply(ctx, "calico.yaml", s); err != nil {
		return err
	}
	if err := stage("both nodes to register"); err != nil {
		return err
	}
	for _, m := range s.Members {
		if err := o.adopt(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// startPods starts Calico, or its stand-in, and the cluster's other pods.
func (o *objects) startPods(ctx context.Context, l layout, s setting) error {
	if s.StandIn {
		if err := o.apply(ctx, "calico-node.yaml", s); err != nil {
			return err
		}
		return o.apply(ctx, "workloads.yaml", s)
	}
	manifest, err := os.ReadFile(l.calicoManifest())
	if err != nil {
		return fmt.Errorf("reading Calico's manifest: %w", err)
	}
	if err := o.applyAll(ctx, "Calico's manifest", manifest); err != nil {
		return err
	}
	// A pod that starts before Felix gets an MTU without room for a tunnel, and keeps it.
	if err := o.waitCalico(ctx, len(s.Members)); err != nil {
		return err
	}
	return o.apply(ctx, "workloads.yaml", s)
}

// waitCalico waits until calico-node is ready on every node.
func (o *objects) waitCalico(ctx context.Context, nodes int) error {
	return until(ctx, "calico-node to be ready", func(ctx context.Context) (bool, error) {
		pods, err := o.kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: "k8s-app=calico-node"})
		if err != nil {
			return false, err
		}
		waits := slices.IndexFunc(pods.Items, func(p corev1.Pod) bool { return !podReady(&p) })
		if waits >= 0 {
			return false, errors.New(waitsFor(&pods.Items[waits]))
		}
		return len(pods.Items) >= nodes, nil
	})
}

// adopt changes the Node as calico-node's start-up would.
func (o *objects) adopt(ctx context.Context, m member) error {
	patch := fmt.Sprintf(`{"metadata":{"annotations":{
		"projectcalico.org/IPv4Address":"%s/24","projectcalico.org/IPv6Address":"%s/64",
		"projectcalico.org/Interfaces":"[{\"name\":\"eth0\",\"addresses\":[\"%s\",\"%s\"]}]"}}}`, m.IP4, m.IP6, m.IP4, m.IP6)
	if err := until(ctx, m.Name+" to register", func(ctx context.Context) (bool, error) {
		_, err := o.kube.CoreV1().Nodes().Patch(ctx, m.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err == nil, err
	}); err != nil {
		return err
	}
	now := time.Now().UTC().Format(time.RFC3339)
	condition := fmt.Sprintf(`{"status":{"conditions":[{"type":"NetworkUnavailable","status":"False","reason":"CalicoIsUp",
		"message":"Calico is running on this node","lastHeartbeatTime":"%s","lastTransitionTime":"%s"}]}}`, now, now)
	if _, err := o.kube.CoreV1().Nodes().Patch(ctx, m.Name, types.StrategicMergePatchType, []byte(condition),
		metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("marking the network of %s available: %w", m.Name, err)
	}
	return nil
}

// furnishings is the minimum number of pods in a full cluster: calico-node and a workload on each node, and CoreDNS.
const furnishings = 5

// waitFurnished waits until nodes and pods are ready, and reports what it waits for.
func (o *objects) waitFurnished(ctx context.Context, stage func(string) error) error {
	const what = "nodes and pods to be ready"
	said := ""
	return until(ctx, what, func(ctx context.Context) (bool, error) {
		why, err := o.unready(ctx)
		if err != nil {
			why = err.Error()
		}
		if why != said {
			said, err = why, errors.Join(err, stage(what+": "+why))
		}
		return why == "", err
	})
}

// unready returns which node or pod is not ready, and why; "" if the cluster is complete.
func (o *objects) unready(ctx context.Context) (string, error) {
	nodes, err := o.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	pods, err := o.kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	ready := 0
	for i := range pods.Items {
		p := &pods.Items[i]
		if podReady(p) {
			ready++
		} else if p.Labels["k8s-app"] == "calico-node" { // all others wait for it
			return waitsFor(p), nil
		}
	}
	for _, n := range nodes.Items {
		// The kubelet creates its lease some seconds after it has registered.
		if _, err := o.kube.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, n.Name,
			metav1.GetOptions{}); err != nil {
			return "", err
		}
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
				return fmt.Sprintf("%s: %s", n.Name, c.Message), nil
			}
		}
	}
	for i := range pods.Items {
		if p := &pods.Items[i]; !podReady(p) && p.Status.Phase != corev1.PodSucceeded {
			return waitsFor(p), nil
		}
	}
	if ready < furnishings {
		return fmt.Sprintf("%d of %d pods are ready", ready, furnishings), nil
	}
	return "", nil
}

// waitsFor describes what a pod that is not ready waits for.
func waitsFor(p *corev1.Pod) string {
	who := fmt.Sprintf("%s/%s on %s", p.Namespace, p.Name, cmp.Or(p.Spec.NodeName, "no node yet"))
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		last := ""
		if t := s.LastTerminationState.Terminated; t != nil {
			last = strings.TrimSpace(fmt.Sprintf("; it exited with %d (%s) %s", t.ExitCode, t.Reason, t.Message))
		}
		switch w := s.State.Waiting; {
		case w != nil && w.Reason != "PodInitializing":
			return fmt.Sprintf("%s: container %s: %s %s%s", who, s.Name, w.Reason, w.Message, last)
		case s.State.Running != nil && !s.Ready:
			return fmt.Sprintf("%s: container %s runs and is not ready%s", who, s.Name, last)
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Status != corev1.ConditionTrue && c.Message != "" {
			return fmt.Sprintf("%s: %s", who, c.Message)
		}
	}
	return who + ": not ready yet"
}

func podReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue && p.DeletionTimestamp == nil
		}
	}
	return false
}
