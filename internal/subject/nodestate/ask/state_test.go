package ask

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/subject/nodestate"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/node"
)

// differsLook returns the input of the areas' functions, for a node made of files.
func differsLook(t *testing.T, files map[string]string, links ...kernel.Link) look {
	t.Helper()
	h := checktest.Node(t, files)
	h.Node = "node-a"
	p := &probe.Pass{Host: h, Targets: []probe.Target{
		{Kind: probe.KindSelf, Name: "node-a", Addr: netip.MustParseAddr("10.88.0.11")},
	}}
	l := look{ctx: t.Context(), p: p, h: h, links: links, out: "eth0", own: neutralFor(p, links)}
	l.net = l.own.with("eth0", "<uplink>")
	return l
}

func differsRead(t *testing.T, l look, read func(look) (items, error), want map[string]string) items {
	t.Helper()
	got := must.Get(read(l))(t)
	for name, value := range want {
		if have, there := got[name]; have != value || !there {
			t.Errorf("%s is %q, want %q; there are %q", name, have, value, slices.Sorted(maps.Keys(got)))
		}
	}
	return got
}

// TestNodeStateSysctls expects the pods' interfaces as one group, with the values that only some of them have.
func TestNodeStateSysctls(t *testing.T) {
	t.Parallel()
	const conf = "proc/sys/net/ipv4/conf/"
	files := map[string]string{conf + "all/forwarding": "1\n", conf + "eth0/rp_filter": "2\n",
		"proc/sys/kernel/pid_max": "4194304\n",
		conf + "cali1/proxy_arp":  "0\n", conf + "cali2/proxy_arp": "0\n", conf + "cali3/proxy_arp": "1\n"}
	var links []kernel.Link
	for _, name := range []string{"cali1", "cali2", "cali3"} {
		links = append(links, kernel.Link{Name: name, Kind: "veth"})
	}
	l := differsLook(t, files, links...)
	differsRead(t, l, sysctlState, map[string]string{"net/ipv4/conf/cali*/proxy_arp": "0, on some 1",
		"net/ipv4/conf/<uplink>/rp_filter": "2", "kernel/pid_max": "4194304"})
}

// TestNodeStateConfiguration expects flat settings of the kubelet and containerd, with the node's own names replaced
// and without secrets.
func TestNodeStateConfiguration(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"var/lib/kubelet/config.yaml": "clusterDNS: [10.96.0.100]\npodPidsLimit: 20\nevictionHard:\n  memory.available: 100Mi\n" +
			"address: 10.88.0.11\nproviderID: aws:///i-1\nstaticPodURLHeader:\n  Authorization: [Bearer abc]\n",
		"etc/containerd/config.toml": "version = 2\ndisabled_plugins = [\n  \"cri\",\n]\n# a comment\n[plugins.\"io.containerd.grpc.v1.cri\".cni]\n" +
			"  conf_dir = \"/var/lib/rancher/k3s/agent/etc/cni/net.d\"\n[plugins.\"x\".registry.configs.\"r\".auth]\n  username = \"me\"\n  password = \"hunter2\"\n",
		"etc/resolv.conf": "nameserver 10.0.0.2\nnameserver 10.0.0.3\nsearch example.com\n",
	}
	l := differsLook(t, files)
	k := differsRead(t, l, kubeletState, map[string]string{"clusterDNS": "10.96.0.100", "podPidsLimit": "20",
		"evictionHard.memory.available": "100Mi", "address": "<address>"})
	c := differsRead(t, l, containerdState, map[string]string{"disabled_plugins": "[ cri, ]",
		"plugins.io.containerd.grpc.v1.cri.cni.conf_dir": "/var/lib/rancher/k3s/agent/etc/cni/net.d",
		"plugins.x.registry.configs.r.auth.password":     "(left out)"})
	for _, got := range []items{k, c} {
		for name, value := range got {
			if strings.Contains(value, "hunter2") || strings.Contains(value, "abc") || name == "providerID" {
				t.Errorf("%s: %s", name, value)
			}
		}
	}
	differsRead(t, l, resolverState, map[string]string{"nameserver": "10.0.0.2, 10.0.0.3", "search": "example.com"})
}

