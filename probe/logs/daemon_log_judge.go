package logs

import (
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/journal"
	"github.com/calico-probe/calico-probe/probe/lazy"
)

const (
	serviceYoung = time.Minute     // a younger run may still exit for the same reason as the previous run
	serviceFresh = 3 * time.Minute // maximum age of a line that shows a current fault
	// maximum age if the service would have logged the line again: the kubelet calls the API server
	// every 10 s for its lease
	serviceAgain = 30 * time.Second
	serviceEnded = 10 * time.Minute // the previous run matters only if it ended within this time
	serviceCause = 30 * time.Second // how long before its exit a service may have logged the reason
)

// The line formats of klog (kubelet), with level and time, and of logrus (containerd, dockerd, CRI-O, k3s), with time
// and level.
var (
	klogLine   = lazy.New(`^([IWEF])(\d{4} \d\d:\d\d:\d\d\.\d{6})\s+\d+ (.*)$`)
	logrusLine = lazy.New(`^time="?([^" ]+)"? level=(\w+) (.*)$`)
)

// endsService matches the last line of a service. In the kubelet, this line changed in Kubernetes 1.20 and 1.23. Once
// the kubelet has started, lines from other files end it (kubelet.go, server.go, kuberuntime_manager.go, transport.go).
// containerd and dockerd write their last lines to the terminal. The last patterns match lines that Go itself writes.
var endsService = lazy.New(`^(?:run\.go:\d+\] "command failed"|server\.go:\d+\] "Failed to run kubelet"|server\.go:\d+\] [Ff]ailed to run Kubelet|` +
	`kubelet\.go:\d+\] "(?:Failed to start (?:ContainerManager|cAdvisor)|Failed to initialize internal modules|Kubelet failed to get node info)"|` +
	`server\.go:\d+\] "Failed to (?:listen and serve|create listener for \w+ (?:API )?endpoint)"|` +
	`kuberuntime_manager\.go:\d+\] "Failed to register CRI auth plugins"|` +
	`transport\.go:\d+\] "(?:No valid client certificate is found|The currently active client certificate has expired) and the server is responsive, exiting\."|` +
	`containerd: |failed to start daemon: |failed to load listeners: |unable to configure the Docker daemon |Error: |panic: |fatal error: )`)

// systemd's lines about a service that exited or is being stopped.
var (
	exitLine  = lazy.New(`^[\w@.-]+\.service: (?:Main process exited, code=|Failed with result )`)
	stopLine  = lazy.New(`^Stopping `)
	startLine = lazy.New(`^Start(?:ed|ing) `)
	// how systemd confirms a stop: the first form since v248, the second form before
	stoppedLine = lazy.New(`: Deactivated|: Succeeded\.|^Stopped `)
)

// serviceLine is a relevant line.
type serviceLine struct {
	journal.Entry
	level     int
	final     bool // the service exits with this line
	signature *serviceFault
}

// mild reports whether a healthy service occasionally logs such a line.
func (it serviceLine) mild() bool { return it.signature != nil && it.signature.Mild }

// serviceState is the state of one service as its lines show it.
type serviceState struct {
	lines   int
	run     []serviceLine // relevant lines of the current run
	began   time.Time     // time of the run's first line, zero without a current run
	process string        // the process that logged last
	last    time.Time     // the time when it logged
	born    time.Time     // the first line of that process
	end     *serviceLine  // the reason why the last finished run ended
	endedBy string        // the process of that run
	ends    int
	stopped *time.Time // true if the service was stopped on purpose and has not started since
}

// lastWords is the maximum time by which a process's last lines may arrive after its exit.
const lastWords = 5 * time.Second

// judgeService processes the lines of one service, starting with the oldest.
func judgeService(lines []journal.Entry) serviceState {
	s := serviceState{}
	stopping := false
	for _, e := range lines {
		it := serviceLineOf(e)
		switch {
		case e.About && stopLine.MatchString(e.Text):
			stopping = true
		case e.About && (exitLine.MatchString(e.Text) || stopping && stoppedLine.MatchString(e.Text)):
			moreOfStop := s.stopped != nil && s.began.IsZero()
			if stopping {
				s = serviceState{lines: s.lines, stopped: &it.Time}
			} else if !moreOfStop && (!s.began.IsZero() || s.end == nil) {
				s.close(it)
			}
			stopping = false
		case e.About:
			stopping = stopping && !startLine.MatchString(e.Text)
			if killedOOM.MatchString(e.Text) {
				s.run = append(s.run, it)
			}
		case s.end != nil && e.PID != "" && e.PID == s.endedBy && e.Time.Sub(s.end.Time) < lastWords: // after systemd's
			better := it.signature != nil && s.end.signature == nil && !it.mild() && !(s.end.final && it.signature.Passing)
			if it.final || better {
				s.end = &it
			}
		default:
			if e.PID != "" && e.PID == s.endedBy { // the process continues, so that was not its exit
				s.end = nil
			}
			if e.PID != s.process && s.process != "" && klogLine.MatchString(e.Text) { // restarted by some supervisor
				s.run, s.began = nil, time.Time{}
			}
			s.take(it)
		}
	}
	return s
}

// notYet matches an error that every kubelet logs until it has listed its containers for the first time.
var notYet = lazy.New(`^kubelet\.go:\d+\] "Skipping pod synchronization" err="\[?` +
	`(?:container runtime status check may not have completed yet|PLEG is not healthy: pleg has yet to be successful)`)

