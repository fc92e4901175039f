package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// nodeFaults are faults of the kubelet, the runtime and the machine.
func nodeFaults() []fault {
	const node = "node-b"
	return slices.Concat(runtimeFaults(node), kubeletFaults(node), pluginFaults(node))
}

// runtimeFaults are faults of the runtime, and of the init containers that hang with it.
func runtimeFaults(node string) []fault {
	return []fault{
		{
			Name: "upgrade-ipam-hangs", Incident: "F1", Node: node, About: "calico-node stays in Init:0/3, no events; new pods get no address",
			Shows: shows{Cause: "upgrade-ipam-pod-cidr", Runbook: "calico-node-init", Gate: true},
			Inject: func(ctx context.Context, l lab) error {
				return errors.Join(l.podCIDR(ctx, node, "10.200.1.0/24"), l.leftovers(ctx, node, true),
					l.hang(ctx, node, true), l.controllers(ctx, node, true))
			},
			Heal: func(ctx context.Context, l lab) error {
				return errors.Join(l.podCIDR(ctx, node, ""), l.leftovers(ctx, node, false), l.hang(ctx, node, false),
					l.controllers(ctx, node, false))
			},
		},
		{
			Name: "upgrade-ipam-locked", Incident: "F1", Node: node, About: "calico-node stays in Init:0/3, no events; another process holds a lock",
			Shows: shows{Cause: "upgrade-ipam-locked", Runbook: "calico-node-init"},
			Inject: func(ctx context.Context, l lab) error {
				return errors.Join(l.leftovers(ctx, node, true), l.on(ctx, node, holdLock), l.hang(ctx, node, true))
			},
			Heal: func(ctx context.Context, l lab) error {
				return errors.Join(l.on(ctx, node, dropLock), l.leftovers(ctx, node, false), l.hang(ctx, node, false))
			},
		},
		{
			Name: "init-without-process", Incident: "F2", Node: node, About: "calico-node stays in Init:0/3, no events; its process does not exist",
			Shows: shows{Cause: "shim-hangs", Runbook: "calico-node-init"},
			Inject: func(ctx context.Context, l lab) error {
				return errors.Join(l.leftovers(ctx, node, true), l.hang(ctx, node, true), l.on(ctx, node, loseProcess),
					l.leftovers(ctx, node, false))
			},
			Heal: func(ctx context.Context, l lab) error {
				return errors.Join(l.leftovers(ctx, node, false), l.on(ctx, node, signalTo("containerd-shim", "CONT")),
					l.hang(ctx, node, false))
			},
		},
		{
			Name: "containerd-frozen", Incident: "F2", Node: node, About: "pods stay in ContainerCreating; the node may still be Ready",
			Shows:  shows{Cause: "containerd-hangs", Runbook: "runtime-wedged", Gate: true},
			Inject: scripted(node, signalTo("containerd", "STOP")), Heal: scripted(node, signalTo("containerd", "CONT")),
		},
		{
			Name: "docker-lost-containerd", Incident: "F2", Node: node, About: "nothing starts; docker's ping is fine",
			Shows:  shows{Cause: "docker-lost-containerd", Runbook: "runtime-wedged"},
			Inject: loseContainerd(node), Heal: scripted(node, signalTo("containerd", "CONT")+"; "+signalTo("dockerd", "KILL")+"; rm -rf /run/docker* /var/lib/docker"),
		},
	}
}

