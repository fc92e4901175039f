package drops

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/icmp"
)

// Shape describes the packets to send.
type Shape struct {
	Port uint16 // TCP connections to this port, 0 = ICMP echoes
	Size int    // size of the whole IP packet, which must not be fragmented; 0 = the minimum
}

// String describes the packets as the subject of a sentence.
func (s Shape) String() string {
	switch {
	case s.Port != 0:
		return fmt.Sprintf("connections to TCP port %d", s.Port)
	case s.Size != 0:
		return fmt.Sprintf("pings of %d bytes", s.Size)
	}
	return "pings"
}

// Sent describes what happened to a burst.
type Sent struct {
	Packets, Lost int
	// Refused is the reason why packets could not leave, as package icmp reports it. Answer
	// describes replies that were not answers.
	Refused, Answer string
	TooBig          bool // a router reported this
}

// The timing of a burst. Its packets leave within a tenth of a second. The wait for answers is long enough even for a
// node on another continent.
const (
	every   = 4 * time.Millisecond
	patient = 250 * time.Millisecond
	// span is the minimum length of a window. It makes bursts and pauses equally long.
	span = 350 * time.Millisecond
)

// burst sends the given number of packets from a namespace, and waits for the answers.
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
