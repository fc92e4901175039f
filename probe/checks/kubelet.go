package checks

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/calico-probe/calico-probe/probe"
)

// kubelet is how the node's kubelet is set, from its configuration file and,
// over that, its arguments. The zero value of a setting is the kubelet's own
// default (k8s.io/kubelet/config/v1beta1).
type kubelet struct {
	pid    int    // 0 when no kubelet is seen running
	config string // the path of the first file read, "" when there is none
	access string // the path of the kubeconfig with which it goes to the API server

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

// Where kubeadm puts the file; and k3s and RKE2, whose kubelet has nothing else,
// the directory of those that are laid over it.
var (
	kubeletConfig = "/var/lib/kubelet/config.yaml"
	kubeletAccess = "/etc/kubernetes/kubelet.conf"
	kubeletDirs   = []string{"/var/lib/rancher/k3s/agent/etc/kubelet.conf.d",
		"/var/lib/rancher/rke2/agent/etc/kubelet.conf.d"}
)

// readKubelet gives what can be known; a file that is not there or not visible
// leaves the defaults. The error is one of a file that cannot be read or understood, or
// that more than one process may be the kubelet.
func readKubelet(h *probe.Host) (kubelet, error) {
	var k kubelet
	pid, args, err := nodesDaemon(h, "kubelet")
	if err != nil {
		return k, err
	}
	k.pid, k.access = pid, cmp.Or(flagOf(args, "--kubeconfig"), kubeletAccess)
	config := cmp.Or(flagOf(args, "--config"), kubeletConfig)
	if err := k.read(h, config); err != nil {
		return k, err
	}
	dirs := []string{flagOf(args, "--config-dir")}
	if pid == 0 && k.config == "" {
		dirs = kubeletDirs
	}
	for _, dir := range dirs {
		names, err := dropIns(h, dir)
		if err != nil {
			return k, err
		}
		for _, name := range names {
			if err := k.read(h, name); err != nil {
				return k, err
			}
		}
	}
	if v := flagOf(args, "--container-runtime-endpoint"); v != "" {
		k.RuntimeEndpoint = v
	}
	if v := flagOf(args, "--fail-swap-on"); v != "" {
		k.FailSwapOn = new(v != "false")
	}
	if v := flagOf(args, "--cluster-domain"); v != "" {
		k.ClusterDomain = v
	}
	if v := flagOf(args, "--cluster-dns"); v != "" {
		k.ClusterDNS = strings.Split(v, ",")
	}
	if v := flagOf(args, "--resolv-conf"); v != "" {
		k.ResolvConf = v
	}
	if v := flagOf(args, "--healthz-bind-address"); v != "" {
		k.HealthzBindAddress = v
	}
	if v := flagOf(args, "--address"); v != "" {
		k.Address = v
	}
	if n, err := strconv.Atoi(flagOf(args, "--healthz-port")); err == nil {
		k.HealthzPort = &n
	}
	return k, nil
}

// read lays the settings of a file over what is known.
func (k *kubelet) read(h *probe.Host, name string) error {
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
	k.config = cmp.Or(k.config, name)
	return nil
}

// dropIns lists the files of a --config-dir in the order in which the kubelet
// reads them.
func dropIns(h *probe.Host, dir string) ([]string, error) {
	if dir == "" {
		return nil, nil
	}
	names, err := h.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, probe.ErrNotVisible) {
		return nil, nil // none is the rule
	}
	var out []string
	for _, name := range names {
		if path.Ext(name) == ".conf" {
			out = append(out, path.Join(dir, name))
		}
	}
	return out, err
}

// runtimeSocket is the path of the socket the kubelet is told to ask its runtime
// on, "" when that is not known.
func (k kubelet) runtimeSocket() string {
	name := strings.TrimPrefix(k.RuntimeEndpoint, "unix://")
	if !path.IsAbs(name) {
		return ""
	}
	return path.Clean(name)
}

// seen tells whether the settings come from the kubelet and not from its defaults
// alone.
func (k kubelet) seen() bool { return k.config != "" || k.pid != 0 }

// takesSwap tells whether this kubelet starts with swap on.
func (k kubelet) takesSwap() bool { return k.FailSwapOn != nil && !*k.FailSwapOn }

// healthz is where it answers to everybody; false when that is turned off.
func (k kubelet) healthz() (netip.AddrPort, bool) {
	port, addr := 10248, netip.MustParseAddr("127.0.0.1")
	if k.HealthzPort != nil {
		port = *k.HealthzPort
	}
	if a, err := netip.ParseAddr(k.HealthzBindAddress); err == nil && !a.IsUnspecified() {
		addr = a
	}
	return netip.AddrPortFrom(addr, uint16(port)), port > 0
}

// api is where it answers the API server.
func (k kubelet) api() netip.AddrPort {
	port, addr := 10250, netip.MustParseAddr("127.0.0.1")
	if k.Port > 0 {
		port = k.Port
	}
	if a, err := netip.ParseAddr(k.Address); err == nil && !a.IsUnspecified() {
		addr = a
	}
	return netip.AddrPortFrom(addr, uint16(port))
}

// flagOf is the value of a flag given as --name=value or --name value.
func flagOf(args []string, name string) string {
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
