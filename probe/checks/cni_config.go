package checks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// CNIConfig asks which network plugin the runtime would call: it takes the first
// file by name, so what another network left behind may come before Calico's.
var CNIConfig = &probe.Check{
	ID: "cni-config", Asks: "does the container runtime use Calico's network configuration, and are its plugins there?", From: probe.FromNode,
	Tags: []string{tagCNI}, Access: []string{"etc/cni/net.d", "opt/cni/bin"}, Run: probe.Once(cniConfig),
	Doc: `The runtime reads /etc/cni/net.d in the order of names and uses the first file with a network in it. install-cni writes 10-calico.conflist there and puts the plugins into /opt/cni/bin.
ok: the first file is Calico's (or Canal's), and every plugin it names is there. fail: there is none, so no pod gets a network and the node is NotReady; or another plugin's file comes first; or the file cannot be understood; or a plugin it names is missing from /opt/cni/bin. info: Multus comes first and calls others; or no file names Calico, as where it does policy alone.
skip: not visible this way onto the node. Distributions that keep these files elsewhere (k3s, RKE2, MicroK8s) are looked at there.`,
}

// Facts of cni-config.
const (
	FactFile    probe.Fact = "file"    // the one the runtime uses
	FactPlugins probe.Fact = "plugins" // types it names, in order
	FactMissing probe.Fact = "missing" // of these, not in the plugin directory
	FactBehind  probe.Fact = "behind"  // Calico's file, when another comes first
)

// cniPlaces are where the files and plugins are: the usual place, k3s and RKE2,
// MicroK8s.
var cniPlaces = []struct{ config, plugins string }{
	{"/etc/cni/net.d", "/opt/cni/bin"},
	{"/var/lib/rancher/k3s/agent/etc/cni/net.d", "/var/lib/rancher/k3s/data/current/bin"},
	{"/var/snap/microk8s/current/args/cni-network", "/var/snap/microk8s/current/opt/cni/bin"},
}

// network is what the runtime reads of one file.
type network struct {
	file    string
	plugins []string
	err     error
}

func cniConfig(_ context.Context, h *probe.Host) probe.Result {
	var odd error
	hidden := 0
	for _, place := range cniPlaces {
		networks, err := networksIn(h, place.config)
		switch {
		case errors.Is(err, probe.ErrNotVisible):
			hidden++
		case err != nil && !errors.Is(err, fs.ErrNotExist) && odd == nil:
			odd = err
		}
		if err != nil {
			continue
		}
		if len(networks) > 0 {
			return judgeNetworks(h, networks, place.plugins)
		}
	}
	switch {
	case odd != nil:
		return unseen(odd)
	case hidden == len(cniPlaces):
		return unseen(fmt.Errorf("%s: %w", cniPlaces[0].config, probe.ErrNotVisible))
	}
	return probe.Found(probe.Fail, "no network configuration in %s: install-cni has not run, or its file was removed", cniPlaces[0].config)
}

// networksIn reads the files of a directory as the runtimes do (libcni).
func networksIn(h *probe.Host, dir string) ([]network, error) {
	full, err := h.Path(dir)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(full) // in the order of names
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", dir, errors.Unwrap(err))
	}
	var out []network
	for _, e := range entries {
		if !slices.Contains([]string{".conf", ".conflist", ".json"}, filepath.Ext(e.Name())) {
			continue
		}
		n := network{file: filepath.Join(dir, e.Name())}
		text, err := h.ReadFile(n.file)
		if err == nil {
			n.plugins, err = pluginsIn(text)
		}
		n.err = err
		out = append(out, n)
	}
	return out, nil
}

// pluginsIn lists the plugins a file names, those for addresses too.
func pluginsIn(text []byte) ([]string, error) {
	type plugin struct {
		Type string `json:"type"`
		IPAM struct {
			Type string `json:"type"`
		} `json:"ipam"`
	}
	var file struct {
		plugin
		Plugins []plugin `json:"plugins"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, err
	}
	var out []string
	for _, p := range append([]plugin{file.plugin}, file.Plugins...) {
		for _, t := range []string{p.Type, p.IPAM.Type} {
			if t != "" {
				out = append(out, t)
			}
		}
	}
	return out, nil
}

func judgeNetworks(h *probe.Host, networks []network, bin string) probe.Result {
	first := networks[0]
	calicos := slices.IndexFunc(networks, func(n network) bool { return slices.Contains(n.plugins, "calico") })
	missing := missingPlugins(h, first.plugins, bin)
	var r probe.Result
	switch {
	case first.err != nil:
		r = probe.Found(probe.Fail, "the runtime's first network configuration, %s, cannot be used: %v", first.file, first.err)
	case slices.Contains(first.plugins, "multus") || slices.Contains(first.plugins, "multus-shim"):
		r = probe.Found(probe.Info, "%s is used: Multus, which calls other networks", first.file)
	case calicos > 0:
		r = probe.Found(probe.Fail, "%s comes first and names %s; Calico's %s is not used", first.file, strings.Join(first.plugins, ", "), networks[calicos].file).
			With(FactBehind, networks[calicos].file)
	case calicos < 0:
		r = probe.Found(probe.Info, "%s names %s, and no file names calico: here Calico does policy alone, or its file is gone", first.file, strings.Join(first.plugins, ", "))
	case len(missing) > 0:
		r = probe.Found(probe.Fail, "%s names plugins that are not in %s: %s", first.file, bin, strings.Join(missing, ", "))
	default:
		r = probe.Found(probe.OK, "%s is used and names %s", first.file, strings.Join(first.plugins, ", "))
	}
	return r.With(FactFile, first.file).With(FactPlugins, first.plugins).With(FactMissing, missing)
}

// missingPlugins lists the plugins that are not in a directory; where that is not
// visible, none is claimed to be missing.
func missingPlugins(h *probe.Host, plugins []string, bin string) []string {
	missing := []string{}
	full, err := h.Path(bin)
	if err == nil {
		_, err = os.Stat(full) // elsewhere on GKE, OpenShift and others
	}
	if err != nil {
		return missing
	}
	for _, p := range plugins {
		if _, err := os.Lstat(filepath.Join(full, filepath.Base(p))); errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, p)
		}
	}
	return missing
}
