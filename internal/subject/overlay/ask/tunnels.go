package ask

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/subject/overlay"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
)

// overlayTunnelsCheck binds overlay.OverlayTunnels to the function that runs it.
var overlayTunnelsCheck = answers.To(overlay.OverlayTunnels, overlayTunnels)

// Facts of overlay-tunnels.
const (
	factVNI   probe.Fact = "vni"   // of the VXLAN device
	factLocal probe.Fact = "local" // source address of its packets, "" if no address is set

	factVTEPs probe.Fact = "vteps" // number of other nodes that the tunnel connects
)

// forwarding holds a VXLAN device's tables about the other tunnel ends.
type forwarding struct {
	fdb  map[string][]netip.Addr // maps a MAC to the destinations of its packets
	macs map[netip.Addr]string   // maps a tunnel address to a MAC
}

// vteps reads a VXLAN device's tables about the other tunnel ends, in one address family.
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

func overlayTunnels(ctx context.Context, p *probe.Pass) {
	all, err := kernel.Links()
	if err != nil {
		p.Report(node.Unseen(err))
		return
	}
	silent := true
	say := func(r probe.Result) { silent = false; p.Report(node.HeldTunnel(ctx, p, r)) }
	for _, e := range node.Encapsulations {
		i := slices.IndexFunc(all, func(d kernel.Link) bool { return d.Name == e.Device })
		var d *kernel.Link
		if i >= 0 {
			d = &all[i]
		}
		mode, err := e.Use(p)
		own, others := e.Ends(p)
		switch {
		case mode == "" && err == nil:
			// The kernel creates its own tunl0 device, which is down and has no address. The eBPF data
			// plane uses VXLAN, regardless of the pools' configuration.
			if d != nil && d.Up && len(d.Addrs) > 0 && !node.EBPF(p, all) {
				say(probe.Found(probe.Info, "%s exists with %s, but Calico's configuration does not use %s",
					d.Name, d.Addrs[0].Addr(), e.Name).On(e.Device))
			}
		case err != nil && own == nil && d == nil:
		case err != nil && own == nil:
			say(node.Unseen(fmt.Errorf("%s exists, but its intended configuration is unknown: %w", e.Device, err)).
				On(e.Device))
		case own == nil && p.Gaps[probe.KindTunnel] != "":
			say(node.Gap(p, probe.KindTunnel, "").On(e.Device))
		case own == nil && e.Name == "WireGuard" && d != nil && d.Up && node.FelixSetting(p, "wireguardHostEncryptionEnabled") != "true":
			say(probe.Found(probe.Warn, "%s is on and %s is up, but Calico has no address for this node's end: pod traffic to other nodes is unencrypted or lost",
				e.Name, e.Device).On(e.Device).With(probe.FactFaults, []string{"address"}))
		case own == nil:
			say(probe.Found(probe.Info, "%s is in use (%s), but Calico has no address for this node's %s", e.Name,
				mode, e.Device).On(e.Device))
		case d == nil && e.Device == "vxlan-v6.calico" && node.EBPF(p, all):
			say(probe.Found(probe.Skip, "the eBPF data plane does not need %s: vxlan.calico transports both families",
				e.Device).On(e.Device))
		default:
			set := node.SettingsOf(p, e)
			say(withOffload(addConflict(judgeTunnel(e, mode, d, *own, set), e, set, all), d).On(e.Device))
			if d != nil && d.Up && d.VXLAN != nil && !d.VXLAN.External && len(others) > 0 {
				f, err := vteps(*d, e.Family)
				if err != nil {
					say(node.Unseen(err).On(e.Device + " peers"))
					continue
				}
				say(judgeVTEPs(others, f).On(e.Device + " peers"))
			}
		}
	}
	if silent {
		p.Report(node.Gap(p, probe.KindPool, "no Calico IP pool uses a tunnel, and WireGuard is disabled"))
	}
}

// withOffload adds whether the VXLAN device itself computes checksums, if the kernel reports that.
func withOffload(r probe.Result, d *kernel.Link) probe.Result {
	if d == nil || d.VXLAN == nil {
		return r
	}
	later, err := offloadsChecksums(d.Name)
	if err != nil {
		return r
	}
	return r.With(overlay.FactSumsLater, later)
}

// addConflict names a device that belongs to another CNI plugin and conflicts with Calico's device. The kernel does
// not create a second device with the same VNI and port. It also does not create a device if another device accepts
// all VNIs on the port.
func addConflict(r probe.Result, e node.Encapsulation, set node.TunnelSettings, all []kernel.Link) probe.Result {
	if r.Status != probe.Fail || e.Name != "VXLAN" {
		return r
	}
	vni, port := cmp.Or(set.VNI, node.VXLANVNI), cmp.Or(set.Port, node.VXLANPort)
	for _, d := range all {
		if v := d.VXLAN; v != nil && !strings.HasSuffix(d.Name, ".calico") && v.Port == port && (v.External || v.VNI == vni) {
			what := fmt.Sprintf("has the same VNI %d and UDP port %d", vni, port)
			if v.External {
				what = fmt.Sprintf("accepts all VNIs on UDP port %d", port)
			}
			r.Saw += fmt.Sprintf("; %s, which does not belong to Calico, %s", d.Name, what)
			return r.With(overlay.FactForeign, d.Name)
		}
	}
	return r
}

