package checks

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// CNINodename asks for the file by which Calico's plugin knows on which node it
// is; it also tells when calico-node last got through its start-up.
var CNINodename = &probe.Check{
	ID: "cni-nodename", Asks: "does Calico know this node by the name Kubernetes has for it?", From: probe.FromNode,
	Tags: []string{tagCNI}, Access: []string{"var/lib/calico", "etc/cni/net.d", "proc"}, Run: probe.Once(cniNodename),
	Doc: `calico-node writes the node's name to /var/lib/calico/nodename at the end of its start-up; Calico's CNI plugin reads it for every pod.
ok: the file has the name Kubernetes uses. fail: it is missing ("check that the calico/node container is running and has mounted /var/lib/calico/"), so no pod gets a network; or it has another name, so addresses are allocated to a node that does not exist.
The plugin prefers the nodename of its own configuration, and reads the file that nodename_file there names, as MicroK8s sets it.
info: the name is another one, and calico-node is set to that (CALICO_K8S_NODE_REF names the Node of Kubernetes); or the node's name in Kubernetes is not known here. skip: not visible by this access method.`,
}

// factName is a name as it was read.
const factName probe.Fact = "name"

func cniNodename(_ context.Context, h *probe.Host) probe.Result {
	set, from := pluginSettings(h)
	file, kept := set.nodenameFile(), h.Place(probe.PlaceLib)+"/nodename"
	text, written, err := nodename(h, file)
	switch {
	case errors.Is(err, probe.ErrNotVisible):
		return unseen(err)
	case errors.Is(err, fs.ErrNotExist) && file != kept && set.Nodename == "":
		return unlikePlaces(h, file, kept)
	case errors.Is(err, fs.ErrNotExist):
		return probe.Found(probe.Fail, "no %s: calico-node has not finished its start-up on this node", file).
			With(probe.FactReason, "missing")
	case err != nil:
		return probe.Failed(err)
	}
	name, told := strings.TrimSpace(string(text)), ""
	if set.Nodename != "" && set.Nodename != name {
		name, told = set.Nodename, " by "+from
	}
	r := probe.Found(probe.OK, "%q%s, the name Kubernetes uses", name, told)
	switch {
	case h.Node == "":
		r = probe.Found(probe.Info, "%q; the node's name in Kubernetes is not known here", name)
	case name != h.Node && isNodeRef(h, name):
		r = probe.Found(probe.Info, "%q%s, and calico-node is set to take it for Kubernetes' %q (CALICO_K8S_NODE_REF)", name,
			told, h.Node)
	case name != h.Node:
		r = probe.Found(probe.Fail,
			"%q%s, but Kubernetes calls this node %q: Calico allocates its addresses to another node", name, told, h.Node).
			With(probe.FactReason, "other")
	}
	age := time.Since(written).Round(time.Second)
	r.Saw += ", written " + age.String() + " ago"
	return r.With(FactSince, int(age.Seconds())).With(factName, name)
}

// unlikePlaces is the result where the CNI plugin's file is missing, and calico-node writes another one.
func unlikePlaces(h *probe.Host, file, kept string) probe.Result {
	r := probe.Found(probe.Fail, "no %s, which the CNI plugin reads, and no %s, which calico-node writes: calico-node has not finished its start-up on this node", file, kept)
	if _, err := h.Stat(kept); err == nil {
		r = probe.Found(probe.Fail, "no %s, which the CNI plugin reads: calico-node writes %s", file, kept)
	}
	return r.With(probe.FactReason, "missing")
}

// pluginSet are settings of Calico's plugin that say where it keeps things (cni-plugin, types.NetConf).
type pluginSet struct {
	Type         string `json:"type"`
	Nodename     string `json:"nodename"`
	NodenameFile string `json:"nodename_file"`
	LockFile     string `json:"ipam_lock_file"`
}

func (s pluginSet) nodenameFile() string { return cmp.Or(s.NodenameFile, probe.PlaceLib+"/nodename") }

// NodenameFile returns the file from which Calico's CNI plugin reads the node's name.
func NodenameFile(h *probe.Host) string {
	set, _ := pluginSettings(h)
	return set.nodenameFile()
}

// pluginSettings returns what the configuration of Calico's plugin sets, and the file it is in.
func pluginSettings(h *probe.Host) (set pluginSet, file string) {
	for _, place := range cniPlaces {
		networks, err := networksIn(h, place.config)
		if err != nil {
			continue
		}
		for _, n := range networks {
			if slices.Contains(n.plugins, "calico") {
				return settingsIn(h, n.file), n.file
			}
		}
	}
	return pluginSet{}, ""
}

// settingsIn reads the settings of Calico's plugin in a file. A template's own placeholder is no name.
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
		if path.Base(p.NodenameFile) != "nodename" { // no other file is quoted
			p.NodenameFile = ""
		}
		return p
	}
	return pluginSet{}
}

// isNodeRef tells whether calico-node is set to have another name than its Node in Kubernetes.
func isNodeRef(h *probe.Host, name string) bool {
	p, ok, err := calicoProcess(h, "felix")
	if err != nil || !ok {
		return false
	}
	set, _ := environmentOf(h, p.PID, "CALICO_K8S_NODE_REF", "NODENAME")
	return set["CALICO_K8S_NODE_REF"] == h.Node && set["NODENAME"] == name
}

// nodename reads the file, and when it was written.
func nodename(h *probe.Host, file string) (text []byte, written time.Time, err error) {
	f, err := h.Open(file)
	if err != nil {
		return nil, written, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, written, fmt.Errorf("looking at %s: %w", file, err)
	}
	text, err = probe.ReadWhole(f, file, 1<<10)
	return text, info.ModTime(), err
}
