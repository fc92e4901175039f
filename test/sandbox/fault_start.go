package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// startFaults are faults of calico-node's start: its init containers, its time limit, the datastore and Felix.
func startFaults() []fault {
	const node = "node-b"
	return slices.Concat(felixFaults(node), serviceFaults(node))
}

// felixFaults are faults of calico-node's liveness: its time limit, and Felix' answers.
func felixFaults(node string) []fault {
	return []fault{
		{
			Name: "crash-loop-busy", Incident: "F3", Node: node, About: "calico-node in CrashLoopBackOff, log ends at 'Using node name'; peers' sessions refused",
			Shows: shows{Cause: "start-under-load", API: "start-outlasts-budget", Machine: true,
				Runbook: "calico-node-crashloop"},
			Inject: steps(impatient, again(node), scripted(node, busy()), loaded,
				scripted(node, ended("lab-lift")+"\n"+signalTo("calico-node", "KILL")), killed(node, 2)),
			Heal: steps(scripted(node, "rm -f /var/lib/calico/sandbox/start-work; "+ended("lab-lift")+"; "+ended("lab-busy")), patient(node)),
		},
		{
			Name: "crash-loop-far", Incident: "F7", Node: node, About: "calico-node in CrashLoopBackOff on this node alone, nothing in its log",
			Shows:  shows{Cause: "start-far-datastore", API: "start-outlasts-budget", Runbook: "calico-node-crashloop"},
			Inject: steps(impatient, scripted(node, fmt.Sprintf(`/proc/1/exe %s %s %v >/run/far.log 2>&1 & echo $! >/run/far.pid; sleep 1; kill -0 $!`, verbFar, fabric4, farAway)), again(node), killed(node, 1)),
			Heal:   steps(scripted(node, notFar), patient(node)),
		},
		{
			Name: "felix-refuses", Node: node, About: "calico-node not ready: 9099 refused",
			Shows:  shows{Cause: "felix-down"},
			Inject: felixAnswers("refuse"), Heal: felixAnswers("ok"),
		},
		{
			Name: "felix-hangs", Node: node, About: "calico-node not ready: a probe's deadline exceeded",
			Shows:  shows{Cause: "felix-stuck", Gate: true},
			Inject: felixAnswers("hang"), Heal: felixAnswers("ok"),
		},
		{
			Name: "felix-503", Node: node, About: "calico-node not ready: liveness probe reporting 503",
			Shows:  shows{Cause: "felix-dataplane-late"},
			Inject: felixAnswers("503"), Heal: felixAnswers("ok"),
		},
		{
			Name: "felix-moved", Node: node, About: "calico-node not ready: 9099 refused, though Felix works",
			Shows:  shows{Cause: "felix-elsewhere", Runbook: "calico-node-crashloop"},
			Inject: steps(healthHost(node, "10.88.0.12"), scripted(node, "echo -n 10.88.0.12 >/var/lib/calico/sandbox/felix.host"), again(node), scripted(node, felixBegun), unready(node)),
			Heal:   steps(healthHost(node, ""), scripted(node, "rm -f /var/lib/calico/sandbox/felix.host"), again(node)),
		},
		{
			Name: "localhost-elsewhere", Node: node, About: "calico-node not ready: 'dial tcp 192.0.2.7:9099'",
			Shows:  shows{Cause: "localhost-foreign", Early: []string{"felix-down"}, Runbook: "calico-node-crashloop"},
			Inject: steps(scripted(node, "cp /etc/hosts /run/hosts.was; sed -i 's/^127.0.0.1 localhost/192.0.2.7 localhost/; /^::1/d' /etc/hosts"), again(node), scripted(node, felixBegun), unready(node)),
			Heal:   steps(scripted(node, "if [ -e /run/hosts.was ]; then cat /run/hosts.was >/etc/hosts; rm /run/hosts.was; fi"), again(node)),
		},
		{
			Name: "loopback-dropped", Node: node, About: "calico-node not ready: a probe's deadline exceeded",
			Shows: shows{Cause: "loopback-dropped"},
			// Not the whole loopback: containerd serves attach and logs there, and no probe could be heard without
			// them.
			Inject: steps(scripted(node, "nft 'add table inet lab; add chain inet lab in { type filter hook input priority -10; }; add rule inet lab in iif lo tcp dport { 9099, 10248, 10249, 10256 } drop'"), unready(node)),
			Heal:   scripted(node, unfirewalled),
		},
	}
}

