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

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// Exec is the way into a container that runs on the node already, in the node's
// network namespace: nothing is pulled and nothing is created. It takes a shell in
// there, and sees the node through that container's volumes.
func Exec(c *Client) Open {
	return func(ctx context.Context, o Options) (*Session, error) {
		pods, err := o.Running(ctx)
		if err != nil {
			return nil, unread("which pods run on node "+o.Node, err)
		}
		all := doorsOf(pods, o.Calico)
		if len(all) == 0 {
			return nil, refuse(facts.ReasonSupport, "%s", NoDoor(o.Node, o.Calico))
		}
		var passed []string
		all = slices.DeleteFunc(all, func(d door) bool {
			if d.tight() {
				passed = append(passed, fmt.Sprintf("%s (its memory limit, %s, might be passed with a probe in it)", d, d.container.Resources.Limits.Memory()))
			}
			return d.tight()
		})
		reason, silent := facts.ReasonShell, 0
		for _, d := range all[:min(len(all), mostDoors)] {
			s, err := carry(ctx, o, "exec", "in container "+d.String(), d.view(), func(ctx context.Context, script string, in io.Reader, out, errs io.Writer) error {
				return c.stream(ctx, d, script, in, out, errs)
			}, d.elsewhere(o))
			failed, broke := errors.AsType[*lineError](err)
			pe, refused := errors.AsType[*PlacementError](err)
			switch {
			case broke:
				pe = sortExec(d, failed)
			case !refused:
				return s, err
			}
			if pe.Waited {
				silent++
			}
			// One container may hang by itself; two do so for a reason they share.
			if silent > 1 || !pe.Waited && pe.Reason != facts.ReasonShell && pe.Reason != facts.ReasonRBAC {
				return nil, pe
			}
			reason = pe.Reason
			passed = append(passed, fmt.Sprintf("%s (%s)", d, pe.Text))
		}
		none := refuse(reason, "no container in the node's network takes the probe: %s", strings.Join(passed, "; "))
		none.Waited = silent > 0 && silent == len(all)
		return nil, none
	}
}

// NoDoor says that no container of a node may be entered; calico is calico-node's pod,
// verified, or nil.
func NoDoor(node string, calico *corev1.Pod) string {
	return fmt.Sprintf("node %s runs no DaemonSet or static pod of namespace %s in the host's network that can take a probe",
		node, strings.Join(systemNamespaces(calico), " or "))
}

// mostDoors is how many containers are tried. One without a shell says so in a second
// at most; of silent ones two are enough.
const mostDoors = 6

// spare is the least memory limit of a container that a probe goes into: its file may
// lie in memory, and it takes as much again to run. Somebody else's container must not
// be killed for it.
const spare = 256 << 20

// door is a running container to go in by.
type door struct {
	pod       *corev1.Pod
	container *corev1.Container
}

func (d door) String() string {
	return d.pod.Namespace + "/" + d.pod.Name + "/" + d.container.Name
}

func (d door) privileged() bool {
	sc := d.container.SecurityContext
	return sc != nil && sc.Privileged != nil && *sc.Privileged
}

// tight tells whether a probe might take the container past its memory limit.
func (d door) tight() bool {
	limit := d.container.Resources.Limits.Memory()
	return !limit.IsZero() && limit.Value() < spare
}

// systemNamespaces are those whose containers may be entered: Kubernetes' own, and that of
// calico-node's pod, which is verified; nil = there is none that is.
func systemNamespaces(calico *corev1.Pod) []string {
	if calico == nil || calico.Namespace == metav1.NamespaceSystem {
		return []string{metav1.NamespaceSystem}
	}
	return []string{calico.Namespace, metav1.NamespaceSystem}
}