// TestNodeStateProcesses reads limits, calico-node's environment, and other network programs.
func TestNodeStateProcesses(t *testing.T) {
	t.Parallel()
	files := map[string]string{"proc/1/comm": "systemd\n"}
	checktest.Process(files, 70, 1, "kubelet", 0, "")
	checktest.Process(files, 80, 1, "calico-node", 0, "")
	checktest.Process(files, 90, 1, "keepalived", 0, "")
	files["proc/70/cmdline"] = "kubelet\x00--pod-max-pids=20\x00"
	files["proc/80/cmdline"] = "calico-node\x00-felix\x00"
	files["proc/90/cmdline"] = "keepalived\x00"
	files["proc/70/limits"] = "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024                 524288               files\n"
	files["proc/80/environ"] = "FELIX_DEFAULTENDPOINTTOHOSTACTION=DROP\x00NODENAME=node-a\x00ETCD_PASSWORD=hunter2\x00" +
		"HTTPS_PROXY=http://me:hunter2@proxy:3128\x00MYAPP_SERVICE_HOST=10.96.0.7\x00"
	l := differsLook(t, files)
	differsRead(t, l, limitState, map[string]string{"kubelet open files": "1024 soft, 524288 hard"})
	differsRead(t, l, processState, map[string]string{"keepalived": "runs"})
	got := differsRead(t, l, calicoState, map[string]string{"FELIX_DEFAULTENDPOINTTOHOSTACTION": "DROP", "NODENAME": "<node>",
		"ETCD_PASSWORD": "(left out)"})
	if strings.Contains(strings.Join(slices.Collect(maps.Values(got)), " "), "hunter2") ||
		got["MYAPP_SERVICE_HOST"] != "" {
		t.Error(got)
	}
}

// TestNodeStatePaths has a lock that is a folder, and plugins on a read-only mount. It expects the plugins' checksums.
func TestNodeStatePaths(t *testing.T) {
	t.Parallel()
	files := map[string]string{"run/xtables.lock/there": "", "opt/cni/bin/calico": "program", "etc/cni/net.d/10-calico.conflist": `{"nodename": "node-a", "name": "k8s-pod-network", "plugins": [
			{"type": "calico", "mtu": 0, "k8s_auth_token": "hunter2", "ipam": {"type": "calico-ipam"}}, {"type": "portmap"}]}`,
		"etc/cni/net.d/calico-kubeconfig": "token: hunter2",
		"proc/1/mountinfo":                "1 0 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n2 1 8:2 / /opt/cni/bin ro,noexec - ext4 /dev/sdb rw\n"}
	const file = "/etc/cni/net.d/10-calico.conflist"
	got := differsRead(t, differsLook(t, files), pathState, map[string]string{"/run/xtables.lock": "folder 0755",
		file + " nodename": "<node>", file + " plugins": "calico, portmap", file + " calico.mtu": "0",
		file + " calico.ipam.type": "calico-ipam", file + " calico.k8s_auth_token": "(left out)", file: "there",
		"/opt/cni/bin": "folder 0755 ro noexec", "/var/lib/calico": "missing", "/etc/cni/net.d/calico-kubeconfig": "there"})
	if !strings.HasPrefix(got["/opt/cni/bin/calico"], "0755, 7 bytes, sum ") {
		t.Errorf("%q", got)
	}
	files["etc/cni/net.d/10-calico.conflist"] = "{"
	cut := differsRead(t, differsLook(t, files), pathState, nil)
	if !strings.HasPrefix(cut[file], "sum ") {
		t.Errorf("%q", cut)
	}
}

