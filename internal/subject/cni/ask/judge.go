package ask

import (
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
)

// judgeNetworks evaluates the networks in a folder. The runtime uses the first network. For another network,
// judgeNetworks looks for the plugins only if the runtime reports its plugin folders, because CRI-O has several.
func judgeNetworks(h *probe.Host, networks []node.Network, place node.CNIPlace) probe.Result {
	first := networks[0]
	needs := slices.Clone(first.Plugins)
	if place.Loopback {
		needs = append(needs, "loopback")
	}
	missing := missingPlugins(h, needs, place.Plugins)
	r := judgeFirst(h, networks, place.Calicos)
	if r.Status == probe.OK || r.Status == probe.Info && place.Reported {
		r = judgePlugins(h, r, first.File, needs, missing, place.Plugins)
	}
	if len(first.Assigns) > 0 {
		r = r.With(cni.FactAssigns, first.Assigns)
	}
	return r.With(probe.FactFile, first.File).With(cni.FactPlugins, first.Plugins).With(probe.FactMissing, missing)
}

// judgeFirst evaluates whether the first network is Calico's. If there is a backup of Calico's file next to
// another network, it is a fault only if the pods' network is Calico's. Otherwise, Calico may only enforce policy.
func judgeFirst(h *probe.Host, networks []node.Network, calicosPods bool) probe.Result {
	first := networks[0]
	named := strings.Join(first.Plugins, ", ")
	calicos := slices.IndexFunc(networks, func(n node.Network) bool { return slices.Contains(n.Plugins, "calico") })
	aside := renamedConfig(h, path.Dir(first.File))
	switch {
	case first.Unread:
		return probe.Found(probe.Unknown, "could not read the runtime's first network configuration: %v", first.Err)
	case first.Err != nil:
		return probe.Found(probe.Fail, "the runtime's first network configuration, %s, cannot be used: %v", first.File,
			first.Err).With(probe.FactReason, cni.CNIUnusable)
	case isMultus(first):
		return probe.Found(probe.Info, "%s is used: Multus, which delegates to other networks", first.File)
	case calicos > 0:
		return probe.Found(probe.Fail, "%s comes first and names %s; Calico's %s is not used", first.File, named,
			networks[calicos].File).With(cni.FactBehind, networks[calicos].File).With(probe.FactReason, cni.CNIShadowed)
	case calicos < 0 && aside != "" && calicosPods:
		return probe.Found(probe.Fail, "%s is used, with the plugins %s; Calico's configuration was renamed to %s, which the runtime does not read",
			first.File, named, aside).With(cni.FactBehind, aside).With(probe.FactReason, cni.CNIShadowed)
	case calicos < 0:
		return probe.Found(probe.Info,
			"%s names %s, and no file names calico: Calico only enforces policy here, or its file is gone", first.File, named)
	}
	return probe.Found(probe.OK, "%s is used, with the plugins %s", first.File, named)
}

// judgePlugins evaluates whether the runtime can start all plugins of the network in use.
func judgePlugins(h *probe.Host, r probe.Result, file string, needs, missing, bins []string) probe.Result {
	if len(missing) > 0 {
		format := "%s names plugins that are not in %s: %s"
		if slices.Equal(missing, []string{"loopback"}) {
			format = "%s is used, but the plugin that the runtime also runs for each pod is not in %s: %s"
		}
		return probe.Found(probe.Fail, format, file, strings.Join(bins, ", "), strings.Join(missing, ", ")).
			With(probe.FactReason, cni.CNIPlugins)
	}
	if bin, at := mountedNoExec(h, bins); bin != "" {
		return probe.Found(probe.Fail, "%s is mounted noexec (%s), so no plugin in it can be executed", bin, at).
			With(cni.FactFolder, bin).With(probe.FactReason, cni.CNINoExec)
	}
	if alien := alienPlugins(h, needs, bins); len(alien) > 0 {
		return probe.Found(probe.Fail, "plugins that cannot run on this node: %s", strings.Join(alien, ", ")).
			With(cni.FactAlien, alien).With(probe.FactReason, cni.CNIAlien)
	}
	return r
}

// isMultus reports whether a network is Multus, which calls other networks.
func isMultus(n node.Network) bool {
	return slices.Contains(n.Plugins, "multus") || slices.Contains(n.Plugins, "multus-shim")
}

// missingPlugins lists the plugins that are not in any folder. It returns an empty list if a folder is not visible, or
// if no folder exists.
func missingPlugins(h *probe.Host, plugins []string, bins []string) []string {
	missing, seen := append([]string{}, plugins...), false
	for _, bin := range bins {
		there, err := h.ReadDir(bin)
		if errors.Is(err, probe.ErrNotVisible) {
			return []string{}
		}
		if err != nil {
			continue // GKE, OpenShift and others use another folder
		}
		seen = true
		missing = slices.DeleteFunc(missing, func(p string) bool { return slices.Contains(there, path.Base(p)) })
	}
	if !seen {
		return []string{}
	}
	return missing
}

// mountedNoExec returns the first existing folder that is on a file system mounted noexec, and the mount point. Both
// are "" if no such folder exists, or if the mounts are not visible.
func mountedNoExec(h *probe.Host, folders []string) (folder, at string) {
	there := slices.IndexFunc(folders, func(f string) bool { _, err := h.ReadDir(f); return err == nil })
	table, err := kernel.ReadProc(h, "1/mountinfo")
	if err != nil || there < 0 {
		return "", ""
	}
	folder = folders[there]
	noexec := false
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 6 || f[4] != "/" && f[4] != folder && !strings.HasPrefix(folder, f[4]+"/") || len(f[4]) < len(at) {
			continue
		}
		at, noexec = f[4], slices.Contains(strings.Split(f[5], ","), "noexec") // a later mount covers an earlier one
	}
	if !noexec {
		return "", ""
	}
	return folder, at
}
