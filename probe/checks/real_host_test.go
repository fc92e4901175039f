//go:build e2e

package checks

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// realCRI starts a containerd below the node's root that starts pods for the
// kubelet, with some more settings, waits until containerd-health sees it, and gives its socket.
func realCRI(t *testing.T, containerdHealth *probe.Check, h *probe.Host, more string) (socket string) {
	t.Helper()
	socket = h.Root + "/run/containerd/containerd.sock"
	config := "version = 3\nroot = '" + h.Root + "/root'\n" +
		"state = '" + h.Root + "/state'\n[grpc]\naddress = '" + socket + "'\n" +
		"[plugins.'io.containerd.cri.v1.images'.pinned_images]\nsandbox = 'registry.k8s.io/pause:3.10'\n" +
		"[plugins.'io.containerd.cri.v1.runtime']\nrestrict_oom_score_adj = true\n" + more // without CAP_SYS_RESOURCE nobody may lower a score
	file := filepath.Join(h.Root, "config.toml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	daemonOf(t, "bin/containerd", "--config", file)
	eventually(t, func() bool {
		return slices.ContainsFunc(run(t, containerdHealth, h),
			func(r probe.Result) bool { return r.Target == "cri-status" && r.Status == probe.Fail })
	})
	return socket
}

// TestRealCNIPlace wants the files looked at where a containerd reads them.
func TestRealCNIPlace(t *testing.T) {
	h := node(t, map[string]string{
		"own/net.d/10-calico.conflist": `{"plugins":[{"type":"calico","ipam":{"type":"calico-ipam"}}]}`,
		"own/bin/calico":               "#!", "own/bin/loopback": "#!", "opt/cni/bin/x": "#!"})
	realCRI(t, ContainerdHealth, h, "[plugins.'io.containerd.cri.v1.runtime'.cni]\nconf_dir = '/own/net.d'\nbin_dirs = ['/own/bin', '/opt/cni/bin']\n")
	want(t, run(t, CNIConfig, h), "", probe.Fail,
		"/own/net.d/10-calico.conflist names plugins that are not in /own/bin, /opt/cni/bin: calico-ipam")
	if err := os.WriteFile(h.Root+"/opt/cni/bin/calico-ipam", []byte("#!"), 0o755); err != nil {
		t.Fatal(err)
	}
	want(t, run(t, CNIConfig, h), "", probe.OK, "/own/net.d/10-calico.conflist is used")
	if err := os.Remove(h.Root + "/own/net.d/10-calico.conflist"); err != nil {
		t.Fatal(err)
	}
	want(t, run(t, CNIConfig, h), "", probe.Fail, "no network configuration in /own/net.d")
	if err := os.WriteFile(h.Root+"/own/net.d/calico-kubeconfig",
		[]byte(kubeconfigWith(token(time.Now().Add(-48*time.Hour), time.Now().Add(-24*time.Hour)))),
		0o600); err != nil {
		t.Fatal(err)
	}
	want(t, run(t, CNIToken, h), "", probe.Fail, "expired 24h0m")
}

// realPod runs a containerd below the node's root, and through the kubelet's
// interface a pod in it with some containers. It gives the containers' processes
// and the shim's.
func realPod(t *testing.T, h *probe.Host, names ...string) (pids []int, shim int) {
	t.Helper()
	socket := realCRI(t, ContainerdHealth, h, "")
	emptied(t, "k8s.io")
	load := exec.Command("../../.cache/bin/ctr", "-a", socket, "-n", "k8s.io", "images", "import", "--local",
		"../../.cache/images/pause.tar")
	if out, err := load.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	client, hangUp, err := criAt(&probe.Host{Root: "/"}, socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(hangUp)
	pod := &cri.PodSandboxConfig{
		Metadata:     &cri.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: filepath.Base(h.Root)},
		LogDirectory: h.Root,
		Linux: &cri.LinuxPodSandboxConfig{SecurityContext: &cri.LinuxSandboxSecurityContext{
			NamespaceOptions: &cri.NamespaceOption{Network: cri.NamespaceMode_NODE}}},
	}
	sandbox, err := client.RunPodSandbox(t.Context(), &cri.RunPodSandboxRequest{Config: pod})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if shim != 0 {
			_ = syscall.Kill(shim, syscall.SIGCONT) // it may be stopped
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if _, err := client.RemovePodSandbox(ctx,
			&cri.RemovePodSandboxRequest{PodSandboxId: sandbox.PodSandboxId}); err != nil {
			t.Log(err)
		}
	})
	for _, name := range names {
		c, err := client.CreateContainer(t.Context(),
			&cri.CreateContainerRequest{PodSandboxId: sandbox.PodSandboxId, SandboxConfig: pod,
				Config: &cri.ContainerConfig{
					Metadata: &cri.ContainerMetadata{Name: name}, Image: &cri.ImageSpec{Image: "registry.k8s.io/pause:3.10"},
					Labels: map[string]string{"io.kubernetes.pod.name": "web", "io.kubernetes.pod.namespace": "default"},
				}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.StartContainer(t.Context(),
			&cri.StartContainerRequest{ContainerId: c.ContainerId}); err != nil {
			t.Fatal(err)
		}
		pid, err := criRuntime{client}.process(t.Context(), c.ContainerId)
		if err != nil || pid == 0 {
			t.Fatalf("process %d, %v", pid, err)
		}
		pids = append(pids, pid)
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pids[0]) + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	if shim, err = strconv.Atoi(strings.Fields(string(stat))[3]); err != nil { // its parent
		t.Fatal(err)
	}
	return pids, shim
}

// emptied removes what a runtime leaves of its cgroups, once they are empty.
func emptied(t *testing.T, name string) {
	t.Helper()
	t.Cleanup(func() {
		left, err := filepath.Glob("/sys/fs/cgroup/*/" + name)
		if err != nil {
			t.Error(err)
		}
		for _, dir := range append(left, "/sys/fs/cgroup/"+name) {
			_ = os.Remove(dir) // another's, or not there
		}
	})
}

func signal(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatal(err)
	}
	if s == syscall.SIGKILL {
		eventually(t, func() bool { return alive(&probe.Host{Proc: "/proc"}, pid) != "" })
	}
}

// TestRealGhost stops the shim of a pod and then kills one of its containers, so
// that nobody tells the runtime.
func TestRealGhost(t *testing.T) {
	h := node(t, nil)
	h.Proc = "/proc"
	pids, shim := realPod(t, h, "one", "two")
	want(t, run(t, RuntimeGhosts, h), "", probe.OK, "each of 2 containers")
	want(t, run(t, ContainerdHealth, h), "tasks", probe.OK, "3 tasks")

	signal(t, shim, syscall.SIGSTOP)
	want(t, run(t, RuntimeGhosts, h), "", probe.OK, "each of 2 containers")
	want(t, run(t, ContainerdHealth, h), "tasks", probe.Fail, "1 of their shims are frozen",
		"process "+strconv.Itoa(shim)+", state T")
	signal(t, pids[0], syscall.SIGKILL)
	want(t, run(t, RuntimeGhosts, h), "", probe.Fail, "1 of 2 containers", "default/web/one")

	signal(t, shim, syscall.SIGCONT)
	eventually(t, func() bool {
		r := run(t, RuntimeGhosts, h)
		return r[0].Status == probe.OK && strings.Contains(r[0].Saw, "each of 1 containers")
	})
}

// pki writes an authority and what it signs below a directory, as PEM.
func pki(t *testing.T, dir string, names map[string]time.Duration) {
	t.Helper()
	ca := certificate(t, "ca", time.Now().Add(20*24*time.Hour))
	root, err := x509.ParseCertificate(ca.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, der []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}),
			0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("etcd-ca", "CERTIFICATE", ca.Certificate[0])
	for name, left := range names {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		leaf := *root
		leaf.SerialNumber, leaf.Subject, leaf.IsCA = big.NewInt(2), pkix.Name{CommonName: name}, false
		leaf.NotAfter = time.Now().Add(left)
		leaf.NotBefore = leaf.NotAfter.Add(-366 * 24 * time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, &leaf, root, key.Public(), ca.PrivateKey)
		if err != nil {
			t.Fatal(err)
		}
		private, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		write(name+"-cert", "CERTIFICATE", der)
		write(name+"-key", "PRIVATE KEY", private)
	}
}

