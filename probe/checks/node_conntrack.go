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
	Tags: []string{tagHost, tagNetwork}, Access: []string{"proc", "host network"}, Run: nodeConntrack,
	Doc: `Every connection that kube-proxy and Calico let through has an entry; when the table is full, new connections are dropped while old ones go on, which looks like packet loss.
ok: room enough. warn: three quarters full; or an idle TCP connection loses its entry within a minute (nf_conntrack_tcp_timeout_established), or within five where nf_conntrack_tcp_loose is 0: then it hangs or is reset when it sends again. info: within five minutes, with nf_conntrack_tcp_loose 1, the kernel's default: a connection without NAT gets a new entry, one to a Service may be reset. fail: it is full; or it nearly is, and within half a second the kernel dropped packets or unanswered connections because it was full. The facts have what was dropped since boot.
Entries that could not be inserted while there is room are told and not judged: two packets of one connection that come at once, as the two questions of a resolver (A and AAAA) through a Service, race for one entry, and the packet that loses is gone. The resolver asks again after 5 s: "DNS is slow now and then" (kubernetes/kubernetes#56903). A cache on the node (NodeLocal DNSCache), or single-request-reopen in resolv.conf, avoids it; kernels from 5.0 on lose fewer.
In a quick run two readings are compared only where the table is nearly full.
skip: connection tracking is not loaded on this node.`,
}

// Facts of node-conntrack.
const (
	FactEntries probe.Fact = "entries"
	FactMax     probe.Fact = "max"
	FactRaced   probe.Fact = "raced"   // entries that could not be inserted within half a second, the table not being full
	FactDropped probe.Fact = "dropped" // packets since boot: dropped, or no entry could be made
	FactIdle    probe.Fact = "idle_s"  // how long an idle TCP connection keeps its entry
	FactLoose   probe.Fact = "loose"   // false where a connection without an entry gets no new one
)

// conntrackPause is between two readings of what was dropped: a node that takes ten
// new connections a second shows it.
const conntrackPause = 500 * time.Millisecond

func nodeConntrack(ctx context.Context, p *probe.Pass) {
	p.Report(conntrack(ctx, p.Host, p.Brief))
	if r, short := shortLived(p.Host); short {
		p.Report(r)
	}
}

// TargetIdle is the target of node-conntrack's result about how long an idle connection keeps its entry.
const TargetIdle = "idle connections"

// How many seconds an idle TCP connection keeps its entry at least on a healthy node: programs send keepalives every
// 15 s to 2 minutes, and some none. Below a minute even those that send them lose it. The kernel's default is 5 days,
// and kube-proxy sets one day.
const (
	idleShort     = 300
	idleVeryShort = 60
)

// shortLived reports whether idle connections lose their entries too soon. With nf_conntrack_tcp_loose, the kernel's
// default, the next packet of a connection makes a new entry.
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
		r.Saw += ", and what it sends next is dropped (nf_conntrack_tcp_loose is 0)"
	}
	return r.On(TargetIdle).With(FactSysctl, name).With(FactIdle, seconds).With(FactLoose, !strict), true
}

func conntrack(ctx context.Context, h *probe.Host, brief bool) probe.Result {
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
	before, counted := dropped(h)
	near := most > 0 && entries*100 >= most*75
	if counted && !brief || near {
		select {
		case <-ctx.Done():
		case <-time.After(conntrackPause):
		}
	}
	now, _ := dropped(h)
	if counted && now.raced > before.raced && now.full == before.full {
		raced := now.raced - before.raced
		r.Saw += fmt.Sprintf("; within half a second %d entries could not be made, mostly because two packets of one connection came at once: such a packet is lost", raced)
		r = r.With(FactRaced, raced)
	}
	if near {
		r.Status = probe.Warn
		if entries >= most {
			r.Status = probe.Fail
			r.Saw += ": it is full"
		}
		if counted && now.full > before.full && entries*100 >= most*95 {
			r.Status = probe.Fail
			r.Saw += fmt.Sprintf("; within half a second %d packets or connections were dropped because the table is full", now.full-before.full)
		}
		if now.all > 0 {
			r.Saw += fmt.Sprintf("; %d since boot", now.all)
		}
	}
	if counted {
		r = r.With(FactDropped, now.all)
	}
	return r.With(FactEntries, entries).With(FactMax, most)
}

// dropCounts are packets since boot that were dropped or got no entry.
type dropCounts struct {
	all uint64 // for any reason
	// for which there was no room, or of whose entries others were in want: as long as nobody has answered they may
	// be thrown out
	full  uint64
	raced uint64 // whose entry could not be inserted, as where another packet had just made it
}

// dropped counts them; false where the kernel does not count.
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
