//go:build e2e

package skbdrop

import (
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// rate is how many foreign packets are sent per second.
const rate = 100_000

// BenchmarkOthers sends foreign packets from the node to another host while a trace looks for ours, first to a
// receiver, then to a drop rule. It reports the cost in parts of one core: of the programs by the kernel's own count,
// and of the slower sending.
func BenchmarkOthers(b *testing.B) {
	if !nstest.Enter(b, three+`
ip netns exec far nft add table inet t
ip netns exec far nft add chain inet t c { type filter hook input priority 0 ; }
ip netns exec far nft add rule inet t c udp dport 9 drop
`) {
		return
	}
	received(b)
	passed, dropped := floods(b, 10), floods(b, 9)
	var programs, slower [2]float64
	rounds := 0
	for b.Loop() {
		rounds++
		for i, f := range []flood{passed, dropped} {
			share, more := f.measure(b)
			programs[i], slower[i] = programs[i]+100*share, slower[i]+100*more
		}
	}
	for i, name := range []string{"passed", "dropped"} {
		mean := programs[i] / float64(rounds)
		b.ReportMetric(mean, name+"-%-of-a-core")
		b.ReportMetric(slower[i]/float64(rounds), name+"-slower-%-of-a-core")
		if mean > 5 {
			b.Errorf("%s: %.1f %% of a core while %d packets a second pass that are not ours", name, mean, rate)
		}
	}
}

// flood is a socket that sends foreign packets.
type flood struct {
	fd int
	to *unix.SockaddrInet4
}

func floods(b *testing.B, port int) flood {
	b.Helper()
	fd := must.Get(unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0))(b)
	b.Cleanup(func() { unix.Close(fd) })
	return flood{fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{192, 0, 2, 2}}}
}

// received opens a receiver on the other host.
func received(b *testing.B) {
	b.Helper()
	in(b, "far", func() {
		c, err := net.ListenPacket("udp4", "192.0.2.2:10")
		if err != nil {
			b.Error(err)
			return
		}
		b.Cleanup(func() { c.Close() })
		go func() {
			for buf := make([]byte, 2048); err == nil; {
				_, _, err = c.ReadFrom(buf)
			}
		}()
	})
}

// send sends so many packets as fast as possible, and returns the CPU time. That includes their arrival, because a veth
// delivers them at once.
func (f flood) send(b *testing.B, packets int) time.Duration {
	b.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began, payload := spent(b), make([]byte, 64)
	for range packets {
		must.Do(b, unix.Sendto(f.fd, payload, 0, f.to))
	}
	return spent(b) - began
}

// spent returns the CPU time of this thread.
func spent(b *testing.B) time.Duration {
	b.Helper()
	var t unix.Timespec
	must.Do(b, unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t))
	return time.Duration(t.Nano())
}

// measure returns the part of a core that the programs of a trace use at the rate, and how much longer one send takes
// with them.
func (f flood) measure(b *testing.B) (programs, slower float64) {
	b.Helper()
	const rounds, packets = 20, 5000
	t := open(b)
	without, with := time.Hour, time.Hour
	for range rounds {
		with = min(with, f.send(b, packets))
		must.Do(b, t.detach())
		without = min(without, f.send(b, packets))
		must.Do(b, t.attach())
	}
	stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		b.Skipf("this kernel does not count what programs take: %v", err)
	}
	f.send(b, rounds*packets)
	stats.Close()
	var took time.Duration
	for _, p := range t.programs.Programs {
		info := must.Get(p.Stats())(b)
		took += info.Runtime
	}
	end(b, t)
	return took.Seconds() / (rounds * packets) * rate, (with - without).Seconds() / packets * rate
}

func open(b *testing.B) *Trace {
	b.Helper()
	t := must.Get(Open(Filter{Protocol: ICMP, Numbers: []uint16{ourID}, VXLAN: 4789,
		Addrs: []netip.Addr{netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("192.0.2.1")}}))(b)
	return t
}

func end(b *testing.B, t *Trace) {
	b.Helper()
	if events, gaps, err := t.End(); err != nil || len(events) > 0 || gaps.More > 0 {
		b.Errorf("of others %d events, %+v, %v", len(events), gaps, err)
	}
}
