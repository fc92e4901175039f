package injector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	utilexec "k8s.io/client-go/util/exec"

	"github.com/calico-probe/calico-probe/injector/streams"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// byExec is the access method that uploads the probe into a running container in the node's network namespace. It does
// not pull an image or create an object. It needs a shell in that container. The probe sees the node through the
// container's volumes.
func byExec(c *Client) Open {
	return func(ctx context.Context, o Options) (*Session, error) {
		pods, err := o.Running(ctx)
		if err != nil {
			return nil, unread("the pods of node "+o.Node, err)
		}
		all := execTargets(pods, o.Calico)
		if len(all) == 0 {
			return nil, refuse(facts.ReasonSupport, "%s", NoExecTarget(o.Node, o.Calico))
		}
		var passed []string
		all = slices.DeleteFunc(all, func(t execTarget) bool {
			if t.lowMemory() {
				limit := t.container.Resources.Limits.Memory()
				passed = append(passed, fmt.Sprintf("%s (the probe could exceed its memory limit of %s)", t, limit))
			}
			return t.lowMemory()
		})
		reason, silent := facts.ReasonShell, 0
		for _, t := range all[:min(len(all), maxExecTargets)] {
			s, err := upload(ctx, o, "exec", "in container "+t.String(), t.view(), c.shellIn(t), t.verify(o))
			failed, broke := errors.AsType[*uploadError](err)
			pe, refused := errors.AsType[*PlacementError](err)
			switch {
			case broke:
				pe = execFailed(t, failed)
			case !refused:
				return s, err
			}
			if pe.Waited {
				silent++
			}
			if endsExec(pe, silent, o.Again) {
				return nil, pe
			}
			reason = pe.Reason
			passed = append(passed, fmt.Sprintf("%s (%s)", t, pe.Text))
		}
		none := refuse(reason, "no container in the node's network can run the probe: %s", strings.Join(passed, "; "))
		none.Waited = silent > 0 && silent == len(all)
		return nil, none
	}
}

// endsExec reports whether to stop trying containers after the last failure. One hanging container may be a
// coincidence. If two hang, or one hangs again, they hang for a shared reason.
func endsExec(pe *PlacementError, silent int, again bool) bool {
	if pe.Waited {
		return silent >= maxSilent || again
	}
	return pe.Reason != facts.ReasonShell && pe.Reason != facts.ReasonRBAC
}

// NoExecTarget is the message for a node without a suitable container for exec. calico is the verified calico-node pod,
// or nil.
func NoExecTarget(node string, calico *corev1.Pod) string {
	return fmt.Sprintf("node %s has no host-network DaemonSet or static pod in namespace %s for the probe to run in",
		node, strings.Join(systemNamespaces(calico), " or "))
}

// maxExecTargets is the maximum number of containers to try. A container without a shell fails within a second. After
// two silent containers the method gives up.
const (
	maxExecTargets = 6
	maxSilent      = 2
)

// minMemoryLimit is the lowest memory limit at which a container is used for uploads. The probe's file may be in
// memory, and running it needs the same amount again. The upload must not cause the kernel to OOM-kill the container.
const minMemoryLimit = 256 << 20

// execTarget is a running container into which the probe may be uploaded.
type execTarget struct {
	pod       *corev1.Pod
	container *corev1.Container
}

func (t execTarget) String() string {
	return t.pod.Namespace + "/" + t.pod.Name + "/" + t.container.Name
}

func (t execTarget) privileged() bool {
	sc := t.container.SecurityContext
	return sc != nil && sc.Privileged != nil && *sc.Privileged
}

// lowMemory reports whether a running probe might push the container over its memory limit.
func (t execTarget) lowMemory() bool {
	limit := t.container.Resources.Limits.Memory()
	return !limit.IsZero() && limit.Value() < minMemoryLimit
}

