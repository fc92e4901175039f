package checks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
)

// OverlayTunnels compares this node's tunnel devices with what Calico registered for
// them, and their tables with what it registered for the other nodes.
var OverlayTunnels = &probe.Check{
	ID: "overlay-tunnels", Asks: "do this node's tunnel devices exist, and do they lead to the other nodes?",
	From: probe.FromNode,
	Tags: []string{tagNetwork, tagOverlay}, Access: []string{"host network", "netlink"}, Run: overlayTunnels,
	Doc: `Where a pool uses IPIP or VXLAN, or WireGuard is on, Felix makes a device for it (tunl0, vxlan.calico, vxlan-v6.calico, wireguard.cali, wg-v6.cali) with the address that Calico keeps for the node. For VXLAN it writes two entries for every other node: its tunnel address has that MAC (a neighbour), and that MAC lives behind the node's own address (the forwarding table, "bridge fdb").
ok: the device is up and as registered; all other nodes have both entries. fail: the device is missing, down, has another address, VNI, UDP port or MAC than registered, or sends from another address than the one Calico registered: nothing comes through. fail, of a device's peers: entries are missing or lead elsewhere, so pods on those nodes are not reached. Felix does not run or could not write, something else (NetworkManager, systemd-networkd, an operator by hand) changed it, or the other node has changed its address and this one has not heard of it. Where a VXLAN device of another CNI (flannel.1, cilium_vxlan) has the VNI and port that Calico's needs, or another process has that UDP port, it is named.
warn: the MTU is not the one that FelixConfiguration sets; or WireGuard's device is up and Calico has no address for this node's end, without encryption between hosts, which needs none. info: a device that no pool uses (left over), or a pool with a tunnel and no tunnel address for this node, as when the pool does not select it.
skip: no pool uses a tunnel, or Calico keeps its settings in its own etcd. unknown: a device is there, and what Calico registered for it could not be read. Not looked at: the peers of WireGuard, and the entries of a VXLAN device in the mode that the eBPF data plane uses, which has none.`,
}

// Facts of overlay-tunnels.
const (
	FactMTU       probe.Fact = "mtu"        // bytes, of the interface
	FactVNI       probe.Fact = "vni"        // of the VXLAN device
	FactLocal     probe.Fact = "local"      // the address its packets leave from, "" when it has none set
	FactFaults    probe.Fact = "faults"     // what is wrong, as words: missing, down, address, vni, port, local, mac, mtu
	FactVTEPs     probe.Fact = "vteps"      // count of other nodes at the tunnel
	FactSumsLater probe.Fact = "sums_later" // whether the VXLAN device leaves checksums to what is below it
	FactForeign   probe.Fact = "foreign"    // another VXLAN device that stands in the way of Calico's
	FactCutOff    probe.Fact = "cutoff"     // list of these with wrong entries, and what is wrong
)

// forwarding is what a VXLAN device knows about the other ends.
type forwarding struct {
	fdb  map[string][]netip.Addr // MAC -> where packets to it are sent
	macs map[netip.Addr]string   // tunnel address -> MAC
}

// vteps reads what a VXLAN device of a family knows about the other ends.
func vteps(d kernel.Link, family int) (forwarding, error) {
	f := forwarding{fdb: map[string][]netip.Addr{}, macs: map[netip.Addr]string{}}
	known, sentTo, err := kernel.NeighboursOn(d, family)
	if err != nil {
		return f, err
	}
	for _, n := range sentTo {
		f.fdb[n.MAC] = append(f.fdb[n.MAC], n.Addr)
	}
	for _, n := range known {
		if n.MAC != "" && n.State != "failed" && n.State != "incomplete" {
			f.macs[n.Addr] = n.MAC
		}
	}
	return f, nil
}

// Felix's defaults (FelixConfiguration's vxlanVNI and vxlanPort).
const (
	vxlanVNI  = 4096
	vxlanPort = 4789
)

// encapsulation is one of the ways Calico packs packets, and the device for it.
type encapsulation struct {
	device   string
	name     string
	family   int    // of the packets outside
	overhead int    // bytes it takes of each packet
	attr     string // of pools: their mode
	setting  string // of Felix, for what no pool says
	mtu      string // of Felix: its MTU
}