// ofTheSystem tells whether a pod is controlled by a DaemonSet, or is the copy that the
// node's kubelet keeps in the API of a pod from a file on the node (a static pod, as
// kube-proxy is on some distributions).
func ofTheSystem(p *corev1.Pod) bool {
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

// doorsOf are the running containers that may be entered: in the node's own network, for
// from any other what is seen is not the node's, and of the system's own pods. What others
// run gets neither our file nor our root, whatever it calls itself. The verified
// calico-node comes first, then kube-proxy, then the privileged ones.
func doorsOf(pods []corev1.Pod, calico *corev1.Pod) []door {
	namespaces := systemNamespaces(calico)
	var all []door
	for i := range pods {
		p := &pods[i]
		if !p.Spec.HostNetwork || p.DeletionTimestamp != nil || p.Labels[labelManaged] == managedBy ||
			!slices.Contains(namespaces, p.Namespace) || !ofTheSystem(p) {
			continue
		}
		for _, s := range p.Status.ContainerStatuses {
			at := slices.IndexFunc(p.Spec.Containers, func(c corev1.Container) bool { return c.Name == s.Name })
			if s.State.Running != nil && at >= 0 {
				all = append(all, door{p, &p.Spec.Containers[at]})
			}
		}
	}
	rank := func(d door) int {
		switch {
		case calico != nil && d.pod.UID == calico.UID && strings.HasPrefix(d.container.Name, "calico-node"):
			return 0
		case d.container.Name == "kube-proxy" && d.pod.Namespace == metav1.NamespaceSystem:
			return 1
		case d.privileged():
			return 2
		}
		return 3
	}
	slices.SortStableFunc(all, func(a, b door) int { return cmp.Or(rank(a)-rank(b), strings.Compare(a.String(), b.String())) })
	return all
}

// elsewhere says why a container is not entered, nil where it is. That the
// container is the node's the API server vouches for: a machine-id that is not to be had
// is no obstacle, another one is.
func (d door) elsewhere(o Options) judge {
	want := machineID(o.Machine)
	return func(id string) *PlacementError {
		if id != "" && want != "" && id != want {
			return refuse(facts.ReasonMachine, "container %s is on another machine: its machine-id is not that of %s", d, o.Node)
		}
		return nil
	}
}

// view says how a program in the container sees the node: all of it by way of process
// 1, where that is in sight and may be followed, or where the node's root is a volume;
// else what is mounted at the place it has on the node.
func (d door) view() view {
	at := map[string]string{} // path on the node -> in the container
	for _, m := range d.container.VolumeMounts {
		i := slices.IndexFunc(d.pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name && v.HostPath != nil })
		if i >= 0 && m.SubPath == "" && m.SubPathExpr == "" {
			at[path.Clean(d.pod.Spec.Volumes[i].HostPath.Path)] = path.Clean(m.MountPath)
		}
	}
	switch proc, root := at["/proc"], at["/"]; {
	case d.privileged() && d.pod.Spec.HostPID:
		return view{root: "/proc/1/root", proc: "/proc"}
	case d.privileged() && proc != "":
		return view{root: proc + "/1/root", proc: proc}
	case root != "":
		return view{root: root, proc: "/proc"}
	}
	v := view{root: "/", proc: "/proc", only: []string{}}
	for name, mounted := range at {
		if name == mounted && !strings.HasPrefix(name, "/sys") && !strings.HasPrefix(name, "/lib") {
			if strings.HasPrefix(name, "/var/run/") {
				name = strings.TrimPrefix(name, "/var") // as probe.Host looks it up
			}
			v.only = append(v.only, name)
		}
	}
	slices.Sort(v.only)
	return v
}

// stream runs the script in the container.
func (c *Client) stream(ctx context.Context, d door, script string, in io.Reader, out, errs io.Writer) error {
	req := c.kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(d.pod.Namespace).Name(d.pod.Name).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: d.container.Name, Command: []string{"sh", "-c", script}, Stdin: true, Stdout: true, Stderr: true}, scheme.ParameterCodec)
	return c.converse(ctx, req.URL(), in, out, errs)
}

// sortExec says why a container was not entered.
func sortExec(d door, failed *lineError) *PlacementError {
	text := probe.OneLine(failed.Error())
	code := 0
	if exit, ok := errors.AsType[utilexec.ExitError](failed.err); ok {
		code = exit.ExitStatus()
	}
	switch {
	case errors.Is(failed.err, errStill):
		return waited(facts.ReasonSilent, "going into container %s: %v: the API server's line to the kubelet, the kubelet or the container runtime hangs", d, failed.err)
	case errors.Is(failed.err, errNoise):
		return refuse(facts.ReasonShell, "%v: its shell, or what that reads at its start, prints without end", failed.err)
	case forbidden(text):
		return refuse(facts.ReasonRBAC, "no right to exec: %s", text)
	case strings.Contains(text, "error dialing backend"):
		return refuse(facts.ReasonAttach, "the API server does not reach the kubelet's port 10250 on %s: %s", d.pod.Spec.NodeName, text)
	case strings.Contains(text, "rpc error") && strings.Contains(text, "dial unix"):
		return refuse(facts.ReasonRuntime, "the kubelet does not reach the container runtime: %s", text)
	case code >= 126 || strings.Contains(text, "executable file not found") || strings.Contains(text, "no such file or directory"):
		return refuse(facts.ReasonShell, "no shell")
	}
	_, transport := errors.AsType[net.Error](failed.err)
	switch answered := strings.Contains(text, "unable to upgrade connection"); { // then no shell was ever asked
	case answered && (strings.Contains(text, "not found") || strings.Contains(text, "does not exist")):
		return refuse(facts.ReasonShell, "it is gone")
	case answered && strings.Contains(text, "webhook"):
		return refuse(facts.ReasonAdmission, "the cluster's policy refuses exec: %s", text)
	case answered || transport:
		return &PlacementError{Reason: facts.ReasonAPI, Text: fmt.Sprintf("going into container %s: %s", d, text), Err: failed.err}
	}
	return refuse(facts.ReasonShell, "%s", text)
}
