package logs

import (
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/lazy"
	"github.com/calico-probe/calico-probe/probe/podlog"
)

// Facts of kube-log about a run that goes on.
const FactOfServer probe.Fact = "of_server" // ADDRESS:PORT that does not answer it, or that it is refused by

const (
	// complaintFresh is how old the last of its lines may be. A reflector tries again after 30 s, with jitter a
	// minute, and a connection takes 30 s to time out (client-go, tools/cache; net/http).
	complaintFresh = 2 * time.Minute
	// complaintLasts is how long it has to go on to be no restart of what it asks.
	complaintLasts = 45 * time.Second
)

// peerOf is who does not answer, or refuses, as the line has it.
var peerOf = lazy.New(`dial (?:tcp|udp) ([\[\]0-9a-f.:]+:\d+): |read udp \S+->([\[\]0-9a-f.:]+:\d+): |Get \\?"?https?://([\w.:\[\]-]+)/`)

// found is what kube-proxy says at its start where the Node that it looks for is there.
var found = lazy.New(`Successfully retrieved (?:node IP|NodeIPs)`)

// heardLine is a grievance as it was last heard.
type heardLine struct {
	podlog.Line
	of    *signature
	once  bool
	first time.Time // since when it has been said without a break
}

// grievanceOf recognises a line.
func grievanceOf(component string, l podlog.Line) (heardLine, bool) {
	for _, c := range complaints[component] {
		m := c.Line.FindStringSubmatch(l.Text)
		if m == nil {
			continue
		}
		for _, s := range c.Signatures {
			if s.Match.MatchString(m[1]) {
				return heardLine{podlog.Line{Time: l.Time, Text: m[1]}, s, c.Once, l.Time}, true
			}
		}
	}
	return heardLine{}, false
}

// heard judges what a run that goes on says again and again: the grievance that was last heard. Nobody says that
// one is past, so only what is fresh counts.
func heard(component string, lines []podlog.Line, now time.Time) (probe.Result, bool) {
	var last *heardLine
	before := map[string]heardLine{}
	for _, l := range lines {
		if found.MatchString(l.Text) {
			last = nil
			clear(before)
			continue
		}
		it, ok := grievanceOf(component, l)
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

func (l heardLine) result(now time.Time) probe.Result {
	said, lasts := quoted(l.Line), max(0, now.Sub(l.first))
	r := probe.Found(probe.Info, "running, and logs: %s", said.Aged(now))
	switch {
	case l.once:
		r.Status, lasts = probe.Warn, 0
	case lasts >= complaintLasts:
		r = probe.Found(probe.Warn, "running, and has logged for %s: %s", probe.Age(lasts), said.Aged(now))
		if l.of.ID == SaysUpstream { // as it should be where the cluster is cut off
			r.Status = probe.Info
		}
	}
	r = r.With(FactLine, said.Text).With(FactEnded, false).With(FactSignature, l.of.ID).
		With(probe.FactLasts, int(lasts.Seconds()))
	if m := peerOf.FindStringSubmatch(l.Text); m != nil {
		r = r.With(FactOfServer, strings.Join(m[1:], ""))
	}
	if m := forbidden.FindStringSubmatch(strings.ReplaceAll(l.Text, `\"`, `"`)); m != nil {
		r = r.With(factWho, m[1]).With(factMay, m[2]+" "+m[3])
	}
	return r
}

// klogTime is the time of a line of klog's, which has neither year nor zone.
var klogTime = lazy.New(`^[IWEF](\d{4} \d\d:\d\d:\d\d\.\d+) `)

// timed gives the lines of a file that has no times of its own those of klog, such that the last is of the moment
// when the file was last written.
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