// serviceFaults are faults of services, names and the datastore.
func serviceFaults(node string) []fault {
	return []fault{
		{
			Name: "services-flushed", Node: node, About: "pods and the node itself reach no service",
			Shows:  shows{Cause: "kube-proxy-rules-lost", Runbook: "node-trouble", Gate: true},
			Inject: scripted(node, "nft delete table ip kube-proxy; nft delete table ip6 kube-proxy"),
			// A restarted kube-proxy writes all rules again.
			Heal: scripted(node, signalTo("kube-proxy", "KILL")+"; until nft list table ip kube-proxy 2>/dev/null | grep -q 10.96.0.1 && nft list table ip6 kube-proxy 2>/dev/null | grep -q service-; do sleep .2; done; sleep 1"),
		},
		{
			Name: "services-stale", Node: node, About: "services lead to deleted pods",
			Shows:  shows{Cause: "kube-proxy-dead", Mild: true},
			Inject: scripted(node, stop("kube-proxy")), Heal: scripted(node, start("kube-proxy")),
		},
		{
			Name: "api-wrong-server", Node: node, About: "clients of the API's service: 'x509: certificate is valid for ..., not for 10.96.0.1'",
			Shows: shows{Cause: "service-hijacked", Runbook: "node-trouble"},
			// projectcalico/felix#1868: redirect to this node's kubelet, before kube-proxy's chain, whose priority is
			// -100.
			Inject: diverted(node, "ip daddr 10.96.0.1 tcp dport 443 dnat to $(ip -4 -o addr show eth0 | sed 's/.*inet //; s/[/].*//'):10250"),
			Heal:   scripted(node, undiverted),
		},
		{
			Name: "dns-redirected", Node: node, About: "no name resolves on the node; the DNS servers answer",
			Shows:  shows{Cause: "service-hijacked"},
			Inject: diverted(node, "ip daddr 10.96.0.10 udp dport 53 redirect to :15053"), Heal: scripted(node, undiverted),
		},
		{
			Name: "dns-dead", Node: node, About: "no name resolves in pods",
			Shows:  shows{Cause: "dns-unserved", Gate: true},
			Inject: scale(0), Heal: scale(1),
		},
		{
			Name: "pods-cut-off", Node: node, About: "pods of this node reach the node and nothing else",
			Shows:  shows{Cause: "forwarding-off"},
			Inject: scripted(node, "echo 0 >/proc/sys/net/ipv4/ip_forward"), Heal: scripted(node, "echo 1 >/proc/sys/net/ipv4/ip_forward"),
		},
		{
			Name: "token-old", Node: node, About: "new pods: 'connection is unauthorized: Unauthorized'",
			Shows:  shows{Cause: "cni-token-expired", Gate: true},
			Inject: scripted(node, oldToken), Heal: scripted(node, "rm -f /etc/cni/net.d/calico-kubeconfig"),
		},
		{
			Name: "api-unreachable", Node: node, About: "new connections of this node to the API server time out",
			Shows:  shows{Cause: "port-refused-here"},
			Inject: scripted(node, fmt.Sprintf("nft 'add table inet lab; add chain inet lab out { type filter hook output priority 10; }; add rule inet lab out ip daddr %s tcp dport %d ct state new drop'", fabric4, apiPort)),
			Heal:   scripted(node, unfirewalled),
		},
		{
			Name: "datastore-locked", Node: node, About: "new pods: 'Calico is currently not ready to process requests'",
			Shows:  shows{Cause: "datastore-not-ready"},
			Inject: calicoSpec("clusterinformations", "default", `{"spec":{"datastoreReady":false}}`),
			Heal:   calicoSpec("clusterinformations", "default", `{"spec":{"datastoreReady":true}}`),
		},
	}
}

// felixBegun waits until start-up is over, and then another second for Felix.
const felixBegun = "until grep -qax -e -felix /proc/[0-9]*/cmdline -z 2>/dev/null; do sleep .1; done; sleep 1"

const unfirewalled = "nft delete table inet lab 2>/dev/null || true"

