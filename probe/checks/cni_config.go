package checks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/calico-probe/calico-probe/probe"
)

// CNIConfig asks which network plugin the runtime would call: it takes the first
// file by name, so what another network left behind may come before Calico's.
var CNIConfig = &probe.Check{
	ID: "cni-config", Asks: "does the container runtime use Calico's network configuration, and are its plugins there?", From: probe.FromNode,
	Tags: []string{tagCNI}, Access: []string{"etc/cni/net.d", "opt/cni/bin", "run", "uid 0"}, Run: cniConfig,
	Doc: `The runtime reads /etc/cni/net.d in the order of names and uses the first file with a network in it. install-cni writes 10-calico.conflist there and puts the plugins into /opt/cni/bin.
ok: the first file is Calico's (or Canal's), and every plugin it names is there. fail: there is none where the runtime says it reads, or in the usual places of containerd and docker, so no pod gets a network and the node is NotReady; or another plugin's file comes first, or is alone there because Calico's was renamed, as Cilium does; or the file cannot be understood; or a plugin it names is missing from /opt/cni/bin; or that folder is mounted noexec, so that none of them can be started; or a plugin is for another CPU, empty, cut short, or no program (the kernel: exec format error), or its mode forbids to execute it; or the plugin loopback, which containerd runs for every pod, is not there; or it requests addresses of a family without an enabled IP pool; or containerd says that it found no file there, and has no network, while the file is older than that. info: Multus comes first and calls others; or no file names Calico, as where it does policy alone.
unknown: there is none in the usual places, and the runtime, which is another or not known, does not say where it reads; or the first file is not read: it is a named pipe or too long, or this probe may not. skip: not visible by this access method. Where containerd says that it reads these files elsewhere, or else in the usual places of distributions that keep them elsewhere (k3s, RKE2, MicroK8s, OpenShift), they are looked at there.`,
}

// Facts of cni-config.
const (
	FactFile     probe.Fact = "file"     // the one the runtime uses
	FactPlugins  probe.Fact = "plugins"  // types it names, in order
	FactMissing  probe.Fact = "missing"  // of these, not in the plugin directory
	FactBehind   probe.Fact = "behind"   // Calico's file, when another comes first
	FactFolder   probe.Fact = "folder"   // that of the plugins, if mounted noexec; that the runtime reads, if not Calico's
	FactAlien    probe.Fact = "alien"    // of these, what cannot run on this CPU, each with why
	FactBinaries probe.Fact = "found_in" // where the missing plugins are, and the runtime does not look
	FactAssigns  probe.Fact = "assigns"  // list of the families that Calico's IPAM assigns a pod: IPv4, IPv6
	FactLacking  probe.Fact = "lacking"  // of these, without an enabled pool
)

// Why Calico's network configuration is not used.
const (
	CNINone = "none" // there is no file at all
	// there is no file where the runtime reads, and Calico's is in another folder
	CNIElsewhere = "elsewhere"
	CNIUnusable  = "unusable" // the first file cannot be understood
	CNIShadowed  = "shadowed" // another network's file comes first
	CNIPlugins   = "plugins"  // a program that it names is not there
	CNINoExec    = "noexec"   // none of its programs may be executed
	CNIAlien     = "alien"    // a program that it names is for another CPU, or is no program
	CNIFamily    = "family"   // it requests addresses of a family without a pool
	CNIUnread    = "unread"   // it is there, and the runtime says that it found none
)

// cniPlace is where files and plugins are.
type cniPlace struct {
	config   string
	plugins  []string
	told     bool // the runtime itself says that it reads there
	loopback bool // it runs the plugin loopback for every pod beside those of the network
	calicos  bool // Calico gives the node's pods their addresses, so their network is Calico's
}

// cniPlaces are looked at where the runtime does not say: the usual place, k3s and
// RKE2, MicroK8s, OpenShift's for CRI-O and for those that Multus calls.
var cniPlaces = []cniPlace{
	{config: "/etc/cni/net.d", plugins: []string{"/opt/cni/bin"}},
	{config: "/var/lib/rancher/k3s/agent/etc/cni/net.d", plugins: []string{"/var/lib/rancher/k3s/data/current/bin"}},
	{config: "/var/snap/microk8s/current/args/cni-network", plugins: []string{"/var/snap/microk8s/current/opt/cni/bin"}},
	{config: "/etc/kubernetes/cni/net.d", plugins: []string{"/var/lib/cni/bin"}},
	{config: "/run/multus/cni/net.d", plugins: []string{"/var/lib/cni/bin"}},
}