// TestRealEtcd asks an etcd that wants certificates: with one, without, with one
// that has run out, after it was frozen and after it died.
func TestRealEtcd(t *testing.T) {
	if !nstest.Enter(t, "ip link set lo up") {
		return
	}
	const files = "etc/cni/net.d/calico-tls"
	h := node(t, map[string]string{files + "/x": "", "old/" + files + "/x": "", "none/x": ""})
	dir := filepath.Join(h.Root, files)
	const year = 365 * 24 * time.Hour
	pki(t, dir, map[string]time.Duration{"etcd": year, "server": year, "old": -time.Hour})
	url := "https://127.0.0.1:2379"
	etcd := exec.Command("../../.cache/bin/etcd", "--name", "e", "--data-dir", filepath.Join(h.Root, "data"),
		"--listen-client-urls", url, "--advertise-client-urls", url,
		"--listen-peer-urls", "http://127.0.0.1:2380", "--initial-advertise-peer-urls", "http://127.0.0.1:2380",
		"--initial-cluster", "e=http://127.0.0.1:2380",
		"--client-cert-auth", "--trusted-ca-file", dir+"/etcd-ca", "--cert-file", dir+"/server-cert", "--key-file",
		dir+"/server-key")
	log, err := os.Create(filepath.Join(h.Root, "log"))
	if err != nil {
		t.Fatal(err)
	}
	etcd.Stdout, etcd.Stderr = log, log
	if err := etcd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if said, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("etcd said:\n%s", said)
		}
		_ = etcd.Process.Kill() // the test may have done so
		_ = etcd.Wait()
	})
	target := at(probe.KindDatastore, nameEtcd, "127.0.0.1")
	target.Port, target.Attrs = 2379, map[string]string{probe.AttrScheme: "https"}
	const name = "etcd 127.0.0.1:2379"
	ask := func(h *probe.Host) []probe.Result { return run(t, DatastoreLatency, h, target) }
	eventually(t, func() bool {
		return slices.ContainsFunc(ask(h),
			func(r probe.Result) bool { return strings.Contains(r.Saw, "it reports that it is healthy") })
	})
	got := ask(h)
	want(t, got, name, probe.OK, "median of 5", "it reports that it is healthy")
	want(t, got, etcdFiles+"etcd-cert", probe.OK, "is valid until")
	want(t, run(t, StartupBudget, h, target, budget("60")), "estimate", probe.OK, "20 calls")

	want(t, ask(&probe.Host{Root: h.Root + "/none"}), name, probe.OK,
		"asks for a client certificate, which this probe cannot read")
	for from, to := range map[string]string{"old-cert": "etcd-cert", "old-key": "etcd-key", "etcd-ca": "etcd-ca"} {
		text, err := os.ReadFile(filepath.Join(dir, from))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(h.Root, "old", files, to), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got = ask(&probe.Host{Root: h.Root + "/old"})
	want(t, got, name, probe.Fail, "it rejects the certificate")
	want(t, got, etcdFiles+"etcd-cert", probe.Fail, "expired")

	freeze(t, etcd)
	want(t, ask(h), name, probe.Fail, "no answer")
	kill(t, etcd)
	want(t, ask(h), name, probe.Fail, "refused")
}

