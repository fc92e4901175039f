package checks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/podlog"
)

// CalicoLog reads what calico-node and its init containers wrote last.
var CalicoLog = &probe.Check{
	ID: "calico-log", Asks: "what did calico-node and its init containers write before they ended?", From: probe.FromNode,
	In: probe.Standard, Tags: []string{tagFelix, tagCNI}, Access: []string{"var/log/pods"}, Run: calicoLog,
	Doc: `A component that ends mostly says why in its last lines, and the kubelet's files hold them also while the API server is away: of the present run and of the one before, for calico-node and each of its init containers. Read are the last 64 KiB of each file; passwords and tokens are left out.
fail: the last run ended, or is about to, with the line that is quoted. warn: the run before ended so within ten minutes and this one has just begun; or a line of the last three minutes is one that stands for a known fault.
info: the run ended well, or goes on, and its last error is quoted; nothing is wrong because of that alone. ok: no error among the last lines.
skip: not visible by this access method, or no log of calico-node is there. The fact signature names what is recognised, by a table with a source for each.`,
}

// Facts of calico-log.
const (
	FactSignature probe.Fact = "signature" // which known fault the line stands for, "" = none
	FactLine      probe.Fact = "line"      // the line, without its time
	FactRun       probe.Fact = "run"       // how often the container had been started anew before that run
	FactEnded     probe.Fact = "ended"     // true: the run ended with that line
	FactWho       probe.Fact = "who"       // the account that is refused, NAMESPACE:NAME
	FactMay       probe.Fact = "may"       // what it may not do: VERB RESOURCE
)

// FactOfContainer is the container whose log it is.
const FactOfContainer probe.Fact = "container"

const (
	logTail   = 64 << 10         // bytes read of each file
	logQuote  = 300              // characters quoted of a line
	logFresh  = 3 * time.Minute  // how old a line may be that stands for what is wrong now
	logBefore = 10 * time.Minute // how long ago the run before may have ended to matter
	logPods   = "/var/log/pods"
)

func calicoLog(_ context.Context, p *probe.Pass) {
	folder, err := calicoLogs(p)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && folder == "":
		p.Report(probe.Found(probe.Skip, "no log of calico-node is below %s", logPods))
		return
	case err != nil:
		p.Report(unseen(err))
		return
	}
	containers, err := p.Host.ReadDir(folder)
	if err != nil {
		p.Report(unseen(err))
		return
	}
	for _, c := range containers {
		p.Report(containerLog(p.Host, path.Join(folder, c), time.Now()).On(c).With(FactOfContainer, c))
	}
}

// calicoLogs is the folder of the logs of this node's calico-node: of the pod that the plan
// names, else the newest in the namespaces where Calico lives, in which tenants make no pods.
func calicoLogs(p *probe.Pass) (string, error) {
	for _, t := range p.Of(probe.KindCalico) {
		if name := t.Attrs[probe.AttrLogs]; name != "" && !strings.Contains(name, "/") {
			return path.Join(logPods, name), nil
		}
	}
	names, err := p.Host.ReadDir(logPods)
	if err != nil {
		return "", err
	}
	var newest string
	var at time.Time
	for _, name := range names {
		if !strings.HasPrefix(name, "kube-system_calico-node-") && !strings.HasPrefix(name, "calico-system_calico-node-") {
			continue
		}
		folder := path.Join(logPods, name)
		if info, err := p.Host.Stat(folder); err == nil && info.ModTime().After(at) {
			newest, at = folder, info.ModTime()
		}
	}
	return newest, nil
}

