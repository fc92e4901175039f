package node

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/calico-probe/calico-probe/probe"
)

// Kubelet is the configuration of the node's kubelet. It comes from the kubelet's file and its arguments, which take
// precedence. If a setting is zero, the kubelet uses its own default (k8s.io/kubelet/config/v1beta1).
type Kubelet struct {
	PID    int    // 0 if no running kubelet is visible
	Config string // path of the first file that was read, "" if there is none
	Access string // path of the kubelet's kubeconfig for the API server

	FailSwapOn         *bool    `yaml:"failSwapOn"`
	HealthzPort        *int     `yaml:"healthzPort"`
	HealthzBindAddress string   `yaml:"healthzBindAddress"`
	Address            string   `yaml:"address"`
	Port               int      `yaml:"port"`
	ClusterDomain      string   `yaml:"clusterDomain"`
	ClusterDNS         []string `yaml:"clusterDNS"`
	ResolvConf         string   `yaml:"resolvConf"`
	CPUManagerPolicy   string   `yaml:"cpuManagerPolicy"`
	MemoryPolicy       string   `yaml:"memoryManagerPolicy"`
	RuntimeEndpoint    string   `yaml:"containerRuntimeEndpoint"`
	MemorySwap         struct {
		SwapBehavior string `yaml:"swapBehavior"`
	} `yaml:"memorySwap"`
}

// kubeadm's file, and the drop-in directory of k3s and RKE2. Their kubelet has no other configuration.
var (
	KubeletConfig = "/var/lib/kubelet/config.yaml"
	kubeletAccess = "/etc/kubernetes/kubelet.conf"
	kubeletDirs   = []string{"/var/lib/rancher/k3s/agent/etc/kubelet.conf.d",
		"/var/lib/rancher/rke2/agent/etc/kubelet.conf.d"}
)

// ReadKubelet returns the configuration as far as it can be read. If a file is missing or not visible, the defaults
// apply. If a file cannot be read or parsed, or if several processes may be the kubelet, ReadKubelet returns an error.
func ReadKubelet(h *probe.Host) (Kubelet, error) {
	var k Kubelet
	pid, args, err := NodesDaemon(h, "kubelet")
	if err != nil {
		return k, err
	}
	k.PID, k.Access = pid, cmp.Or(FlagOf(args, "--kubeconfig"), kubeletAccess)
	config := cmp.Or(FlagOf(args, "--config"), KubeletConfig)
	if err := k.read(h, config); err != nil {
		return k, err
	}
	dirs := []string{FlagOf(args, "--config-dir")}
	if pid == 0 && k.Config == "" {
		dirs = kubeletDirs
	}
	for _, dir := range dirs {
		names, err := DropIns(h, dir)
		if err != nil {
			return k, err
		}
		for _, name := range names {
			if err := k.read(h, name); err != nil {
				return k, err
			}
		}
	}
	if v := FlagOf(args, "--container-runtime-endpoint"); v != "" {
		k.RuntimeEndpoint = v
	}
	if v := FlagOf(args, "--fail-swap-on"); v != "" {
		k.FailSwapOn = new(v != "false")
	}
	if v := FlagOf(args, "--cluster-domain"); v != "" {
		k.ClusterDomain = v
	}
	if v := FlagOf(args, "--cluster-dns"); v != "" {
		k.ClusterDNS = strings.Split(v, ",")
	}
	if v := FlagOf(args, "--resolv-conf"); v != "" {
		k.ResolvConf = v
	}
	if v := FlagOf(args, "--healthz-bind-address"); v != "" {
		k.HealthzBindAddress = v
	}
	if v := FlagOf(args, "--address"); v != "" {
		k.Address = v
	}
	if n, err := strconv.Atoi(FlagOf(args, "--healthz-port")); err == nil {
		k.HealthzPort = &n
	}
	return k, nil
}

// read overlays the settings from a file.
func (k *Kubelet) read(h *probe.Host, name string) error {
	text, err := h.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, probe.ErrNotVisible) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := yaml.Unmarshal(text, k); err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	k.Config = cmp.Or(k.Config, name)
	return nil
}

// DropIns lists the files in a --config-dir in the order in which the kubelet reads them.
func DropIns(h *probe.Host, dir string) ([]string, error) {
	if dir == "" {
		return nil, nil
	}
	names, err := h.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, probe.ErrNotVisible) {
		return nil, nil // most nodes have no such folder
	}
	var out []string
	for _, name := range names {
		if path.Ext(name) == ".conf" {
			out = append(out, path.Join(dir, name))
		}
	}
	return out, err
}

// runtimeSocket returns the path of the configured runtime socket, or "" if it is unknown.
func (k Kubelet) runtimeSocket() string {
	name := strings.TrimPrefix(k.RuntimeEndpoint, "unix://")
	if !path.IsAbs(name) {
		return ""
	}
	return path.Clean(name)
}

// Seen reports whether the settings come from the kubelet itself, and not only from its defaults.
func (k Kubelet) Seen() bool { return k.Config != "" || k.PID != 0 }

// TakesSwap reports whether this kubelet starts if swap is on.
func (k Kubelet) TakesSwap() bool { return k.FailSwapOn != nil && !*k.FailSwapOn }

// Healthz returns the kubelet's unauthenticated health endpoint, or false if it is disabled.
func (k Kubelet) Healthz() (netip.AddrPort, bool) {
	port, addr := 10248, netip.MustParseAddr("127.0.0.1")
	if k.HealthzPort != nil {
		port = *k.HealthzPort
	}
	if a, err := netip.ParseAddr(k.HealthzBindAddress); err == nil && !a.IsUnspecified() {
		addr = a
	}
	return netip.AddrPortFrom(addr, uint16(port)), port > 0
}

// API returns the kubelet endpoint that the API server uses.
func (k Kubelet) API() netip.AddrPort {
	port, addr := 10250, netip.MustParseAddr("127.0.0.1")
	if k.Port > 0 {
		port = k.Port
	}
	if a, err := netip.ParseAddr(k.Address); err == nil && !a.IsUnspecified() {
		addr = a
	}
	return netip.AddrPortFrom(addr, uint16(port))
}

// FlagOf returns the value of a flag that is given as --name=value or --name value.
func FlagOf(args []string, name string) string {
	for i, a := range args {
		if v, ok := strings.CutPrefix(a, name+"="); ok {
			return v
		}
		if a == name && i+1 < len(args) {
			return args[i+1]
		}
	}
	return ""
}

// KubeletRoot is the kubelet's default for --root-dir, the directory that contains its state.
const KubeletRoot = "/var/lib/kubelet"

// PortKubelet is the kubelet's port for the API server.
const PortKubelet = 10250

// SkewOdd is the largest difference between two clocks that is no reason for concern: machines that synchronise their
// clocks differ by milliseconds, and the Date of an answer has whole seconds. node-clock warns beyond it, clock-wrong
// compares nodes with it, and cni-token allows it for the start of a token.
const SkewOdd = 5 * time.Second

// The kubelet's default thresholds, in percent that is free: below DiskCollect it deletes images
// (imageGCHighThresholdPercent 85), below InodesEvict it evicts pods (evictionHard, nodefs.inodesFree).
const (
	DiskCollect = 15
	InodesEvict = 5
)

// Thresholds of /run, in percent that is free. The kubelet does not watch this tmpfs. A pod needs a few hundred
// kilobytes there, so below RunFull few more can start.
const (
	RunFull  = 2
	RunShort = 10
)

// Facts of node-swap.
const FactAllowed probe.Fact = "allowed" // true if the kubelet's configuration accepts swap