// TestRealTypha drops what goes to one of two; Typha itself cannot run here, a
// server that wants certificates as it does stands in.
func TestRealTypha(t *testing.T) {
	if !nstest.Enter(t, `
ip link set lo up
nft add table inet t
nft add chain inet t in { type filter hook input priority 0 ; }
nft add rule inet t in ip daddr 127.0.0.3 tcp dport 5473 drop
`) {
		return
	}
	config := &tls.Config{Certificates: []tls.Certificate{certificate(t, "typha-server",
		time.Now().Add(20*24*time.Hour))}, ClientAuth: tls.RequireAnyClientCert}
	l, err := tls.Listen("tcp", "0.0.0.0:5473", config)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.(*tls.Conn).Handshake() // fails, for the probe shows none
			c.Close()
		}
	}()
	typha := func(addr string) probe.Target {
		t := at(probe.KindTypha, "typha", addr)
		t.Port = 5473
		return t
	}
	good, filtered := typha("127.0.0.2"), typha("127.0.0.3")
	got := run(t, TyphaReach, &probe.Host{}, good, filtered)
	want(t, got, "typha 127.0.0.2", probe.OK, "speaks TLS")
	want(t, got, "typha 127.0.0.3", probe.Warn, "no answer", "1 of 2 Typha instances do not answer")
	want(t, run(t, TyphaReach, &probe.Host{}, filtered), "typha 127.0.0.3", probe.Fail, "no answer")
	want(t, run(t, TyphaReach, &probe.Host{}, typha("10.9.9.9")), "typha 10.9.9.9", probe.Fail, "cannot be reached")
}

