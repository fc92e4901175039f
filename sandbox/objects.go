package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
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
)

// objects writes the cluster's contents to its API.
type objects struct {
	kube  kubernetes.Interface
	calls dynamic.Interface
}

// newObjects is a client for use inside the cluster's network.
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

// until asks again and again until what is wanted holds.
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

// apply writes every document of an embedded template.
func (o *objects) apply(ctx context.Context, name string, data any) error {
	text, err := render(name, data)
	if err != nil {
		return err
	}
	docs := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		var obj unstructured.Unstructured
		if err := docs.Decode(&obj.Object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		if len(obj.Object) == 0 {
			continue
		}
		if err := o.applyOne(ctx, &obj); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
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
			refused = err // asking again changes nothing
			return true, nil
		}
		return err == nil, err
	})
	return errors.Join(err, refused)
}

// furnish fills a cluster whose API answers and waits until all of it is ready.
func furnish(ctx context.Context, l layout, o *objects, stage func(string) error) error {
	if err := o.apply(ctx, "crds.yaml", []string{
		"IPPool", "BlockAffinity", "IPAMBlock", "IPAMHandle", "IPAMConfig", "BGPConfiguration", "BGPPeer", "BGPFilter",
		"FelixConfiguration", "ClusterInformation", "CalicoNodeStatus", "IPReservation", "KubeControllersConfiguration",
	}); err != nil {
		return err
	}
	if err := o.apply(ctx, "calico.yaml", settingOf(members()[0])); err != nil {
		return err
	}
	if err := stage("both nodes to register"); err != nil {
		return err
	}
	for _, m := range members() {
		if err := o.adopt(ctx, m); err != nil {
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
			_, err := os.Stat(l.state("nodes", m.Name, "images"))
			return err == nil, nil
		}); err != nil {
			return err
		}
	}
	if err := o.apply(ctx, "workloads.yaml", settingOf(members()[0])); err != nil {
		return err
	}
	if err := stage("nodes and pods to be ready"); err != nil {
		return err
	}
	return o.waitFurnished(ctx)
}

// adopt writes on the Node what calico-node's start-up would.
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
	if _, err := o.kube.CoreV1().Nodes().Patch(ctx, m.Name, types.StrategicMergePatchType, []byte(condition), metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("marking the network of %s available: %w", m.Name, err)
	}
	return nil
}

// furnishings is how many pods a full cluster has: calico-node and a workload on
// each node, and CoreDNS.
const furnishings = 5

func (o *objects) waitFurnished(ctx context.Context) error {
	return until(ctx, "nodes and pods to be ready", func(ctx context.Context) (bool, error) {
		nodes, err := o.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for _, n := range nodes.Items {
			// The kubelet makes its lease some seconds after it has registered.
			if _, err := o.kube.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, n.Name, metav1.GetOptions{}); err != nil {
				return false, err
			}
			for _, c := range n.Status.Conditions {
				if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
					return false, fmt.Errorf("%s: %s", n.Name, c.Message)
				}
			}
		}
		pods, err := o.kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		ready := 0
		for i := range pods.Items {
			if podReady(&pods.Items[i]) {
				ready++
			}
		}
		if ready < furnishings {
			return false, fmt.Errorf("%d of %d pods are ready", ready, furnishings)
		}
		return true, nil
	})
}

func podReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue && p.DeletionTimestamp == nil
		}
	}
	return false
}