// systemNamespaces returns the namespaces whose containers exec may use: kube-system and the namespace of the verified
// calico-node pod. Without a verified pod, calico is nil.
func systemNamespaces(calico *corev1.Pod) []string {
	if calico == nil || calico.Namespace == metav1.NamespaceSystem {
		return []string{metav1.NamespaceSystem}
	}
	return []string{calico.Namespace, metav1.NamespaceSystem}
}

// isSystemPod reports whether a pod is controlled by a DaemonSet or is the mirror pod of a static pod, such as
// kube-proxy on some distributions.
func isSystemPod(p *corev1.Pod) bool {
	switch of := metav1.GetControllerOf(p); {
	case of == nil:
		return false
	case of.Kind == "DaemonSet" && of.APIVersion == "apps/v1":
		return true
	default:
		return of.Kind == "Node" && of.APIVersion == "v1" && of.Name == p.Spec.NodeName &&
			p.Annotations[corev1.MirrorPodAnnotationKey] != ""
	}
}

// execTargets returns the running containers that exec may use, which belong to system pods in the host network. In
// another network namespace a probe would not see the node's network. A tenant's pod never gets our file or a root
// process, whatever its name. The order is: the verified calico-node, kube-proxy, privileged containers.
func execTargets(pods []corev1.Pod, calico *corev1.Pod) []execTarget {
	namespaces := systemNamespaces(calico)
	var all []execTarget
	for i := range pods {
		p := &pods[i]
		if !p.Spec.HostNetwork || p.DeletionTimestamp != nil || p.Labels[labelManaged] == managedBy ||
			!slices.Contains(namespaces, p.Namespace) || !isSystemPod(p) {
			continue
		}
		for _, s := range p.Status.ContainerStatuses {
			at := slices.IndexFunc(p.Spec.Containers, func(c corev1.Container) bool { return c.Name == s.Name })
			if s.State.Running != nil && at >= 0 {
				all = append(all, execTarget{p, &p.Spec.Containers[at]})
			}
		}
	}
	rank := func(t execTarget) int {
		switch {
		case calico != nil && t.pod.UID == calico.UID && strings.HasPrefix(t.container.Name, "calico-node"):
			return 0
		case t.container.Name == "kube-proxy" && t.pod.Namespace == metav1.NamespaceSystem:
			return 1
		case t.privileged():
			return 2
		}
		return 3
	}
	slices.SortStableFunc(all, func(a, b execTarget) int {
		return cmp.Or(rank(a)-rank(b), strings.Compare(a.String(), b.String()))
	})
	return all
}

// verify rejects a container that shows another machine's machine-id. A container without a machine-id is accepted,
// because the API server guarantees that the container is on the node.
func (t execTarget) verify(o Options) verifyMachine {
	want := machineID(o.Machine)
	return func(id string) *PlacementError {
		if id != "" && want != "" && id != want {
			return refuse(facts.ReasonMachine, "container %s is on another machine: its machine-id is not that of %s", t, o.Node)
		}
		return nil
	}
}

// view returns how a program in the container sees the node. If a volume mounts the node's root, the program sees the
// whole node. If the container is privileged and sees process 1, it also sees the whole node, through that process's
// root. Otherwise the program sees only the directories that are mounted at the same path as on the node.
func (t execTarget) view() view {
	at := map[string]string{} // path on the node -> path in the container
	for _, m := range t.container.VolumeMounts {
		i := slices.IndexFunc(t.pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name && v.HostPath != nil })
		if i >= 0 && m.SubPath == "" && m.SubPathExpr == "" {
			at[path.Clean(t.pod.Spec.Volumes[i].HostPath.Path)] = path.Clean(m.MountPath)
		}
	}
	switch proc, root := at["/proc"], at["/"]; {
	case t.privileged() && t.pod.Spec.HostPID:
		return view{root: "/proc/1/root", proc: "/proc"}
	case t.privileged() && proc != "":
		return view{root: proc + "/1/root", proc: proc}
	case root != "":
		return view{root: root, proc: "/proc"}
	}
	v := view{root: "/", proc: "/proc", only: []string{}}
	for name, mounted := range at {
		if name == mounted && !strings.HasPrefix(name, "/sys") && !strings.HasPrefix(name, "/lib") {
			if strings.HasPrefix(name, "/var/run/") {
				name = strings.TrimPrefix(name, "/var") // the path that probe.Host reads
			}
			v.only = append(v.only, name)
		}
	}
	slices.Sort(v.only)
	return v
}

