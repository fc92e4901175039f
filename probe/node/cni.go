package node

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// CNIPlace is a location of CNI configuration and plugins.
type CNIPlace struct {
	Config   string
	Plugins  []string
	Reported bool // true if the runtime itself reports this location
	Loopback bool // true if the runtime also runs the loopback plugin for every pod
	Calicos  bool // true if Calico assigns the addresses of the node's pods, so that their network is Calico's
}

// CNIPlaces lists the locations to search if the runtime does not report one. They are the defaults, those of k3s
// and RKE2, and that of MicroK8s. On OpenShift, there is one for CRI-O and one for the plugins that Multus calls.
var CNIPlaces = []CNIPlace{
	{Config: "/etc/cni/net.d", Plugins: []string{"/opt/cni/bin"}},
	{Config: "/var/lib/rancher/k3s/agent/etc/cni/net.d", Plugins: []string{"/var/lib/rancher/k3s/data/current/bin"}},
	{Config: "/var/snap/microk8s/current/args/cni-network", Plugins: []string{"/var/snap/microk8s/current/opt/cni/bin"}},
	{Config: "/etc/kubernetes/cni/net.d", Plugins: []string{"/var/lib/cni/bin"}},
	{Config: "/run/multus/cni/net.d", Plugins: []string{"/var/lib/cni/bin"}},
}

// Network is the part of a file that the runtime uses.
type Network struct {
	File    string
	Plugins []string
	Assigns []string // address families, if Calico's IPAM is used
	Err     error
	Unread  bool // this probe could not read the file, but the runtime may be able to
}

// NetworksIn reads the files in a directory in the same way as the runtimes (libcni).
func NetworksIn(h *probe.Host, dir string) ([]Network, error) {
	names, err := h.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []Network
	for _, name := range names {
		if !slices.Contains([]string{".conf", ".conflist", ".json"}, path.Ext(name)) {
			continue
		}
		n := Network{File: path.Join(dir, name)}
		text, err := h.ReadFile(n.File)
		n.Unread = err != nil && !errors.Is(err, fs.ErrNotExist)
		if err == nil {
			n.Plugins, n.Assigns, err = pluginsIn(text)
		}
		n.Err = err
		out = append(out, n)
	}
	return out, nil
}

// pluginsIn lists the plugins that a file names, including IPAM. It also lists the address families that calico-ipam
// assigns: IPv4 unless assign_ipv4 is "false", and IPv6 only if assign_ipv6 is "true" (cni-plugin, ipam_plugin.go).
func pluginsIn(text []byte) (names, assigns []string, err error) {
	type plugin struct {
		Type string `json:"type"`
		IPAM struct {
			Type string          `json:"type"`
			Four json.RawMessage `json:"assign_ipv4"`
			Six  json.RawMessage `json:"assign_ipv6"`
		} `json:"ipam"`
	}
	var file struct {
		plugin
		Plugins []plugin `json:"plugins"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, nil, err
	}
	for _, p := range append([]plugin{file.plugin}, file.Plugins...) {
		for _, t := range []string{p.Type, p.IPAM.Type} {
			if t != "" {
				names = append(names, t)
			}
		}
		if p.IPAM.Type == "calico-ipam" && string(p.IPAM.Four) != `"false"` {
			assigns = append(assigns, FamilyText(4))
		}
		if p.IPAM.Type == "calico-ipam" && string(p.IPAM.Six) == `"true"` {
			assigns = append(assigns, FamilyText(6))
		}
	}
	return names, assigns, nil
}

// pluginSet holds the settings of Calico's plugin that concern its files (cni-plugin, types.NetConf).
type pluginSet struct {
	Type         string `json:"type"`
	Nodename     string `json:"nodename"`
	NodenameFile string `json:"nodename_file"`
	LockFile     string `json:"ipam_lock_file"`
}

func (s pluginSet) WhereNodename() string { return cmp.Or(s.NodenameFile, probe.PlaceLib+"/nodename") }

// NodenameFile returns the file from which Calico's CNI plugin reads the node's name.
func NodenameFile(h *probe.Host) string {
	set, _ := PluginSettings(h)
	return set.WhereNodename()
}

// PluginSettings returns the settings of Calico's plugin, and the file that contains them.
func PluginSettings(h *probe.Host) (set pluginSet, file string) {
	for _, place := range CNIPlaces {
		networks, err := NetworksIn(h, place.Config)
		if err != nil {
			continue
		}
		for _, n := range networks {
			if slices.Contains(n.Plugins, "calico") {
				return settingsIn(h, n.File), n.File
			}
		}
	}
	return pluginSet{}, ""
}

// settingsIn reads the settings of Calico's plugin from a file. A placeholder from a template does not count as a name.
func settingsIn(h *probe.Host, file string) pluginSet {
	var list struct {
		Plugins []pluginSet `json:"plugins"`
	}
	text, err := h.ReadFile(file)
	if err != nil || json.Unmarshal(text, &list) != nil {
		return pluginSet{}
	}
	for _, p := range list.Plugins {
		if p.Type != "calico" {
			continue
		}
		if strings.HasPrefix(p.Nodename, "__") {
			p.Nodename = ""
		}
		if path.Base(p.NodenameFile) != "nodename" { // do not quote any other file
			p.NodenameFile = ""
		}
		return p
	}
	return pluginSet{}
}
