package kernel

import (
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// TestTracked reads an entry with both directions, and rejects truncated ones.
func TestTracked(t *testing.T) {
	t.Parallel()
	flow := func(from, to string) Flow {
		return Flow{Proto: 6, From: netip.MustParseAddrPort(from), To: netip.MustParseAddrPort(to)}
	}
	sender := flow("10.88.0.11:40000", "10.96.0.1:443")
	answers := tupleOf(flow("10.88.0.12:10250", "10.88.0.11:40000"))
	answers.Type = unix.NLA_F_NESTED | nl.CTA_TUPLE_REPLY
	message := append(make([]byte, nl.SizeofNfgenmsg), tupleOf(sender).Serialize()...)
	whole := append(message, answers.Serialize()...)
	at, sent, ok := tracked(whole)
	if !ok || at != sender || sent.String() != "10.88.0.12:10250" {
		t.Errorf("%v goes to %v (%v)", at, sent, ok)
	}
	for n := range len(message) + 1 {
		if _, _, ok := tracked(whole[:n]); ok {
			t.Errorf("%d bytes are read as an entry", n)
		}
	}
}
