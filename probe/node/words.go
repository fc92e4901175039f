package node

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/httpget"
	"github.com/calico-probe/calico-probe/probe/kernel"
)

// DomainOf returns the cluster domain. It also reports whether this is only the default, because
// the kubelet's domain is unknown.
func DomainOf(k Kubelet, err error) (domain string, guessed bool) {
	if err == nil && k.ClusterDomain != "" {
		return strings.TrimSuffix(k.ClusterDomain, "."), false
	}
	return "cluster.local", true // kubeadm's default
}

// Facts of the DNS checks.
const (
	FactAnswers probe.Fact = "answers" // addresses in the answer

	FactTruncated probe.Fact = "truncated" // true if the answer did not fit in a UDP packet
)

// GivesNone reports whether a kubelet certainly does not configure a cluster name server for pods. If a kubelet is
// part of another program, that program may set the name server with an argument.
func (k Kubelet) GivesNone() bool { return k.PID > 0 && k.Config != "" && len(k.ClusterDNS) == 0 }

// NoAnswer evaluates the error of a query to a daemon on this node that should be running. It reports what
// happened to the connection.
func NoAnswer(err error, who string, limit time.Duration) probe.Result {
	reason := probe.Reason(err)
	var r probe.Result
	var op *net.OpError
	switch reason {
	case "denied":
		r = probe.Failed(err)
		if errors.As(err, &op) && op.Net != "unix" { // refers to packets, not to a file
			r = probe.Found(probe.Fail, "%s cannot be reached: %s", who, Refusals[reason])
		}
	case "refused":
		r = probe.Found(probe.Fail, "connection to %s refused: nothing listens there", who)
	case "timeout":
		r = probe.Found(probe.Fail, "no answer from %s within %v", who, limit)
		if errors.Is(err, httpget.ErrNotAccepted) {
			r = r.With(probe.FactTaken, false)
		}
	case "reset", "closed":
		r = probe.Found(probe.Fail, "%s accepted the connection and closed it without an answer", who)
	case "host-unreachable", "net-unreachable", "no-address":
		r = probe.Found(probe.Fail, "%s cannot be reached: %s", who, Refusals[reason])
	default:
		r = probe.Failed(err)
	}
	return r.With(probe.FactReason, reason)
}

// Facts of the ping checks.
const (
	FactRTTMin probe.Fact = "rtt_min_ms" // milliseconds
	FactRTTMax probe.Fact = "rtt_max_ms" // milliseconds
)

// Refusal describes why a packet could not leave.
func Refusal(reason string) string { return Refusals[reason] }

var Refusals = map[string]string{
	"denied": "rejected locally: a firewall rule (kube-proxy has one for a Service without endpoints), or a prohibit route", "blackhole": "a blackhole route discards it",
	"net-unreachable":  "the sender has no route to it (net-unreachable)",
	"host-unreachable": "an unreachable route, or no answer to ARP or NDP on the link (host-unreachable)",
	"no-address":       "the sender has no address to send from (no-address)",
	"too-big":          "larger than the MTU of the outgoing interface",
	"error":            "the kernel refuses",
}

// Elsewhere returns the targets whose address is outside the namespace that sends the queries,
// because a pod does not test itself.
func Elsewhere(targets []probe.Target) []probe.Target {
	own, err := kernel.Links()
	if err != nil {
		return targets // in that case, it also tests itself
	}
	return slices.DeleteFunc(targets, func(t probe.Target) bool {
		return slices.ContainsFunc(own, func(l kernel.Link) bool { return l.Has(t.Addr.Unmap()) })
	})
}

func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Listed is the maximum length of lists in one result, because a cluster may have thousands of blocks.
const Listed = 10

func First(all []string) []string { return append([]string{}, all[:min(len(all), Listed)]...) }

// Some lists the first few items.
func Some(all []string) string {
	const few = 3
	if len(all) <= few {
		return strings.Join(all, ", ")
	}
	return strings.Join(all[:few], ", ") + fmt.Sprintf(" and %d more", len(all)-few)
}

// Facts of the route check.
const FactGateway probe.Fact = "gateway"

// Hop is the kernel's decision for packets to one address.
type Hop struct {
	Device  string
	Gateway netip.Addr // invalid if the target is on the link
	Source  netip.Addr
	Match   netip.Prefix // the route that matches; invalid if the kernel does not report the route
	Proto   string       // who created the route
}

// Lookup looks up the kernel's route to an address. If the kernel returns an error, the error wraps the kernel's errno.
func Lookup(to netip.Addr) (Hop, error) {
	way, matched, err := kernel.RouteOf(kernel.Packet{To: to})
	if err != nil {
		return Hop{}, err
	}
	first := way.Hops[0]
	out := Hop{Device: first.Device, Gateway: first.Gateway, Source: way.Source}
	if matched != nil {
		out.Match, out.Proto = matched.To, kernel.ProtocolName(matched.Proto)
	}
	return out, nil
}

// DocumentationAddrs contains documentation addresses (RFC 5737, RFC 3849). No host has such an address, so only a
// default route leads there.
var DocumentationAddrs = map[int]netip.Addr{
	4: netip.MustParseAddr("198.51.100.1"), 6: netip.MustParseAddr("2001:db8::1"),
}

// Unroutable evaluates the kernel's error for a route lookup.
func Unroutable(err error) probe.Result {
	var invalid *kernel.Invalid
	if errors.As(err, &invalid) {
		return probe.Found(probe.Fail, "%s", invalid.Explain()).
			With(probe.FactReason, cmp.Or(string(invalid.Means), "invalid"))
	}
	for errno, saw := range map[syscall.Errno]string{
		syscall.ENETUNREACH:  "the kernel has no route to it",
		syscall.EHOSTUNREACH: "an unreachable route rejects it",
		syscall.EACCES:       "a prohibit route rejects it",
	} {
		if errors.Is(err, errno) {
			return probe.Found(probe.Fail, "%s", saw).With(probe.FactReason, probe.Reason(err))
		}
	}
	return Unseen(err)
}

func FamilyText(f int) string { return fmt.Sprintf("IPv%d", f) }

// Leads holds the device and gateway for a packet, and the table that contains the route.
type Leads struct {
	Device  string
	Gateway netip.Addr
	Table   int
	Calicos bool // true for a route from BIRD or Felix, or to a pod's own interface or a tunnel
}

func (w Leads) Text() string {
	if w.Gateway.IsValid() {
		return w.Device + " through " + w.Gateway.String()
	}
	return w.Device
}

// LookupFrom looks up the route from a given source with the kernel.
func LookupFrom(to, from netip.Addr, in string) (Leads, bool) {
	found, matched, err := kernel.RouteOf(kernel.Packet{To: to, From: from, In: in})
	if err != nil || len(found.Hops) == 0 || found.Type == kernel.Local {
		return Leads{}, false
	}
	out := Leads{Device: found.Hops[0].Device, Gateway: found.Hops[0].Gateway, Table: found.Table}
	isTunnel := func(e Encapsulation) bool { return e.Device == out.Device }
	out.Calicos = strings.HasPrefix(out.Device, "cali") || slices.ContainsFunc(Encapsulations, isTunnel)
	if matched != nil {
		made := kernel.ProtocolName(matched.Proto)
		out.Table, out.Calicos = matched.Table, out.Calicos || made == "bird" || made == "felix"
	}
	return out, true
}

const (
	ProtoTCP = 6
	ProtoUDP = 17
)
