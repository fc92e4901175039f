package tools

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/icmp"
	"github.com/calico-probe/calico-probe/probe/node"
)

// Ping sends echo requests.
var Ping = &probe.Tool{
	Name: "ping", Usage: "[-c COUNT] [-i INTERVAL] [-s SIZE] [-W WAIT] ADDRESS | NAME",
	Short: "ping an address or a name, IPv4 or IPv6",
	Doc: `Sends one packet after the other and prints a line for each: the time to its answer, or
who sent it back and why. A summary follows at the end, also after Ctrl-C.

  -c COUNT     packets, 5 by default; 0 = until it is stopped
  -i INTERVAL  between two packets, 200ms by default, 10ms at least
  -s SIZE      bytes of the whole IP packet, headers too (ping(8) counts without these 28,
               IPv6 48), which nobody may fragment: finds what fits through
  -W WAIT      for the answer to each packet, 1s by default
  NAME         of a node: its InternalIP, as the API has it; any other is looked up in the
               node's own /etc/hosts and by its name servers

  ping 10.244.7.9
  ping worker-4
  ping -c1 kubernetes.default.svc.cluster.local
  ping -c 0 -i 1s fd00:10:244::9
  ping -s 1450 10.244.7.9

Fails when nothing came back.`,
	Parse: func(args []string) (probe.ToolFunc, error) {
		p, err := parsePing(args)
		return p.run, err
	},
	Endless: func(args []string) bool { p, err := parsePing(args); return err == nil && p.count == 0 },
}

// pinging are the arguments of ping.
type pinging struct {
	host        string     // a name that is to be looked up, "" = there is an address
	addr        netip.Addr // invalid until the name is looked up
	count, size int
	every, wait time.Duration
}

func parsePing(args []string) (pinging, error) {
	var p pinging
	f := options("ping")
	f.IntVar(&p.count, "c", 5, "")
	f.IntVar(&p.size, "s", 0, "")
	seconds(f, &p.every, "i", 200*time.Millisecond)
	seconds(f, &p.wait, "W", icmp.Wait)
	rest, err := words(f, args)
	if err != nil {
		return p, err
	}
	if len(rest) != 1 {
		return p, errors.New("ping takes one address or name: ping 10.244.7.9")
	}
	if p.addr, err = netip.ParseAddr(rest[0]); err != nil {
		if _, ok := dns.IsDomainName(rest[0]); !ok || strings.ContainsAny(rest[0], " /:@") {
			return p, fmt.Errorf("ping takes an address or a name, not %q", rest[0])
		}
		p.host = rest[0]
	}
	p.addr = p.addr.Unmap()
	if err := p.fits(); err != nil {
		return p, err
	}
	if err := within("-c", p.count, 0, 1_000_000); err != nil {
		return p, err
	}
	if err := within("-i", p.every, 10*time.Millisecond, time.Hour); err != nil {
		return p, err
	}
	if err := within("-W", p.wait, 10*time.Millisecond, time.Minute); err != nil {
		return p, err
	}
	return p, nil
}

// fits refuses a size in which there is no room for the headers, and the eight bytes by which an
// answer is known. Of a name the family is not known yet: then that of IPv4 counts.
func (p pinging) fits() error {
	least := 36
	if p.addr.Is6() {
		least = 56
	}
	if p.size == 0 {
		return nil
	}
	return within("-s", p.size, least, math.MaxUint16)
}

// lookUp gives the ping its address; false = it has none, and the result says why.
func (p *pinging) lookUp(ctx context.Context, j *probe.Job) (probe.Result, bool) {
	if p.host == "" {
		return probe.Result{}, true
	}
	addrs, by, r := resolve(ctx, j, p.host)
	if len(addrs) == 0 {
		return r, false
	}
	p.addr = addrs[0]
	j.Say("%s is %s, by %s", p.host, p.addr, by)
	if err := p.fits(); err != nil {
		return probe.Failed(err), false
	}
	return r, true
}

