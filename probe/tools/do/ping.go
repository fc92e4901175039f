package do

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/icmp"
	"github.com/calico-probe/calico-probe/probe/node"
	"github.com/calico-probe/calico-probe/probe/tools"
)

// findAddr sets the address to ping. If it returns false, it found no address, and the result contains the reason.
func findAddr(ctx context.Context, j *probe.Job, p *tools.PingArgs) (probe.Result, bool) {
	if p.Host == "" {
		return probe.Result{}, true
	}
	addrs, by, r := resolve(ctx, j, p.Host)
	if len(addrs) == 0 {
		return r, false
	}
	p.Addr = addrs[0]
	j.Say("%s is %s, by %s", p.Host, p.Addr, by)
	if err := p.Fits(); err != nil {
		return probe.Failed(err), false
	}
	return r, true
}

// pinged counts the packets so far.
type pinged struct {
	sent, received int
	min, max, sum  time.Duration
	why            string // why the last packet did not come back
	unsent         int    // could not be sent, and the kernel gave no reason
}

// ping sends echo requests.
func ping(ctx context.Context, j *probe.Job, p *tools.PingArgs) probe.Result {
	if r, ok := findAddr(ctx, j, p); !ok {
		return r
	}
	var all pinged
	next := time.NewTimer(0)
	defer next.Stop()
	for n := 1; p.Count == 0 || n <= p.Count; n++ {
		select {
		case <-ctx.Done():
		case <-next.C:
		}
		if ctx.Err() != nil {
			break
		}
		next.Reset(p.Every)
		got, err := icmp.One(ctx, p.Addr, p.Size, p.Wait)
		if err != nil {
			return unread(fmt.Errorf("pinging %s: %w", p.Addr, err))
		}
		if got.Cut && got.Received == 0 { // interrupted: counts neither as lost nor as answered
			break
		}
		j.Say("%4d  %s", n, all.add(got, p.Wait))
	}
	if all.sent == 0 {
		return probe.Found(probe.Unknown, "stopped before anything about %s was known", p.Addr)
	}
	r := all.result(p)
	j.Say("%s", all.summary(p))
	return r
}

// add counts one packet and describes its outcome.
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
		a.why = "could not leave, and the kernel does not report why"
	case s.Refusal != "":
		a.why = "could not leave: " + node.Refusal(s.Refusal)
	case s.Bounced != "":
		a.why = s.Bounced
		if s.TooBig && s.ReportedMTU > 0 {
			a.why += fmt.Sprintf(": %d bytes would fit", s.ReportedMTU)
		}
	default:
		a.why = "no answer within " + short(wait)
	}
	return a.why
}

// summary returns the last line.
func (a *pinged) summary(p *tools.PingArgs) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s sent, %d came back, %s lost", p.Addr, several(a.sent, "packet"), a.received,
		percent(a.sent-a.received, a.sent))
	if a.received > 0 {
		fmt.Fprintf(&b, ", %s/%s/%s min/avg/max", short(a.min), short(a.sum/time.Duration(a.received)), short(a.max))
	}
	return b.String()
}

// percent formats a part in percent. It returns 0 % and 100 % only if that is exact.
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

func (a *pinged) result(p *tools.PingArgs) probe.Result {
	of := ""
	if p.Size > 0 {
		of = fmt.Sprintf(" of %d bytes", p.Size)
	}
	switch {
	case a.received == 0 && a.unsent == a.sent:
		return probe.Found(probe.Unknown, "no packet%s to %s %s", of, p.Addr, a.why)
	case a.received == 0:
		return probe.Found(probe.Fail, "0 of %s%s to %s came back: %s", several(a.sent, "packet"), of, p.Addr, a.why)
	case a.received < a.sent:
		return probe.Found(probe.OK, "%d of %s%s to %s came back; last: %s", a.received, several(a.sent, "packet"),
			of, p.Addr, a.why)
	}
	return probe.Found(probe.OK, "%s%s to %s, and all came back", several(a.sent, "packet"), of, p.Addr)
}
