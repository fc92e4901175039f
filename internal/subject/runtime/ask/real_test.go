//go:build e2e

package ask

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/must"
)

// realContainerd starts a containerd under the node's root and waits until it answers.
func realContainerd(t *testing.T, h *probe.Host) *exec.Cmd {
	t.Helper()
	config := "version = 3\nroot = '" + h.Root + "/root'\nstate = '" + h.Root + "/state'\n[grpc]\naddress = '" + h.Root + "/run/containerd/containerd.sock'\n"
	file := filepath.Join(h.Root, "config.toml")
	must.Do(t, os.WriteFile(file, []byte(config), 0o600))
	cmd := checktest.DaemonOf(t, "bin/containerd", "--config", file)
	checktest.Eventually(t, func() bool {
		got := checktest.Run(t, containerdHealthCheck, h)
		return len(got) == 4 &&
			!slices.ContainsFunc(got, func(r probe.Result) bool { return r.Target == "health" && r.Status != probe.OK })
	})
	return cmd
}

// TestRealContainerd checks a containerd that runs, is frozen, and is dead.
func TestRealContainerd(t *testing.T) {
	const socket = "/run/containerd/containerd.sock"
	h := checktest.Node(t, nil)
	cmd := realContainerd(t, h)
	got := append(checktest.Run(t, containerdHealthCheck, h), checktest.Run(t, criHealthCheck, h)...)
	checktest.Want(t, got, "version", probe.OK, "containerd 2.")
	checktest.Want(t, got, "health", probe.OK, "SERVING")
	checktest.Want(t, got, "tasks", probe.OK, "0 tasks")
	checktest.Want(t, got, "cri-status", probe.Fail, "NetworkReady is false") // it has no CNI configuration
	checktest.Want(t, got, socket+" version", probe.OK, "containerd 2.")
	checktest.Want(t, got, socket+" containers", probe.OK, "0 containers")

	checktest.Freeze(t, cmd)
	got = append(checktest.Run(t, containerdHealthCheck, h), checktest.Run(t, criHealthCheck, h)...)
	for _, part := range []string{"version", "health", "cri-status", "tasks", socket + " version",
		socket + " containers"} {
		checktest.Want(t, got, part, probe.Fail, "does not answer within")
	}
	checktest.Kill(t, cmd)
	checktest.Want(t, checktest.Run(t, containerdHealthCheck, h), socket, probe.Fail, "nothing listens")
	checktest.Want(t, checktest.Run(t, criHealthCheck, h), socket, probe.Fail, "nothing listens")
}

// TestRealContainerdWithoutCRI has a containerd as docker's packages configure it, and an unknown runtime of the
// kubelet.
func TestRealContainerdWithoutCRI(t *testing.T) {
	h := checktest.Node(t, map[string]string{"run/x": ""})
	file := filepath.Join(h.Root, "config.toml")
	config := "version = 3\ndisabled_plugins = ['io.containerd.grpc.v1.cri']\nroot = '" + h.Root + "/root'\nstate = '" + h.Root + "/state'\n[grpc]\naddress = '" + h.Root + "/run/containerd/containerd.sock'\n"
	must.Do(t, os.WriteFile(file, []byte(config), 0o600))
	checktest.DaemonOf(t, "bin/containerd", "--config", file)
	checktest.Eventually(t, func() bool {
		return slices.ContainsFunc(checktest.Run(t, containerdHealthCheck, h),
			func(r probe.Result) bool { return r.Target == "cri-status" && strings.Contains(r.Saw, "not loaded") })
	})
	checktest.Want(t, checktest.Run(t, containerdHealthCheck, h), "cri-status", probe.Fail,
		"the CRI plugin is not loaded: containerd does not list it")
	must.Do(t, os.WriteFile(h.Root+"/run/dockershim.sock", nil, 0o600))
	checktest.Want(t, checktest.Run(t, containerdHealthCheck, h), "cri-status", probe.Skip, "as usual with docker")
}

// TestRealDocker reproduces the incident: dockerd answers its ping while its containerd is frozen.
func TestRealDocker(t *testing.T) {
	h := checktest.Node(t, map[string]string{"run/x": ""})
	asDocker := probe.Target{Kind: probe.KindRuntime, Name: "docker://20.10.24"}
	behind := realContainerd(t, h)
	docker := checktest.DaemonOf(t, "docker.io/usr/sbin/dockerd", "--containerd", h.Root+"/run/containerd/containerd.sock",
		"--iptables=false", "--ip6tables=false", "--bridge=none",
		"--data-root", h.Root+"/docker", "--exec-root", h.Root+"/exec", "--pidfile", h.Root+"/docker.pid", "-H",
		"unix://"+h.Root+"/run/docker.sock", "--storage-driver", "vfs")
	checktest.Eventually(t, func() bool {
		got := checktest.Run(t, dockerHealthCheck, h, asDocker)
		return len(got) == 2 && got[0].Status == probe.OK && got[1].Status == probe.OK
	})
	checktest.Want(t, checktest.Run(t, dockerHealthCheck, h, asDocker), "info", probe.OK, "docker 20.10",
		"0 of 0 containers")

	checktest.Eventually(t, func() bool { // the kubelet does not use the CRI of this one
		return !slices.ContainsFunc(checktest.Run(t, containerdHealthCheck, h, asDocker),
			func(r probe.Result) bool { return r.Status != probe.OK || r.Target == "cri-status" })
	})

	checktest.Freeze(t, behind)
	got := checktest.Run(t, dockerHealthCheck, h, asDocker)
	checktest.Want(t, got, "_ping", probe.OK, "OK")
	checktest.Want(t, got, "info", probe.Fail, "no answer from dockerd /info within ")

	checktest.Freeze(t, docker)
	checktest.Want(t, checktest.Run(t, dockerHealthCheck, h, asDocker), "_ping", probe.Fail, "no answer")
	checktest.Kill(t, docker)
	checktest.Want(t, checktest.Run(t, dockerHealthCheck, h, asDocker), "_ping", probe.Fail, "refused")
}
