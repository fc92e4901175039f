package main

import (
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

const bridgeName = "fabric"

// makeFabric creates the bridge between the nodes, in this process's namespace.
func makeFabric() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("finding lo: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("raising lo: %w", err)
	}
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridgeName}}
	if err := netlink.LinkAdd(bridge); err != nil {
		return fmt.Errorf("making the bridge: %w", err)
	}
	for _, a := range []string{fabric4 + "/24", fabric6 + "/64"} {
		if err := netlink.AddrAdd(bridge, address(netip.MustParsePrefix(a))); err != nil {
			return fmt.Errorf("giving the bridge %s: %w", a, err)
		}
	}
	if err := netlink.LinkSetUp(bridge); err != nil {
		return fmt.Errorf("raising the bridge: %w", err)
	}
	return forward()
}

// forward enables the kernel's routing between this namespace's interfaces.
func forward() error {
	for _, f := range []string{"/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/forwarding"} {
		if err := os.WriteFile(f, []byte("1"), 0o644); err != nil {
			return fmt.Errorf("switching forwarding on: %w", err)
		}
	}
	return nil
}

// connect gives the node with first process pid an eth0 on the bridge.
func connect(m member, pid int) error {
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: m.Name}, PeerName: "eth0", PeerNamespace: netlink.NsPid(pid)}
	if err := netlink.LinkAdd(veth); err != nil {
		return fmt.Errorf("making its cable: %w", err)
	}
	bridge, err := netlink.LinkByName(bridgeName)
	if err != nil {
		return fmt.Errorf("finding the bridge: %w", err)
	}
	if err := netlink.LinkSetMaster(veth, bridge); err != nil {
		return fmt.Errorf("plugging it in: %w", err)
	}
	if err := netlink.LinkSetUp(veth); err != nil {
		return fmt.Errorf("raising its cable: %w", err)
	}
	return addressNode(m, pid)
}

// knowPods gives this namespace, where the API server runs, a route to a node's pods.
func knowPods(m member) error {
	for block, via := range map[netip.Prefix]netip.Addr{m.Block4: m.IP4, m.Block6: m.IP6} {
		if err := netlink.RouteAdd(&netlink.Route{Dst: ipnet(block), Gw: via.AsSlice()}); err != nil {
			return fmt.Errorf("routing %s to it: %w", block, err)
		}
	}
	return nil
}

func addressNode(m member, pid int) error {
	ns, err := netns.GetFromPid(pid)
	if err != nil {
		return fmt.Errorf("finding its network namespace: %w", err)
	}
	defer ns.Close()
	in, err := netlink.NewHandleAt(ns)
	if err != nil {
		return fmt.Errorf("entering its network namespace: %w", err)
	}
	defer in.Close()
	for _, name := range []string{"lo", "eth0"} {
		link, err := in.LinkByName(name)
		if err != nil {
			return fmt.Errorf("finding its %s: %w", name, err)
		}
		if name == "eth0" {
			for _, p := range []netip.Prefix{netip.PrefixFrom(m.IP4, 24), netip.PrefixFrom(m.IP6, 64)} {
				if err := in.AddrAdd(link, address(p)); err != nil {
					return fmt.Errorf("giving it %s: %w", p, err)
				}
			}
		}
		if err := in.LinkSetUp(link); err != nil {
			return fmt.Errorf("raising its %s: %w", name, err)
		}
	}
	for _, gw := range []string{fabric4, fabric6} {
		if err := in.RouteAdd(&netlink.Route{Gw: net.ParseIP(gw)}); err != nil {
			return fmt.Errorf("giving it a default route: %w", err)
		}
	}
	return nil
}

func ipnet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Masked().Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// address keeps the host part. It skips duplicate address detection, during which an IPv6 address would be unusable for
// a second.
func address(p netip.Prefix) *netlink.Addr {
	a := &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}}
	if p.Addr().Is6() {
		a.Flags = unix.IFA_F_NODAD
	}
	return a
}