// network is what the runtime reads of one file.
type network struct {
	file    string
	plugins []string
	assigns []string // families of addresses, where the IPAM is Calico's
	err     error
	unread  bool // the error is this probe's, who could not read it, and perhaps not the runtime's
}

func cniConfig(ctx context.Context, p *probe.Pass) {
	places, sure := slices.Clone(cniPlaces), false
	told, ok := askPlace(ctx, p)
	if ok {
		places, sure = []cniPlace{told.cniPlace}, true
	}
	for i := range places {
		places[i].calicos = len(p.Of(probe.KindBlock)) > 0
	}
	kind, _ := runtimeOf(p)
	r := networksAt(p.Host, places, sure || kind == "containerd" || kind == "docker")
	if sure {
		r = told.unread(p.Host, foundElsewhere(p.Host, r, places[0]), time.Now())
	}
	p.Report(withPools(p, r))
}

// foundElsewhere looks where Calico writes for what is not where the runtime says that it reads
// (projectcalico/calico#4308).
func foundElsewhere(h *probe.Host, r probe.Result, told cniPlace) probe.Result {
	for _, place := range cniPlaces {
		switch {
		case r.Facts.Str(probe.FactReason) == CNINone && place.config != told.config:
			networks, err := networksIn(h, place.config)
			i := slices.IndexFunc(networks, func(n network) bool { return slices.Contains(n.plugins, "calico") })
			if err != nil || i < 0 {
				continue
			}
			return probe.Found(probe.Fail, "the runtime reads %s, where no network configuration is; Calico's is %s",
				told.config, networks[i].file).With(FactFolder, told.config).With(FactBehind, networks[i].file).
				With(probe.FactReason, CNIElsewhere)
		case r.Facts.Str(probe.FactReason) == CNIPlugins && !slices.Contains(told.plugins, place.plugins[0]):
			if _, err := h.ReadDir(place.plugins[0]); err != nil {
				continue
			}
			missing, _ := r.Facts[FactMissing].([]string)
			if len(missingPlugins(h, missing, place.plugins)) > 0 {
				continue
			}
			r.Saw += fmt.Sprintf("; they are in %s, where the runtime does not look", place.plugins[0])
			return r.With(FactBinaries, place.plugins[0])
		}
	}
	return r
}

// cniTold is what containerd says of its network configuration.
type cniTold struct {
	cniPlace
	load    string // how its last look there ended: "OK", an error, "" = it does not say
	without bool   // it has no network
}

// cniRead is how old a file, and the folder it is in, are at least by when containerd has read them: it does so
// within a second of each change.
const cniRead = 30 * time.Second

// unread turns a good answer into a bad one where containerd says that it found no file there and has no network
// since: its watch of a folder that was removed or renamed is not set up again (containerd/containerd#11209).
func (c cniTold) unread(h *probe.Host, r probe.Result, now time.Time) probe.Result {
	if r.Status != probe.OK || !c.without || !strings.Contains(c.load, "no network config found in") {
		return r
	}
	for _, name := range []string{r.Facts.Str(FactFile), c.config} {
		if info, err := h.Stat(name); err != nil || now.Sub(info.ModTime()) < cniRead {
			return r
		}
	}
	out := probe.Found(probe.Fail, "%s is there, and the runtime has not read it: %s", r.Facts.Str(FactFile), probe.Quoted(c.load))
	out.Facts = r.Facts
	return out.With(probe.FactReason, CNIUnread)
}

// toldPlace asks containerd where it reads; false when it does not say.
func toldPlace(ctx context.Context, p *probe.Pass) (cniPlace, bool) {
	told, ok := askPlace(ctx, p)
	return told.cniPlace, ok
}

