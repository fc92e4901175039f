//go:build !linux

package kernel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/span"
)

// errNotLinux is the error that every function returns on other systems.
var errNotLinux = fmt.Errorf("querying the kernel: %w", errors.ErrUnsupported)

// RouteOf needs Linux.
func RouteOf(Packet) (Route, *Route, error) { return Route{}, nil, errNotLinux }

// Routes needs Linux.
func Routes(int, int, int, func(Route) bool) ([]Route, error) { return nil, errNotLinux }

// Rules needs Linux.
func Rules(int) ([]Rule, error) { return nil, errNotLinux }

// Links needs Linux.
func Links() ([]Link, error) { return nil, errNotLinux }

// LinkNamed needs Linux.
func LinkNamed(string) (Link, error) { return Link{}, errNotLinux }

// Neighbours needs Linux.
func Neighbours(int) ([]Neighbour, error) { return nil, errNotLinux }

// NeighboursOn needs Linux.
func NeighboursOn(Link, int) (neighbours, forwarding []Neighbour, _ error) {
	return nil, nil, errNotLinux
}

// TCP needs Linux.
func TCP(States, uint16, uint16, func(Socket)) error { return errNotLinux }

// NFTChains needs Linux.
func NFTChains(_, _ func(Chain) bool) ([]Chain, error) { return nil, errNotLinux }

// LegacyChains needs Linux.
func LegacyChains(*probe.Host, string) ([]Chain, error) { return nil, errNotLinux }

// XFRMPolicies needs Linux.
func XFRMPolicies() ([]XFRMPolicy, error) { return nil, errNotLinux }

// Untracked needs Linux.
func Untracked(*probe.Host) ([]PacketRule, error) { return nil, errNotLinux }

// Diversions needs Linux.
func Diversions(*probe.Host) ([]PacketRule, error) { return nil, errNotLinux }

// SentTo needs Linux.
func SentTo(Flow) (netip.AddrPort, error) { return netip.AddrPort{}, errNotLinux }

// NewConnections needs Linux.
type NewConnections struct{}

// WatchConnections needs Linux.
func WatchConnections() (*NewConnections, error) { return nil, errNotLinux }

// Close needs Linux.
func (*NewConnections) Close() {}

// SentTo needs Linux.
func (*NewConnections) SentTo(context.Context, Flow) (netip.AddrPort, error) {
	return netip.AddrPort{}, errNotLinux
}

// NFTSet needs Linux.
func NFTSet(_, _, _ string, _ func(netip.Addr) bool) ([]span.Span, error) { return nil, errNotLinux }

// IPSet needs Linux.
func IPSet(string) ([]span.Span, error) { return nil, errNotLinux }

// Refusals needs Linux.
func Refusals(*probe.Host) ([]Refusal, error) { return nil, errNotLinux }

// Walls needs Linux.
func Walls(*probe.Host, func(table, chain string) bool) ([]Wall, error) { return nil, errNotLinux }

// Queues needs Linux.
func Queues([]Link) ([]Queue, error) { return nil, errNotLinux }
