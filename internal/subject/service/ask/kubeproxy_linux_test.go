package ask

import (
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestConnectingTo has a listener with a full accept queue: new connections get no answer.
func TestConnectingTo(t *testing.T) {
	// Not in parallel: other tests' connections belong to this process too.
	server := must.Get(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	defer unix.Close(server)
	must.Do(t, unix.Bind(server, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	must.Do(t, unix.Listen(server, 0))
	at := must.Get(unix.Getsockname(server))(t)
	to := at.(*unix.SockaddrInet4)
	for range 8 {
		client := must.Get(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0))(t)
		defer unix.Close(client)
		if err := unix.Connect(client, to); err != nil && err != unix.EINPROGRESS {
			t.Fatal(err)
		}
	}
	want := (&net.TCPAddr{IP: net.IP(to.Addr[:]), Port: to.Port}).String()
	if got := connectingTo(&probe.Host{Proc: "/proc"}, os.Getpid()); got != want {
		t.Errorf("connects to %q, want %q", got, want)
	}
}