// pinged is what has become of the packets so far.
type pinged struct {
	sent, received int
	min, max, sum  time.Duration
	why            string // the last one did not come back
	unsent         int    // could not leave, and the kernel does not say why
}

func (p pinging) run(ctx context.Context, j *probe.Job) probe.Result {
	if r, ok := p.lookUp(ctx, j); !ok {
		return r
	}
	var all pinged
	next := time.NewTimer(0)
	defer next.Stop()
	for n := 1; p.count == 0 || n <= p.count; n++ {
		select {
		case <-ctx.Done():
		case <-next.C:
		}
		if ctx.Err() != nil {
			break
		}
		next.Reset(p.every)
		got, err := icmp.One(ctx, p.addr, p.size, p.wait)
		if err != nil {
			return unread(fmt.Errorf("pinging %s: %w", p.addr, err))
		}
		if got.Cut && got.Received == 0 { // its time was not over: neither lost nor answered
			break
		}
		j.Say("%4d  %s", n, all.add(got, p.wait))
	}
	if all.sent == 0 {
		return probe.Found(probe.Unknown, "stopped before anything of %s was known", p.addr)
	}
	r := all.result(p)
	j.Say("%s", all.summary(p))
	return r
}

// add counts one packet and puts what became of it into words.
func (a *pinged) add(s icmp.Stats, wait time.Duration) string {
	a.sent++
	switch {
	case s.Received > 0:
		a.received++
		a.sum += s.Max
		a.max = max(a.max, s.Max)
		if a.min == 0 || s.Max < a.min {
			a.min = s.Max
		}
		return "answered in " + short(s.Max)
	case s.Refusal == "error":
		a.unsent++
		a.why = "could not leave, and the kernel does not say why"
	case s.Refusal != "":
		a.why = "could not leave: " + node.Refusal(s.Refusal)
	case s.Bounced != "":
		a.why = s.Bounced
		if s.TooBig && s.Told > 0 {
			a.why += fmt.Sprintf(": %d bytes would fit", s.Told)
		}
	default:
		a.why = "no answer within " + short(wait)
	}
	return a.why
}

// summary is the line at the end.
func (a *pinged) summary(p pinging) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s sent, %d came back, %s lost", p.addr, several(a.sent, "packet"), a.received,
		percent(a.sent-a.received, a.sent))
	if a.received > 0 {
		fmt.Fprintf(&b, ", %s/%s/%s min/avg/max", short(a.min), short(a.sum/time.Duration(a.received)), short(a.max))
	}
	return b.String()
}

// percent is a part in percent, of which none and all are said only when it is so.
func percent(part, whole int) string {
	switch p := 100 * float64(part) / float64(whole); {
	case part > 0 && p < 0.1:
		return "<0.1%"
	case part < whole && p > 99.9:
		return ">99.9%"
	case p == math.Trunc(p):
		return fmt.Sprintf("%.0f%%", p)
	default:
		return fmt.Sprintf("%.1f%%", p)
	}
}

func (a *pinged) result(p pinging) probe.Result {
	of := ""
	if p.size > 0 {
		of = fmt.Sprintf(" of %d bytes", p.size)
	}
	switch {
	case a.received == 0 && a.unsent == a.sent:
		return probe.Found(probe.Unknown, "no packet%s to %s %s", of, p.addr, a.why)
	case a.received == 0:
		return probe.Found(probe.Fail, "0 of %s%s to %s came back: %s", several(a.sent, "packet"), of, p.addr, a.why)
	case a.received < a.sent:
		return probe.Found(probe.OK, "%d of %s%s to %s came back; last: %s", a.received, several(a.sent, "packet"),
			of, p.addr, a.why)
	}
	return probe.Found(probe.OK, "%s%s to %s, and all came back", several(a.sent, "packet"), of, p.addr)
}
