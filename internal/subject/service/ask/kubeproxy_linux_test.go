package ask

import (
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/calico-probe/calico-probe/probe"
)

// TestConnectingTo has a listener that accepts nothing and whose queue is full: who comes then gets no answer.
func TestConnectingTo(t *testing.T) {
	// Not beside others: their connections are of this process too.
	server, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(server)
	if err := unix.Bind(server, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(server, 0); err != nil {
		t.Fatal(err)
	}
	at, err := unix.Getsockname(server)
	if err != nil {
		t.Fatal(err)
	}
	to := at.(*unix.SockaddrInet4)
	for range 8 {
		client, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
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
