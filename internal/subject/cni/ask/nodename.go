package ask

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/node"
)

// cniNodenameCheck binds cni.CNINodename to the function that runs it.
var cniNodenameCheck = answers.To(cni.CNINodename, probe.Once(cniNodename))

// factName is the name that the file contains.
const factName probe.Fact = "name"

func cniNodename(_ context.Context, h *probe.Host) probe.Result {
	set, from := node.PluginSettings(h)
	file, kept := set.WhereNodename(), h.Place(probe.PlaceLib)+"/nodename"
	text, written, err := nodename(h, file)
	switch {
	case errors.Is(err, probe.ErrNotVisible):
		return node.Unseen(err)
	case errors.Is(err, fs.ErrNotExist) && file != kept && set.Nodename == "":
		return missingNodename(h, file, kept)
	case errors.Is(err, fs.ErrNotExist):
		return probe.Found(probe.Fail, "no %s: calico-node has not finished its start-up on this node", file).
			With(probe.FactReason, "missing")
	case err != nil:
		return probe.Failed(err)
	}
	name, source := strings.TrimSpace(string(text)), ""
	if set.Nodename != "" && set.Nodename != name {
		name, source = set.Nodename, " (from "+from+")"
	}
	r := probe.Found(probe.OK, "%q%s, the name Kubernetes uses", name, source)
	switch {
	case h.Node == "":
		r = probe.Found(probe.Info, "%q; the node's name in Kubernetes is unknown here", name)
	case name != h.Node && isNodeRef(h, name):
		r = probe.Found(probe.Info, "%q%s, and CALICO_K8S_NODE_REF maps it to %q in Kubernetes", name,
			source, h.Node)
	case name != h.Node:
		r = probe.Found(probe.Fail,
			"%q%s, but Kubernetes calls this node %q: Calico allocates its addresses to another node", name, source, h.Node).
			With(probe.FactReason, "other")
	}
	age := time.Since(written).Round(time.Second)
	r.Saw += ", written " + age.String() + " ago"
	return r.With(node.FactSince, int(age.Seconds())).With(factName, name)
}

// missingNodename returns the result if the file that the CNI plugin reads is missing, and
// calico-node writes another file.
func missingNodename(h *probe.Host, file, kept string) probe.Result {
	r := probe.Found(probe.Fail, "%s (read by the CNI plugin) and %s (written by calico-node) do not exist: calico-node has not finished its start-up on this node", file, kept)
	if _, err := h.Stat(kept); err == nil {
		r = probe.Found(probe.Fail, "%s, which the CNI plugin reads, does not exist: calico-node writes %s", file, kept)
	}
	return r.With(probe.FactReason, "missing")
}

// isNodeRef reports whether calico-node is configured with a name that differs from its Node's name in Kubernetes.
func isNodeRef(h *probe.Host, name string) bool {
	p, ok, err := node.CalicoProcess(h, "felix")
	if err != nil || !ok {
		return false
	}
	set, _ := node.EnvironmentOf(h, p.PID, "CALICO_K8S_NODE_REF", "NODENAME")
	return set["CALICO_K8S_NODE_REF"] == h.Node && set["NODENAME"] == name
}

// nodename returns the content of the file and its modification time.
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