var encapsulations = []encapsulation{
	{device: "tunl0", name: "IPIP", family: 4, overhead: 20, attr: probe.AttrIPIP, mtu: "ipipMTU"},
	{device: "vxlan.calico", name: "VXLAN", family: 4, overhead: 50, attr: probe.AttrVXLAN, mtu: "vxlanMTU"},
	{device: "vxlan-v6.calico", name: "VXLAN", family: 6, overhead: 70, attr: probe.AttrVXLAN, mtu: "vxlanMTUV6"},
	{device: "wireguard.cali", name: "WireGuard", family: 4, overhead: 60, setting: "wireguardEnabled",
		mtu: "wireguardMTU"},
	{device: "wg-v6.cali", name: "WireGuard", family: 6, overhead: 80, setting: "wireguardEnabledV6",
		mtu: "wireguardMTUV6"},
}

// felixSetting is one of Felix's settings, "" when it is not set.
func felixSetting(p *probe.Pass, name string) string {
	if t := p.Of(probe.KindFelix); len(t) > 0 {
		return t[0].Attrs[name]
	}
	return ""
}

// use says what an encapsulation is for: Always, CrossSubnet, or "" for nothing.
// The error says why that is not known.
func (e encapsulation) use(p *probe.Pass) (mode string, err error) {
	if len(p.Targets) == 0 {
		return "", errors.New("the API was not asked")
	}
	if e.setting != "" {
		if on, err := strconv.ParseBool(felixSetting(p, e.setting)); err == nil && on {
			return "Always", nil
		}
		err := unlisted(p, probe.KindFelix)
		if err == nil && len(p.Of(probe.KindFelix)) == 0 {
			err = errors.New("nothing is known of Felix")
		}
		if err != nil {
			return "", fmt.Errorf("whether WireGuard is on is not known: %w", err)
		}
		return "", nil
	}
	if err := unlisted(p, probe.KindPool); err != nil {
		return "", fmt.Errorf("which tunnels Calico's pools use is not known: %w", err)
	}
	for _, pool := range p.Of(probe.KindPool) {
		cidr, err := netip.ParsePrefix(pool.Name)
		if err != nil || family(cidr.Addr()) != e.family {
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

// ends gives the tunnel's end on this node, if it is registered, and all others.
func (e encapsulation) ends(p *probe.Pass) (own *probe.Target, others []probe.Target) {
	for _, t := range p.Of(probe.KindTunnel) {
		switch {
		case t.Attrs[probe.AttrDevice] != e.device:
		case t.Attrs[probe.AttrOwn] != "":
			own = &t
		default:
			others = append(others, t)
		}
	}
	return own, others
}

func overlayTunnels(ctx context.Context, p *probe.Pass) {
	all, err := kernel.Links()
	if err != nil {
		p.Report(unseen(err))
		return
	}
	silent := true
	say := func(r probe.Result) { silent = false; p.Report(heldTunnel(ctx, p, r)) }
	for _, e := range encapsulations {
		i := slices.IndexFunc(all, func(d kernel.Link) bool { return d.Name == e.device })
		var d *kernel.Link
		if i >= 0 {
			d = &all[i]
		}
		mode, err := e.use(p)
		own, others := e.ends(p)
		switch {
		case mode == "" && err == nil:
			// The kernel makes a tunl0 of its own, down and without an address; the eBPF data
			// plane uses VXLAN whatever the pools say.
			if d != nil && d.Up && len(d.Addrs) > 0 && !ebpf(p, all) {
				say(probe.Found(probe.Info, "%s exists with %s, but nothing in Calico's configuration uses %s",
					d.Name, d.Addrs[0].Addr(), e.name).On(e.device))
			}
		case err != nil && own == nil && d == nil:
		case err != nil && own == nil:
			say(unseen(fmt.Errorf("%s exists, but its intended configuration is not known: %w", e.device, err)).
				On(e.device))
		case own == nil && p.Gaps[probe.KindTunnel] != "":
			say(gap(p, probe.KindTunnel, "").On(e.device))
		case own == nil && e.name == "WireGuard" && d != nil && d.Up && felixSetting(p, "wireguardHostEncryptionEnabled") != "true":
			say(probe.Found(probe.Warn, "%s is on and %s is up, but Calico has no address for this node's end: pods' packets to other nodes go unencrypted, or nowhere",
				e.name, e.device).On(e.device).With(FactFaults, []string{"address"}))
		case own == nil:
			say(probe.Found(probe.Info, "%s is in use (%s), but Calico has no address for this node's %s", e.name,
				mode, e.device).On(e.device))
		case d == nil && e.device == "vxlan-v6.calico" && ebpf(p, all):
			say(probe.Found(probe.Skip, "the eBPF data plane needs no %s: its vxlan.calico carries both families",
				e.device).On(e.device))
		default:
			set := settingsOf(p, e)
			say(withOffload(inTheWay(judgeTunnel(e, mode, d, *own, set), e, set, all), d).On(e.device))
			if d != nil && d.Up && d.VXLAN != nil && !d.VXLAN.External && len(others) > 0 {
				f, err := vteps(*d, e.family)
				if err != nil {
					say(unseen(err).On(e.device + " peers"))
					continue
				}
				say(judgeVTEPs(others, f).On(e.device + " peers"))
			}
		}
	}
	if silent {
		p.Report(gap(p, probe.KindPool, "no pool of Calico's uses a tunnel, and WireGuard is off"))
	}
}

// withOffload adds who fills in the checksums of what a VXLAN device sends, where the kernel says so.
func withOffload(r probe.Result, d *kernel.Link) probe.Result {
	if d == nil || d.VXLAN == nil {
		return r
	}
	later, err := kernel.OffloadsChecksums(d.Name)
	if err != nil {
		return r
	}
	return r.With(FactSumsLater, later)
}

// tunnelSettings are what Felix is told about a device; 0 = it is not known.
type tunnelSettings struct{ vni, port, mtu int }

func settingsOf(p *probe.Pass, e encapsulation) tunnelSettings {
	if len(p.Of(probe.KindFelix)) == 0 || p.Gaps[probe.KindFelix] != "" {
		return tunnelSettings{}
	}
	number := func(name string, otherwise int) int {
		if n, err := strconv.Atoi(felixSetting(p, name)); err == nil && n > 0 {
			return n
		}
		return otherwise
	}
	return tunnelSettings{vni: number("vxlanVNI", vxlanVNI), port: number("vxlanPort", vxlanPort),
		mtu: number(e.mtu, 0)}
}

// inTheWay names the device of another CNI that keeps Calico's from being made, or from being up: the
// kernel makes no second one with the same VNI and port, and none beside one that takes every VNI of a port.
func inTheWay(r probe.Result, e encapsulation, set tunnelSettings, all []kernel.Link) probe.Result {
	if r.Status != probe.Fail || e.name != "VXLAN" {
		return r
	}
	vni, port := cmp.Or(set.vni, vxlanVNI), cmp.Or(set.port, vxlanPort)
	for _, d := range all {
		if v := d.VXLAN; v != nil && !strings.HasSuffix(d.Name, ".calico") && v.Port == port && (v.External || v.VNI == vni) {
			what := fmt.Sprintf("has the same VNI %d and UDP port %d", vni, port)
			if v.External {
				what = fmt.Sprintf("takes every VNI of UDP port %d", port)
			}
			r.Saw += fmt.Sprintf("; %s, which is not Calico's, %s", d.Name, what)
			return r.With(FactForeign, d.Name)
		}
	}
	return r
}

// judgeTunnel judges a device, nil when there is none, by its end in Calico's
// datastore. IPIP and WireGuard are judged on what every interface has.
func judgeTunnel(e encapsulation, mode string, d *kernel.Link, own probe.Target, set tunnelSettings) probe.Result {
	if d == nil {
		return probe.Found(probe.Fail,
			"there is no interface %s, though Calico uses %s (%s) and registered %s for this node's end",
			e.device, e.name, mode, own.Addr).With(FactFaults, []string{"missing"})
	}
	faults, wrong := []string{}, []string{}
	bad := func(fault, format string, args ...any) {
		faults = append(faults, fault)
		wrong = append(wrong, fmt.Sprintf(format, args...))
	}
	if !d.Up {
		bad("down", "it is down")
	}
	if !slices.ContainsFunc(d.Addrs, func(a netip.Prefix) bool { return a.Addr() == own.Addr }) {
		bad("address", "it has %s, but Calico registered %s for it", addresses(d, e.family), own.Addr)
	}
	saw := []string{fmt.Sprintf("%s is up with %s", e.device, own.Addr), fmt.Sprintf("MTU %d", d.MTU)}
	local := ""
	if v := d.VXLAN; v != nil {
		outer, _ := netip.ParseAddr(own.Attrs[probe.AttrOuter])
		if v.External {
			saw = append(saw, fmt.Sprintf("port %d, in the mode of the eBPF data plane", v.Port))
		} else {
			saw = append(saw, fmt.Sprintf("VNI %d, port %d", v.VNI, v.Port))
			if set.vni != 0 && v.VNI != set.vni {
				bad("vni", "its VNI is %d, not %d", v.VNI, set.vni)
			}
		}
		if set.port != 0 && v.Port != set.port {
			bad("port", "its UDP port is %d, not %d", v.Port, set.port)
		}
		if v.Local.IsValid() && !v.Local.IsUnspecified() {
			local = v.Local.String()
			saw = append(saw, "from "+local)
			if outer.IsValid() && v.Local != outer {
				bad("local", "it sends from %s, but Calico registered %s for this node", v.Local, outer)
			}
		}
		if mac := own.Attrs[probe.AttrMAC]; mac != "" && !strings.EqualFold(mac, d.MAC) {
			bad("mac", "its MAC is %s, but the other nodes use %s", d.MAC, mac)
		}
	}
	if e.name == "WireGuard" {
		saw = append(saw, "its peers not checked")
	}
	r := probe.Found(probe.OK, "%s", strings.Join(saw, ", "))
	switch {
	case len(wrong) > 0:
		r = probe.Found(probe.Fail, "%s: %s", e.device, strings.Join(wrong, "; "))
	case set.mtu != 0 && d.MTU != set.mtu:
		faults = append(faults, "mtu")
		r = probe.Found(probe.Warn, "the MTU of %s is %d, and %s is set to %d", e.device, d.MTU, e.mtu, set.mtu)
	}
	r = r.With(FactFaults, faults).With(FactMTU, d.MTU)
	if d.VXLAN != nil {
		r = r.With(FactVNI, d.VXLAN.VNI).With(FactPort, d.VXLAN.Port).With(FactLocal, local)
	}
	return r
}

// addresses names what an interface has of one family, without what the kernel
// gives every interface.
func addresses(d *kernel.Link, f int) string {
	var out []string
	for _, a := range d.Addrs {
		if family(a.Addr()) == f && !a.Addr().IsLinkLocalUnicast() {
			out = append(out, a.Addr().String())
		}
	}
	if len(out) == 0 {
		return "no address"
	}
	return strings.Join(out, ", ")
}

// judgeVTEPs compares a VXLAN device's tables with the other nodes' ends.
func judgeVTEPs(others []probe.Target, f forwarding) probe.Result {
	total := 0
	var cut []string
	for _, t := range others {
		outer, err := netip.ParseAddr(t.Attrs[probe.AttrOuter])
		if err != nil {
			continue // Felix writes nothing for such a node either
		}
		total++
		name := fmt.Sprintf("%s %s", t.Name, outer)
		mac, registered := f.macs[t.Addr], t.Attrs[probe.AttrMAC]
		switch leads := f.fdb[mac]; {
		case mac == "":
			cut = append(cut, fmt.Sprintf("%s has no neighbour entry for its tunnel address %s", name, t.Addr))
		case registered != "" && !strings.EqualFold(mac, registered):
			cut = append(cut, fmt.Sprintf("%s: packets are sent to the MAC %s, but it registered %s", name, mac,
				registered))
		case len(leads) == 0:
			cut = append(cut, fmt.Sprintf("%s has no forwarding entry for its MAC %s", name, mac))
		case !slices.Contains(leads, outer):
			cut = append(cut, fmt.Sprintf("%s: packets to its MAC %s are sent to %s", name, mac, leads[0]))
		}
	}
	r := probe.Found(probe.OK, "all %d other nodes have a neighbour entry and a forwarding entry that leads to them",
		total)
	switch {
	case total == 0:
		r = probe.Found(probe.Skip, "no other node has a tunnel address and an address of its own")
	case len(cut) > 0:
		r = probe.Found(probe.Fail, "%d of %d other nodes are not reached through the tunnel: %s", len(cut), total,
			some(cut))
	}
	return r.With(FactVTEPs, total).With(FactCutOff, first(cut))
}
