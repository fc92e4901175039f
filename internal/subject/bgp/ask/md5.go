package ask

import (
	"context"
	"time"

	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
)

// Facts of the result about TCP MD5.
const factMD5All probe.Fact = "md5_all" // number of segments since boot

// Values of FactMD5, according to the kernel's counters.
const md5Different = "different" // both ends have a password, but the passwords differ

// md5Counters lists the kernel's names for these counters (net/ipv4/proc.c, since 2.6.20; the third since 4.12).
var md5Counters = []struct{ name, word, text string }{
	{"TCPMD5Failure", md5Different, "were signed with a different password"},
	{"TCPMD5Unexpected", bgp.MD5Unexpected, "were signed, although this node has no password for the sender"},
	{"TCPMD5NotFound", bgp.MD5Missing, "were not signed, although this node has a password for the sender"},
}

// md5Counts returns the counters in this network namespace, or nil if they cannot be read.
func md5Counts(h *probe.Host) map[string]int {
	text, err := kernel.ReadProc(h, "net/netstat")
	if err != nil {
		return nil
	}
	out := map[string]int{}
	for _, c := range md5Counters {
		if n, ok := node.NetCounter(text, c.name); ok && n > 0 {
			out[c.word] = n
		}
	}
	return out
}

// md5Dropped waits briefly for a counter to grow, because peers retry within seconds. If the kernel has never
// dropped a segment because of a password, it returns false.
func md5Dropped(ctx context.Context, h *probe.Host, before map[string]int) (probe.Result, bool) {
	after := md5Counts(h)
	if len(after) == 0 {
		return probe.Result{}, false
	}
	ctx, _, cancel := node.Part(ctx, 3)
	defer cancel()
	for {
		for _, c := range md5Counters {
			if grew := after[c.word] - before[c.word]; grew > 0 {
				return probe.Found(probe.Warn, "the kernel just dropped %d TCP segments that %s", grew, c.text).
					With(bgp.FactMD5, c.word).With(bgp.FactMD5Grew, grew).With(factMD5All, after[c.word]), true
			}
		}
		select {
		case <-ctx.Done():
			for _, c := range md5Counters {
				if n := after[c.word]; n > 0 {
					return probe.Found(probe.Info, "since boot, the kernel has dropped %d TCP segments that %s; 0 during this check",
						n, c.text).With(bgp.FactMD5, c.word).With(bgp.FactMD5Grew, 0).With(factMD5All, n), true
				}
			}
			return probe.Result{}, false
		case <-time.After(200 * time.Millisecond):
			after = md5Counts(h)
		}
	}
}