// TestNodeStateWords expects the node's names and addresses to be replaced, but only as whole words.
func TestNodeStateWords(t *testing.T) {
	t.Parallel()
	n := neutral{"node-a": "<node>", "10.88.0.11": "<address>", "fd00::11": "<address>",
		"02:42:0a:58:00:0b": "<mac>", "eth0": "<uplink>"}
	for text, want := range map[string]string{
		"https://node-a:6443":           "https://<node>:6443",
		"node-ab node-a.":               "node-ab <node>.",
		"10.88.0.11:179 10.88.0.112":    "<address>:179 10.88.0.112",
		"fd00::11 dev eth0":             "<address> dev <uplink>",
		"02:42:0A:58:00:0b":             "<mac>",
		"iif cali0123456789a drop":      "iif cali* drop",
		"2026-11-23 10:00:00 is no MAC": "2026-11-23 10:00:00 is no MAC",
	} {
		if got := n.text(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

// TestNodeStateParts expects every result to fit into a line of the stream, and a count of the items that do not.
func TestNodeStateParts(t *testing.T) {
	t.Parallel()
	all := items{}
	for i := range 400 {
		all[strings.Repeat("n", i%50)+"<&>"+strings.Repeat("x", i)] = strings.Repeat("v<", i)
	}
	parts := splitParts(nodestate.AreaSysctls, all)
	if len(parts) != maxParts || parts[0].Facts[nodestate.FactLeftOut] == nil {
		t.Errorf("%d parts, %v", len(parts), parts[0].Facts)
	}
	for _, r := range parts {
		r.Check = nodeStateCheck.ID
		var b strings.Builder
		e := probe.NewEncoder(&b)
		e.Encode(probe.Event{Type: probe.EventResult, Result: &r})
		if !strings.Contains(b.String(), `"items"`) || strings.Contains(b.String(), `"cut"`) {
			t.Errorf("%.200s", b.String())
		}
	}
	if a, b := shorten(strings.Repeat("x", 300)+"1"), shorten(strings.Repeat("x", 300)+"2"); a == b ||
		len(a) > node.MaxText {
		t.Errorf("%q and %q", a, b)
	}
}

// TestNodeStateHere reads this machine: each area has a result, even if only a skip.
func TestNodeStateHere(t *testing.T) {
	t.Parallel()
	seen := map[any]bool{}
	for _, r := range checktest.Run(t, nodeStateCheck, &probe.Host{Root: "/", Proc: "/proc"}) {
		seen[r.Facts[nodestate.FactArea]] = true
		if r.Status != probe.Info && r.Status != probe.Skip {
			t.Errorf("%+v", r)
		}
	}
	if len(seen) < len(areas) {
		t.Errorf("%d of %d areas answer", len(seen), len(areas))
	}
}

// TestOddRoute expects routes of the pod network to be omitted, with any protocol, and those of a VPN and an
// administrator to be compared.
func TestOddRoute(t *testing.T) {
	t.Parallel()
	links := []kernel.Link{{Name: "eth0", Kind: "veth", Addrs: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/24")}},
		{Name: "cali1", Kind: "veth"}, {Name: "vxlan.calico", Kind: "vxlan", VXLAN: &kernel.VXLAN{}},
		{Name: "tunl0", Kind: "ipip"},
		{Name: "wireguard.cali", Kind: "wireguard"}, {Name: "wg0", Kind: "wireguard"}}
	pods := podDevices(links, "eth0")
	others := map[netip.Addr]bool{netip.MustParseAddr("10.0.0.2"): true}
	for device, odd := range map[string]bool{
		"eth0": true, "cali1": false, "vxlan.calico": false, "tunl0": false, "wireguard.cali": false, "wg0": true,
	} {
		r := kernel.Route{To: netip.MustParsePrefix("10.244.1.0/26"), Proto: 3, Type: 1,
			Hops: []kernel.Hop{{Device: device, Gateway: netip.MustParseAddr("10.244.1.1")}}}
		if got := isOddRoute(r, others, pods); got != odd {
			t.Errorf("by %s: odd %v", device, got)
		}
	}
}
