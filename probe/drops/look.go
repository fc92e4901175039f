package drops

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/icmp"
)

// Looked is the result of Look. It describes what happened to the first packets sent to some targets.
type Looked struct {
	// Lost holds the fate of the packets that got no answer, by the index of their target.
	Lost map[int]Shape
	// Fine holds the first target in each family that answers pings.
	Fine map[int]netip.Addr
	// Sent is the number of targets to which packets were sent.
	Sent int
}

// maxConnects limits the number of connections in one look, because each may take a third of a second.
const maxConnects = 6

// Look sends a few pings to each target. If replies come back, it opens a TCP connection to the target's port, if
// there is one. A packet that gets any reply, even a refusal, is not lost.
func Look(ctx context.Context, from Space, targets []netip.AddrPort) (Looked, error) {
	out := Looked{Lost: map[int]Shape{}, Fine: map[int]netip.Addr{}}
	for _, f := range []int{4, 6} {
		var addrs []netip.Addr
		var index []int
		for i, t := range targets {
			if family(t.Addr()) == f {
				addrs, index = append(addrs, t.Addr()), append(index, i)
			}
		}
		var stats []icmp.Stats
		err := from.Do(func(*probe.Host) (err error) {
			stats, err = icmp.Ping(ctx, addrs, icmp.Brisk)
			return err
		})
		if err != nil {
			return out, err
		}
		out.Sent += len(stats)
		for at, s := range stats {
			switch {
			case s.Cut && s.Received == 0: // it was interrupted before its time was over
			case s.Received == 0:
				out.Lost[index[at]] = Shape{}
			case !out.Fine[f].IsValid():
				out.Fine[f] = s.Addr
			}
		}
	}
	connects := 0
	for i, t := range targets {
		if _, lost := out.Lost[i]; lost || t.Port() == 0 || connects >= maxConnects || ctx.Err() != nil {
			continue
		}
		connects++
		sent, err := burst(ctx, from, t.Addr(), Shape{Port: t.Port()}, 1)
		if err != nil {
			return out, err
		}
		if sent.Lost > 0 {
			out.Lost[i] = Shape{Port: t.Port()}
		}
	}
	return out, nil
}

// Lines describes the result. The first line names the place, and the other lines list further counters that grew.
func (f Found) Lines(shape Shape) []string {
	lost := fmt.Sprintf("%d of %d %s are lost", f.Lost, f.Packets, shape)
	switch {
	case f.Lost == 0 && f.Answer != "":
		return []string{fmt.Sprintf("%d %s, and all came back: %s", f.Packets, shape, f.Answer)}
	case f.Lost == 0:
		return []string{fmt.Sprintf("%d %s, and all came back", f.Packets, shape)}
	case len(f.Deaths) > 0:
		out := []string{lost + ": " + f.Deaths[0].Line()}
		for _, d := range f.Deaths[1:] {
			out = append(out, "also: "+d.Line())
		}
		return out
	case f.Few:
		return []string{lost + "; less than half of a burst is too little to find the place by counters" + f.instead()}
	case f.Beyond():
		lost += fmt.Sprintf("; %s sent as many packets meanwhile, and nothing here counts them or their answers as dropped: "+
			"they are lost beyond this node", f.Device)
	case f.Left:
		lost += fmt.Sprintf("; no readable counter here shows where; %s sent as many packets meanwhile, so the loss is beyond "+
			"this node, or here without a counter", f.Device)
	default:
		lost += "; no counter of this node shows where"
	}
	if f.Uncounted > 0 {
		lost += fmt.Sprintf("; %d rules that drop have no counter", f.Uncounted)
	}
	return []string{lost + f.instead()}
}

// Beyond reports whether the packets are lost beyond the node. This requires that at least as many packets left the
// node. All counters must also be readable, no counter may show a loss, and every rule that drops packets must have a
// counter.
func (f Found) Beyond() bool {
	return f.Lost > 0 && len(f.Deaths) == 0 && f.Left && !f.Few && f.Uncounted == 0 && f.Unread == nil
}

// instead describes replies that were not answers.
func (f Found) instead() string {
	if f.Answer == "" {
		return ""
	}
	return "; received instead: " + f.Answer
}
