package ask

import (
	"debug/elf"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/must"
)

func TestCNIConfig(t *testing.T) {
	t.Parallel()
	bins := map[string]string{"opt/cni/bin/calico": "#!", "opt/cni/bin/calico-ipam": "#!", "opt/cni/bin/portmap": "#!"}
	with := func(files map[string]string, without string) *probe.Host {
		all := map[string]string{}
		for name, text := range bins {
			if name != without {
				all[name] = text
			}
		}
		maps.Copy(all, files)
		return checktest.Node(t, all)
	}
	for name, c := range map[string]struct {
		files   map[string]string
		without string
		status  probe.Status
		saw     string
	}{
		"good": {map[string]string{"etc/cni/net.d/10-calico.conflist": checktest.CalicoList,
			"etc/cni/net.d/calico-kubeconfig": "x"}, "", probe.OK,
			"10-calico.conflist is used, with the plugins calico, calico-ipam, portmap"},
		"none": {map[string]string{"etc/cni/net.d/calico-kubeconfig": "x"}, "", probe.Fail,
			"install-cni has not run"},
		"no folder": {nil, "", probe.Fail, "no network configuration"},
		"second": {map[string]string{"etc/cni/net.d/05-cilium.conf": `{"type":"cilium-cni"}`,
			"etc/cni/net.d/10-calico.conflist": checktest.CalicoList}, "", probe.Fail, "05-cilium.conf comes first"},
		"another": {map[string]string{"etc/cni/net.d/10-flannel.conflist": `{"plugins":[{"type":"flannel"}]}`}, "",
			probe.Info, "no file names calico"},
		"multus": {map[string]string{"etc/cni/net.d/00-multus.conf": `{"type":"multus"}`,
			"etc/cni/net.d/10-calico.conflist": checktest.CalicoList}, "", probe.Info, "Multus"},
		"broken": {map[string]string{"etc/cni/net.d/10-calico.conflist": `{"plugins":[`}, "", probe.Fail,
			"cannot be used"},
		"no plugin": {map[string]string{"etc/cni/net.d/10-calico.conflist": checktest.CalicoList}, "opt/cni/bin/calico-ipam",
			probe.Fail, "not in /opt/cni/bin: calico-ipam"},
		"noexec": {map[string]string{"etc/cni/net.d/10-calico.conflist": checktest.CalicoList, "proc/1/mountinfo": "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n" +
			"41 22 8:3 / /opt rw,nosuid,noexec - ext4 /dev/sda3 rw\n"}, "", probe.Fail, "/opt/cni/bin is mounted noexec (/opt)"},
		"noexec below": {map[string]string{"etc/cni/net.d/10-calico.conflist": checktest.CalicoList, "proc/1/mountinfo": "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n" +
			"41 22 8:3 / /opt rw,noexec - ext4 /dev/sda3 rw\n42 41 8:4 / /opt/cni rw - ext4 /dev/sda4 rw\n" +
			"43 41 8:4 / /opt/cni/bin2 rw,noexec - ext4 /dev/sda4 rw\n"}, "", probe.OK, "is used"},
		"CRI-O's own beside": {map[string]string{"etc/cni/net.d/100-crio-bridge.conflist": `{"plugins":[{"type":"bridge"}]}`,
			"etc/kubernetes/cni/net.d/00-multus.conf": `{"type":"multus-shim"}`}, "", probe.Info, "00-multus.conf is used: Multus"},
		"k3s": {map[string]string{"var/lib/rancher/k3s/agent/etc/cni/net.d/10-calico.conflist": checktest.CalicoList,
			"var/lib/rancher/k3s/data/current/bin/calico": "#!", "var/lib/rancher/k3s/data/current/bin/calico-ipam": "#!",
			"var/lib/rancher/k3s/data/current/bin/portmap": "#!"}, "", probe.OK, "rancher"},
	} {
		t.Run(name, func(t *testing.T) {
			checktest.Want(t, checktest.Run(t, cniConfigCheck, with(c.files, c.without),
				probe.Target{Kind: probe.KindRuntime, Name: "containerd://2.4.2"}), "", c.status, c.saw)
		})
	}
	for _, runtime := range [][]probe.Target{nil, {{Kind: probe.KindRuntime, Name: "cri-o://1.34.1"}}} {
		checktest.Want(t, checktest.Run(t, cniConfigCheck, with(nil, ""), runtime...), "", probe.Unknown,
			"the runtime does not report which folder it reads")
		openShift := with(map[string]string{"etc/kubernetes/cni/net.d/00-multus.conf": `{"type":"multus-shim"}`}, "")
		checktest.Want(t, checktest.Run(t, cniConfigCheck, openShift, runtime...), "", probe.Info, "Multus")
	}
	blind := checktest.Node(t, nil)
	blind.Only = []string{"/run/calico"}
	checktest.Want(t, checktest.Run(t, cniConfigCheck, blind), "", probe.Skip, "not visible")
}

