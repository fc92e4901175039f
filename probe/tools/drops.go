package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/drops"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/netns"
)

// Drops finds where packets die.
var Drops = &probe.Tool{
	Name: "drops", Usage: "[-n SECONDS] | [--trace] HOST | POD | HOST:PORT",
	Short: "where packets die: the rule, queue, route or counter",
	Doc: `With a target it sends some 40 pings to it, or opens as many TCP connections where a PORT
is named, in bursts with pauses between, and names the counter that grew by as many
as were lost, and not in the pauses: a rule of nftables or of either iptables, with
the policy of Calico's it belongs to; connection tracking, a queue (tc), IPsec, a socket
that listens, an interface. What the kernel itself says of such packets stands there too:
a route that drops, a neighbour that does not answer. 'in POD drops ...' sends out of
the pod, and counts in it and on the node.
Without a target nothing is sent: it shows what is dropped meanwhile, of all packets.

  -n SECONDS   how long to watch, 5 by default
  HOST         an address, a node's name, or another that the node can look up
  POD          NAMESPACE/NAME of a pod, of this node or one that 'run' asks
  HOST:PORT    TCP; IPv6 in brackets: [fd00::1]:443
  --trace      loads three small programs into the kernel (eBPF) and has it say itself where
               each of our packets left, came in, and was dropped, and why, in every network
               namespace of the node; the rule by its counter. They see every packet that
               an interface takes or sends or that is dropped, compare it with ours there,
               note nothing of others, change nothing, and go when the command ends, however
               it does. By pod there is a pod of its own for it, with the capabilities BPF
               and PERFMON. Takes Linux 5.17 or later with BTF. Not seen are the NIC and the
               network between nodes, nor what the kernel does not call a drop

  drops
  drops -n 30
  drops 10.244.7.9
  drops worker-4:10250
  drops default/web-7c9d:8080
  drops --trace 10.244.7.9

Fails when packets are lost. No rule is made, and without --trace no program is loaded; a
rule without a counter is not seen, and what is lost beyond the node is only said to be so.`,
	Parse: func(args []string) (probe.ToolFunc, error) {
		d, err := parseDrops(args)
		return d.run, err
	},
}

// dropping are the arguments of drops.
type dropping struct {
	watch time.Duration
	host  string     // a name, "" = there is an address, or nothing is sent
	addr  netip.Addr // invalid = nothing is sent, or a name that is not looked up yet
	port  uint16
	trace bool
}

func parseDrops(args []string) (dropping, error) {
	var d dropping
	f := options("drops")
	f.BoolVar(&d.trace, "trace", false, "")
	seconds(f, &d.watch, "n", 0)
	rest, err := words(f, args)
	switch {
	case err != nil:
		return d, err
	case len(rest) > 1:
		return d, errors.New("drops takes one target: drops 10.244.7.9")
	case len(rest) == 1 && d.watch != 0:
		return d, errors.New("-n goes without a target: bursts take as long as they take")
	case len(rest) == 0 && d.trace:
		return d, errors.New("--trace takes a target, to which it sends: drops --trace 10.244.7.9")
	case len(rest) == 0:
		d.watch = cmp.Or(d.watch, 5*time.Second)
		return d, within("-n", d.watch, time.Second, 10*time.Minute)
	}
	err = d.aim(rest[0])
	return d, err
}

// aim takes the target apart.
func (d *dropping) aim(text string) error {
	host := text
	if before, port, err := net.SplitHostPort(text); err == nil {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return fmt.Errorf("drops takes HOST:PORT with a port from 1 to 65535, not %q", text)
		}
		host, d.port = before, uint16(n)
	}
	addr, err := netip.ParseAddr(host)
	if d.addr = addr.Unmap(); err == nil && d.addr.Is6() && d.addr.IsLinkLocalUnicast() {
		return fmt.Errorf("drops takes no link-local address, of which each interface has its own: %s", addr)
	} else if err == nil {
		return nil
	}
	namespace, name, isPod := strings.Cut(host, "/")
	if _, ok := dns.IsDomainName(host); !isPod && (!ok || strings.ContainsAny(host, " :@")) ||
		isPod && (namespace == "" || name == "" || strings.ContainsAny(host, " :@")) {
		return fmt.Errorf("drops takes an address, a name or NAMESPACE/NAME of a pod, not %q", text)
	}
	d.host = host
	return nil
}