// askPlace asks containerd where it reads, and what came of it; false when it does not say.
func askPlace(ctx context.Context, p *probe.Pass) (cniTold, bool) {
	one, _, cancel := part(ctx, 2)
	defer cancel()
	name, err := findSocket(p.Host, criSockets(p))
	if err != nil {
		return cniTold{}, false
	}
	client, hangUp, err := criAt(p.Host, name)
	if err != nil {
		return cniTold{}, false
	}
	defer hangUp()
	a, err := client.Status(one, &cri.StatusRequest{Verbose: true})
	if err != nil {
		return cniTold{}, false // for cri-health to say
	}
	place, ok := placeIn([]byte(a.GetInfo()["config"]))
	without := slices.ContainsFunc(a.GetStatus().GetConditions(),
		func(c *cri.RuntimeCondition) bool { return c.GetType() == cri.NetworkReady && !c.GetStatus() })
	return cniTold{place, a.GetInfo()["lastCNILoadStatus"], without}, ok
}

// placeIn reads the directories out of containerd's configuration, which once
// had one directory of plugins and now has several.
func placeIn(config []byte) (cniPlace, bool) {
	var told struct {
		CNI struct {
			ConfDir string   `json:"confDir"`
			BinDir  string   `json:"binDir"`
			BinDirs []string `json:"binDirs"`
			// UseInternalLoopback is of containerd v2: it then needs no plugin for a pod's loopback.
			UseInternalLoopback bool `json:"useInternalLoopback"`
		} `json:"cni"`
	}
	if json.Unmarshal(config, &told) != nil || !path.IsAbs(told.CNI.ConfDir) {
		return cniPlace{}, false
	}
	plugins := told.CNI.BinDirs
	if len(plugins) == 0 {
		plugins = []string{told.CNI.BinDir}
	}
	return cniPlace{config: told.CNI.ConfDir, plugins: plugins, told: true, loopback: !told.CNI.UseInternalLoopback}, true
}

// networksAt judges the first place that has Calico's network or Multus, else the first that has any: CRI-O
// comes with one of its own and reads elsewhere on OpenShift. That none has is a fault
// only where these are sure to be all.
func networksAt(h *probe.Host, places []cniPlace, sure bool) probe.Result {
	var odd error
	var other func() probe.Result // of a place where nothing is Calico's
	hidden := 0
	for _, place := range places {
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
		judge := func() probe.Result { return judgeNetworks(h, networks, place) }
		switch {
		case slices.ContainsFunc(networks,
			func(n network) bool { return isMultus(n) || slices.Contains(n.plugins, "calico") }):
			return judge()
		case len(networks) > 0 && other == nil: // CRI-O brings one of its own and may read elsewhere
			other = judge
		}
	}
	switch {
	case other != nil:
		return other()
	case odd != nil:
		return unseen(odd)
	case hidden == len(places):
		return unseen(fmt.Errorf("%s: %w", places[0].config, probe.ErrNotVisible))
	case !sure:
		return probe.Found(probe.Unknown,
			"no network configuration in %s and the other usual places, and the runtime does not say which directory it reads", places[0].config)
	}
	if aside := setAside(h, places[0].config); aside != "" {
		return probe.Found(probe.Fail, "no network configuration in %s under a name that the runtime reads: Calico's configuration was renamed to %s",
			places[0].config, aside).With(probe.FactReason, CNINone)
	}
	return probe.Found(probe.Fail, "no network configuration in %s: install-cni has not run, or its file was removed",
		places[0].config).With(probe.FactReason, CNINone)
}

// networksIn reads the files of a directory as the runtimes do (libcni).
func networksIn(h *probe.Host, dir string) ([]network, error) {
	names, err := h.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []network
	for _, name := range names {
		if !slices.Contains([]string{".conf", ".conflist", ".json"}, path.Ext(name)) {
			continue
		}
		n := network{file: path.Join(dir, name)}
		text, err := h.ReadFile(n.file)
		n.unread = err != nil && !errors.Is(err, fs.ErrNotExist)
		if err == nil {
			n.plugins, n.assigns, err = pluginsIn(text)
		}
		n.err = err
		out = append(out, n)
	}
	return out, nil
}

// pluginsIn lists the plugins a file names, those for addresses too, and the families that calico-ipam assigns: IPv4
// unless assign_ipv4 is "false", IPv6 only where assign_ipv6 is "true" (cni-plugin, ipam_plugin.go).
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
			assigns = append(assigns, familyText(4))
		}
		if p.IPAM.Type == "calico-ipam" && string(p.IPAM.Six) == `"true"` {
			assigns = append(assigns, familyText(6))
		}
	}
	return names, assigns, nil
}
