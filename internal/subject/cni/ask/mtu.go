package ask

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
)

// cniMTUCheck binds cni.CNIMTU to the function that runs it.
var cniMTUCheck = answers.To(cni.CNIMTU, cniMTU)

// Facts of cni-mtu. All values are in bytes.
const (
	factPodMTU   probe.Fact = "pod_mtu"  // MTU of new pods, 0 if unknown
	factHostMTU  probe.Fact = "host_mtu" // MTU of the interface that has the node's address
	factOverhead probe.Fact = "overhead" // the largest overhead of the tunnels in use
)

// mtuWaste is how many percent an MTU must be below the largest possible MTU to count as too small. On a network with
// MTU 1500, an MTU for WireGuard over IPv6 is five percent below and is accepted. On a network with MTU 9000, Felix's
// default of 1460 for an unknown interface is too small.
const mtuWaste = 10

// leg is one path on which a pod's packets leave the node.
type leg struct {
	via      string // the tunnel device, "" = none
	mtu      int    // MTU of that device
	name     string // overhead of the encapsulation
	overhead int
	out      string // the interface that has the node's address
	outMTU   int
}

// room returns the largest packet that fits after encapsulation.
func (l leg) room() int { return l.outMTU - l.overhead }

// takes returns the largest packet that this leg accepts.
func (l leg) takes() int {
	if l.via != "" {
		return min(l.mtu, l.room())
	}
	return l.room()
}

func cniMTU(_ context.Context, p *probe.Pass) {
	all, err := kernel.Links()
	if err != nil {
		p.Report(node.Unseen(err))
		return
	}
	pods := map[int]int{}
	for _, d := range all {
		if node.IsPods(d) {
			pods[d.MTU]++
		}
	}
	setting, from := podMTU(p.Host)
	if len(pods) == 0 && setting == 0 {
		p.Report(probe.Found(probe.Skip, "no cali* interface on this node, and no MTU configured for new ones"))
		return
	}
	self := p.Of(probe.KindSelf)
	if len(self) == 0 {
		p.Report(node.Gap(p, probe.KindSelf,
			"the node's uplink is unknown: no address is registered"))
		return
	}
	var legs []leg
	var unsure error
	for _, f := range []int{4, 6} {
		ways, err := legsOf(p, all, f)
		legs = append(legs, ways...)
		if err != nil {
			unsure = err
		}
	}
	if len(legs) == 0 {
		p.Report(probe.Found(probe.Skip, "no interface has the registered address %s", self[0].Addr))
		return
	}
	r := judgeMTU(legs, pods, setting, from)
	if unsure != nil && (r.Status == probe.Warn || r.Status == probe.Fail) {
		r.Status = node.Unseen(unsure).Status
		r.Saw += fmt.Sprintf("; %v", unsure)
	}
	p.Report(r)
}

// legsOf lists the paths of one address family through the interface that has the node's address. The pools
// determine the encapsulation. If the pools are unknown (see the error), legsOf derives it from the devices.
func legsOf(p *probe.Pass, all []kernel.Link, f int) (legs []leg, unsure error) {
	out, subnet := node.Uplink(p, all, f)
	if out == nil {
		return nil, nil
	}
	for _, e := range node.Encapsulations {
		mode, err := e.Use(p)
		_, others := e.Ends(p)
		i := slices.IndexFunc(all, func(d kernel.Link) bool { return d.Name == e.Device && d.Up })
		if e.Family != f || i < 0 || mode == "" && err == nil {
			continue
		}
		if err != nil {
			unsure = err
		}
		if mode == "CrossSubnet" && !slices.ContainsFunc(others, func(t probe.Target) bool {
			outer, err := netip.ParseAddr(t.Attrs[probe.AttrOuter])
			return err == nil && !subnet.Masked().Contains(outer)
		}) {
			continue
		}
		legs = append(legs, leg{e.Device, all[i].MTU, e.Name, e.Overhead, out.Name, out.MTU})
	}
	if len(legs) == 0 {
		legs = []leg{{out: out.Name, outMTU: out.MTU}}
	}
	return legs, unsure
}