// only shows a process and all below it, as the proc file system of a node on which
// nothing else runs.
func only(t *testing.T, top int) *probe.Host {
	t.Helper()
	h := &probe.Host{Root: "/", Proc: t.TempDir()}
	names := []string{"1", "uptime", "loadavg", "stat", "pressure", strconv.Itoa(top)}
	proc, err := procfs.NewFS("/proc")
	if err != nil {
		t.Fatal(err)
	}
	all, err := proc.AllProcs()
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(all, func(a, b procfs.Proc) int { return a.PID - b.PID })
	for _, p := range all {
		if stat, err := p.Stat(); err == nil && slices.Contains(names[5:], strconv.Itoa(stat.PPID)) {
			names = append(names, strconv.Itoa(p.PID))
		}
	}
	for _, name := range names {
		if err := os.Symlink("/proc/"+name, filepath.Join(h.Proc, name)); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// bashAs gives a shell another name, also in the kernel.
func bashAs(t *testing.T, name string) string {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	as := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(bash, as); err != nil {
		t.Fatal(err)
	}
	return as
}

// cgroupWith makes a cgroup for this test with a setting that its version spells in
// its own way, and gives a function that puts a process into it.
func cgroupWith(t *testing.T, controller string, v1, v2 [][2]string) (enter func(pid int)) {
	t.Helper()
	name, settings := "calico-probe-test-"+strconv.Itoa(os.Getpid()), v1
	dir := filepath.Join("/sys/fs/cgroup", controller, name)
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		dir, settings = filepath.Join("/sys/fs/cgroup", name), v2
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("no cgroup for %s can be made here: %v", controller, err)
	}
	t.Cleanup(func() { eventually(t, func() bool { return os.Remove(dir) == nil }) })
	set := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range settings {
		set(s[0], s[1])
	}
	return func(pid int) { t.Helper(); set("cgroup.procs", strconv.Itoa(pid)) }
}

// TestRealStart has real processes in a process namespace of their own, under the
// names they have in calico-node's container; Calico itself cannot run here.
func TestRealStart(t *testing.T) {
	dir, calicoNode := t.TempDir(), bashAs(t, "calico-node")
	for name, text := range map[string]string{
		"start_runit": "(exec " + calicoNode + " -c 'until [ -e " + dir + "/go ]; do sleep .1; done' -startup)\nexec " + dir + "/runsvdir",
		"runsvdir":    dir + "/runsv & wait",
		"runsv":       "(exec " + calicoNode + " -c 'sleep 600; true' -felix); true",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/bash\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(dir + "/start_runit")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kill(t, cmd) })
	until := func(seconds string, s probe.Status, saw string) {
		t.Helper()
		eventually(t, func() bool {
			return slices.ContainsFunc(run(t, StartupBudget, only(t, cmd.Process.Pid), budget(seconds)),
				func(r probe.Result) bool {
					return r.Target == "measured" && r.Status == s && strings.Contains(r.Saw, saw)
				})
		})
	}
	until("600", probe.OK, "running")
	until("1", probe.Fail, "running")
	if err := os.WriteFile(dir+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	until("600", probe.OK, "until Felix started")
	until("1", probe.Warn, "until Felix started")
}

// stuckProcess is one that waits uninterruptibly, as behind a dead NFS server: the
// parent of a vfork, until the child has done something.
func stuckProcess(t *testing.T) *exec.Cmd {
	t.Helper()
	const cloneVfork = "56, 0x4000|17, 0, 0, 0, 0" // amd64's number of clone, and SIGCHLD
	cmd := exec.Command("perl", "-e", "my $p = syscall("+cloneVfork+"); sleep 600 if $p == 0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait() // killed
	})
	return cmd
}

// TestRealLoad makes a process wait uninterruptibly, and another burn a CPU that it
// may have a tenth of.
func TestRealLoad(t *testing.T) {
	pid := stuckProcess(t).Process.Pid
	eventually(t, func() bool {
		r := run(t, NodeLoad, only(t, pid))[0]
		return strings.Contains(r.Saw, "1 processes are in uninterruptible sleep") &&
			strings.Contains(r.Saw, "perl ("+strconv.Itoa(pid)+") in ") && r.Status != probe.OK
	})

	enter := cgroupWith(t, "cpu", [][2]string{{"cpu.cfs_period_us", "10000"}, {"cpu.cfs_quota_us", "1000"}},
		[][2]string{{"cpu.max", "1000 10000"}})
	burner := exec.Command(bashAs(t, "calico-node"), "-c", "while :; do :; done", "-felix")
	if err := burner.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kill(t, burner) })
	enter(burner.Process.Pid)
	eventually(t, func() bool {
		return slices.ContainsFunc(run(t, NodeLoad, only(t, burner.Process.Pid)), func(r probe.Result) bool {
			return r.Target == "calico-node cpu" && r.Status == probe.Warn &&
				strings.Contains(r.Saw, "at its CPU limit in ")
		})
	})
}

