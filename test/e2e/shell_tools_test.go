//go:build e2e

package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podOn is a running pod of the node by the beginning of its name, and its address.
func podOn(t *testing.T, namespace, begins, node string) (name, addr string) {
	t.Helper()
	eventually(t, time.Minute, func() string {
		list, err := kube(t).CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "status.phase=Running,spec.nodeName=" + node})
		if err != nil {
			return err.Error()
		}
		for _, p := range list.Items {
			if strings.HasPrefix(p.Name, begins) && p.Status.PodIP != "" {
				name, addr = p.Name, p.Status.PodIP
				return ""
			}
		}
		return "no pod " + begins + " runs on " + node
	})
	return name, addr
}

// TestShellTools runs each tool on a node, with a good and a bad outcome, as scripts do.
func TestShellTools(t *testing.T) {
	nodeReady(t, "node-a")
	nodeReady(t, "node-b")
	_, far := podOn(t, "default", "workload-b", "node-b")
	_, near := podOn(t, "default", "workload-a", "node-a")
	calico, self := podOn(t, "kube-system", "calico-node", "node-a")
	_, peer := podOn(t, "kube-system", "calico-node", "node-b")
	const dns = "kubernetes.default.svc.cluster.local"
	for _, c := range []struct {
		line string
		exit int
		says []string
	}{
		{"ping -c 2 -i 0.05 " + far, 0, []string{"answered in", "2 packets sent, 2 came back, 0% lost", "min/avg/max"}},
		{"ping -c 1 -s 1400 " + far, 0, []string{"1 came back"}},
		{"ping -c 1 -s 9000 " + far, 3, []string{"could not leave: larger than the MTU of the outgoing interface"}},
		{"ping -c 1 192.0.2.1", 3, []string{"0 of 1 packet to 192.0.2.1 came back: destination unreachable from", "unreachable)"}},
		{"ping -c1 node-b", 0, []string{"node-b is " + peer + ", by the API (the node's InternalIP)", "1 came back"}},
		{"in workload-a dial node-b:10250", 0, []string{"node-b is " + peer, "connected to " + peer + ":10250"}},
		{"dial " + peer + ":179", 0, []string{"connected to " + peer + ":179 in", "from " + self}},
		{"dial " + peer + ":99", 3, []string{"refused"}},
		{"dial --tls 10.96.0.1:443", 0, []string{"TLS 1.3", "subject  CN=kube-apiserver",
			"kubernetes.default.svc", "valid now"}},
		{"dial --http /liveness 127.0.0.1:9099", 0, []string{"HTTP/1.1 200 OK", "Content-Type:"}},
		{"dial --http /nothing 127.0.0.1:9099", 3, []string{"answers 404"}},
		{"dial unix:/run/containerd/containerd.sock", 0, []string{"connected to /run/containerd/containerd.sock"}},
		{"dial unix:/run/nothing.sock", 3, []string{"no such socket"}},
		{"dial -u -t 300ms " + peer + ":99", 3, []string{"refused by ICMP"}},
		{"dial " + dns + ":443", 0, []string{dns + " is 10.96.0.1", "connected to 10.96.0.1:443"}},
		{"dns " + dns + " @10.96.0.10", 0, []string{"NOERROR", "flags qr aa", "A  10.96.0.1"}},
		{"dns -x 10.96.0.1 @10.96.0.10", 0, []string{"PTR  " + dns + "."}},
		{"dns nothing.cluster.local @10.96.0.10", 3, []string{"NXDOMAIN"}},
		{"dns nothing.example @10.96.0.10", 3, []string{"SERVFAIL"}},
		{"dns -t 200ms " + dns + " @" + peer, 3, []string{"does not answer"}},
		{"route get " + far, 0, []string{"via " + peer, "by the route: 10.244.", "proto bird"}},
		{"route show 10.244.0.0/16 proto bird", 0, []string{"blackhole 10.244.", "via " + peer}},
		{"route show proto felix", 3, []string{"no such route"}},
		{"route default", 0, []string{"default via"}},
		{"links", 0, []string{"eth0", self, "up", "1500"}},
		{"links nothing", 3, []string{"no interface nothing"}},
		{"neigh " + peer, 0, []string{peer, "eth0"}},
		{"neigh 192.0.2.1", 3, []string{"no such neighbour"}},
		{"capture --own " + far, 0, []string{"echo request", "5 pings to " + far + ", and all came back; seen: "}},
		{"capture --own " + far + ":99", 3, []string{"Flags [S]", "refuses the connection; seen: "}},
		{"capture --own node-b", 0, []string{"node-b is " + peer, "eth0 in 5 out 5"}},
		{"capture --seconds 1 192.0.2.7", 0, []string{"no packet of 192.0.2.7 was seen on any interface"}},
		{"capture -i nothing 10.0.0.1", 5, []string{"no interface nothing"}},
		{"in workload-a capture --own " + far, 0, []string{"seen: eth0 in 5 out 5"}},
		{"conns 179", 0, []string{"listens", ":179", "bird ("}},
		{"conns -e 179", 0, []string{"established", peer, "bird ("}},
		{"drops -n 1", 0, []string{"within 1"}},
		{"drops " + far, 0, []string{" pings, and all came back"}},
		{"drops default/workload-a", 0,
			[]string{"default/workload-a is " + near + " and fd00:", ", by the API (the pod's address)"}},
		{"drops node-b:99", 0, []string{"all came back: refused: nothing listens there"}},
		{"drops 192.0.2.1", 3, []string{"pings are lost"}},
		{"in workload-a drops " + far, 0, []string{" pings, and all came back"}},
		{"conns 99", 3, []string{"no listening socket with 99"}},
		{"bird show protocols", 0, []string{"Established"}},
		{`bird show protocols "Mesh_*"`, 0, []string{"Mesh_", "Established"}},
		{"bird -6 show status", 0, []string{"Daemon is up and running"}},
		{"bird show nonsense", 3, []string{"BIRD answers: syntax error"}},
		{"ps calico", 0, []string{"kube-system/" + calico, "calico-node", "running"}},
		{"ps -a calico", 0, []string{"install-cni", "exited 0"}},
		{"ps install-cni", 0, []string{"none runs, or failed in its last attempt: 'ps -a install-cni' lists them"}},
		{"ps pods", 0, []string{"default/workload-a", near, "(the node's)"}},
		{"ps images coredns", 0, []string{"coredns:"}},
		{"ps nothing", 3, []string{"no container with \"nothing\""}},
		{"logs -n 500 calico-node", 0, []string{"Calico node started successfully"}},
		{"logs -n 1 -t " + calico + "/calico-node", 0, []string{"20", "Z "}},
		{"logs " + calico, 0, []string{"showing the running one"}},
		{"logs nothing", 3, []string{"no container \"nothing\""}},
		{"logs --previous calico-node", 3, []string{"no previous attempt of"}},
		{"in workload-a ping -c 1 " + far, 0, []string{"1 came back"}},
		{"in default/workload-a dns " + dns, 0, []string{"10.96.0.10:53 by UDP: NOERROR"}},
		{"in workload-a dial --tls 10.96.0.1:443", 0, []string{", from " + near}},
		{"in workload-a dial " + far + ":99", 3, []string{"refused"}},
		{"in workload-a route", 0, []string{"default via"}},
		{"in workload-a links", 0, []string{near}},
	} {
		a := call(t, "shell", "--node", "node-a", "-c", c.line)
		if a.exit != c.exit {
			t.Errorf("%q: exit %d, want %d", c.line, a.exit, c.exit)
		}
		for _, text := range c.says {
			if !strings.Contains(a.stdout+a.stderr, text) {
				t.Errorf("%q: no %q in\n%s%s", c.line, text, a.stdout, a.stderr)
			}
		}
	}
	for _, line := range []string{"ping a b", "dial 10.0.0.1", "dns", "route get", "bird configure", "ps a b", "logs",
		"drops a b", "drops -n 5 10.0.0.1",
		"in workload-a ps", "in workload-a"} {
		if a := call(t, "shell", "--node", "node-a", "-c", line); a.exit != 2 ||
			strings.Count(a.stderr, "\n") != 1 || a.stdout != "" {
			t.Errorf("%q: exit %d, %s%s", line, a.exit, a.stdout, a.stderr)
		}
	}
	// The attempt before is that of a container which has just been killed.
	node := "node-a"
	if list, err := kube(t).CoreV1().Pods("kube-system").List(t.Context(),
		metav1.ListOptions{FieldSelector: "spec.nodeName=node-b"}); err != nil {
		t.Fatal(err)
	} else if slices.ContainsFunc(list.Items, func(p corev1.Pod) bool { return strings.HasPrefix(p.Name, "coredns") }) {
		node = "node-b"
	}
	signalAll(t, node, "coredns", "KILL")
	eventually(t, time.Minute, func() string {
		a := call(t, "shell", "--node", node, "-c", "logs -n 100000 --previous coredns")
		if a.exit != 0 || !strings.Contains(a.stdout, "CoreDNS-") || !strings.Contains(a.stdout, "coredns exited 137") {
			return a.stdout + a.stderr
		}
		return ""
	})
	nothingLeft(t)
}