// kubeletComesUp is the maximum time for which that error is normal. The kubelet lists its
// containers every second, and a busy node takes several seconds.
const kubeletComesUp = 30 * time.Second

// take adds a line that the service itself logged.
func (s *serviceState) take(it serviceLine) {
	s.lines++
	if s.born.IsZero() || it.PID != s.process {
		s.born = it.Time
	}
	s.stopped, s.process, s.last = nil, it.PID, it.Time
	if s.began.IsZero() {
		s.began = it.Time
	}
	if notYet.MatchString(it.Text) && it.Time.Sub(s.born) < kubeletComesUp {
		return
	}
	if it.level >= levelError || it.signature != nil {
		s.run = append(s.run, it)
	}
	if it.final {
		s.close(it)
	}
}

// close ends a run. The reason is the most certain of the last relevant lines. If there are none,
// it is the line that ended the run.
func (s *serviceState) close(last serviceLine) {
	reason := last
	for _, it := range s.run {
		if last.Time.Sub(it.Time) > serviceCause || it.mild() || last.final && it.signature != nil && it.signature.Passing {
			continue
		}
		switch {
		case it.signature == nil:
			if last.About && reason.signature == nil { // the last of these, which explains more than systemd's line
				reason = it
			}
		case reason.signature == nil || it.signature.Rank() <= reason.signature.Rank():
			reason = it
		}
	}
	s.endedBy = s.process
	s.end, s.run, s.began = &reason, nil, time.Time{}
	s.ends++
}

// serviceLineOf parses the level and text of a line, and recognises the line.
func serviceLineOf(e journal.Entry) serviceLine {
	it := serviceLine{Entry: e}
	if e.About {
		it.signature = serviceSignatureOf(it)
		return it
	}
	if m := klogLine.FindStringSubmatch(e.Text); m != nil {
		it.level = map[string]int{"I": levelInfo, "W": levelWarning, "E": levelError,
			"F": levelFatal}[m[1]]
		it.Text = m[3]
	} else if m := logrusLine.FindStringSubmatch(e.Text); m != nil {
		it.level = map[string]int{"debug": levelDebug, "info": levelInfo, "warning": levelWarning,
			"error": levelError, "fatal": levelFatal, "panic": levelFatal}[m[2]]
		it.Text = m[3]
	}
	mayEnd := it.level == levelError || it.level == levelNone
	it.final = it.level == levelFatal || mayEnd && endsService.MatchString(it.Text)
	it.signature = serviceSignatureOf(it)
	return it
}

// result returns the result for one service.
func (s serviceState) result(now time.Time) probe.Result {
	running := !s.began.IsZero()
	switch {
	case s.end != nil && !running:
		return s.quote(probe.Fail, s.ended(), *s.end, now)
	case s.end != nil && now.Sub(s.began) < serviceYoung && now.Sub(s.end.Time) < serviceEnded:
		r := s.quote(probe.Warn, s.ended(), *s.end, now)
		r.Saw += "; a new run has just started"
		return r
	case s.stopped != nil:
		return probe.Found(probe.Info, "stopped on purpose %s ago, and not started since",
			probe.Age(max(0, now.Sub(*s.stopped)))).With(factStopped, true)
	case !running:
		return probe.Found(probe.Info, "only systemd logged about it in the last %s", probe.Age(ServiceSince))
	}
	var worst *serviceLine
	for i, it := range s.run {
		known := s.current(it, now)
		if known && it.mild() && worst != nil && worst.signature != nil && !worst.mild() {
			continue
		}
		if known || worst == nil || !s.current(*worst, now) {
			worst = &s.run[i]
		}
	}
	switch {
	case worst == nil:
		return probe.Found(probe.OK, "running, no error in its %d lines", s.lines)
	case s.current(*worst, now):
		s.end = nil
		status := probe.Warn
		if worst.mild() {
			status = probe.Info
		}
		return s.quote(status, "running, and logs: ", *worst, now)
	}
	s.end = nil
	if now.Sub(worst.Time) < serviceFresh {
		return s.quote(probe.Info, "running; its last error: ", *worst, now)
	}
	return s.quote(probe.Info, "running; history: its last error was ", *worst, now).With(probe.FactHistory, true)
}

// current reports whether a recognised line shows a current fault.
func (s serviceState) current(it serviceLine, now time.Time) bool {
	over := it.signature != nil && it.signature.Often && s.last.Sub(it.Time) > serviceAgain
	return it.signature != nil && !over && now.Sub(it.Time) < serviceFresh
}

func (s serviceState) ended() string {
	if s.ends > 1 {
		return "it exited repeatedly, the last time with: "
	}
	return "it exited with: "
}

// quote returns a result that quotes a line.
func (s serviceState) quote(status probe.Status, says string, it serviceLine, now time.Time) probe.Result {
	quote := probe.Statement{Text: probe.Quoted(it.Text), At: it.Time}
	out := probe.Found(status, "%s%s", says, quote.Aged(now)).
		With(FactLine, quote.Text).With(FactEnded, s.end != nil)
	if s.end != nil {
		out = out.With(factEnds, s.ends)
	}
	if it.signature != nil {
		out = out.With(FactSignature, it.signature.ID)
	}
	return out
}

// serviceSignatureOf recognises a line by its writer and its text. It ignores informational lines. If the format of a
// service is unknown, it also ignores lines without a level.
func serviceSignatureOf(it serviceLine) *serviceFault {
	if !it.About && !it.final && it.level < levelWarning {
		return nil
	}
	return serviceFaults(it.Text, it.About)
}
