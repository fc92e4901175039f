package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// orphan deletes calico-node's DaemonSet but not its pods, so that nothing recreates them.
func (l lab) orphan(ctx context.Context) error {
	sets := l.kube.AppsV1().DaemonSets("kube-system")
	set, err := sets.Get(ctx, "calico-node", metav1.GetOptions{})
	if err != nil {
		return err
	}
	b, err := json.Marshal(set)
	if err != nil {
		return err
	}
	if err := writeFile(l.state("daemonset"), string(b)); err != nil {
		return err
	}
	leave := metav1.DeletePropagationOrphan
	if err := sets.Delete(ctx, "calico-node", metav1.DeleteOptions{PropagationPolicy: &leave}); err != nil {
		return err
	}
	return until(ctx, "the DaemonSet to go", func(ctx context.Context) (bool, error) {
		_, err := sets.Get(ctx, "calico-node", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
}

// adoptAgain recreates the DaemonSet, which adopts its pods and creates missing ones.
func (l lab) adoptAgain(ctx context.Context) error {
	b, err := os.ReadFile(l.state("daemonset"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var set appsv1.DaemonSet
	if err := json.Unmarshal(b, &set); err != nil {
		return err
	}
	set.ResourceVersion, set.UID, set.Status = "", "", appsv1.DaemonSetStatus{}
	_, err = l.kube.AppsV1().DaemonSets("kube-system").Create(ctx, &set, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return os.Remove(l.state("daemonset"))
}

// controllers creates a pod of calico-kube-controllers that restarts on a node where pods have no network. Its program
// is a stand-in that exits at once.
func (l lab) controllers(ctx context.Context, node string, there bool) error {
	const name = "calico-kube-controllers-lab"
	pods := l.kube.CoreV1().Pods("kube-system")
	if !there {
		err := pods.Delete(ctx, name, *metav1.NewDeleteOptions(0))
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	_, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"k8s-app": "calico-kube-controllers"}},
		Spec: corev1.PodSpec{NodeName: node, HostNetwork: true, Containers: []corev1.Container{{
			Name: "calico-kube-controllers", Image: "sandbox.local/calico-node:v3.32.1", ImagePullPolicy: corev1.PullIfNotPresent,
			Command: []string{"calico-node", "-no-such-flag"},
		}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return until(ctx, name+" to restart", func(ctx context.Context) (bool, error) {
		p, err := pods.Get(ctx, name, metav1.GetOptions{})
		return err == nil && len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].RestartCount > 0, err
	})
}

// podCIDR changes the pod CIDR of a node, "" for the original one. The field is immutable, so it recreates the Node,
// from a copy on disk: if this is interrupted between the two steps, heal has the Node. Its kubelet continues with the
// new Node.
func (l lab) podCIDR(ctx context.Context, node, cidr string) error {
	nodes, kept := l.kube.CoreV1().Nodes(), l.state("node-as-it-was")
	var recreated corev1.Node
	if cidr == "" {
		b, err := os.ReadFile(kept)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			err = json.Unmarshal(b, &recreated)
		}
		if err != nil {
			return err
		}
	} else {
		n, err := nodes.Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		b, err := json.Marshal(n)
		if err == nil {
			err = writeFile(kept, string(b))
		}
		if err != nil {
			return err
		}
		recreated = *n
		recreated.Spec.PodCIDRs = []string{cidr}
	}
	recreated.Spec.PodCIDR, recreated.ResourceVersion, recreated.UID = recreated.Spec.PodCIDRs[0], "", ""
	if err := nodes.Delete(ctx, node, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if _, err := nodes.Create(ctx, &recreated, metav1.CreateOptions{}); err != nil {
		return err
	}
	if cidr == "" {
		return os.Remove(kept)
	}
	return nil
}

// image makes the calico-node of one node, and no other, start with an image.
func (l lab) image(ctx context.Context, node, image, strategy string) error {
	sets, pods := l.kube.AppsV1().DaemonSets("kube-system"), l.kube.CoreV1().Pods("kube-system")
	set := func(strategy string) error {
		patch := fmt.Sprintf(`{"spec":{"updateStrategy":{"type":%q,"rollingUpdate":null},"template":{"spec":{"initContainers":[{"name":"upgrade-ipam","image":%q}]}}}}`, strategy, image)
		_, err := sets.Patch(ctx, "calico-node", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
	if err := set("OnDelete"); err != nil {
		return err
	}
	old, err := l.calicoOn(ctx, node)
	if err != nil {
		return err
	}
	for _, p := range old {
		if err := pods.Delete(ctx, p.Name, *metav1.NewDeleteOptions(0)); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	if strategy != "OnDelete" {
		return set(strategy)
	}
	return until(ctx, "calico-node to pull its image", func(ctx context.Context) (bool, error) {
		now, err := l.calicoOn(ctx, node)
		if err != nil || len(now) != 1 || len(now[0].Status.InitContainerStatuses) == 0 {
			return false, err
		}
		w := now[0].Status.InitContainerStatuses[0].State.Waiting
		return w != nil && (w.Reason == "ErrImagePull" || w.Reason == "ImagePullBackOff"), nil
	})
}
