package checks

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// CNINodename asks for the file by which Calico's plugin knows on which node it
// is; it also tells when calico-node last got through its start-up.
var CNINodename = &probe.Check{
	ID: "cni-nodename", Asks: "does Calico know this node by the name Kubernetes has for it?", From: probe.FromNode,
	Tags: []string{tagCNI}, Access: []string{"var/lib/calico"}, Run: probe.Once(cniNodename),
	Doc: `calico-node writes the node's name to /var/lib/calico/nodename at the end of its start-up; Calico's CNI plugin reads it for every pod.
ok: the file has the name Kubernetes uses. fail: it is missing ("check that the calico/node container is running and has mounted /var/lib/calico/"), so no pod gets a network; or it has another name, so addresses are booked for a node that does not exist.
info: what Kubernetes calls this node is not known here. skip: not visible by this access method.`,
}

// FactName is a name as it was read.
const FactName probe.Fact = "name"

func cniNodename(_ context.Context, h *probe.Host) probe.Result {
	const file = "/var/lib/calico/nodename"
	text, written, err := nodename(h, file)
	switch {
	case errors.Is(err, probe.ErrNotVisible):
		return unseen(err)
	case errors.Is(err, fs.ErrNotExist):
		return probe.Found(probe.Fail, "no %s: calico-node has not finished its start-up on this node", file).With(probe.FactReason, "missing")
	case err != nil:
		return probe.Failed(err)
	}
	name := strings.TrimSpace(string(text))
	r := probe.Found(probe.OK, "%q, the name Kubernetes uses", name)
	switch {
	case h.Node == "":
		r = probe.Found(probe.Info, "%q; the node's name in Kubernetes is not known here", name)
	case name != h.Node:
		r = probe.Found(probe.Fail, "%q, but Kubernetes calls this node %q: Calico allocates its addresses to another node", name, h.Node).With(probe.FactReason, "other")
	}
	age := time.Since(written).Round(time.Second)
	r.Saw += ", written " + age.String() + " ago"
	return r.With(FactSince, int(age.Seconds())).With(FactName, name)
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
