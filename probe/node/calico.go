package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
)

// IsPods reports whether an interface is the node's end of a pod's interface. It checks for the names that Calico
// uses. New Calico versions create netkit devices for eBPF.
func IsPods(d kernel.Link) bool {
	return strings.HasPrefix(d.Name, "cali") && (d.Kind == "veth" || d.Kind == "netkit")
}

// Resolve resolves a name in the same way as programs on the node: first as a literal address, then with the
// node's own hosts file, then with DNS. For "localhost", it uses neither the hosts file nor DNS.
func Resolve(ctx context.Context, h *probe.Host, name string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(name); err == nil {
		return []netip.Addr{a}, nil
	}
	hosts, err := h.ReadFile("/etc/hosts")
	if err != nil && !errors.Is(err, probe.ErrNotVisible) && !errors.Is(err, fs.ErrNotExist) {
		return nil, err // a missing hosts file is allowed; DNS may still have the name
	}
	if found := inHosts(string(hosts), name); len(found) > 0 {
		return found, nil
	}
	if name == "localhost" {
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
}

// inHosts returns the addresses of a name in a hosts file, with IPv4 addresses first. The resolvers of libc and Go try
// loopback addresses in the same order.
func inHosts(hosts, name string) []netip.Addr {
	var out []netip.Addr
	for line := range strings.Lines(hosts) {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		if len(f) < 2 || !slices.ContainsFunc(f[1:], func(n string) bool { return strings.EqualFold(n, name) }) {
			continue
		}
		if a, err := netip.ParseAddr(f[0]); err == nil && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	slices.SortStableFunc(out, func(a, b netip.Addr) int { return Family(a) - Family(b) })
	return out
}

// Facts of node-firewall.
const FactPods probe.Fact = "pods" // number of interfaces of pods

// EBPF reports whether Calico uses its eBPF data plane. It checks Calico's settings and the
// interfaces that Calico creates.
func EBPF(p *probe.Pass, all []kernel.Link) bool {
	on, _ := strconv.ParseBool(FelixSetting(p, "bpfEnabled"))
	return on || slices.ContainsFunc(all, func(d kernel.Link) bool { return d.Name == "bpfin.cali" })
}

// WorthKeeping reports whether a check uses a chain. In iptables mode, kube-proxy creates several
// chains for every endpoint.
func WorthKeeping(c kernel.Chain) bool {
	return c.Table == "calico" || c.Table == "kube-proxy" || strings.HasPrefix(c.Name, "cali-") ||
		c.Name == "KUBE-SERVICES" || strings.HasPrefix(c.Name, "KUBE-SVC-")
}

// MaxText is the maximum size of a part of an area in bytes. Each part must fit in one line of the stream, together
// with the rest of its result.
const MaxText = 160 // size of a name, and of a value

// ForeignChain reports whether a chain does not belong to Calico, kube-proxy, the kubelet or a CNI plugin. The
// chains of kube-router have the same prefix as those of kube-proxy.
func ForeignChain(table, chain string) bool {
	if table == "calico" || table == "kube-proxy" {
		return false
	}
	begins := func(with ...string) bool {
		return slices.ContainsFunc(with, func(s string) bool { return strings.HasPrefix(chain, s) })
	}
	return begins("KUBE-ROUTER-", "KUBE-POD-FW-", "KUBE-NWPLCY-") || !begins("cali-", "KUBE-", "CNI-")
}

// UplinkName returns the interface that has the node's IPv4 address, or "" if it cannot be determined.
func UplinkName(p *probe.Pass) string {
	known, err := kernel.Links()
	if err != nil {
		return ""
	}
	if d, _ := Uplink(p, known, 4); d != nil {
		return d.Name
	}
	return ""
}

// NetCounter finds one of the kernel's counters. The kernel writes a line of names and then a line of values, and
// each begins with the name of the family.
func NetCounter(text, name string) (int, bool) {
	var names []string
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if i := slices.Index(names, name); i > 0 && i < len(f) && f[0] == names[0] {
			n, err := strconv.Atoi(f[i])
			return n, err == nil
		}
		names = f
	}
	return 0, false
}

// OwnAddresses returns the node's addresses in a family. The address that Calico registered comes first, followed by
// the InternalIPs. Without the API, it returns the addresses configured in the kubelet.
func OwnAddresses(p *probe.Pass, f int) []netip.Addr {
	var out []netip.Addr
	add := func(a netip.Addr) {
		if a.IsValid() && Family(a) == f {
			out = append(out, a)
		}
	}
	for _, t := range p.Of(probe.KindSelf) {
		add(t.Addr)
	}
	for _, t := range p.Of(probe.KindCalico) {
		for text := range strings.SplitSeq(t.Attrs[probe.AttrInternal], ",") {
			if a, err := netip.ParseAddr(text); err == nil {
				add(a)
			}
		}
	}
	if len(p.Targets) == 0 {
		_, args, _ := NodesDaemon(p.Host, "kubelet") // the kubelet's checks report if the kubelet is ambiguous
		for text := range strings.SplitSeq(FlagOf(args, "--node-ip"), ",") {
			if a, err := netip.ParseAddr(text); err == nil {
				add(a)
			}
		}
	}
	return out
}

// Uplink returns the interface that has the node's own address. If that is a loopback interface, as with routing on
// the node, Uplink returns the interface towards another node.
func Uplink(p *probe.Pass, all []kernel.Link, f int) (*kernel.Link, netip.Prefix) {
	for _, own := range OwnAddresses(p, f) {
		for i, d := range all {
			for _, a := range d.Addrs {
				if a.Addr() != own {
					continue
				}
				if !d.Loopback && d.Kind != "dummy" {
					return &all[i], a
				}
				for _, t := range SplitByFamily(p.Of(probe.KindNode, probe.KindPeer))[f] {
					if way, err := Lookup(t.Addr); err == nil {
						if j := slices.IndexFunc(all, func(d kernel.Link) bool { return d.Name == way.Device }); j >= 0 {
							return &all[j], a
						}
					}
				}
			}
		}
	}
	return nil, netip.Prefix{}
}

// Dead lists the states of an interface that passes no traffic (RFC 2863). Some drivers report only "unknown".
var Dead = []string{"down", "lower-layer-down", "not-present", "dormant"}

// Felix's defaults (FelixConfiguration's vxlanVNI and vxlanPort).
const (
	VXLANVNI  = 4096
	VXLANPort = 4789
)

// Encapsulation is one of Calico's encapsulations, with its device.
type Encapsulation struct {
	Device   string
	Name     string
	Family   int    // protocol of the outer packets
	Overhead int    // number of bytes that it adds to each packet
	attr     string // the attribute of pools that contains its mode
	setting  string // Felix's setting that enables it, if the pools have no attribute for it
	MTU      string // Felix's setting for its MTU
}

var Encapsulations = []Encapsulation{
	{Device: "tunl0", Name: "IPIP", Family: 4, Overhead: 20, attr: probe.AttrIPIP, MTU: "ipipMTU"},
	{Device: "vxlan.calico", Name: "VXLAN", Family: 4, Overhead: 50, attr: probe.AttrVXLAN, MTU: "vxlanMTU"},
	{Device: "vxlan-v6.calico", Name: "VXLAN", Family: 6, Overhead: 70, attr: probe.AttrVXLAN, MTU: "vxlanMTUV6"},
	{Device: "wireguard.cali", Name: "WireGuard", Family: 4, Overhead: 60, setting: "wireguardEnabled",
		MTU: "wireguardMTU"},
	{Device: "wg-v6.cali", Name: "WireGuard", Family: 6, Overhead: 80, setting: "wireguardEnabledV6",
		MTU: "wireguardMTUV6"},
}

// FelixSetting returns one of Felix's settings, or "" if it is not set.
func FelixSetting(p *probe.Pass, name string) string {
	if t := p.Of(probe.KindFelix); len(t) > 0 {
		return t[0].Attrs[name]
	}
	return ""
}

// Use returns when an encapsulation is used: Always, CrossSubnet, or "" for never. The error explains why the
// use is unknown.
func (e Encapsulation) Use(p *probe.Pass) (mode string, err error) {
	if len(p.Targets) == 0 {
		return "", errors.New("the API was not queried")
	}
	if e.setting != "" {
		if on, err := strconv.ParseBool(FelixSetting(p, e.setting)); err == nil && on {
			return "Always", nil
		}
		err := Unlisted(p, probe.KindFelix)
		if err == nil && len(p.Of(probe.KindFelix)) == 0 {
			err = errors.New("Felix's settings are unknown")
		}
		if err != nil {
			return "", fmt.Errorf("unknown whether WireGuard is enabled: %w", err)
		}
		return "", nil
	}
	if err := Unlisted(p, probe.KindPool); err != nil {
		return "", fmt.Errorf("the tunnels of Calico's pools are unknown: %w", err)
	}
	for _, pool := range p.Of(probe.KindPool) {
		cidr, err := netip.ParsePrefix(pool.Name)
		if err != nil || Family(cidr.Addr()) != e.Family {
			continue
		}
		switch pool.Attrs[e.attr] {
		case "Always":
			return "Always", nil
		case "CrossSubnet":
			mode = "CrossSubnet"
		}
	}
	return mode, nil
}

// Ends returns the tunnel's end on this node, if Calico registered it, and all other ends.
func (e Encapsulation) Ends(p *probe.Pass) (own *probe.Target, others []probe.Target) {
	for _, t := range p.Of(probe.KindTunnel) {
		switch {
		case t.Attrs[probe.AttrDevice] != e.Device:
		case t.Attrs[probe.AttrOwn] != "":
			own = &t
		default:
			others = append(others, t)
		}
	}
	return own, others
}

// TunnelSettings holds Felix's settings for a device; 0 = unknown.
type TunnelSettings struct{ VNI, Port, MTU int }

func SettingsOf(p *probe.Pass, e Encapsulation) TunnelSettings {
	if len(p.Of(probe.KindFelix)) == 0 || p.Gaps[probe.KindFelix] != "" {
		return TunnelSettings{}
	}
	number := func(name string, otherwise int) int {
		if n, err := strconv.Atoi(FelixSetting(p, name)); err == nil && n > 0 {
			return n
		}
		return otherwise
	}
	return TunnelSettings{VNI: number("vxlanVNI", VXLANVNI), Port: number("vxlanPort", VXLANPort),
		MTU: number(e.MTU, 0)}
}