func (d dropping) run(ctx context.Context, j *probe.Job) probe.Result {
	from, count, done := spaces(j.Host)
	defer done()
	if d.host == "" && !d.addr.IsValid() {
		return d.observe(ctx, j, count)
	}
	addrs := []netip.Addr{d.addr}
	if strings.Contains(d.host, "/") && len(j.Hosts[d.host]) == 0 {
		return probe.Found(probe.Unknown, "which address pod %s has is not known here: name the address", d.host)
	}
	if d.host != "" {
		found, by, r := resolve(ctx, j, d.host)
		if len(found) == 0 {
			return r
		}
		addrs = oneOfEach(found)
		texts := make([]string, len(addrs))
		for i, a := range addrs {
			texts[i] = a.String()
		}
		j.Say("%s is %s, by %s", d.host, strings.Join(texts, " and "), by)
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

// oneOfEach is the first address of each family.
func oneOfEach(addrs []netip.Addr) []netip.Addr {
	var out []netip.Addr
	for _, a := range addrs {
		if !slices.ContainsFunc(out, func(o netip.Addr) bool { return o.Is4() == a.Is4() }) {
			out = append(out, a)
		}
	}
	return out
}

// one asks about one address.
func (d dropping) one(ctx context.Context, j *probe.Job, from drops.Space, count []drops.Space,
	to netip.Addr) probe.Result {
	if d.trace {
		return tracing{to, d.port, count}.run(ctx, j)
	}
	return d.search(ctx, j, from, count, to)
}

// thePod is what a pod's namespace is called in which this program was started.
const thePod = "the pod"

// spaces are where this program sends from, and where it counts: where it stands in a pod, on the node too.
func spaces(h *probe.Host) (from drops.Space, count []drops.Space, done func()) {
	own := drops.Space{Name: drops.Node, Host: h}
	outside, err := netns.OfProcess(h, os.Getppid())
	if err != nil { // it may stand in a pod, or not
		own.Name = "this network namespace"
	}
	if outside == nil {
		return own, []drops.Space{own}, func() {}
	}
	own.Name = thePod
	return own, []drops.Space{{Name: drops.Node, Host: h, View: outside}, own}, outside.Close
}

// search looks for the place where packets to one address die.
func (d dropping) search(ctx context.Context, j *probe.Job, from drops.Space, count []drops.Space,
	to netip.Addr) probe.Result {
	q := drops.Question{From: from, To: to, Shape: drops.Shape{Port: d.port}, Count: count, Fine: fineBeside(to)}
	way, _, err := kernel.RouteOf(kernel.Packet{To: to})
	if from.Name == thePod && err == nil {
		q.Pod = way.Source
	}
	view, err := netns.Entry{Host: j.Host}.View(probe.Target{Addr: to})
	if err == nil && way.Type != kernel.Local { // else it is where this program is
		defer view.Close()
		q.Count = append(slices.Clone(q.Count), drops.Space{Name: "the pod " + to.String(), Host: j.Host, View: view})
	}
	// So that a neighbour that does not answer is known as one before packets are counted.
	if _, err := drops.Look(ctx, from, []netip.AddrPort{netip.AddrPortFrom(to, 0)}); err != nil {
		return unread(err)
	}
	found, err := drops.Search(ctx, q)
	switch {
	case err != nil && ctx.Err() != nil:
		return probe.Found(probe.Unknown, "stopped before anything of %s was known", to)
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

// fineBeside is an address that answers wherever another does not: the machine's own.
func fineBeside(to netip.Addr) netip.Addr {
	if to.Is4() {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return netip.IPv6Loopback()
}

// observe shows what grows while it waits.
func (d dropping) observe(ctx context.Context, j *probe.Job, count []drops.Space) probe.Result {
	before, err := drops.Count(count)
	if err != nil {
		j.Say("not all can be read: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	began := time.Now()
	select {
	case <-ctx.Done():
	case <-time.After(d.watch):
	}
	after, _ := drops.Count(count) // what cannot be read was said
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

// mostDeaths bounds what is printed.
const mostDeaths = 200

// sayDeaths prints places where packets died, by counters or by a trace: what tells the most first.
func sayDeaths(j *probe.Job, all []drops.Death) {
	if len(all) == 0 {
		return
	}
	t := newTable(j, "PACKETS", "IN", "WHERE", "BY")
	for _, d := range all[:min(len(all), mostDeaths)] {
		t.row(strconv.Itoa(d.Count), d.Where, d.Place, d.Reason)
	}
	t.end()
	if len(all) > mostDeaths {
		j.Say("(%d more are not shown)", len(all)-mostDeaths)
	}
}
