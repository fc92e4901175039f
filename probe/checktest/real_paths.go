//go:build e2e

package checktest

import (
	"errors"
	"net"
	"net/netip"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netns"

	"github.com/calico-probe/calico-probe/probe"
)

// TwoNodes sets up two nodes with a router between them. The test's own namespace is one node. The other node's pods
// are addresses in the namespace far.
const TwoNodes = `
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mkdir /run/netns
ip netns add router
ip netns add far
ip link set lo up
ip link add eth0 type veth peer name near netns router
ip -n router link add far type veth peer name eth0 netns far
ip addr add 10.9.0.1/24 dev eth0
ip addr add fd09::1/64 dev eth0 nodad
ip link set eth0 up
ip -n router addr add 10.9.0.9/24 dev near
ip -n router addr add fd09::9/64 dev near nodad
ip -n router link set near up
ip -n router addr add 10.9.1.9/24 dev far
ip -n router addr add fd09:1::9/64 dev far nodad
ip -n router link set far up
ip netns exec router sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
ip -n far addr add 10.9.1.2/24 dev eth0
ip -n far addr add fd09:1::2/64 dev eth0 nodad
ip -n far link set lo up
ip -n far link set eth0 up
ip -n far addr add 10.244.1.2/32 dev eth0
ip -n far addr add 10.244.1.3/32 dev eth0
ip -n far addr add 10.244.1.4/32 dev eth0
ip -n far addr add fd00:244::2/128 dev eth0 nodad
ip -n far addr add fd00:244::4/128 dev eth0 nodad
ip -n far route add default via 10.9.1.9
ip -n far -6 route add default via fd09:1::9
ip -n router route add 10.244.1.0/26 via 10.9.1.2
ip -n router -6 route add fd00:244::/64 via fd09:1::2
ip route add 10.244.0.0/16 via 10.9.0.9
ip route add 10.9.1.0/24 via 10.9.0.9
ip -6 route add fd00:244::/64 via fd09::9
ip route add blackhole 10.244.3.0/26
ip route add unreachable 10.244.4.0/26
ip route add prohibit 10.244.5.0/26
`

// In runs f on a thread inside a named network namespace. A socket that f opens remains in that namespace.
func In(t *testing.T, name string, f func() error) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, so the thread exits with its goroutine
		ns, err := netns.GetFromName(name)
		if err == nil {
			err = netns.Set(ns)
		}
		if err == nil {
			err = f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatalf("in %s: %v", name, err)
	}
}

// ListenFar accepts TCP connections on the other node.
func ListenFar(t *testing.T, addr string) {
	t.Helper()
	In(t, "far", func() error {
		l, err := net.Listen("tcp", addr)
		if err == nil {
			t.Cleanup(func() { l.Close() })
		}
		return err
	})
}

// Settled waits until pods answer, because IPv6 needs some time after a link comes up.
func Settled(t *testing.T, pods ...probe.Target) {
	t.Helper()
	for _, pod := range pods {
		Eventually(t, func() bool {
			conn, err := net.DialTimeout("tcp", netip.AddrPortFrom(pod.Addr, 1).String(), time.Second)
			if err == nil {
				_ = conn.Close()
			}
			return err == nil || errors.Is(err, syscall.ECONNREFUSED)
		})
	}
}

func Port(t probe.Target, port int) probe.Target { t.Port = port; return t }
