package main

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// calicoFaults are faults of Calico's set-up: its templates, its manifest and its pools.
func calicoFaults() []fault {
	const node = "node-b"
	me := members()[1]
	return []fault{
		{
			Name: "bird-config-rejected", Node: node, About: "calico-node not ready: 'BIRD is not ready', and it restarts every second",
			Shows: shows{Cause: "bird-config-rejected", Runbook: "bgp-not-established"},
			// A keyword from a template for another version of BIRD.
			Inject: steps(unrouted, rendered(me, settingOf(me), strings.NewReplacer("export filter {", `export filter { krt_tunnels = "tunl0";`)),
				scripted(node, signalTo("bird", "KILL")), unready(node)),
			Heal: restored,
		},
		{
			Name: "calico-cgroup-frozen", Node: node, About: "calico-node is Running but not ready; its ports accept connections",
			Shows:  shows{Cause: "cgroup-frozen"},
			Inject: steps(scripted(node, freeze("calico-node")), unready(node)), Heal: scripted(node, thaw),
		},
		{
			Name: "probe-broken", Node: node, About: "calico-node in CrashLoopBackOff, and its log shows no error",
			Shows: shows{Cause: "probe-broken", API: "probe-broken"},
			// The liveness probe of another version of calico-node.
			Inject: steps(liveness(`"exec":{"command":["/bin/calico-node","-liveness"]},"initialDelaySeconds":1,"periodSeconds":2,"failureThreshold":2`),
				again(node), killed(node, 2)),
			Heal: patient(node),
		},
		{
			Name: "ipam-family-missing", Node: node, About: "new pods get no address, although the pool has free ones",
			Shows: shows{Cause: "ipam-family-missing", Runbook: "pods-no-network"},
			Inject: steps(calicoSpec("ippools", "default-ipv6-ippool", `{"spec":{"disabled":true}}`),
				scripted(node, plugin(`s/"type": "calico-ipam",/& "assign_ipv6": "true",/`))),
			Heal: steps(calicoSpec("ippools", "default-ipv6-ippool", `{"spec":{"disabled":false}}`),
				scripted(node, plugin(`s/ "assign_ipv6": "true",//`))),
		},
	}
}

// plugin changes the CNI configuration. It writes into the existing file, because containerd does not notice a file
// that is moved there.
func plugin(sed string) string {
	const file = "/etc/cni/net.d/10-calico.conflist"
	return "sed '" + sed + "' " + file + " >/run/conflist; cat /run/conflist >" + file + "; rm /run/conflist"
}

// liveness changes the liveness probe of calico-node for new pods: the DaemonSet's update strategy keeps the running
// ones.
func liveness(probe string) func(context.Context, lab) error {
	return func(ctx context.Context, l lab) error {
		patch := `{"spec":{"updateStrategy":{"type":"OnDelete","rollingUpdate":null},"template":{"spec":{"containers":[` +
			`{"name":"calico-node","livenessProbe":{` + probe + `}}]}}}}`
		_, err := l.kube.AppsV1().DaemonSets("kube-system").Patch(ctx, "calico-node", types.StrategicMergePatchType,
			[]byte(patch), metav1.PatchOptions{})
		return err
	}
}
