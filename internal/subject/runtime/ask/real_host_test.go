//go:build e2e

package ask

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/criconn"
	"github.com/calico-probe/calico-probe/probe/must"
)

// realPod starts a containerd under the node's root, and a pod with some containers through the CRI. It returns the
// PIDs of the containers and of the shim.
func realPod(t *testing.T, h *probe.Host, names ...string) (pids []int, shim int) {
	t.Helper()
	socket := checktest.RealCRI(t, containerdHealthCheck, h, "")
	emptied(t, "k8s.io")
	load := exec.Command(checktest.Part(t, "bin/ctr"), "-a", socket, "-n", "k8s.io", "images", "import", "--local",
		checktest.Part(t, "images/pause.tar"))
	if out, err := load.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	client, hangUp, err := criconn.CRIAt(&probe.Host{Root: "/"}, socket)
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
		must.Get(client.StartContainer(t.Context(),
			&cri.StartContainerRequest{ContainerId: c.ContainerId}))(t)
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

// emptied removes a runtime's empty cgroups after the test.
func emptied(t *testing.T, name string) {
	t.Helper()
	t.Cleanup(func() {
		left, err := filepath.Glob("/sys/fs/cgroup/*/" + name)
		if err != nil {
			t.Error(err)
		}
		for _, dir := range append(left, "/sys/fs/cgroup/"+name) {
			_ = os.Remove(dir) // fails if it is in use or does not exist
		}
	})
}

func signal(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	must.Do(t, syscall.Kill(pid, s))
	if s == syscall.SIGKILL {
		checktest.Eventually(t, func() bool { return processProblem(&probe.Host{Proc: "/proc"}, pid) != "" })
	}
}

// TestRealGhost stops the shim of a pod and then kills one of its containers, so the runtime gets no exit event.
func TestRealGhost(t *testing.T) {
	h := checktest.Node(t, nil)
	h.Proc = "/proc"
	pids, shim := realPod(t, h, "one", "two")
	checktest.Want(t, checktest.Run(t, runtimeGhostsCheck, h), "", probe.OK, "each of 2 containers")
	checktest.Want(t, checktest.Run(t, containerdHealthCheck, h), "tasks", probe.OK, "3 tasks")

	signal(t, shim, syscall.SIGSTOP)
	checktest.Want(t, checktest.Run(t, runtimeGhostsCheck, h), "", probe.OK, "each of 2 containers")
	checktest.Want(t, checktest.Run(t, containerdHealthCheck, h), "tasks", probe.Fail, "1 of their shims are frozen",
		"process "+strconv.Itoa(shim)+", state T")
	signal(t, pids[0], syscall.SIGKILL)
	checktest.Want(t, checktest.Run(t, runtimeGhostsCheck, h), "", probe.Fail, "1 of 2 containers", "default/web/one")

	signal(t, shim, syscall.SIGCONT)
	checktest.Eventually(t, func() bool {
		r := checktest.Run(t, runtimeGhostsCheck, h)
		return r[0].Status == probe.OK && strings.Contains(r[0].Saw, "each of 1 containers")
	})
}

// TestRealDockerGhost reproduces the incident: dockerd has lost its containerd, and still reports a container without a
// process as running.
func TestRealDockerGhost(t *testing.T) {
	h := checktest.Node(t, map[string]string{"run/x": ""})
	h.Proc = "/proc"
	behind := realContainerd(t, h)
	checktest.DaemonOf(t, "docker.io/usr/sbin/dockerd", "--containerd", h.Root+"/run/containerd/containerd.sock",
		"--iptables=false", "--ip6tables=false", "--bridge=none",
		"--data-root", h.Root+"/docker", "--exec-root", h.Root+"/exec", "--pidfile", h.Root+"/docker.pid", "-H",
		"unix://"+h.Root+"/run/docker.sock", "--storage-driver", "vfs")
	emptied(t, "docker")
	asDocker := probe.Target{Kind: probe.KindRuntime, Name: "docker://20.10.24"}
	checktest.Eventually(t, func() bool { return checktest.Run(t, runtimeGhostsCheck, h, asDocker)[0].Status == probe.OK })
	docker := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(checktest.Part(t, "docker.io/usr/bin/docker"),
			append([]string{"-H", "unix://" + h.Root + "/run/docker.sock"}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("docker %v: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	empty := filepath.Join(h.Root, "empty.tar")
	must.Do(t, os.WriteFile(empty, make([]byte, 1024), 0o600))
	docker("import", empty, "empty")
	start := func(name string) int {
		t.Helper()
		// Lowering a score needs CAP_SYS_RESOURCE, so use the highest one.
		args := []string{"run", "-d", "--network=none", "--oom-score-adj=1000", "--name", name}
		for _, dir := range []string{"/bin", "/lib", "/lib64", "/usr"} {
			args = append(args, "-v", dir+":"+dir+":ro")
		}
		docker(append(args, "empty", "/bin/sleep", "600")...)
		pid := must.Get(strconv.Atoi(docker("inspect", "-f", "{{.State.Pid}}", name)))(t)
		return pid
	}
	t.Cleanup(func() {
		signal(t, behind.Process.Pid, syscall.SIGCONT) // it may be stopped
		docker("rm", "-f", "lives", "dies")
	})
	start("lives")
	dies := start("dies")
	checktest.Want(t, checktest.Run(t, runtimeGhostsCheck, h, asDocker), "", probe.OK, "each of 2 containers")

	checktest.Freeze(t, behind)
	signal(t, dies, syscall.SIGKILL)
	checktest.Want(t, checktest.Run(t, runtimeGhostsCheck, h, asDocker), "", probe.Fail, "1 of 2 containers",
		"no live process: dies")
	signal(t, behind.Process.Pid, syscall.SIGCONT)
	checktest.Eventually(t, func() bool {
		return strings.Contains(checktest.Run(t, runtimeGhostsCheck, h, asDocker)[0].Saw, "each of 1 containers")
	})
}
