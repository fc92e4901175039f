package ask

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

	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/criconn"
	"github.com/calico-probe/calico-probe/probe/node"
)

// cniConfigCheck binds cni.CNIConfig to the function that runs it.
var cniConfigCheck = answers.To(cni.CNIConfig, cniConfig)

func cniConfig(ctx context.Context, p *probe.Pass) {
	places, sure := slices.Clone(node.CNIPlaces), false
	used, ok := queryRuntime(ctx, p)
	if ok {
		places, sure = []node.CNIPlace{used.CNIPlace}, true
	}
	for i := range places {
		places[i].Calicos = len(p.Of(probe.KindBlock)) > 0
	}
	kind, _ := node.RuntimeOf(p)
	r := networksAt(p.Host, places, sure || kind == "containerd" || kind == "docker")
	if sure {
		r = used.withLoadStatus(p.Host, searchElsewhere(p.Host, r, places[0]), time.Now())
	}
	p.Report(withPools(p, r))
}

// searchElsewhere looks in Calico's usual folders for files that are missing in the runtime's
// folders (projectcalico/calico#4308).
func searchElsewhere(h *probe.Host, r probe.Result, used node.CNIPlace) probe.Result {
	for _, place := range node.CNIPlaces {
		switch {
		case r.Facts.Str(probe.FactReason) == cni.CNINone && place.Config != used.Config:
			networks, err := node.NetworksIn(h, place.Config)
			i := slices.IndexFunc(networks, func(n node.Network) bool { return slices.Contains(n.Plugins, "calico") })
			if err != nil || i < 0 {
				continue
			}
			return probe.Found(probe.Fail, "no network configuration in %s, which the runtime reads; Calico's file is %s",
				used.Config, networks[i].File).With(cni.FactFolder, used.Config).With(cni.FactBehind, networks[i].File).
				With(probe.FactReason, cni.CNIElsewhere)
		case r.Facts.Str(probe.FactReason) == cni.CNIPlugins && !slices.Contains(used.Plugins, place.Plugins[0]):
			if _, err := h.ReadDir(place.Plugins[0]); err != nil {
				continue
			}
			missing, _ := r.Facts[probe.FactMissing].([]string)
			if len(missingPlugins(h, missing, place.Plugins)) > 0 {
				continue
			}
			r.Saw += fmt.Sprintf("; they are in %s, where the runtime does not look", place.Plugins[0])
			return r.With(cni.FactBinaries, place.Plugins[0])
		}
	}
	return r
}

// runtimeCNI is what containerd reports about its network configuration.
type runtimeCNI struct {
	node.CNIPlace
	load    string // result of its last load: "OK" or an error, "" = not reported
	without bool   // true if NetworkReady is false
}

// minConfigAge is the age from which containerd must have read a file and its folder. containerd reads the folder
// again within a second of each change, so it may not have read a younger file yet.
const minConfigAge = 30 * time.Second

// withLoadStatus turns a good result into a bad one if containerd reports that it found no file and that it still has
// no network. containerd stops watching a folder if the folder is removed or renamed (containerd/containerd#11209).
func (c runtimeCNI) withLoadStatus(h *probe.Host, r probe.Result, now time.Time) probe.Result {
	if r.Status != probe.OK || !c.without || !strings.Contains(c.load, "no network config found in") {
		return r
	}
	for _, name := range []string{r.Facts.Str(probe.FactFile), c.Config} {
		if info, err := h.Stat(name); err != nil || now.Sub(info.ModTime()) < minConfigAge {
			return r
		}
	}
	out := probe.Found(probe.Fail, "%s exists, but the runtime has not read it: %s", r.Facts.Str(probe.FactFile), probe.Quoted(c.load))
	out.Facts = r.Facts
	return out.With(probe.FactReason, cni.CNIUnread)
}