func TestCNINodename(t *testing.T) {
	t.Parallel()
	named := func(name string) []probe.Result {
		h := checktest.Node(t, map[string]string{"var/lib/calico/nodename": "worker-3"})
		h.Node = name
		return checktest.Run(t, cniNodenameCheck, h)
	}
	checktest.Want(t, named("worker-3"), "", probe.OK, `"worker-3", the name Kubernetes uses`)
	if r := checktest.Want(t, named("worker-3.example.com"), "", probe.Fail,
		"to another node"); r.Facts.Str(probe.FactReason) != "other" {
		t.Errorf("%v", r.Facts)
	}
	checktest.Want(t, named(""), "", probe.Info, "unknown here")

	// The plugin's own configuration takes precedence, and Calico's name may differ on purpose.
	with := func(nodename, environment string) []probe.Result {
		files := map[string]string{"var/lib/calico/nodename": "worker-3", "proc/73/environ": environment,
			"etc/cni/net.d/10-calico.conflist": strings.Replace(checktest.CalicoList, `{"type":"calico",`,
				`{"type":"calico","nodename":"`+nodename+`",`, 1)}
		checktest.Process(files, 73, 1, "calico-node", 109000, "", "calico-node", "-felix")
		h := checktest.Node(t, files)
		h.Node = "worker-3.example.com"
		return checktest.Run(t, cniNodenameCheck, h)
	}
	checktest.Want(t, with("worker-3.example.com", ""), "", probe.OK, "(from /etc/cni/net.d/10-calico.conflist)")
	checktest.Want(t, with("other", ""), "", probe.Fail, `"other" (from /etc/cni/net.d/10-calico.conflist)`)
	checktest.Want(t, with("__KUBERNETES_NODE_NAME__", ""), "", probe.Fail, `"worker-3", but`)
	checktest.Want(t, with("worker-3", "NODENAME=worker-3\x00CALICO_K8S_NODE_REF=worker-3.example.com"), "", probe.Info,
		"CALICO_K8S_NODE_REF")
	checktest.Want(t, checktest.Run(t, cniNodenameCheck, checktest.Node(t, map[string]string{"x": ""})), "", probe.Fail,
		"has not finished its start-up")
}

// TestAlienPlugins checks that only programs that the kernel rejects are named.
func TestAlienPlugins(t *testing.T) {
	t.Parallel()
	header := func(machine elf.Machine) string {
		return elf.ELFMAG + "\x02\x01\x01" + strings.Repeat("\x00", 9) + "\x02\x00" + string([]byte{byte(machine), 0}) + "..."
	}
	own, other := machines[runtime.GOARCH], elf.EM_AARCH64
	if own == other {
		other = elf.EM_X86_64
	}
	for text, why := range map[string]string{
		header(own): "", "#!/bin/sh": "", "": "is empty", "\x7fELF": "is not a program", "<html>504 Gateway Time-out</html>": "is not a program",
		header(other): "is for another CPU",
	} {
		h := checktest.Node(t, map[string]string{"etc/cni/net.d/10-calico.conflist": checktest.CalicoList, "opt/cni/bin/calico": text,
			"opt/cni/bin/calico-ipam": "#!", "opt/cni/bin/portmap": "#!"})
		r := checktest.Run(t, cniConfigCheck, h)[0]
		if status := map[bool]probe.Status{true: probe.OK, false: probe.Fail}[why == ""]; r.Status != status ||
			!strings.Contains(r.Saw, why) {
			t.Errorf("%q: %+v", text, r)
		}
	}
}

