package do

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/tools"
)

// maxRoutes is the maximum number of routes to print, because the table of a route reflector can have 100,000 routes.
const maxRoutes = 20_000

// getting holds the arguments of 'route get'.
type getting tools.RouteGet

// showing holds the arguments of 'route show', with the kernel's numbers.
type showing struct {
	tools.RouteShow
	proto int // -1 = all
	table int // 0 = all
}

// showRoutes lists the kernel's routes, or the route of one packet.
func showRoutes(ctx context.Context, j *probe.Job, a *tools.RouteArgs) probe.Result {
	if a.Get != nil {
		return getting(*a.Get).run(j)
	}
	s := showing{a.Show, -1, numberOf(kernel.Tables, a.Show.Table)}
	if a.Show.Proto != "" {
		s.proto = numberOf(kernel.Protocols, a.Show.Proto)
	}
	return s.run(ctx, j)
}

// numberOf returns the number that belongs to a name. It returns a number unchanged, and 0 for any other word.
func numberOf(names map[string]int, text string) int {
	if n, is := names[text]; is {
		return n
	}
	n, _ := strconv.Atoi(text) // otherwise, it is 'all'
	return n
}

// shown reports whether the arguments select a route.
func (s showing) shown(r kernel.Route) bool {
	switch {
	case s.table != 0 && r.Table != s.table,
		s.proto >= 0 && r.Proto != s.proto,
		s.Default && r.To.Bits() != 0,
		s.Having.IsValid() && !r.To.Contains(s.Having),
		s.Within.IsValid() && (s.Within.Bits() > r.To.Bits() || !s.Within.Contains(r.To.Addr())),
		s.Within.IsValid() && s.Within.Bits() == 0 && r.To.Bits() != 0: // "0.0.0.0/0" and "::/0" are default routes
		return false
	}
	if s.Device == "" {
		return true
	}
	for _, h := range r.Hops {
		if h.Device == s.Device {
			return true
		}
	}
	return false
}

// families returns the address families whose routes may be shown.
func (s showing) families() []int {
	for _, a := range []netip.Addr{s.Having, s.Within.Addr()} {
		switch {
		case a.Is4():
			return []int{4}
		case a.Is6():
			return []int{6}
		}
	}
	return []int{4, 6}
}

func (s showing) run(ctx context.Context, j *probe.Job) probe.Result {
	n := 0
	for _, family := range s.families() {
		// Read all routes before printing the first one. While routes are written to a slow connection, the
		// kernel's table changes, and the list must then be read again.
		found, err := kernel.Routes(family, s.table, maxRoutes+1-n,
			func(r kernel.Route) bool { return s.shown(r) && ctx.Err() == nil })
		many, flush := buffered(j)
		for _, r := range found[:min(len(found), maxRoutes-n)] {
			many.Say("%s", r)
		}
		_ = flush() // if the session is gone, the tool stops
		n += len(found)
		switch {
		case ctx.Err() != nil:
			return probe.Found(probe.Unknown, "stopped after %s", several(n, "route"))
		case err != nil:
			return unread(err)
		case n > maxRoutes:
			j.Say("(more than %d, the rest is not shown: specify a prefix, dev or proto)", maxRoutes)
			return probe.Found(probe.OK, "more than %d routes", maxRoutes)
		}
	}
	if n == 0 {
		return probe.Found(probe.Fail, "no such route").With(probe.FactReason, "missing")
	}
	return probe.Found(probe.OK, "%s", several(n, "route"))
}

// run queries the kernel for the route of one packet.
func (g getting) run(j *probe.Job) probe.Result {
	roleOf, matched, err := kernel.RouteOf(kernel.Packet{To: g.To, From: g.From, In: g.In})
	switch {
	case errors.Is(err, kernel.ErrNoInterface):
		return probe.Found(probe.Fail, "no interface %s", g.In).With(probe.FactReason, "missing")
	case err != nil:
		return g.refused(err)
	}
	j.Say("%s", roleOf)
	if matched == nil {
		return probe.Found(probe.OK, "%s goes %s", g.To, whereTo(roleOf))
	}
	j.Say("by the route: %s", matched)
	return probe.Found(probe.OK, "%s goes %s, by the route %s created by %s", g.To, whereTo(roleOf), matched.To,
		kernel.ProtocolName(matched.Proto))
}

// refusals explains the kernel's errors for a route lookup.
var refusals = map[syscall.Errno]string{
	syscall.ENETUNREACH:  "the kernel has no route to %s",
	syscall.EHOSTUNREACH: "an unreachable route rejects packets to %s, or forwarding from that device is off",
	syscall.EACCES:       "a prohibit route rejects packets to %s",
	syscall.EXDEV: "the kernel drops such a packet to %s: its source is not expected on that device (rp_filter), " +
		"or is its own",
}

// refused returns the result if the kernel returns an error instead of a route.
func (g getting) refused(err error) probe.Result {
	if g.From.IsValid() && g.In == "" && !isOwn(g.From) {
		return probe.Found(probe.Fail,
			"%s is not an address of this node; for forwarded packets, specify the incoming device: iif NAME", g.From)
	}
	var invalid *kernel.Invalid
	if errors.As(err, &invalid) {
		return probe.Found(probe.Fail, "%s: %s", g.To, invalid.Explain()).
			With(probe.FactReason, cmp.Or(string(invalid.Means), "invalid"))
	}
	for errno, saw := range refusals {
		if errors.Is(err, errno) {
			return probe.Found(probe.Fail, saw, g.To).With(probe.FactReason, probe.Reason(err))
		}
	}
	return unread(err)
}

// isOwn reports whether an address belongs to this network namespace.
func isOwn(a netip.Addr) bool {
	links, err := kernel.Links()
	if err != nil {
		return true // in that case, trust the kernel's answer
	}
	return slices.ContainsFunc(links, func(l kernel.Link) bool { return l.Has(a.Unmap()) })
}

// whereTo describes a route's first hop.
func whereTo(r kernel.Route) string {
	if r.Type == kernel.Local {
		return "nowhere: it is an address of this node"
	} else if name := r.TypeName(); name != "" {
		return "nowhere: " + name
	}
	var b strings.Builder
	for _, h := range r.Hops[:min(len(r.Hops), 1)] {
		fmt.Fprintf(&b, "by %s", h.Device)
		if h.Gateway.IsValid() {
			fmt.Fprintf(&b, " through %s", h.Gateway)
		}
	}
	if r.Source.IsValid() {
		fmt.Fprintf(&b, " from %s", r.Source)
	}
	return b.String()
}