// runtimePlace returns the folders that containerd reports, or false if it does not report any.
func runtimePlace(ctx context.Context, p *probe.Pass) (node.CNIPlace, bool) {
	used, ok := queryRuntime(ctx, p)
	return used.CNIPlace, ok
}

// queryRuntime queries containerd for its folders, and for the result of its last load. It returns false if containerd
// does not report any folders.
func queryRuntime(ctx context.Context, p *probe.Pass) (runtimeCNI, bool) {
	one, _, cancel := node.Part(ctx, 2)
	defer cancel()
	name, err := node.FindSocket(p.Host, node.CRISockets(p))
	if err != nil {
		return runtimeCNI{}, false
	}
	client, hangUp, err := criconn.CRIAt(p.Host, name)
	if err != nil {
		return runtimeCNI{}, false
	}
	defer hangUp()
	a, err := client.Status(one, &cri.StatusRequest{Verbose: true})
	if err != nil {
		return runtimeCNI{}, false // cri-health reports it
	}
	place, ok := placeIn([]byte(a.GetInfo()["config"]))
	without := slices.ContainsFunc(a.GetStatus().GetConditions(),
		func(c *cri.RuntimeCondition) bool { return c.GetType() == cri.NetworkReady && !c.GetStatus() })
	return runtimeCNI{place, a.GetInfo()["lastCNILoadStatus"], without}, ok
}

// placeIn reads the folders from containerd's configuration. Older versions have one plugin folder, and newer
// versions have several.
func placeIn(config []byte) (node.CNIPlace, bool) {
	var reply struct {
		CNI struct {
			ConfDir string   `json:"confDir"`
			BinDir  string   `json:"binDir"`
			BinDirs []string `json:"binDirs"`
			// containerd v2: with UseInternalLoopback, it needs no plugin for a pod's loopback interface.
			UseInternalLoopback bool `json:"useInternalLoopback"`
		} `json:"cni"`
	}
	if json.Unmarshal(config, &reply) != nil || !path.IsAbs(reply.CNI.ConfDir) {
		return node.CNIPlace{}, false
	}
	plugins := reply.CNI.BinDirs
	if len(plugins) == 0 {
		plugins = []string{reply.CNI.BinDir}
	}
	return node.CNIPlace{Config: reply.CNI.ConfDir, Plugins: plugins, Reported: true,
		Loopback: !reply.CNI.UseInternalLoopback}, true
}

// networksAt evaluates the first place that has Calico's network or Multus. If there is none, it evaluates the first
// place that has any network. CRI-O comes with a default network, and reads another folder on OpenShift. Without any
// network, the result is a fault only if the runtime reported its folder (sure).
func networksAt(h *probe.Host, places []node.CNIPlace, sure bool) probe.Result {
	var odd error
	var other func() probe.Result // result for a place without Calico's network
	hidden := 0
	for _, place := range places {
		networks, err := node.NetworksIn(h, place.Config)
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
			func(n node.Network) bool { return isMultus(n) || slices.Contains(n.Plugins, "calico") }):
			return judge()
		case len(networks) > 0 && other == nil: // CRI-O comes with its own network, and may read another folder
			other = judge
		}
	}
	switch {
	case other != nil:
		return other()
	case odd != nil:
		return node.Unseen(odd)
	case hidden == len(places):
		return node.Unseen(fmt.Errorf("%s: %w", places[0].Config, probe.ErrNotVisible))
	case !sure:
		return probe.Found(probe.Unknown,
			"no network configuration in %s or the other usual folders, and the runtime does not report which folder it reads", places[0].Config)
	}
	if aside := renamedConfig(h, places[0].Config); aside != "" {
		return probe.Found(probe.Fail, "no network configuration in %s under a name that the runtime reads: Calico's configuration was renamed to %s",
			places[0].Config, aside).With(probe.FactReason, cni.CNINone)
	}
	return probe.Found(probe.Fail, "no network configuration in %s: install-cni has not run, or its file was removed",
		places[0].Config).With(probe.FactReason, cni.CNINone)
}
