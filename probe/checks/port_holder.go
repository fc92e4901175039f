package checks

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
)

// Facts of a port that Calico needs and another process has.
const (
	FactHeldBy   probe.Fact = "held_by"   // the process: "NAME (PID)"
	FactHeldPort probe.Fact = "held_port" // "UDP 4789"
)

// mostHolders bounds whose processes are looked for.
const mostHolders = 8

// holder is the process that has one of some sockets, "" where none is seen: the kernel's own have none.
func holder(ctx context.Context, h *probe.Host, sockets []kernel.Socket) string {
	if len(sockets) == 0 {
		return ""
	}
	one, _, cancel := part(ctx, 2)
	defer cancel()
	names, _ := kernel.Owners(one, h, sockets[:min(len(sockets), mostHolders)])
	for _, s := range sockets {
		if name := names[s.Inode]; name != "" {
			return probe.Quoted(name)
		}
	}
	return ""
}

// heldTunnel names the process that has the UDP port of a VXLAN device that is down or was not made: the
// kernel opens that port when the device comes up.
func heldTunnel(ctx context.Context, p *probe.Pass, r probe.Result) probe.Result {
	faults, _ := r.Facts[FactFaults].([]string)
	i := slices.IndexFunc(encapsulations, func(e encapsulation) bool { return e.device == r.Target && e.name == "VXLAN" })
	if i < 0 || r.Status != probe.Fail || !slices.Contains(faults, "down") && !slices.Contains(faults, "missing") {
		return r
	}
	port := settingsOf(p, encapsulations[i]).port
	if port == 0 {
		port = vxlanPort
	}
	var sockets []kernel.Socket
	err := kernel.UDP(uint16(port), func(s kernel.Socket) {
		a := s.Near.Addr()
		if a.Is6() && a.IsUnspecified() || family(a) == encapsulations[i].family { // the first may be for both families
			sockets = append(sockets, s)
		}
	})
	who := ""
	if err == nil {
		who = holder(ctx, p.Host, sockets)
	}
	if who == "" {
		return r
	}
	r.Saw += fmt.Sprintf("; another process has UDP port %d, which it needs: %s", port, who)
	return r.With(FactHeldBy, who).With(FactHeldPort, fmt.Sprintf("UDP %d", port))
}

// heldHealth names the process that has Felix's health port, where something took the connection there and is
// not Felix.
func heldHealth(ctx context.Context, h *probe.Host, r probe.Result, fromFelix bool) probe.Result {
	at, err := netip.ParseAddrPort(r.Facts.Str(FactAddress))
	silent := []string{"timeout", "reset", "closed"}
	taken := r.Facts[FactCode] != nil || slices.Contains(silent, r.Facts.Str(probe.FactReason))
	if fromFelix || err != nil || !taken {
		return r
	}
	var felixs map[uint32]bool
	if p, ok, err := calicoProcess(h, "felix"); err == nil && ok {
		felixs = socketsOf(h, p.PID)
	}
	var sockets []kernel.Socket
	err = kernel.TCP(kernel.Listening, at.Port(), 0, func(s kernel.Socket) {
		a := s.Near.Addr()
		if (a == at.Addr() || a.IsUnspecified()) && !felixs[s.Inode] {
			sockets = append(sockets, s)
		}
	})
	who := ""
	if err == nil {
		who = holder(ctx, h, sockets)
	}
	if who == "" || strings.HasPrefix(who, "calico-node ") { // Felix itself, where its process was not found for sure
		return r
	}
	r.Saw += fmt.Sprintf("; another process has the port: %s", who)
	return r.With(FactHeldBy, who).With(FactHeldPort, fmt.Sprintf("TCP %d", at.Port()))
}
