package node

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/procfs"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/must"
)

const (
	containerID = "9c1f0a7be2d94f4f8a4de7c1d40d9d2a1b8c7e6f5a4b3c2d1e0f9a8b7c6d5e4f"
	podUID      = "0e1f8a52-7c1d-4b3e-9a68-1f2e3d4c5b6a"
)

// TestInPod has the cgroups that kubelets with both drivers create for pods, seen on the node and from a pod's cgroup
// namespace.
func TestInPod(t *testing.T) {
	t.Parallel()
	slice := strings.ReplaceAll(podUID, "-", "_")
	outer := "/kubepods/burstable/pod" + podUID + "/" + containerID
	for _, c := range []struct {
		first, its string
		want       bool
	}{
		{"/init.scope", "/system.slice/kubelet.service", false},
		{"/init.scope", "/system.slice/docker-" + containerID + ".scope", false}, // RKE1
		{"/init.scope", "/podruntime/kubelet", false},                            // Talos
		{"/", "/", false},
		{"/init.scope", "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + slice + ".slice/cri-containerd-" + containerID + ".scope", true},
		{"/init.scope", "/kubepods.slice/kubepods-pod" + slice + ".slice/crio-" + containerID + ".scope", true},
		{"/init.scope", "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/x", true}, // kind
		{"/", "/kubepods/besteffort/pod" + podUID + "/" + containerID, true},
		{"/", "/kubepods/pod" + strings.ReplaceAll(podUID, "-", "") + "/" + containerID, true}, // static
		// From inside a pod: of the same class with either driver, of another class, a container beside it, and itself.
		{"/../../../../init.scope", "/../../../../system.slice/kubelet.service", false},
		{"/../../../../init.scope", "/../../pod" + podUID + "/" + containerID, true},
		{"/../../../../init.scope",
			"/../../kubepods-besteffort-pod" + slice + ".slice/cri-containerd-" + containerID + ".scope", true},
		{"/../../../../init.scope", "/../../../kubepods-burstable.slice/x", true},
		{"/../../../../init.scope", "/../cri-containerd-" + containerID + ".scope", true},
		{"/../../../../init.scope", "/", true},
		{"/../../../../init.scope", "/child", true},
		// The node is itself a pod of another cluster.
		{outer + "/init.scope", outer + "/system.slice/kubelet.service", false},
		{outer, outer, false},
		{outer + "/init.scope", outer + "/kubepods/besteffort/pod" + podUID + "/" + containerID, true},
	} {
		h := checktest.Node(t, map[string]string{"proc/1/cgroup": "12:cpu,cpuacct:/x\n0::" + c.first + "\n",
			"proc/7/cgroup": "12:cpu,cpuacct:/x\n0::" + c.its + "\n", "proc/7/cmdline": "x\x00"})
		p, err := ProcessesOf(h, func(*probe.Host, procfs.Proc) bool { return true }, func(string) bool { return true })
		if err != nil || len(p) != 1 {
			t.Fatal(p, err)
		}
		if got := inPod(h, p[0].Proc); got != c.want {
			t.Errorf("%s, while the first process is in %s: %v", c.its, c.first, got)
		}
	}
}

// TestNodesDaemon has processes with the kubelet's name beside the node's kubelet, or without it.
func TestNodesDaemon(t *testing.T) {
	t.Parallel()
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Skip("no namespaces: ", err)
	}
	type process struct {
		pid, parent            int
		user                   string
		cgroup, net, mnt, prog string
	}
	kubelet := process{pid: 100, parent: 1, user: "0", cgroup: "/system.slice/kubelet.service", net: own, mnt: "mnt:[1]",
		prog: "/usr/bin/kubelet"}
	but := func(change func(*process)) process {
		p := kubelet
		p.pid = 200
		change(&p)
		return p
	}
	pods := "/kubepods/besteffort/pod" + podUID + "/" + containerID
	for name, c := range map[string]struct {
		all  []process
		want string // the process, or a part of the error
	}{
		"the kubelet":             {[]process{kubelet}, "100"},
		"a pod's":                 {[]process{but(func(p *process) { p.cgroup = pods })}, "0"},
		"a pod's beside it":       {[]process{kubelet, but(func(p *process) { p.cgroup = pods })}, "100"},
		"a user's":                {[]process{but(func(p *process) { p.user = "1000" }), kubelet}, "100"},
		"in another network":      {[]process{but(func(p *process) { p.net = "net:[1]" }), kubelet}, "100"},
		"another program":         {[]process{but(func(p *process) { p.prog = "/bin/bash" }), kubelet}, "100"},
		"one for many components": {[]process{but(func(p *process) { p.prog = "/bin/hyperkube" })}, "200"},
		"started by a script": {[]process{
			but(func(p *process) { p.pid, p.prog = 50, "/bin/bash" }), but(func(p *process) { p.parent = 50 }),
		}, "200"},
		"two, one of which ends": {[]process{but(func(p *process) { p.parent = -1 }), kubelet}, "100"},
		"of an upgraded program": {[]process{but(func(p *process) { p.prog = "/usr/bin/kubelet (deleted)" })}, "200"},
		"no right to see links":  {[]process{but(func(p *process) { p.net, p.mnt, p.prog = "", "", "" })}, "200"},
		"without right, in a pod": {[]process{but(func(p *process) {
			p.net, p.mnt, p.prog, p.cgroup = "", "", "",
				pods
		})}, "0"},
		"in a container":          {[]process{but(func(p *process) { p.mnt = "mnt:[2]" })}, "200"},
		"starts a program":        {[]process{kubelet, but(func(p *process) { p.parent = 100 })}, "100"},
		"two, one in a container": {[]process{but(func(p *process) { p.mnt = "mnt:[2]" }), kubelet}, "100"},
		"two": {[]process{but(func(*process) {}), kubelet},
			"2 processes may be the node's kubelet, such as 100 and 200"},
		"two, nobody can tell": {[]process{but(func(p *process) { p.mnt = "" }),
			but(func(p *process) { p.mnt, p.pid = "", 300 })}, "2 processes may be"},
		"none": {nil, "0"},
	} {
		files := map[string]string{"proc/1/cgroup": "0::/init.scope\n", "proc/1/comm": "systemd\n",
			"proc/1/cmdline": "init\x00"}
		links := map[string]string{"1/ns/mnt": "mnt:[1]"}
		for _, p := range c.all {
			dir := fmt.Sprintf("%d/", p.pid)
			files["proc/"+dir+"comm"], files["proc/"+dir+"cmdline"] = "kubelet\n",
				fmt.Sprintf("kubelet\x00--config=%d\x00", p.pid)
			files["proc/"+dir+"status"] = fmt.Sprintf("Uid:\t0\t%s\t%[1]s\t%[1]s\n", p.user)
			files["proc/"+dir+"cgroup"] = "0::" + p.cgroup + "\n"
			if p.parent < 0 { // a process that exited after it was listed has no more data
				files["proc/"+dir+"stat"] = "\n"
				continue
			}
			files["proc/"+dir+"stat"] = fmt.Sprintf("%d (kubelet) S %d 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 9 0 0%s\n",
				p.pid, p.parent, strings.Repeat(" 0", 28))
			links[dir+"ns/net"], links[dir+"ns/mnt"], links[dir+"exe"] = p.net, p.mnt, p.prog
		}
		h := checktest.Node(t, files)
		for at, to := range links {
			full := filepath.Join(h.Proc, at)
			must.Do(t, os.MkdirAll(filepath.Dir(full), 0o755))
			if err := os.Symlink(to, full); err != nil && to != "" {
				t.Fatal(err)
			}
		}
		pid, args, err := NodesDaemon(h, "kubelet")
		got := fmt.Sprint(pid)
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, c.want) || pid > 0 && !slices.Contains(args, "--config="+got) {
			t.Errorf("%s: %s %v, want %s", name, got, args, c.want)
		}
	}
}