// kubeletFaults are faults of the kubelet and of the machine.
func kubeletFaults(node string) []fault {
	silently := func(script string) func(context.Context, lab) error {
		return func(ctx context.Context, l lab) error {
			if err := l.on(ctx, node, script); err != nil {
				return err
			}
			return l.silent(ctx, node)
		}
	}
	return []fault{
		{
			Name: "swap-after-reboot", Incident: "F4", Node: node, About: "NotReady, 'Kubelet stopped posting node status', the pods still Running; affects the whole machine",
			Shows: shows{Cause: "swap-on", API: "kubelet-silent", Runbook: "node-not-ready", Machine: true},
			Inject: func(ctx context.Context, l lab) error {
				if err := l.swapOn(ctx); err != nil {
					return err
				}
				return silently("echo '/dev/sda3 none swap sw 0 0' >/etc/fstab; "+failSwap(true)+"; "+signalTo("kubelet", "KILL"))(ctx, l)
			},
			Heal: func(ctx context.Context, l lab) error {
				return errors.Join(l.swapOff(ctx), l.on(ctx, node, "rm -f /etc/fstab; "+failSwap(false)))
			},
		},
		{
			Name: "swap-before-reboot", Incident: "F4", Node: node, About: "nothing yet: the night before",
			Shows:  shows{Cause: "swap-returns", Runbook: "before-reboot", Branch: "swap-returns", Gate: true, Mild: true},
			Inject: scripted(node, "echo '/dev/sda3 none swap sw 0 0' >/etc/fstab; "+failSwap(true)), Heal: scripted(node, "rm -f /etc/fstab; "+failSwap(false)),
		},
		{
			Name: "kubelet-stopped", Node: node, About: "NotReady, 'Kubelet stopped posting node status'",
			Shows:  shows{Cause: "kubelet-dead", API: "kubelet-silent", Runbook: "node-not-ready"},
			Inject: silently(stop("kubelet")), Heal: scripted(node, start("kubelet")),
		},
		{
			Name: "kubelet-frozen", Node: node, About: "NotReady, 'Kubelet stopped posting node status'; its port accepts connections",
			Shows:  shows{Cause: "kubelet-frozen", API: "kubelet-silent"},
			Inject: silently(signalTo("kubelet", "STOP")), Heal: scripted(node, signalTo("kubelet", "CONT")),
		},
		{
			Name: "kubelet-cut-off", Node: node, About: "NotReady, 'Kubelet stopped posting node status'; everything on the node works",
			Shows:  shows{Cause: "route-drops", API: "kubelet-silent", Runbook: "node-not-ready"},
			Inject: silently("ip rule add to " + fabric4 + " ipproto tcp dport " + strconv.Itoa(apiPort) + " prohibit pref 90"),
			Heal:   scripted(node, "ip rule del pref 90 || true"),
		},
		{
			Name: "node-cut-off", Node: node, About: "NotReady, 'Kubelet stopped posting node status'; the node is unreachable",
			Shows: shows{Cause: "node-unreachable", API: "kubelet-silent", Runbook: "node-not-ready"},
			Inject: func(ctx context.Context, l lab) error {
				return errors.Join(l.onFabric(ctx, "ip", "link", "set", node, "nomaster"), l.silent(ctx, node))
			},
			Heal: func(ctx context.Context, l lab) error {
				return l.onFabric(ctx, "ip", "link", "set", node, "master", bridgeName)
			},
		},
	}
}

// pluginFaults are faults of the CNI plugins and of calico-node's pod.
func pluginFaults(node string) []fault {
	return []fault{
		{
			Name: "cni-config-missing", Node: node, About: "NotReady, 'cni plugin not initialized'; pods stay in ContainerCreating",
			Shows: shows{Cause: "cni-config-missing", API: "cni-config-missing", Gate: true},
			Inject: func(ctx context.Context, l lab) error {
				return errors.Join(l.on(ctx, node, "mv /etc/cni/net.d/10-calico.conflist /root/"), l.notReady(ctx, node))
			},
			// containerd does not notice a file that is moved there.
			Heal: scripted(node, "[ ! -e /root/10-calico.conflist ] || { cat /root/10-calico.conflist >/etc/cni/net.d/10-calico.conflist; rm /root/10-calico.conflist; }"),
		},
		{
			Name: "cni-config-shadowed", Node: node, About: "new pods have addresses outside Calico's pools; old pods work",
			Shows:  shows{Cause: "cni-config-shadowed", Runbook: "pods-no-network"},
			Inject: scripted(node, `echo '{"cniVersion":"0.4.0","name":"old","type":"bridge"}' >/etc/cni/net.d/05-bridge.conf`), Heal: scripted(node, "rm -f /etc/cni/net.d/05-bridge.conf"),
		},
		{
			Name: "nodename-wrong", Node: node, About: "new pods of the node are unreachable",
			Shows:  shows{Cause: "nodename-wrong"},
			Inject: scripted(node, "echo "+node+".example.com >/var/lib/calico/nodename"), Heal: scripted(node, "echo "+node+" >/var/lib/calico/nodename"),
		},
		{
			Name: "calico-image-missing", Node: node, About: "calico-node in Init:ImagePullBackOff",
			Shows: shows{Cause: "calico-image", API: "calico-image", Runbook: "calico-node-init"},
			Inject: func(ctx context.Context, l lab) error {
				return l.image(ctx, node, "sandbox.local/calico-node:v3.99.0", "OnDelete")
			},
			Heal: func(ctx context.Context, l lab) error {
				return l.image(ctx, node, "sandbox.local/calico-node:v3.32.1", "RollingUpdate")
			},
		},
		{
			Name: "calico-pod-missing", Node: node, About: "the node is Ready, BGP to it is down",
			Shows: shows{Cause: "calico-pod-missing", API: "calico-pod-missing"},
			Inject: func(ctx context.Context, l lab) error {
				if err := l.orphan(ctx); err != nil {
					return err
				}
				pods, err := l.calicoOn(ctx, node)
				for _, p := range pods {
					err = errors.Join(err, l.kube.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, *metav1.NewDeleteOptions(0)))
				}
				if err != nil {
					return err
				}
				return until(ctx, "calico-node to go", func(ctx context.Context) (bool, error) {
					pods, err := l.calicoOn(ctx, node)
					return err == nil && len(pods) == 0, err
				})
			},
			Heal: func(ctx context.Context, l lab) error { return l.adoptAgain(ctx) },
		},
		{
			Name: "disk-full", Node: node, About: "odd failures; the node may have DiskPressure",
			Shows:  shows{Cause: "disk-full"},
			Inject: scripted(node, "mkdir -p /var/lib/containers; mount -t tmpfs -o size=1m tmpfs /var/lib/containers; head -c 1M /dev/zero >/var/lib/containers/full || true"),
			Heal:   scripted(node, "! mountpoint -q /var/lib/containers || umount -l /var/lib/containers; rm -rf /var/lib/containers"),
		},
	}
}