func TestIPAMFiles(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("locks are looked at on Linux")
	}
	const dir = "var/lib/cni/networks/k8s-pod-network/"
	checktest.Want(t, checktest.Run(t, ipamFilesCheck, checktest.Node(t, map[string]string{"x": ""})), "", probe.OK,
		"nothing to do")
	checktest.Want(t, checktest.Run(t, ipamFilesCheck, checktest.Node(t,
		map[string]string{dir + "last_reserved_ip.0": "10.200.0.5"})), "", probe.Info,
		"contains no address")
	canal := checktest.Node(t, map[string]string{dir + "10.200.0.5": "abc",
		"etc/cni/net.d/10-canal.conflist": `{"plugins":[{"type":"calico","ipam":{"type":"host-local"}}]}`})
	checktest.Want(t, checktest.Run(t, ipamFilesCheck, canal), "", probe.Info, "host-local is in use")
	const list = `{"plugins":[{"type":"calico","ipam":{"type":"host-local"}}]}`
	k3s := checktest.Node(t, map[string]string{dir + "10.200.0.5": "abc",
		"var/lib/rancher/k3s/agent/etc/cni/net.d/10-canal.conflist": list})
	checktest.Want(t, checktest.Run(t, ipamFilesCheck, k3s), "", probe.Info, "host-local is in use")
	multus := checktest.Node(t, map[string]string{dir + "10.200.0.5": "abc",
		"etc/cni/net.d/00-multus.conf": `{"type":"multus"}`, "etc/cni/net.d/10-canal.conflist": list})
	checktest.Want(t, checktest.Run(t, ipamFilesCheck, multus), "", probe.Info, "host-local is in use")
	behind := checktest.Node(t, map[string]string{dir + "10.200.0.5": "abc", "etc/cni/net.d/10-calico.conflist": checktest.CalicoList, "etc/cni/net.d/10-canal.conflist": list}) // after a migration
	behind.Proc = "/proc"
	checktest.Want(t, checktest.Run(t, ipamFilesCheck, behind), "", probe.Warn, "1 addresses")
	h := checktest.Node(t, map[string]string{dir + "10.200.0.5": "abc", dir + "10.200.0.6": "def", dir + "lock": ""})
	h.Proc = "/proc"
	checktest.Want(t, checktest.Run(t, ipamFilesCheck, h), "", probe.Warn, "2 addresses")
	calico := func(cidrs string) probe.Target {
		return probe.Target{Kind: probe.KindCalico, Name: "v3.11.1",
			Attrs: map[string]string{probe.AttrPodCIDRs: cidrs}}
	}
	pool := probe.Target{Kind: probe.KindPool, Name: "10.200.0.0/16"}
	none := checktest.Want(t, checktest.Run(t, ipamFilesCheck, h, calico(""), pool), "", probe.Fail, "2 addresses",
		"the Kubernetes Node has no podCIDR")
	outside := checktest.Want(t, checktest.Run(t, ipamFilesCheck, h, calico("10.244.1.0/24"), pool), "", probe.Fail,
		"no enabled IP pool contains the Node's podCIDR 10.244.1.0/24")
	if none.Facts.Str(probe.FactReason) != cni.IPAMNoPodCIDR ||
		outside.Facts.Str(probe.FactReason) != cni.IPAMOutsidePool {
		t.Errorf("%v %v", none.Facts, outside.Facts)
	}
	checktest.Want(t, checktest.Run(t, ipamFilesCheck, h, calico("10.200.1.0/24,fd00::/64"), pool), "", probe.Warn,
		"at calico-node's next start")
	disabled := pool
	disabled.Attrs = map[string]string{probe.AttrDisabled: "true"}
	checktest.Want(t, checktest.Run(t, ipamFilesCheck, h, calico("10.200.1.0/24"), disabled), "", probe.Fail,
		"no enabled IP pool contains")
	tunnel := probe.Target{Kind: probe.KindTunnel,
		Attrs: map[string]string{probe.AttrOwn: "true", probe.AttrDevice: "tunl0"}}
	checktest.Want(t, checktest.Run(t, ipamFilesCheck, h, calico(""), pool, tunnel), "", probe.Warn,
		"at calico-node's next start")
	f := must.Get(os.Open(filepath.Join(h.Root, dir, "lock")))(t)
	defer func() { f.Close() }()
	must.Do(t, flockExclusively(f))
	release := time.AfterFunc(lockPause/2, func() { f.Close() }) // as an ADD of host-local does
	checktest.Want(t, checktest.Run(t, ipamFilesCheck, h), "", probe.Warn, "2 addresses")
	release.Stop()
	f = must.Get(os.Open(filepath.Join(h.Root, dir, "lock")))(t)
	must.Do(t, flockExclusively(f))
	r := checktest.Want(t, checktest.Run(t, ipamFilesCheck, h), "", probe.Fail, "is held", "upgrade-ipam waits")
	if n, _ := r.Facts.Num(cni.FactHolder); int(n) != os.Getpid() ||
		!strings.Contains(r.Saw, fmt.Sprintf("by process %d (ask.test, ", os.Getpid())) ||
		!strings.Contains(r.Saw, " old)") || r.Facts.Str(probe.FactReason) != cni.IPAMLocked {
		t.Errorf("held by this process, %d: %s", os.Getpid(), r.Saw)
	}
}

