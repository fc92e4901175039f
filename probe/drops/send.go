package drops

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/icmp"
)

// Shape is what is sent.
type Shape struct {
	Port uint16 // a TCP connection to it, 0 = an ICMP echo
	Size int    // of the whole IP packet, which must not be fragmented; 0 = as small as it is
}

// String names it as the subject of a sentence.
func (s Shape) String() string {
	switch {
	case s.Port != 0:
		return fmt.Sprintf("connections to TCP port %d", s.Port)
	case s.Size != 0:
		return fmt.Sprintf("pings of %d bytes", s.Size)
	}
	return "pings"
}

// Sent is what became of a burst.
type Sent struct {
	Packets, Lost int
	// Refused says why packets could not leave, in icmp's words; Answer what came instead of an answer.
	Refused, Answer string
	TooBig          bool // a router said so
}

// How a burst is sent: its packets leave within a tenth of a second, and answers are waited for as long as a node of
// another continent takes.
const (
	every   = 4 * time.Millisecond
	patient = 250 * time.Millisecond
	// span is how long a window is at least: bursts and pauses are to be equally long.
	span = 350 * time.Millisecond
)

// burst sends a number of packets from a namespace and waits for the answers.
func burst(ctx context.Context, from Space, to netip.Addr, shape Shape, packets int) (Sent, error) {
	out := Sent{Packets: packets}
	err := from.Do(func(*probe.Host) error {
		if shape.Port != 0 {
			var err error
			out, err = connects(ctx, netip.AddrPortFrom(to, shape.Port), packets, patient+time.Duration(packets)*every)
			return err
		}
		s, err := icmp.Burst(ctx, to, shape.Size, icmp.Pace{Packets: packets, Every: every}, patient)
		out.Packets, out.Lost, out.Refused, out.Answer, out.TooBig = s.Sent, s.Sent-s.Received, s.Refusal, s.Bounced, s.TooBig
		return err
	})
	return out, err
}
