package checks

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/prometheus/procfs"

	"github.com/calico-probe/calico-probe/probe"
)

// NodeConntrack asks for the table without which no new connection passes the
// node: "nf_conntrack: table full, dropping packet".
var NodeConntrack = &probe.Check{
	ID: "node-conntrack", Asks: "is the connection tracking table full?", From: probe.FromNode,
	Tags: []string{tagHost, tagNetwork}, Access: []string{"proc", "host network"}, Run: probe.Once(nodeConntrack),
	Doc: `Every connection that kube-proxy and Calico let through has an entry; when the table is full, new connections are dropped and old ones go on, which looks like packet loss.
ok: room enough. warn: three quarters full. fail: 95 % full or more. The facts have what was dropped since boot.
skip: connection tracking is not loaded on this node.`,
}

// Facts of node-conntrack.
const (
	FactEntries probe.Fact = "entries"
	FactMax     probe.Fact = "max"
	FactDropped probe.Fact = "dropped" // packets since boot: dropped, or no entry could be made
)

func nodeConntrack(_ context.Context, h *probe.Host) probe.Result {
	entries, err := sysctl(h, "net/netfilter/nf_conntrack_count")
	if errors.Is(err, fs.ErrNotExist) {
		return probe.Found(probe.Skip, "connection tracking is not loaded here")
	}
	if err != nil {
		return probe.Failed(err)
	}
	most, err := sysctl(h, "net/netfilter/nf_conntrack_max")
	if err != nil {
		return probe.Failed(err)
	}
	r := probe.Found(probe.OK, "%d of %d entries", entries, most)
	switch {
	case most > 0 && entries*100 >= most*95:
		r.Status = probe.Fail
		r.Saw += ": new connections are dropped"
	case most > 0 && entries*100 >= most*75:
		r.Status = probe.Warn
	}
	if proc, err := procfs.NewFS(h.Proc); err == nil {
		if stats, err := proc.ConntrackStat(); err == nil {
			var dropped uint64
			for _, s := range stats {
				dropped += s.Drop + s.InsertFailed + s.EarlyDrop
			}
			r = r.With(FactDropped, dropped)
			if dropped > 0 && r.Status != probe.OK {
				r.Saw += fmt.Sprintf(", %d were since boot", dropped)
			}
		}
	}
	return r.With(FactEntries, entries).With(FactMax, most)
}
