package ask

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/must"
)

func TestNodeSwap(t *testing.T) {
	t.Parallel()
	const off = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
	const on = off + "/dev/sda3                               partition\t2097148\t\t0\t\t-2\n"
	for name, c := range map[string]struct {
		files  map[string]string
		status probe.Status
		saw    string
	}{
		"none":           {map[string]string{"proc/swaps": off}, probe.OK, "no swap"},
		"no such kernel": {map[string]string{"proc/x": ""}, probe.OK, "no swap"},
		"on": {map[string]string{"proc/swaps": on, "proc/77/comm": "kubelet\n",
			"proc/77/cmdline": "kubelet\x00"}, probe.Fail, "/dev/sda3"},
		"on, no kubelet": {map[string]string{"proc/swaps": on}, probe.Warn, "not visible"},
		"on, accepted": {map[string]string{"proc/swaps": on, "var/lib/kubelet/config.yaml": "failSwapOn: false\n"},
			probe.Info, "/dev/sda3"},
		"on, refused": {map[string]string{"proc/swaps": on, "var/lib/kubelet/config.yaml": "failSwapOn: true\n"},
			probe.Fail, "/dev/sda3"},
		"by argument": {map[string]string{"proc/swaps": on, "proc/77/comm": "kubelet\n",
			"proc/77/cmdline": "kubelet\x00--fail-swap-on=false\x00"},
			probe.Info, "accept"},
		"config elsewhere": {map[string]string{"proc/swaps": on, "proc/77/comm": "kubelet\n",
			"proc/77/cmdline": "kubelet\x00--config\x00/etc/k.yaml\x00", "etc/k.yaml": "failSwapOn: false\n"},
			probe.Info, "accept"},
		"fstab": {map[string]string{"proc/swaps": off,
			"etc/fstab": "# swap\n#/dev/sda3 none swap sw 0 0\nUUID=1 none swap sw 0 0\n"}, probe.Warn,
			"/etc/fstab line 3 (UUID=1)"},
		"commented": {map[string]string{"proc/swaps": off,
			"etc/fstab": "#/dev/sda3 none swap sw 0 0\n/swap none swap noauto 0 0\n"}, probe.OK, "no swap"},
		"unit": {map[string]string{"proc/swaps": off, "etc/systemd/system/swapfile.swap": ""}, probe.Warn,
			"/etc/systemd/system/swapfile.swap"},
		"zram": {map[string]string{"proc/swaps": off, "usr/lib/systemd/zram-generator.conf": "[zram0]\n"},
			probe.Warn, "zram-generator.conf"},
		"fstab, accepted": {map[string]string{"proc/swaps": off, "etc/fstab": "/swap none swap sw 0 0\n",
			"var/lib/kubelet/config.yaml": "failSwapOn: false\n"},
			probe.Info, "returns at the next reboot"},
		"odd config": {map[string]string{"proc/swaps": on, "var/lib/kubelet/config.yaml": "failSwapOn: [\n"},
			probe.Unknown, "config.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checktest.Want(t, checktest.Run(t, nodeSwapCheck, checktest.Node(t, c.files)), "", c.status, c.saw)
		})
	}
	h := checktest.Node(t, map[string]string{"proc/swaps": off, "usr/lib/systemd/system/dev-sda3.swap": "",
		"etc/systemd/system/x": ""})
	must.Do(t, os.Symlink("/dev/null", filepath.Join(h.Root, "etc/systemd/system/dev-sda3.swap")))
	checktest.Want(t, checktest.Run(t, nodeSwapCheck, h), "", probe.OK, "no swap") // masked
	h = checktest.Node(t, map[string]string{"proc/swaps": off})
	h.Only = []string{"/run/calico"}
	checktest.Want(t, checktest.Run(t, nodeSwapCheck, h), "", probe.Info, "cannot see whether")
	checktest.Want(t, checktest.Run(t, nodeSwapCheck, &probe.Host{Proc: "/nowhere"}), "", probe.Unknown, "/nowhere")
}
