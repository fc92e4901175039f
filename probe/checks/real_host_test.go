//go:build e2e

package checks

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/calico-probe/calico-probe/probe"
)

// realPod runs a containerd below the node's root, and through the kubelet's
// interface a pod in it with some containers. It gives the containers' processes
// and the shim's.
func realPod(t *testing.T, h *probe.Host, names ...string) (pids []int, shim int) {
	t.Helper()
	socket := h.Root + "/run/containerd/containerd.sock"
	config := "version = 3\nroot = '" + h.Root + "/root'\nstate = '" + h.Root + "/state'\n[grpc]\naddress = '" + socket + "'\n" +
		"[plugins.'io.containerd.cri.v1.images'.pinned_images]\nsandbox = 'registry.k8s.io/pause:3.10'\n" +
		"[plugins.'io.containerd.cri.v1.runtime']\nrestrict_oom_score_adj = true\n" // without CAP_SYS_RESOURCE nobody may lower a score
	file := filepath.Join(h.Root, "config.toml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	daemonOf(t, "bin/containerd", "--config", file)
	eventually(t, func() bool {
		return slices.ContainsFunc(run(t, ContainerdHealth, h), func(r probe.Result) bool { return r.Target == "cri-status" && r.Status == probe.Fail })
	})
	load := exec.Command("../../.cache/bin/ctr", "-a", socket, "-n", "k8s.io", "images", "import", "--local", "../../.cache/images/pause.tar")
	if out, err := load.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	client := cri.NewRuntimeServiceClient(conn)
	pod := &cri.PodSandboxConfig{
		Metadata: &cri.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: filepath.Base(h.Root)}, LogDirectory: h.Root,
		Linux: &cri.LinuxPodSandboxConfig{SecurityContext: &cri.LinuxSandboxSecurityContext{NamespaceOptions: &cri.NamespaceOption{Network: cri.NamespaceMode_NODE}}},
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
		if _, err := client.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: sandbox.PodSandboxId}); err != nil {
			t.Log(err)
		}
	})
	for _, name := range names {
		c, err := client.CreateContainer(t.Context(), &cri.CreateContainerRequest{PodSandboxId: sandbox.PodSandboxId, SandboxConfig: pod, Config: &cri.ContainerConfig{
			Metadata: &cri.ContainerMetadata{Name: name}, Image: &cri.ImageSpec{Image: "registry.k8s.io/pause:3.10"},
			Labels: map[string]string{"io.kubernetes.pod.name": "web", "io.kubernetes.pod.namespace": "default"},
		}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.StartContainer(t.Context(), &cri.StartContainerRequest{ContainerId: c.ContainerId}); err != nil {
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

func signal(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatal(err)
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
	want(t, run(t, ContainerdHealth, h), "tasks", probe.Fail, "of their shims 1 do not run", "process "+strconv.Itoa(shim)+", state T")
	signal(t, pids[0], syscall.SIGKILL)
	want(t, run(t, RuntimeGhosts, h), "", probe.Fail, "1 of 2 containers", "default/web/one")

	signal(t, shim, syscall.SIGCONT)
	eventually(t, func() bool {
		r := run(t, RuntimeGhosts, h)
		return r[0].Status == probe.OK && strings.Contains(r[0].Saw, "each of 1 containers")
	})
}
