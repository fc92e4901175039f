package ask

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/prometheus/procfs"

	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
)

// nodeConntrackCheck binds firewall.NodeConntrack to the function that runs it.
var nodeConntrackCheck = answers.To(firewall.NodeConntrack, nodeConntrack)

// Facts of node-conntrack.
const (
	factRaced   probe.Fact = "raced"   // number of failed insertions in half a second while the table had space
	factDropped probe.Fact = "dropped" // number of packets since boot that were dropped or got no entry
	factIdle    probe.Fact = "idle_s"  // timeout of an idle TCP connection
)

// Table usage in percent. From the first value, the check reports it. From the second value, it explains dropped
// packets. A burst can fill the last quarter of the table within a second. While packets are dropped, entries that
// expire free some space.
const (
	nearlyFull      = 75
	effectivelyFull = 95
)

// conntrackPause is the time between two readings of the drop counters. It is long enough to show drops on a node that
// opens ten connections a second.
const conntrackPause = 500 * time.Millisecond

func nodeConntrack(ctx context.Context, p *probe.Pass) {
	p.Report(conntrack(ctx, p.Host, p.Brief))
	if r, short := shortLived(p.Host); short {
		p.Report(r)
	}
}

// Minimum timeouts for an idle TCP connection on a healthy node, in seconds. Programs send keepalives every 15 s to 2
// minutes, or never. Below a minute, even connections with keepalives lose their entry. The kernel's default is 5 days,
// and kube-proxy sets one day.
const (
	idleShort     = 300
	idleVeryShort = 60
)

// shortLived reports whether idle connections lose their entries too soon. If nf_conntrack_tcp_loose is set, as is
// the kernel's default, the connection's next packet creates a new entry.
func shortLived(h *probe.Host) (probe.Result, bool) {
	const name = "net/netfilter/nf_conntrack_tcp_timeout_established"
	seconds, err := kernel.Sysctl(h, name)
	if err != nil || seconds < 1 || seconds >= idleShort {
		return probe.Result{}, false
	}
	r := probe.Found(probe.Info, "net.netfilter.nf_conntrack_tcp_timeout_established is %d: an idle TCP connection loses its entry after %d s",
		seconds, seconds)
	loose, err := kernel.Sysctl(h, "net/netfilter/nf_conntrack_tcp_loose")
	strict := err == nil && loose == 0
	if strict || seconds < idleVeryShort {
		r.Status = probe.Warn
	}
	if strict {
		r.Saw += ", and the kernel drops its next packet (nf_conntrack_tcp_loose is 0)"
	}
	return r.On(firewall.TargetIdle).With(probe.FactSysctl, name).With(factIdle, seconds).With(firewall.FactLoose,
		!strict), true
}

func conntrack(ctx context.Context, h *probe.Host, brief bool) probe.Result {
	entries, err := kernel.Sysctl(h, "net/netfilter/nf_conntrack_count")
	if errors.Is(err, fs.ErrNotExist) {
		return probe.Found(probe.Skip, "connection tracking is not loaded on this node")
	}
	if err != nil {
		return probe.Failed(err)
	}
	most, err := kernel.Sysctl(h, "net/netfilter/nf_conntrack_max")
	if err != nil {
		return probe.Failed(err)
	}
	r := probe.Found(probe.OK, "%d of %d entries", entries, most)
	before, counted := dropped(h)
	near := most > 0 && entries*100 >= most*nearlyFull
	if counted && !brief || near {
		select {
		case <-ctx.Done():
		case <-time.After(conntrackPause):
		}
	}
	now, _ := dropped(h)
	if counted && now.raced > before.raced && now.full == before.full {
		raced := now.raced - before.raced
		r.Saw += fmt.Sprintf("; within half a second, the kernel could not insert %d entries, mostly because two packets of one connection arrived at once: such packets are lost", raced)
		r = r.With(factRaced, raced)
	}
	if near {
		r.Status = probe.Warn
		if entries >= most {
			r.Status = probe.Fail
			r.Saw += ": the table is full"
		}
		if counted && now.full > before.full && entries*100 >= most*effectivelyFull {
			r.Status = probe.Fail
			r.Saw += fmt.Sprintf("; within half a second, the full table dropped %d packets or connections", now.full-before.full)
		}
		if now.all > 0 {
			r.Saw += fmt.Sprintf("; %d drops since boot", now.all)
		}
	}
	if counted {
		r = r.With(factDropped, now.all)
	}
	return r.With(probe.FactEntries, entries).With(probe.FactMax, most)
}

// dropCounts holds the numbers of packets since boot that were dropped or got no entry.
type dropCounts struct {
	all uint64 // dropped for any reason
	// no space, or evicted for another connection: the kernel may evict an entry until the peer has answered
	full  uint64
	raced uint64 // the entry could not be inserted, for example because another packet had just created it
}

// dropped returns the number of these packets. If the kernel does not count them, it returns false.
func dropped(h *probe.Host) (dropCounts, bool) {
	proc, err := procfs.NewFS(h.Proc)
	if err != nil {
		return dropCounts{}, false
	}
	stats, err := proc.ConntrackStat()
	if err != nil {
		return dropCounts{}, false
	}
	var out dropCounts
	for _, s := range stats {
		out.all += s.Drop + s.InsertFailed + s.EarlyDrop
		out.full += s.Drop + s.EarlyDrop
		out.raced += s.InsertFailed
	}
	return out, true
}