// busy runs loops among the node's daemons for at most three minutes, because the load average belongs to the whole
// machine. All pods together get as much CPU time as two of five loops per CPU. So a start of calico-node, which
// computes for half of its time limit, takes several times as long, while probes still run between two starts. Twice as
// many loops with the lowest priority raise the load average for loaded.
func busy() string {
	return fmt.Sprintf(`echo 4s >/var/lib/calico/sandbox/start-work
for c in /sys/fs/cgroup/*/cgroup.procs; do echo $$ >$c; done
for i in $(seq %d); do timeout 180 sh -c 'while :; do :; done' lab-busy >/dev/null 2>&1 & done
for i in $(seq %d); do nice -n 19 timeout 180 sh -c 'while :; do :; done' lab-lift >/dev/null 2>&1 & done`, 5*runtime.NumCPU(), 10*runtime.NumCPU())
}

// ended kills the loops with that name.
func ended(name string) string {
	return `for p in /proc/[0-9]*; do if grep -qa ` + name + ` $p/cmdline 2>/dev/null && [ ${p#/proc/} != $$ ]; then kill -KILL ${p#/proc/} 2>/dev/null || true; fi; done`
}

// loaded waits until the load average of the last minute, which rises slowly, exceeds four per CPU: from there a node
// counts as overloaded.
func loaded(ctx context.Context, _ lab) error {
	return until(ctx, "the load average to rise", func(context.Context) (bool, error) {
		b, err := os.ReadFile("/proc/loadavg")
		if err != nil {
			return false, err
		}
		var load float64
		_, err = fmt.Sscan(string(b), &load)
		return load > 4.5*float64(runtime.NumCPU()), err
	})
}

// farAway is the delay to the API server in crash-loop-far: twenty calls take longer than the time limit of impatient.
const farAway = 480 * time.Millisecond

// impatient shortens the time limit of calico-node's liveness probe to eight seconds.
var impatient = liveness(`"initialDelaySeconds":3,"periodSeconds":2,"failureThreshold":3,"timeoutSeconds":1`)

// patient restores the time limit.
func patient(node string) func(context.Context, lab) error {
	return steps(func(ctx context.Context, l lab) error {
		return l.apply(ctx, "calico-node.yaml", settingOf(members()[0]))
	}, again(node))
}

// again replaces calico-node on a node and waits until the new one has started.
func again(node string) func(context.Context, lab) error {
	return func(ctx context.Context, l lab) error {
		old, err := l.calicoOn(ctx, node)
		if err != nil {
			return err
		}
		for _, p := range old {
			if err := l.kube.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, *metav1.NewDeleteOptions(0)); err != nil &&
				!apierrors.IsNotFound(err) {
				return err
			}
		}
		return until(ctx, "a new calico-node on "+node, func(ctx context.Context) (bool, error) {
			now, err := l.calicoOn(ctx, node)
			if err != nil || len(now) != 1 || slices.ContainsFunc(old, func(p corev1.Pod) bool { return p.UID == now[0].UID }) {
				return false, err
			}
			return len(now[0].Status.ContainerStatuses) > 0 &&
				(now[0].Status.ContainerStatuses[0].State.Running != nil ||
					now[0].Status.ContainerStatuses[0].RestartCount > 0), nil
		})
	}
}