// shellIn runs scripts in the container by exec.
func (c *Client) shellIn(t execTarget) remoteShell {
	return func(ctx context.Context, script string, in io.Reader, out, errs io.Writer) error {
		exec := &corev1.PodExecOptions{
			Container: t.container.Name, Command: []string{"sh", "-c", script}, Stdin: true, Stdout: true, Stderr: true,
		}
		req := c.kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(t.pod.Namespace).Name(t.pod.Name).
			SubResource("exec").VersionedParams(exec, scheme.ParameterCodec)
		return streams.Connect(ctx, c.config, req.URL(), in, out, errs)
	}
}

// kubeletCannotAsk is a kubelet's answer if its authorization request to the API server failed. Either the API server
// rejects the kubelet's credentials, or it is unreachable from the node.
const kubeletCannotAsk = "Authorization error (user="

// execFailed returns why the probe could not be uploaded into a container.
func execFailed(t execTarget, failed *uploadError) *PlacementError {
	text := probe.OneLine(failed.Error())
	code := 0
	if exit, ok := errors.AsType[utilexec.ExitError](failed.err); ok {
		code = exit.ExitStatus()
	}
	switch {
	case errors.Is(failed.err, errStalled):
		return waited(facts.ReasonSilent, "entering container %s: %v: the API server's connection to the kubelet, the kubelet or the container runtime hangs", t, failed.err)
	case errors.Is(failed.err, errNoise):
		return refuse(facts.ReasonShell, "%v: its shell or a startup file prints endlessly", failed.err)
	case forbidden(text):
		return refuse(facts.ReasonRBAC, "no right to exec: %s", text)
	case strings.Contains(text, "error dialing backend"):
		return Unattached("the API server does not reach the kubelet's port 10250 on %s: %s", t.pod.Spec.NodeName, text)
	case strings.Contains(text, kubeletCannotAsk):
		return refuse(facts.ReasonNoAuthorizer, "the kubelet of %s answers, but cannot authorize the request through the API server: %s", t.pod.Spec.NodeName, text)
	case strings.Contains(text, "unknown service runtime.v1"):
		return refuse(facts.ReasonNoCRI, "the container runtime lacks the CRI service that the kubelet calls: %s", text)
	case strings.Contains(text, "rpc error") && strings.Contains(text, "dial unix"):
		return refuse(facts.ReasonRuntime, "the kubelet does not reach the container runtime: %s", text)
	case code >= 126 || strings.Contains(text, "executable file not found") ||
		strings.Contains(text, "no such file or directory"):
		return refuse(facts.ReasonShell, "no shell")
	}
	_, transport := errors.AsType[net.Error](failed.err)
	switch answered := strings.Contains(text, "unable to upgrade connection"); { // no shell was started
	case answered && (strings.Contains(text, "not found") || strings.Contains(text, "does not exist")):
		return refuse(facts.ReasonShell, "it is gone")
	case answered && strings.Contains(text, "webhook"):
		return refuse(facts.ReasonAdmission, "the cluster's policy refuses exec: %s", text)
	case answered || transport:
		return &PlacementError{
			Reason: facts.ReasonAPI, Text: fmt.Sprintf("entering container %s: %s", t, text), Err: failed.err,
		}
	}
	return refuse(facts.ReasonShell, "%s", text)
}