// TestRealReversePath lets a packet come in by a way that an answer would not
// leave.
func TestRealReversePath(t *testing.T) {
	if !nstest.Enter(t, furniture) {
		return
	}
	h := &probe.Host{Root: "/", Proc: "/proc"}
	own := at(probe.KindSelf, "self", "10.9.0.1")
	set := func(name, text string) {
		t.Helper()
		if err := os.WriteFile("/proc/sys/net/ipv4/conf/"+name+"/rp_filter", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set("all", "0")
	set("eth0", "0")
	ask := func() []probe.Result { return run(t, NodeSysctl, h, own) }
	want(t, ask(), "rp_filter", probe.OK, "all 0, eth0 0")
	stray := func() {
		t.Helper()
		near, err := net.InterfaceByName("eth0")
		if err != nil {
			t.Fatal(err)
		}
		far, err := net.InterfaceByName("far")
		if err != nil {
			t.Fatal(err)
		}
		// UDP from 203.0.113.9, to which there is no route, to 10.9.0.1.
		packet := []byte{0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 203, 0, 113, 9, 10, 9, 0, 1, 0, 9, 0, 9, 0, 8, 0, 0}
		sum := 0
		for i := 0; i < 20; i += 2 {
			sum += int(packet[i])<<8 | int(packet[i+1])
		}
		sum = ^(sum&0xffff + sum>>16)
		packet[10], packet[11] = byte(sum>>8), byte(sum)
		frame := slices.Concat(near.HardwareAddr, far.HardwareAddr, []byte{8, 0}, packet)
		s, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_RAW, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer syscall.Close(s)
		if err := syscall.Sendto(s, frame, 0, &syscall.SockaddrLinklayer{Ifindex: far.Index}); err != nil {
			t.Fatal(err)
		}
	}
	set("eth0", "1")
	eventually(t, func() bool {
		stray()
		return slices.ContainsFunc(ask(), func(r probe.Result) bool {
			return r.Target == "rp_filter" && r.Status == probe.Info &&
				strings.Contains(r.Saw, "all 0, eth0 1; the kernel has dropped")
		})
	})
	set("all", "2")
	want(t, ask(), "rp_filter", probe.OK, "all 2, eth0 2")
	want(t, run(t, NodeSysctl, h, own, probe.Target{Kind: probe.KindCalico, Name: "v3.11.3"}), "rp_filter",
		probe.Warn, "does not start")
}

// TestRealMemory lets something in a container of calico-node's make grow beyond
// the container's limit.
func TestRealMemory(t *testing.T) {
	enter := cgroupWith(t, "memory", [][2]string{{"memory.limit_in_bytes", "30000000"}},
		[][2]string{{"memory.max", "30000000"}})
	grow := filepath.Join(t.TempDir(), "grow")
	felix := exec.Command(bashAs(t, "calico-node"), "-c",
		"until [ -e "+grow+" ]; do sleep .1; done; perl -e '$x = q(x) x 100e6; sleep 600'; sleep 600; true", "-felix")
	felix.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := felix.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-felix.Process.Pid, syscall.SIGKILL)
		_ = felix.Wait() // killed
	})
	enter(felix.Process.Pid)
	h := only(t, felix.Process.Pid)
	for _, name := range []string{"meminfo", "vmstat"} {
		if err := os.Symlink("/proc/"+name, filepath.Join(h.Proc, name)); err != nil {
			t.Fatal(err)
		}
	}
	kills := func() float64 {
		n, _ := run(t, NodeMemory, h)[0].Facts.Num(FactOOMKills)
		return n
	}
	before := kills()
	want(t, run(t, NodeMemory, h), "calico-node memory", probe.OK, "no OOM kill")
	if err := os.WriteFile(grow, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return kills() > before })
	got := run(t, NodeMemory, h)
	want(t, got, "calico-node memory", probe.Warn, "1 OOM kills in its container", "it has a memory limit of its own")
	want(t, got, "", probe.Info, "OOM kills since boot")
}