func (l lab) calicoOn(ctx context.Context, node string) ([]corev1.Pod, error) {
	list, err := l.kube.CoreV1().Pods("kube-system").List(ctx,
		metav1.ListOptions{LabelSelector: "k8s-app=calico-node", FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// killed waits until calico-node has ended this many times.
func killed(node string, times int32) func(context.Context, lab) error {
	return func(ctx context.Context, l lab) error {
		return until(ctx, "the kubelet to kill calico-node on "+node, func(ctx context.Context) (bool, error) {
			pods, err := l.calicoOn(ctx, node)
			if err != nil || len(pods) != 1 || len(pods[0].Status.ContainerStatuses) == 0 {
				return false, err
			}
			return pods[0].Status.ContainerStatuses[0].RestartCount >= times, nil
		})
	}
}

// unready waits until the API shows calico-node on the node as not ready.
func unready(node string) func(context.Context, lab) error {
	return func(ctx context.Context, l lab) error {
		return until(ctx, "calico-node on "+node+" to be unready", func(ctx context.Context) (bool, error) {
			pods, err := l.calicoOn(ctx, node)
			if err != nil || len(pods) != 1 {
				return false, err
			}
			return !podReady(&pods[0]), nil
		})
	}
}

// felixAnswers sets how the stand-in on the second node answers, and waits for the resulting readiness of calico-node.
func felixAnswers(mode string) func(context.Context, lab) error {
	node := members()[1].Name
	return func(ctx context.Context, l lab) error {
		if err := felix(l.layout, []string{node, mode}); err != nil || mode == "ok" {
			return err
		}
		return unready(node)(ctx, l)
	}
}

// healthHost sets healthHost in a node's FelixConfiguration.
func healthHost(node, host string) func(context.Context, lab) error {
	return func(ctx context.Context, l lab) error {
		calls := l.calls.Resource(schema.GroupVersionResource{Group: "crd.projectcalico.org", Version: "v1",
			Resource: "felixconfigurations"})
		name := "node." + node
		if host == "" {
			if err := calls.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return err
			}
			return nil
		}
		body := fmt.Sprintf(`{"apiVersion":"crd.projectcalico.org/v1","kind":"FelixConfiguration","metadata":{"name":%q},"spec":{"healthHost":%q}}`, name, host)
		_, err := calls.Patch(ctx, name, types.ApplyPatchType, []byte(body), metav1.PatchOptions{FieldManager: "sandbox"})
		return err
	}
}

// calicoSpec changes one of Calico's resources.
func calicoSpec(resource, name, patch string) func(context.Context, lab) error {
	return func(ctx context.Context, l lab) error {
		_, err := l.calls.Resource(schema.GroupVersionResource{Group: "crd.projectcalico.org", Version: "v1",
			Resource: resource}).
			Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
}

// scale sets the number of CoreDNS pods, and waits for them.
func scale(to int) func(context.Context, lab) error {
	return func(ctx context.Context, l lab) error {
		patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, to)
		if _, err := l.kube.AppsV1().Deployments("kube-system").Patch(ctx, "coredns", types.MergePatchType,
			[]byte(patch), metav1.PatchOptions{}); err != nil {
			return err
		}
		return until(ctx, "CoreDNS", func(ctx context.Context) (bool, error) {
			pods, err := l.kube.CoreV1().Pods("kube-system").List(ctx, metav1.ListOptions{LabelSelector: "k8s-app=kube-dns"})
			return err == nil && len(pods.Items) == to, err
		})
	}
}

// oldToken writes the file that Calico's CNI plugin reads, with a token that expired an hour ago. It contains no
// secret: the signature is invalid.
const oldToken = `part() { base64 -w0 | tr '+/' '-_' | tr -d '='; }
now=$(date +%s)
claims=$(printf '{"iss":"https://kubernetes.default.svc.cluster.local","sub":"system:serviceaccount:kube-system:calico-cni-plugin","iat":%d,"exp":%d}' $((now-90000)) $((now-3600)) | part)
head=$(printf '{"alg":"RS256"}' | part)
cat >/etc/cni/net.d/calico-kubeconfig <<EOF
apiVersion: v1
kind: Config
clusters: [{name: local, cluster: {server: "https://10.96.0.1:443"}}]
users: [{name: calico, user: {token: "$head.$claims.c2lnbmF0dXJl"}}]
EOF
chmod 600 /etc/cni/net.d/calico-kubeconfig`

// undiverted removes the rule of diverted.
const undiverted = "nft delete table ip ingress-agent 2>/dev/null || true"

// diverted makes a table of another program redirect connections of a node before kube-proxy does.
func diverted(node, rule string) func(context.Context, lab) error {
	return scripted(node, undiverted+`
nft "add table ip ingress-agent; add chain ip ingress-agent out { type nat hook output priority -110; }
add rule ip ingress-agent out `+rule+`"`)
}

// notFar removes the delay.
const notFar = `if [ -e /run/far.pid ]; then kill -KILL $(cat /run/far.pid) 2>/dev/null || true; rm /run/far.pid; fi
nft delete table ip far 2>/dev/null || true`

// verbFar delays all packets from a node to an address: sandbox _far ADDRESS DELAY, in the node's namespaces.
const verbFar = "_far"