// TestPlace reads the configurations of old and new containerd versions, and of other runtimes.
func TestPlace(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"containerd":{},"cni":{"binDirs":["/opt/cni/bin","/usr/libexec/cni"],"confDir":"/etc/cni/net.d","maxConfNum":1}}`: "/etc/cni/net.d [/opt/cni/bin /usr/libexec/cni]",
		`{"cni":{"binDir":"/var/lib/rancher/rke2/bin","confDir":"/own"}}`:                                                   "/own [/var/lib/rancher/rke2/bin]",
		`{"cni":{}}`: "",
		`[crio]`:     "",
		``:           "",
	} {
		place, ok := placeIn([]byte(text))
		if got := fmt.Sprintf("%s %v", place.Config, place.Plugins); ok != (want != "") || ok && got != want {
			t.Errorf("%s: %q, %v", text, got, ok)
		}
	}
}

// FuzzPlace reads containerd's own configuration.
func FuzzPlace(f *testing.F) {
	f.Add([]byte(`{"cni":{"binDir":"/b","confDir":"/c"}}`))
	f.Fuzz(func(_ *testing.T, config []byte) { placeIn(config) })
}

// TestSetAside checks that a configuration which another CNI renamed is found.
func TestSetAside(t *testing.T) {
	t.Parallel()
	h := checktest.Node(t, map[string]string{"etc/cni/net.d/10-calico.conflist.cilium_bak": "{}", "etc/cni/net.d/calico-kubeconfig": ""})
	if got := renamedConfig(h, "/etc/cni/net.d"); got != "10-calico.conflist.cilium_bak" {
		t.Errorf("%q", got)
	}
	h = checktest.Node(t, map[string]string{"etc/cni/net.d/10-calico.conflist": "{}"})
	if got := renamedConfig(h, "/etc/cni/net.d"); got != "" {
		t.Errorf("%q", got)
	}
}
