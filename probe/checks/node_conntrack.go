package checks

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/prometheus/procfs"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
)

// NodeConntrack asks for the table without which no new connection passes the
// node: "nf_conntrack: table full, dropping packet".
var NodeConntrack = &probe.Check{
	ID: "node-conntrack", Asks: "is the connection tracking table full?", From: probe.FromNode,
	Tags: []string{tagHost, tagNetwork}, Access: []string{"proc", "host network"}, Run: probe.Once(nodeConntrack),
	Doc: `Every connection that kube-proxy and Calico let through has an entry; when the table is full, new connections are dropped while old ones go on, which looks like packet loss.
ok: room enough. warn: three quarters full. fail: it is full; or it nearly is, and within half a second the kernel dropped packets or unanswered connections because it was full. The facts have what was dropped since boot.
skip: connection tracking is not loaded on this node.`,
}

// Facts of node-conntrack.
const (
	FactEntries probe.Fact = "entries"
	FactMax     probe.Fact = "max"
	FactDropped probe.Fact = "dropped" // packets since boot: dropped, or no entry could be made
)

// conntrackPause is between two readings of what was dropped: a node that takes ten
// new connections a second shows it.
const conntrackPause = 500 * time.Millisecond

func nodeConntrack(ctx context.Context, h *probe.Host) probe.Result {
	entries, err := kernel.Sysctl(h, "net/netfilter/nf_conntrack_count")
	if errors.Is(err, fs.ErrNotExist) {
		return probe.Found(probe.Skip, "connection tracking is not loaded here")
	}
	if err != nil {
		return probe.Failed(err)
	}
	most, err := kernel.Sysctl(h, "net/netfilter/nf_conntrack_max")
	if err != nil {
		return probe.Failed(err)
	}
	r := probe.Found(probe.OK, "%d of %d entries", entries, most)
	all, full, counted := dropped(h)
	if most > 0 && entries*100 >= most*75 {
		r.Status = probe.Warn
		select {
		case <-ctx.Done():
		case <-time.After(conntrackPause):
		}
		var later uint64
		all, later, _ = dropped(h)
		if entries >= most {
			r.Status = probe.Fail
			r.Saw += ": it is full"
		}
		if counted && later > full && entries*100 >= most*95 {
			r.Status = probe.Fail
			r.Saw += fmt.Sprintf("; within half a second %d packets or connections were dropped because the table is full", later-full)
		}
		if all > 0 {
			r.Saw += fmt.Sprintf("; %d since boot", all)
		}
	}
	if counted {
		r = r.With(FactDropped, all)
	}
	return r.With(FactEntries, entries).With(FactMax, most)
}

// dropped counts packets since boot: those dropped or without an entry for any
// reason, and of these those for which there was no room, or of whose entries others were in
// want (as long as nobody has answered they may be thrown out); false where the kernel
// does not count.
func dropped(h *probe.Host) (all, full uint64, counted bool) {
	proc, err := procfs.NewFS(h.Proc)
	if err != nil {
		return 0, 0, false
	}
	stats, err := proc.ConntrackStat()
	if err != nil {
		return 0, 0, false
	}
	for _, s := range stats {
		all += s.Drop + s.InsertFailed + s.EarlyDrop
		full += s.Drop + s.EarlyDrop
	}
	return all, full, true
}