// podMTU returns the MTU of new pods and where it comes from, or 0 if it is unknown.
func podMTU(h *probe.Host) (mtu int, from string) {
	for _, place := range node.CNIPlaces {
		networks, err := node.NetworksIn(h, place.Config)
		if err != nil {
			continue
		}
		for _, n := range networks {
			if !slices.Contains(n.Plugins, "calico") {
				continue
			}
			if text, err := h.ReadFile(n.File); err == nil {
				if mtu := mtuIn(text); mtu > 0 {
					return mtu, n.File
				}
			}
		}
	}
	file := h.Place(probe.PlaceLib) + "/mtu"
	text, err := h.ReadFile(file)
	if err != nil {
		return 0, ""
	}
	mtu, err = strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || mtu <= 0 {
		return 0, ""
	}
	return mtu, file
}

// mtuIn returns the MTU from a CNI configuration for Calico's plugin, or 0.
func mtuIn(text []byte) int {
	type plugin struct {
		Type string `json:"type"`
		MTU  any    `json:"mtu"` // a wrong type breaks the plugin, but must not break this check
	}
	var file struct {
		plugin
		Plugins []plugin `json:"plugins"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return 0
	}
	for _, p := range append([]plugin{file.plugin}, file.Plugins...) {
		if n, ok := p.MTU.(float64); ok && p.Type == "calico" && n > 0 && n <= 65535 {
			return int(n)
		}
	}
	return 0
}

// judgeMTU compares the MTUs of new and existing pods with the paths that their packets take.
func judgeMTU(legs []leg, pods map[int]int, setting int, from string) probe.Result {
	tight := slices.MinFunc(legs, func(a, b leg) int { return a.takes() - b.takes() })
	sizes := slices.Sorted(maps.Keys(pods))
	what := fmt.Sprintf("new pods get MTU %d (%s)", setting, from)
	send := setting
	if setting == 0 {
		send = sizes[len(sizes)-1]
		what = fmt.Sprintf("pods have MTU %d", send)
	}
	var r probe.Result
	older, oldest := 0, 0 // pods that were created with a larger MTU
	for mtu, n := range pods {
		if mtu > send {
			older, oldest = older+n, max(oldest, mtu)
		}
	}
	over := slices.IndexFunc(legs, func(l leg) bool { return send > l.room() && l.via != "" && l.mtu > l.room() })
	wide := slices.IndexFunc(legs, func(l leg) bool { return l.via != "" && l.mtu > l.room() })
	switch {
	case over >= 0:
		l := legs[over]
		r = probe.Found(probe.Fail, "%s and %s accepts %d: with %d bytes of %s, packets exceed the MTU of %s, %d", what,
			l.via, l.mtu, l.overhead, l.name, l.out, l.outMTU)
	case send > tight.takes():
		r = probe.Found(probe.Warn, "%s, but %s allows at most %d: larger packets depend on path MTU discovery",
			what, tight, tight.takes())
	case oldest > tight.takes():
		r = probe.Found(probe.Warn, "%d pod interfaces have an older MTU of up to %d, but %s allows at most %d; %s",
			older, oldest, tight, tight.takes(), what)
	case older > 0:
		r = probe.Found(probe.Info, "%d pod interfaces have an older MTU of up to %d, which fits; %s", older, oldest,
			what)
	case wide >= 0:
		l := legs[wide]
		r = probe.Found(probe.Info,
			"%s accepts %d: with %d bytes of %s, packets exceed the MTU of %s, %d; pods send less: %s", l.via, l.mtu,
			l.overhead, l.name, l.out, l.outMTU, what)
	case send*100 < tight.room()*(100-mtuWaste):
		r = probe.Found(probe.Info, "%s; %d would fit through %s", what, tight.room(), tight)
	default:
		r = probe.Found(probe.OK, "%s, and %s allows %d", what, tight, tight.takes())
	}
	count := map[string]int{}
	for _, mtu := range sizes {
		count[strconv.Itoa(mtu)] = pods[mtu]
		r = r.Because(fmt.Sprintf("%d cali* interfaces: MTU %d", pods[mtu], mtu))
	}
	overhead := 0
	for _, l := range legs {
		overhead = max(overhead, l.overhead)
		if l.via != "" {
			r = r.Because(fmt.Sprintf("%s: MTU %d, and %d bytes of %s on %s with MTU %d", l.via, l.mtu, l.overhead,
				l.name, l.out, l.outMTU))
		} else {
			r = r.Because(fmt.Sprintf("%s: MTU %d", l.out, l.outMTU))
		}
	}
	return r.With(factPodMTU, setting).With(cni.FactPodsMTU, count).With(factHostMTU, tight.outMTU).
		With(factOverhead, overhead).With(cni.FactRoom, tight.room())
}

// String describes the narrowest part of a path.
func (l leg) String() string {
	if l.via == "" {
		return l.out
	}
	return l.via
}