// judgeTunnel compares a device with its registration in Calico's datastore. If the device does not exist, it is
// nil. For IPIP and WireGuard, judgeTunnel compares attributes that all interfaces have.
func judgeTunnel(e node.Encapsulation, mode string, d *kernel.Link, own probe.Target,
	set node.TunnelSettings) probe.Result {
	if d == nil {
		return probe.Found(probe.Fail,
			"interface %s does not exist, but Calico uses %s (%s) and registered %s for this node's end",
			e.Device, e.Name, mode, own.Addr).With(probe.FactFaults, []string{"missing"})
	}
	faults, wrong, local := []string{}, []string{}, ""
	bad := func(fault, format string, args ...any) {
		faults = append(faults, fault)
		wrong = append(wrong, fmt.Sprintf(format, args...))
	}
	if !d.Up {
		bad("down", "it is down")
	}
	if !slices.ContainsFunc(d.Addrs, func(a netip.Prefix) bool { return a.Addr() == own.Addr }) {
		bad("address", "it has %s, but Calico registered %s for it", addresses(d, e.Family), own.Addr)
	}
	saw := []string{fmt.Sprintf("%s is up with %s", e.Device, own.Addr), fmt.Sprintf("MTU %d", d.MTU)}
	if v := d.VXLAN; v != nil {
		outer, _ := netip.ParseAddr(own.Attrs[probe.AttrOuter])
		if v.External {
			saw = append(saw, fmt.Sprintf("port %d, in eBPF data plane mode", v.Port))
		} else {
			saw = append(saw, fmt.Sprintf("VNI %d, port %d", v.VNI, v.Port))
			if set.VNI != 0 && v.VNI != set.VNI {
				bad("vni", "its VNI is %d, not %d", v.VNI, set.VNI)
			}
		}
		if set.Port != 0 && v.Port != set.Port {
			bad("port", "its UDP port is %d, not %d", v.Port, set.Port)
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
	if e.Name == "WireGuard" {
		saw = append(saw, "peers not checked")
	}
	r := probe.Found(probe.OK, "%s", strings.Join(saw, ", "))
	switch {
	case len(wrong) > 0:
		r = probe.Found(probe.Fail, "%s: %s", e.Device, strings.Join(wrong, "; "))
	case set.MTU != 0 && d.MTU != set.MTU:
		faults = append(faults, "mtu")
		r = probe.Found(probe.Warn, "the MTU of %s is %d, but %s is %d", e.Device, d.MTU, e.MTU, set.MTU)
	}
	r = r.With(probe.FactFaults, faults).With(probe.FactMTU, d.MTU)
	if d.VXLAN != nil {
		r = r.With(factVNI, d.VXLAN.VNI).With(probe.FactPort, d.VXLAN.Port).With(factLocal, local)
	}
	return r
}

// addresses lists an interface's addresses in one family. It omits the addresses that the kernel
// adds to all interfaces.
func addresses(d *kernel.Link, f int) string {
	var out []string
	for _, a := range d.Addrs {
		if node.Family(a.Addr()) == f && !a.Addr().IsLinkLocalUnicast() {
			out = append(out, a.Addr().String())
		}
	}
	if len(out) == 0 {
		return "no address"
	}
	return strings.Join(out, ", ")
}

// judgeVTEPs compares a VXLAN device's tables with the registrations of the other nodes.
func judgeVTEPs(others []probe.Target, f forwarding) probe.Result {
	total := 0
	var cut []string
	for _, t := range others {
		outer, err := netip.ParseAddr(t.Attrs[probe.AttrOuter])
		if err != nil {
			continue // Felix does not write an entry for such a node either
		}
		total++
		name := fmt.Sprintf("%s %s", t.Name, outer)
		mac, registered := f.macs[t.Addr], t.Attrs[probe.AttrMAC]
		switch leads := f.fdb[mac]; {
		case mac == "":
			cut = append(cut, fmt.Sprintf("%s has no neighbour entry for its tunnel address %s", name, t.Addr))
		case registered != "" && !strings.EqualFold(mac, registered):
			cut = append(cut, fmt.Sprintf("%s: packets are sent to the MAC %s, but the node registered %s", name, mac,
				registered))
		case len(leads) == 0:
			cut = append(cut, fmt.Sprintf("%s has no forwarding entry for its MAC %s", name, mac))
		case !slices.Contains(leads, outer):
			cut = append(cut, fmt.Sprintf("%s: packets to its MAC %s are sent to %s", name, mac, leads[0]))
		}
	}
	r := probe.Found(probe.OK, "all %d other nodes have correct neighbour and forwarding entries",
		total)
	switch {
	case total == 0:
		r = probe.Found(probe.Skip, "no other node has both a tunnel address and a node address")
	case len(cut) > 0:
		r = probe.Found(probe.Fail, "%d of %d other nodes are unreachable through the tunnel: %s", len(cut), total,
			node.Some(cut))
	}
	return r.With(factVTEPs, total).With(overlay.FactCutOff, node.First(cut))
}
