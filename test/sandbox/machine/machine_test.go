package machine

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestInitramfs lets cpio list an initramfs.
func TestInitramfs(t *testing.T) {
	cpio, err := exec.LookPath("cpio")
	if err != nil {
		t.Skip("no cpio on this machine")
	}
	boot := t.TempDir()
	for name, text := range map[string]string{"busybox": "box", "vmlinuz": "kernel", "10-virtio.ko": "module"} {
		if err := os.WriteFile(filepath.Join(boot, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := initramfs(boot, map[string]File{
		"/etc/kubernetes/kubelet.key": Secret("key"), "/etc/unit": Link("/dev/null"),
	})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(cpio, "-itv", "--quiet")
	cmd.Stdin = strings.NewReader(string(b))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{"-rw-------", "node/etc/kubernetes/kubelet.key", "node/etc/unit -> /dev/null",
		"modules/10-virtio.ko", "bin/busybox", "init"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in the initramfs:\n%s", want, out)
		}
	}
	if strings.Contains(string(out), "vmlinuz") {
		t.Errorf("the kernel is in the initramfs:\n%s", out)
	}
}

func TestStretch(t *testing.T) {
	probe := map[string]any{"timeoutSeconds": 10.0, "periodSeconds": 200.0}
	object := map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
		"containers": []any{map[string]any{"livenessProbe": probe}},
	}}}}
	Stretch(object)
	if probe["timeoutSeconds"] != 120.0 || probe["periodSeconds"] != 200.0 || probe["failureThreshold"] != 10.0 {
		t.Errorf("stretched to %v", probe)
	}
	ready := map[string]any{"exec": map[string]any{}}
	containers := []any{map[string]any{"name": "calico-node", "readinessProbe": ready}}
	pod := map[string]any{"spec": map[string]any{"containers": containers}}
	Stretch(map[string]any{"spec": map[string]any{"template": pod}})
	if asks, ok := ready["httpGet"].(map[string]any); !ok || ready["exec"] != nil || asks["path"] != "/readiness" {
		t.Errorf("calico-node's probe: %v", ready)
	}
	Stretch(map[string]any{"kind": "ConfigMap"})
}

func TestSystemd(t *testing.T) {
	files, err := Systemd(netip.MustParsePrefix("10.88.0.11/24"), netip.MustParsePrefix("fd00::11/64"),
		"10.88.0.1", "fd00::1")
	if err != nil {
		t.Fatal(err)
	}
	network := files["/etc/systemd/network/eth0.network"].content
	for _, want := range []string{"Address=10.88.0.11/24", "Address=fd00::11/64", "Gateway=10.88.0.1", "Gateway=fd00::1"} {
		if !strings.Contains(network, want) {
			t.Errorf("no %q in\n%s", want, network)
		}
	}
	if l := files["/etc/systemd/system/multi-user.target.wants/kubelet.service"]; l.mode != symlink|0o777 {
		t.Errorf("the kubelet's unit is not enabled: %+v", l)
	}
}
