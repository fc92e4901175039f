package do

import (
	"context"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/drops"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/netns"
	"github.com/calico-probe/calico-probe/probe/tools"
)

// dropping holds the arguments of drops.
type dropping tools.DropsArgs

// findDrops finds where packets are lost.
func findDrops(ctx context.Context, j *probe.Job, a *tools.DropsArgs) probe.Result {
	d := dropping(*a)
	from, count, done := spaces(j.Host)
	defer done()
	if d.Host == "" && !d.Addr.IsValid() {
		return d.observe(ctx, j, count)
	}
	addrs := []netip.Addr{d.Addr}
	if strings.Contains(d.Host, "/") && len(j.Hosts[d.Host]) == 0 {
		return probe.Found(probe.Unknown, "the address of pod %s is unknown here: specify the address", d.Host)
	}
	if d.Host != "" {
		found, by, r := resolve(ctx, j, d.Host)
		if len(found) == 0 {
			return r
		}
		addrs = oneOfEach(found)
		texts := make([]string, len(addrs))
		for i, a := range addrs {
			texts[i] = a.String()
		}
		j.Say("%s is %s, by %s", d.Host, strings.Join(texts, " and "), by)
	}
	var worst probe.Result
	for _, to := range addrs {
		r := d.one(ctx, j, from, count, to)
		if worst.Status == "" || slices.Index(probe.Statuses(), r.Status) < slices.Index(probe.Statuses(), worst.Status) {
			worst = r
		}
	}
	return worst
}

// oneOfEach returns the first address in each family.
func oneOfEach(addrs []netip.Addr) []netip.Addr {
	var out []netip.Addr
	for _, a := range addrs {
		if !slices.ContainsFunc(out, func(o netip.Addr) bool { return o.Is4() == a.Is4() }) {
			out = append(out, a)
		}
	}
	return out
}

// one tests a single address.
func (d dropping) one(ctx context.Context, j *probe.Job, from drops.Space, count []drops.Space,
	to netip.Addr) probe.Result {
	if d.Trace {
		return tracing{to, d.Port, count}.run(ctx, j)
	}
	return d.search(ctx, j, from, count, to)
}

// thePod is the name of the pod in whose namespace this program was started.
const thePod = "the pod"

// spaces returns the namespace from which this program sends, and the namespaces in which it
// counts. If the program runs inside a pod, it also counts on the node.
func spaces(h *probe.Host) (from drops.Space, count []drops.Space, done func()) {
	own := drops.Space{Name: drops.Node, Host: h}
	outside, err := netns.OfProcess(h, os.Getppid())
	if err != nil { // it may or may not run in a pod
		own.Name = "this network namespace"
	}
	if outside == nil {
		return own, []drops.Space{own}, func() {}
	}
	own.Name = thePod
	return own, []drops.Space{{Name: drops.Node, Host: h, View: outside}, own}, outside.Close
}

// search finds the place where packets to one address are lost.
func (d dropping) search(ctx context.Context, j *probe.Job, from drops.Space, count []drops.Space,
	to netip.Addr) probe.Result {
	q := drops.Question{From: from, To: to, Shape: drops.Shape{Port: d.Port}, Count: count, Fine: fineBeside(to)}
	roleOf, _, err := kernel.RouteOf(kernel.Packet{To: to})
	if from.Name == thePod && err == nil {
		q.Pod = roleOf.Source
	}
	view, err := netns.Entry{Host: j.Host}.View(probe.Target{Addr: to})
	if err == nil && roleOf.Type != kernel.Local { // otherwise, the address belongs to this namespace
		defer view.Close()
		q.Count = append(slices.Clone(q.Count), drops.Space{Name: "the pod " + to.String(), Host: j.Host, View: view})
	}
	// Before counting packets, find out whether the neighbour answers.
	if _, err := drops.Look(ctx, from, []netip.AddrPort{netip.AddrPortFrom(to, 0)}); err != nil {
		return unread(err)
	}
	found, err := drops.Search(ctx, q)
	switch {
	case err != nil && ctx.Err() != nil:
		return probe.Found(probe.Unknown, "stopped before anything about %s was known", to)
	case err != nil:
		return unread(err)
	}
	lines := found.Lines(q.Shape)
	for _, line := range lines {
		j.Say("%s: %s", to, line)
	}
	if found.Unread != nil {
		j.Say("not all could be read: %s", strings.ReplaceAll(found.Unread.Error(), "\n", "; "))
	}
	if found.Lost == 0 {
		return probe.Found(probe.OK, "%s: %s", to, lines[0])
	}
	return probe.Found(probe.Fail, "%s: %s", to, lines[0])
}

// fineBeside returns an address that answers even if another one does not: the machine's own address.
func fineBeside(to netip.Addr) netip.Addr {
	if to.Is4() {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return netip.IPv6Loopback()
}

// observe shows which counters grow while it waits.
func (d dropping) observe(ctx context.Context, j *probe.Job, count []drops.Space) probe.Result {
	before, err := drops.Count(count)
	if err != nil {
		j.Say("not all can be read: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	began := time.Now()
	select {
	case <-ctx.Done():
	case <-time.After(d.Watch):
	}
	after, _ := drops.Count(count) // read errors have already been reported
	lost := after.Deaths(before)
	sayDeaths(j, lost)
	took := short(time.Since(began))
	switch {
	case len(lost) == 0 && err != nil:
		return unread(err)
	case len(lost) == 0:
		j.Say("no counter of lost packets grew within %s", took)
		return probe.Found(probe.OK, "no counter of lost packets grew within %s", took)
	}
	return probe.Found(probe.OK, "%s of lost packets grew within %s", several(len(lost), "counter"), took)
}

// maxDeaths is the maximum number of places to print.
const maxDeaths = 200

// sayDeaths prints the places where packets were lost, according to counters or a trace. The most
// specific place comes first.
func sayDeaths(j *probe.Job, all []drops.Death) {
	if len(all) == 0 {
		return
	}
	t := newTable(j, "PACKETS", "IN", "WHERE", "BY")
	for _, d := range all[:min(len(all), maxDeaths)] {
		t.row(strconv.Itoa(d.Count), d.Where, d.Place, d.Reason)
	}
	t.end()
	if len(all) > maxDeaths {
		j.Say("(%d more are not shown)", len(all)-maxDeaths)
	}
}
