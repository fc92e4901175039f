package checks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
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
The plugin prefers the nodename of its own configuration, where that has one, and so is that judged then.
info: the name is another one, and calico-node is set to that (CALICO_K8S_NODE_REF names the Node of Kubernetes); or the node's name in Kubernetes is not known here. skip: not visible by this access method.`,
}

// factName is a name as it was read.
const factName probe.Fact = "name"

func cniNodename(_ context.Context, h *probe.Host) probe.Result {
	const file = "/var/lib/calico/nodename"
	text, written, err := nodename(h, file)
	switch {
	case errors.Is(err, probe.ErrNotVisible):
		return unseen(err)
	case errors.Is(err, fs.ErrNotExist):
		return probe.Found(probe.Fail, "no %s: calico-node has not finished its start-up on this node", file).
			With(probe.FactReason, "missing")
	case err != nil:
		return probe.Failed(err)
	}
	name, told := strings.TrimSpace(string(text)), ""
	if set, from := nodenameSet(h); set != "" && set != name {
		name, told = set, " by "+from
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

// nodenameSet is the name that the configuration of Calico's plugin has, and the file it is in.
func nodenameSet(h *probe.Host) (name, file string) {
	for _, place := range cniPlaces {
		networks, err := networksIn(h, place.config)
		if err != nil {
			continue
		}
		for _, n := range networks {
			if !slices.Contains(n.plugins, "calico") {
				continue
			}
			var list struct {
				Plugins []struct {
					Type     string `json:"type"`
					Nodename string `json:"nodename"`
				} `json:"plugins"`
			}
			text, err := h.ReadFile(n.file)
			if err != nil || json.Unmarshal(text, &list) != nil {
				return "", ""
			}
			for _, p := range list.Plugins {
				if p.Type == "calico" && p.Nodename != "" && !strings.HasPrefix(p.Nodename, "__") { // a template's own
					return p.Nodename, n.file
				}
			}
			return "", ""
		}
	}
	return "", ""
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
