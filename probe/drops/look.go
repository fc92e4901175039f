package drops

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/icmp"
)

// Looked is what became of the first packets to some targets.
type Looked struct {
	// Lost is what did not come back, by its index among the targets.
	Lost map[int]Shape
	// Fine are targets that answer pings, by family, the first of each.
	Fine map[int]netip.Addr
	// Sent is how many targets were asked.
	Sent int
}

// maxConnects bounds the connections of a look, each of which may take a third of a second.
const maxConnects = 6

// Look sends a few packets to each target: pings, and where they come back a TCP connection to its port, where it has
// one. What comes back is not lost, be it a refusal.
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
			case s.Cut && s.Received == 0: // its time was not over
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

// Lines says what was found: the place in the first line, what counts along behind it.
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
		lost += fmt.Sprintf("; no readable counter here shows where; %s sent as many packets meanwhile, so they are lost beyond "+
			"this node, or here without a counter", f.Device)
	default:
		lost += "; no counter of this node shows where"
	}
	if f.Uncounted > 0 {
		lost += fmt.Sprintf("; %d rules that drop have no counter", f.Uncounted)
	}
	return []string{lost + f.instead()}
}

// Beyond tells that they are lost beyond the node: as many left it, all could be read, no counter says that they died
// here, and no rule that drops is without one.
func (f Found) Beyond() bool {
	return f.Lost > 0 && len(f.Deaths) == 0 && f.Left && !f.Few && f.Uncounted == 0 && f.Unread == nil
}

// instead is what came in place of answers.
func (f Found) instead() string {
	if f.Answer == "" {
		return ""
	}
	return "; received instead: " + f.Answer
}