// leaseOver is when a node's lease has expired: 40 s and a bit.
const leaseOver = 42 * time.Second

// silent waits until the node's kubelet has not reported for the length of its lease: before that, the API shows
// nothing.
func (l lab) silent(ctx context.Context, node string) error {
	return until(ctx, "the lease of "+node+" to expire", func(ctx context.Context) (bool, error) {
		lease, err := l.kube.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, node, metav1.GetOptions{})
		return err == nil && lease.Spec.RenewTime != nil && time.Since(lease.Spec.RenewTime.Time) > leaseOver, err
	})
}

// notReady waits until the node's kubelet reports NotReady.
func (l lab) notReady(ctx context.Context, node string) error {
	return until(ctx, node+" to be NotReady", func(ctx context.Context) (bool, error) {
		n, err := l.kube.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionFalse {
				return true, nil
			}
		}
		return false, nil
	})
}

// holdLock takes host-local's lock and holds it; dropLock kills its holder.
const (
	holdLock = `
cd /var/lib/cni/networks/k8s-pod-network
setsid flock -o lock tail -f /dev/null </dev/null >/dev/null 2>&1 &
until [ -e lock ] && ! flock -n lock true; do sleep .05; done`
	dropLock = `for p in /proc/[0-9]*; do [ "$(cat $p/comm 2>/dev/null)" != flock ] || kill -s KILL -- -${p#/proc/}; done`
)

// loseProcess kills upgrade-ipam while its shim is stopped, so that the runtime does not notice.
const loseProcess = `
for p in /proc/[0-9]*; do
	[ "$(cat $p/comm 2>/dev/null)" = calico-ipam ] || continue
	shim=$(cut -d' ' -f4 $p/stat)
	kill -STOP $shim
	kill -KILL ${p#/proc/}
done`

// loseContainerd puts Debian's dockerd in front of the node's containerd and freezes containerd. The kubelet still uses
// containerd itself, so it writes docker as the runtime into the Node. The kubelet, which waits for containerd, does
// not overwrite that.
func loseContainerd(node string) func(context.Context, lab) error {
	return func(ctx context.Context, l lab) error {
		if err := l.on(ctx, node, `
PATH=/opt/sandbox/docker.io/usr/sbin:$PATH
setsid dockerd --containerd /run/containerd/containerd.sock --iptables=false --ip6tables=false --bridge=none -H unix:///run/docker.sock --storage-driver vfs </dev/null >/var/log/docker.log 2>&1 &
`); err != nil {
			return err
		}
		if err := l.dockerAnswers(ctx, node); err != nil {
			return err
		}
		if err := l.on(ctx, node, signalTo("containerd", "STOP")); err != nil {
			return err
		}
		patch := []byte(`{"status":{"nodeInfo":{"containerRuntimeVersion":"docker://20.10.24"}}}`)
		_, err := l.kube.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, patch, metav1.PatchOptions{},
			"status")
		return err
	}
}

// dockerAnswers waits until dockerd has connected to containerd.
func (l lab) dockerAnswers(ctx context.Context, node string) error {
	pid, err := nodePID(l.layout, node)
	if err != nil {
		return err
	}
	client := http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", fmt.Sprintf("/proc/%d/root/run/docker.sock", pid))
		},
	}}
	return until(ctx, "dockerd on "+node, func(ctx context.Context) (bool, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://docker/info", nil)
		if err != nil {
			return false, err
		}
		resp, err := client.Do(req)
		if err != nil {
			return false, err
		}
		return resp.StatusCode == http.StatusOK, resp.Body.Close()
	})
}

func runs(ctx context.Context, name string, args ...string) error {
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// onFabric runs a program in the network at the nodes' other ends.
func (l lab) onFabric(ctx context.Context, argv ...string) error {
	pid, err := clusterPID(l.layout)
	if err != nil {
		return err
	}
	return runs(ctx, "nsenter", append([]string{"-t", strconv.Itoa(pid), "-n", "--"}, argv...)...)
}