// containerLog judges the last two runs of one container.
func containerLog(h *probe.Host, folder string, now time.Time) probe.Result {
	names, err := h.ReadDir(folder)
	if err != nil {
		return unseen(err)
	}
	var runs []int
	for _, name := range names {
		if n, err := strconv.Atoi(strings.TrimSuffix(name, ".log")); err == nil && strings.HasSuffix(name, ".log") {
			runs = append(runs, n)
		}
	}
	if len(runs) == 0 {
		return probe.Found(probe.Skip, "the container has written nothing yet")
	}
	slices.Sort(runs)
	last := runs[len(runs)-1]
	present, err := readRun(h, folder, last)
	if err != nil {
		return unseen(err)
	}
	if present.end != nil {
		return present.result(probe.Fail, "run %d ended with: %s", last, now)
	}
	if len(runs) > 1 && present.young(now) {
		before, err := readRun(h, folder, runs[len(runs)-2])
		if err == nil && before.end != nil && now.Sub(before.end.Time) < logBefore {
			r := before.result(probe.Warn, "run %d ended with: %s", runs[len(runs)-2], now)
			r.Saw += "; another has just begun"
			return r
		}
	}
	switch worst := present.worst; {
	case worst == nil:
		return probe.Found(probe.OK, "no error among the last %d lines", present.lines).With(FactRun, last)
	case worst.signature != nil && now.Sub(worst.Time) < logFresh:
		return present.result(probe.Warn, "run %d writes: %s", last, now)
	}
	return present.result(probe.Info, "run %d goes on, or ended well; its last error: %s", last, now)
}

// A runLog is what the end of one run's log says.
type runLog struct {
	lines int
	first time.Time // of the lines that were read
	tail  bool      // there are lines before them
	last  time.Time
	worst *logLine // the last error, or the last line that is recognised
	end   *logLine // with which it ended
}

// logLine is a line that matters.
type logLine struct {
	podlog.Line
	signature *signature
}

func readRun(h *probe.Host, folder string, number int) (runLog, error) {
	f, err := h.Open(path.Join(folder, strconv.Itoa(number)+".log"))
	if err != nil {
		return runLog{}, err
	}
	defer f.Close()
	lines, err := podlog.Tail(f, logTail)
	if err != nil {
		return runLog{}, err
	}
	info, err := f.Stat()
	if err != nil {
		return runLog{}, fmt.Errorf("looking at %s: %w", f.Name(), err)
	}
	r := judge(lines)
	r.tail = info.Size() > logTail
	return r, nil
}

// judge finds what matters among the last lines of a run. Calico's start-up ends with
// "Terminating" after a line that says why, install-cni and Felix with a fatal line.
func judge(lines []podlog.Line) runLog {
	out := runLog{lines: len(lines)}
	var cause *logLine // the last line above information, which a "Terminating" follows
	for _, l := range lines {
		if out.first.IsZero() {
			out.first = l.Time
		}
		out.last = l.Time
		level, text := levelOf(l.Text)
		it := &logLine{podlog.Line{Time: l.Time, Text: text}, signatureOf(text)}
		switch {
		case endsRun(text):
			out.end = cmp.Or(cause, it)
			continue
		case level == levelFatal:
			out.end, out.worst = it, it
			continue
		case level == levelError, it.signature != nil:
			out.worst = it
		}
		if level >= levelWarning && (cause == nil || it.signature != nil || cause.signature == nil) {
			cause = it
		}
		if out.end != nil && level == levelInfo { // it goes on: another of its processes ended
			out.end = nil
		}
	}
	if out.end != nil && out.worst == nil {
		out.worst = out.end
	}
	return out
}

// young tells whether the run has just begun, so that it has not said all it has to say.
func (r runLog) young(now time.Time) bool {
	return !r.tail && (r.lines == 0 || now.Sub(r.first) < time.Minute)
}

func (r runLog) result(status probe.Status, format string, number int, now time.Time) probe.Result {
	it := cmp.Or(r.end, r.worst)
	line := quoted(it.Text)
	text := line
	if !it.Time.IsZero() {
		text += ", " + probe.Age(max(0, now.Sub(it.Time))) + " ago"
	}
	out := probe.Found(status, format, number, text).With(FactLine, line).With(FactRun, number).With(FactEnded,
		r.end != nil)
	if it.signature != nil {
		out = out.With(FactSignature, it.signature.id)
		if m := forbidden.FindStringSubmatch(it.Text); m != nil {
			out = out.With(FactWho, m[1]).With(FactMay, m[2]+" "+m[3])
		}
	}
	return out
}
