package node

import (
	"slices"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
)

// TestRuntimeSockets checks that the kubelet's own report comes first.
func TestRuntimeSockets(t *testing.T) {
	t.Parallel()
	const k3s, rke2 = "var/lib/rancher/k3s/agent/etc/kubelet.conf.d/", "var/lib/rancher/rke2/agent/etc/kubelet.conf.d/"
	for name, c := range map[string]struct {
		files              map[string]string
		runtime            string
		cri, containerd    string
		withoutContainerds bool
	}{
		"nothing known":     {nil, "", "/run/crio/crio.sock", socketContainerd, false},
		"kubeadm":           {map[string]string{"var/lib/kubelet/config.yaml": "containerRuntimeEndpoint: unix:///var/run/containerd/containerd.sock\n"}, "containerd://2.1.0", "/var/run/containerd/containerd.sock", "/var/run/containerd/containerd.sock", false},
		"k0s":               {map[string]string{"var/lib/kubelet/config.yaml": "containerRuntimeEndpoint: unix:///run/k0s/containerd.sock\n"}, "containerd://1.7.2", socketK0s, socketK0s, false},
		"k3s":               {map[string]string{k3s + "00-k3s-defaults.conf": "containerRuntimeEndpoint: unix:///run/k3s/containerd/containerd.sock\n"}, "", socketK3s, socketK3s, false},
		"k3s before v1.32":  {nil, "containerd://1.7.11-k3s2.27", socketK3s, socketK3s, false},
		"RKE2, changed":     {map[string]string{rke2 + "00-rke2-defaults.conf": "containerRuntimeEndpoint: /run/k3s/containerd/containerd.sock\n", rke2 + "99-own.conf": "containerRuntimeEndpoint: /run/own.sock\n", rke2 + "note.txt": "\t"}, "containerd://2.0.0-k3s1", "/run/own.sock", "/run/own.sock", false},
		"CRI-O":             {map[string]string{"var/lib/kubelet/config.yaml": "containerRuntimeEndpoint: unix:///var/run/crio/crio.sock\n"}, "cri-o://1.34.1", "/var/run/crio/crio.sock", socketContainerd, true},
		"docker":            {map[string]string{"var/lib/kubelet/config.yaml": "containerRuntimeEndpoint: unix:///run/cri-dockerd.sock\n"}, "docker://28.0", "/run/cri-dockerd.sock", socketContainerd, true},
		"no word to follow": {map[string]string{"var/lib/kubelet/config.yaml": "containerRuntimeEndpoint: npipe:////./pipe/containerd\n"}, "containerd://2.1.0", socketContainerd, socketContainerd, false},
	} {
		p := &probe.Pass{Host: checktest.Node(t, c.files)}
		if c.runtime != "" {
			p.Targets = []probe.Target{{Kind: probe.KindRuntime, Name: c.runtime}}
		}
		cri, containerd := CRISockets(p), ContainerdSockets(p)
		if cri[0] != c.cri || containerd[0] != c.containerd ||
			slices.Contains(cri, socketContainerd) == c.withoutContainerds {
			t.Errorf("%s: %v, %v", name, cri, containerd)
		}
	}
}
