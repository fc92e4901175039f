package logs

import (
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/lazy"
	"github.com/calico-probe/calico-probe/probe/podlog"
)

// Facts of kube-log about a running component.
const FactOfServer probe.Fact = "of_server" // ADDRESS:PORT that does not answer the component or denies access

const (
	// complaintFresh is the maximum age of a complaint's last line. A reflector retries after 30 s, or up to a minute
	// with jitter. A connection takes 30 s to time out (client-go, tools/cache; net/http).
	complaintFresh = 2 * time.Minute
	// complaintLasts is the minimum duration of a complaint. A shorter one may be caused by a
	// restart of the other side.
	complaintLasts = 45 * time.Second
)

// peerOf captures the other side, which does not answer or denies access, from a line.
var peerOf = lazy.New(`dial (?:tcp|udp) ([\[\]0-9a-f.:]+:\d+): |read udp \S+->([\[\]0-9a-f.:]+:\d+): |Get \\?"?https?://([\w.:\[\]-]+)/`)

// found matches the line that kube-proxy logs at its start after it has found its Node.
var found = lazy.New(`Successfully retrieved (?:node IP|NodeIPs)`)

// complaintLine is the last occurrence of a complaint.
type complaintLine struct {
	podlog.Line
	of    *signature
	once  bool
	first time.Time // the time since which it has been repeated without a break
}

// complaintOf recognises a complaint.
func complaintOf(component string, l podlog.Line) (complaintLine, bool) {
	for _, c := range complaints[component] {
		m := c.Line.FindStringSubmatch(l.Text)
		if m == nil {
			continue
		}
		for _, s := range c.Signatures {
			if s.Match.MatchString(m[1]) {
				return complaintLine{podlog.Line{Time: l.Time, Text: m[1]}, s, c.Once, l.Time}, true
			}
		}
	}
	return complaintLine{}, false
}

// judgeComplaints evaluates the last complaint that a run logs repeatedly. No line reports that a complaint has
// ended, so only a recent complaint counts.
func judgeComplaints(component string, lines []podlog.Line, now time.Time) (probe.Result, bool) {
	var last *complaintLine
	before := map[string]complaintLine{}
	for _, l := range lines {
		if found.MatchString(l.Text) {
			last = nil
			clear(before)
			continue
		}
		it, ok := complaintOf(component, l)
		if !ok {
			continue
		}
		if of, known := before[it.of.ID]; known && it.Time.Sub(of.Time) < complaintFresh {
			it.first = of.first
		}
		before[it.of.ID] = it
		if it.once || !it.Time.IsZero() && now.Sub(it.Time) < complaintFresh {
			last = &it
		}
	}
	if last == nil {
		return probe.Result{}, false
	}
	return last.result(now), true
}

func (l complaintLine) result(now time.Time) probe.Result {
	quote, lasts := quoted(l.Line), max(0, now.Sub(l.first))
	r := probe.Found(probe.Info, "running, and logs: %s", quote.Aged(now))
	switch {
	case l.once:
		r.Status, lasts = probe.Warn, 0
	case lasts >= complaintLasts:
		r = probe.Found(probe.Warn, "running, and has logged for %s: %s", probe.Age(lasts), quote.Aged(now))
		if l.of.ID == FaultUpstream { // as expected in a cluster without internet access
			r.Status = probe.Info
		}
	}
	r = r.With(FactLine, quote.Text).With(FactEnded, false).With(FactSignature, l.of.ID).
		With(probe.FactLasts, int(lasts.Seconds()))
	if m := peerOf.FindStringSubmatch(l.Text); m != nil {
		r = r.With(FactOfServer, strings.Join(m[1:], ""))
	}
	if m := forbidden.FindStringSubmatch(strings.ReplaceAll(l.Text, `\"`, `"`)); m != nil {
		r = r.With(factWho, m[1]).With(factMay, m[2]+" "+m[3])
	}
	return r
}

// klogTime captures the time of a klog line, which contains no year and no zone.
var klogTime = lazy.New(`^[IWEF](\d{4} \d\d:\d\d:\d\d\.\d+) `)

// timed gives lines without their own time the time of klog lines. The last line is then at the file's modification
// time.
func timed(lines []podlog.Line, written time.Time) []podlog.Line {
	at := make([]time.Time, len(lines))
	var last time.Time
	for i, l := range lines {
		if m := klogTime.FindStringSubmatch(l.Text); m != nil {
			if t, err := time.Parse("0102 15:04:05.999999999", m[1]); err == nil {
				at[i], last = t, t
			}
		}
	}
	out := make([]podlog.Line, len(lines))
	for i, l := range lines {
		out[i] = l
		if ago := last.Sub(at[i]); l.Time.IsZero() && !at[i].IsZero() && ago >= 0 {
			out[i].Time = written.Add(-ago)
		}
	}
	return out
}
