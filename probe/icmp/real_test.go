//go:build e2e

package icmp

import (
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// thousand is a thousand loopback addresses, which all answer.
func thousand() []netip.Addr {
	out := make([]netip.Addr, 0, 1000)
	for i := range 1000 {
		out = append(out, netip.AddrFrom4([4]byte{127, 1, byte(i / 250), byte(1 + i%250)}))
	}
	return out
}

// TestThousand pings a thousand pods from one socket, and checks that no answered packet counts as lost.
func TestThousand(t *testing.T) {
	if !nstest.Enter(t, "ip link set lo up\nnft add table inet t\nnft add chain inet t in { type filter hook input priority 0 ; }\nnft add rule inet t in ip daddr 127.1.3.250 icmp type echo-request drop\n") {
		return
	}
	stats := must.Get(Ping(t.Context(), thousand(), Usual))(t)
	var wrong []string
	for _, s := range stats {
		want := Usual.Packets
		if s.Addr == netip.MustParseAddr("127.1.3.250") { // the one that is silent
			want = 0
		}
		if s.Sent != Usual.Packets || s.Received != want {
			wrong = append(wrong, fmt.Sprintf("%s: %d of %d, want %d", s.Addr, s.Received, s.Sent, want))
		}
	}
	if len(wrong) > 0 {
		t.Errorf("%d of %d were misjudged: %v", len(wrong), len(stats), wrong[:min(len(wrong), 5)])
	}
}

// BenchmarkThousand pings a thousand addresses, and compares with fping in the same run: five packets each, a tenth of
// a second apart.
func BenchmarkThousand(b *testing.B) {
	if !nstest.Enter(b, "ip link set lo up\n") {
		return
	}
	var ours, theirs time.Duration
	var lost int
	args := []string{"-q", "-c", "5", "-p", "100", "-i", "0"}
	for _, a := range thousand() {
		args = append(args, a.String())
	}
	for b.Loop() {
		began := time.Now()
		stats := must.Get(Ping(b.Context(), thousand(), Usual))(b)
		ours += time.Since(began)
		for _, s := range stats {
			lost += s.Sent - s.Received
		}
		began = time.Now()
		if out, err := exec.Command("../../.cache/fping/usr/bin/fping", args...).CombinedOutput(); err != nil {
			b.Fatalf("fping: %v: %s", err, strings.TrimSpace(string(out[:min(len(out), 400)])))
		}
		theirs += time.Since(began)
	}
	n := float64(b.N)
	b.ReportMetric(ours.Seconds()/n, "ours-s")
	b.ReportMetric(theirs.Seconds()/n, "fping-s")
	b.ReportMetric(ours.Seconds()/theirs.Seconds(), "ratio")
	b.ReportMetric(float64(lost), "lost")
}
