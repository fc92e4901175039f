package drops

import (
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/calico-probe/calico-probe/probe/must"
)

// listenShort opens a listening socket with the shortest queue, which is full.
func listenShort(t *testing.T) (fd int, at netip.AddrPort) {
	t.Helper()
	own := [4]byte{127, 0, 0, 1}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrInet4{Addr: own})
	}
	if err == nil {
		err = unix.Listen(fd, 0)
	}
	var name unix.Sockaddr
	if err == nil {
		name, err = unix.Getsockname(fd)
	}
	if err != nil {
		t.Fatal(err)
	}
	at = netip.AddrPortFrom(netip.AddrFrom4(own), uint16(name.(*unix.SockaddrInet4).Port))
	for range 2 {
		waits, _ := connect(at) // in progress, or never accepted
		t.Cleanup(func() { unix.Close(waits) })
	}
	return fd, at
}

// TestRefusedBesideSilent checks that refused connections beside waiting ones count as answers, and cost no busy
// polling.
func TestRefusedBesideSilent(t *testing.T) {
	fd, at := listenShort(t)
	time.AfterFunc(50*time.Millisecond, func() { unix.Close(fd) })
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, after unix.Rusage
	must.Do(t, unix.Getrusage(unix.RUSAGE_THREAD, &before))
	sent := must.Get(connects(t.Context(), at, 25, 600*time.Millisecond))(t)
	must.Do(t, unix.Getrusage(unix.RUSAGE_THREAD, &after))
	if sent.Lost == 0 || sent.Lost == sent.Packets || !strings.Contains(sent.Answer, "refused") {
		t.Fatalf("%+v", sent)
	}
	spent := time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
	if spent > 150*time.Millisecond {
		t.Errorf("%v of a CPU", spent)
	}
}