// TestRealNeighbour has a neighbour that did not answer, and then comes.
func TestRealNeighbour(t *testing.T) {
	if !nstest.Enter(t, furniture) {
		return
	}
	h := &probe.Host{Root: "/", Proc: "/proc"}
	peer := at(probe.KindNode, "peer", "10.9.0.2")
	ip := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %v: %v: %s", args, err, out)
		}
	}
	want(t, run(t, NodePing, h, peer), "peer 10.9.0.2", probe.Fail, "none of 5")
	eventually(t, func() bool {
		table, err := neighbours(4)
		return err == nil && stateOf(table, peer.Addr) == "failed"
	})
	want(t, run(t, NodeNeighbours, h, peer), "peer 10.9.0.2", probe.Fail, "no answer to ARP or NDP on the link")
	eventually(t, func() bool {
		table, err := neighbours(4)
		return err == nil && stateOf(table, peer.Addr) == "failed"
	})
	ip("netns", "add", "probe-neighbour")
	defer ip("netns", "del", "probe-neighbour")
	ip("link", "set", "far", "netns", "probe-neighbour")
	ip("-n", "probe-neighbour", "addr", "add", "10.9.0.2/24", "dev", "far")
	ip("-n", "probe-neighbour", "link", "set", "far", "up")
	ip("neigh", "replace", "10.9.0.2", "dev", "eth0", "nud", "failed") // which a link that goes down would flush
	want(t, run(t, NodeNeighbours, h, peer), "peer 10.9.0.2", probe.OK, "answers ARP or NDP now")
}

// TestRealDockerGhost is the incident: dockerd has lost its containerd and goes on
// calling a container running whose process is gone.
func TestRealDockerGhost(t *testing.T) {
	h := node(t, map[string]string{"run/x": ""})
	h.Proc = "/proc"
	behind := realContainerd(t, h)
	daemonOf(t, "docker.io/usr/sbin/dockerd", "--containerd", h.Root+"/run/containerd/containerd.sock",
		"--iptables=false", "--ip6tables=false", "--bridge=none",
		"--data-root", h.Root+"/docker", "--exec-root", h.Root+"/exec", "--pidfile", h.Root+"/docker.pid", "-H",
		"unix://"+h.Root+"/run/docker.sock", "--storage-driver", "vfs")
	emptied(t, "docker")
	asDocker := probe.Target{Kind: probe.KindRuntime, Name: "docker://20.10.24"}
	eventually(t, func() bool { return run(t, RuntimeGhosts, h, asDocker)[0].Status == probe.OK })
	docker := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("../../.cache/docker.io/usr/bin/docker",
			append([]string{"-H", "unix://" + h.Root + "/run/docker.sock"}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("docker %v: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	empty := filepath.Join(h.Root, "empty.tar")
	if err := os.WriteFile(empty, make([]byte, 1024), 0o600); err != nil {
		t.Fatal(err)
	}
	docker("import", empty, "empty")
	start := func(name string) int {
		t.Helper()
		// Without CAP_SYS_RESOURCE nobody may lower a score.
		args := []string{"run", "-d", "--network=none", "--oom-score-adj=1000", "--name", name}
		for _, dir := range []string{"/bin", "/lib", "/lib64", "/usr"} {
			args = append(args, "-v", dir+":"+dir+":ro")
		}
		docker(append(args, "empty", "/bin/sleep", "600")...)
		pid, err := strconv.Atoi(docker("inspect", "-f", "{{.State.Pid}}", name))
		if err != nil {
			t.Fatal(err)
		}
		return pid
	}
	t.Cleanup(func() {
		signal(t, behind.Process.Pid, syscall.SIGCONT) // it may be stopped
		docker("rm", "-f", "lives", "dies")
	})
	start("lives")
	dies := start("dies")
	want(t, run(t, RuntimeGhosts, h, asDocker), "", probe.OK, "each of 2 containers")

	freeze(t, behind)
	signal(t, dies, syscall.SIGKILL)
	want(t, run(t, RuntimeGhosts, h, asDocker), "", probe.Fail, "1 of 2 containers", "no living process: dies")
	signal(t, behind.Process.Pid, syscall.SIGCONT)
	eventually(t, func() bool {
		return strings.Contains(run(t, RuntimeGhosts, h, asDocker)[0].Saw, "each of 1 containers")
	})
}
