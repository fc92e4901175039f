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

// DomainOf returns the cluster domain, and whether it is only the default because the kubelet's domain is unknown.
func DomainOf(k Kubelet, err error) (domain string, guessed bool) {
	if err == nil && k.ClusterDomain != "" {
		return strings.TrimSuffix(k.ClusterDomain, "."), false
	}
	return "cluster.local", true // kubeadm's default
}

// Facts of the DNS checks.
const (
	FactAnswers probe.Fact = "answers" // addresses in the answer

	FactTruncated probe.Fact = "truncated" // true if the answer did not fit into UDP
)

// GivesNone reports whether a kubelet certainly configures no cluster name server for pods. A kubelet that is part of
// another program may have a name server in an argument.
func (k Kubelet) GivesNone() bool { return k.PID > 0 && k.Config != "" && len(k.ClusterDNS) == 0 }

// NoAnswer judges the error of a query to a daemon of this node that should run: the fate of the connection is the
// observation.
func NoAnswer(err error, who string, limit time.Duration) probe.Result {
	reason := probe.Reason(err)
	var r probe.Result
	var op *net.OpError
	switch reason {
	case "denied":
		r = probe.Failed(err)
		if errors.As(err, &op) && op.Net != "unix" { // of packets, not of a file
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

// Elsewhere returns the targets with an address outside of the querying namespace: a pod does not test itself.
func Elsewhere(targets []probe.Target) []probe.Target {
	own, err := kernel.Links()
	if err != nil {
		return targets // then it tests itself too
	}
	return slices.DeleteFunc(targets, func(t probe.Target) bool {
		return slices.ContainsFunc(own, func(l kernel.Link) bool { return l.Has(t.Addr.Unmap()) })
	})
}

func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Listed bounds lists in one result: a cluster may have thousands of blocks.
const Listed = 10

func First(all []string) []string { return append([]string{}, all[:min(len(all), Listed)]...) }

// Some lists the first few.
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
	Match   netip.Prefix // the route that matches; invalid if the kernel does not report it
	Proto   string       // who created it
}

// Lookup looks up the kernel's route to an address. An error from the kernel wraps its errno.
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

// DocumentationAddrs are documentation addresses (RFC 5737, RFC 3849), which no host has: only a default route leads
// there.
var DocumentationAddrs = map[int]netip.Addr{
	4: netip.MustParseAddr("198.51.100.1"), 6: netip.MustParseAddr("2001:db8::1"),
}

// Unroutable judges the kernel's error for a route lookup.
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

// Leads is the device and gateway of a packet, and the table with its route.
type Leads struct {
	Device  string
	Gateway netip.Addr
	Table   int
	Calicos bool // by a Calico route: BIRD's or Felix's, or one to a pod's own interface or a tunnel
}

func (w Leads) Text() string {
	if w.Gateway.IsValid() {
		return w.Device + " through " + w.Gateway.String()
	}
	return w.Device
}

// LookupFrom looks up the route with the kernel.
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
