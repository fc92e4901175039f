package logs

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
	"github.com/calico-probe/calico-probe/probe/lazy"
	"github.com/calico-probe/calico-probe/probe/node"
	"github.com/calico-probe/calico-probe/probe/podlog"
)

// CalicoLog reads the last lines that calico-node and its init containers logged.
var CalicoLog = &probe.Check{
	ID: probe.CheckCalicoLog, From: probe.FromNode,
	In: probe.Standard, Tags: []string{probe.TagFelix, probe.TagCNI}, Access: []string{"var/log/pods"}, Run: calicoLog,
}

// Facts of calico-log.
const (
	FactSignature probe.Fact = "signature" // the known fault that the line shows, "" = no known fault
	FactLine      probe.Fact = "line"      // the line, without its time
	factRun       probe.Fact = "run"       // how often the container had restarted before that run
	FactEnded     probe.Fact = "ended"     // true if the run ended with that line
	factWho       probe.Fact = "who"       // the account that lacks the right, NAMESPACE:NAME
	factMay       probe.Fact = "may"       // the right that the account lacks: VERB RESOURCE
)

const (
	logTail   = 64 << 10         // number of bytes to read from each file
	logFresh  = 3 * time.Minute  // maximum age of a line that shows a current fault
	logBefore = 10 * time.Minute // the previous run matters only if it ended within this time
	logPods   = "/var/log/pods"

	logContainers = 16 // maximum number of containers in calico-node's pod to examine
)

// runOfName captures a run's number from the name of its log.
var runOfName = lazy.New(`^(\d{1,9})\.log$`)

// LogPlaces lists the folders that contain the actual log files: containerd's folder, and Docker's folder, to which
// the kubelet creates links.
var LogPlaces = []string{"/var/log/", "/var/lib/docker/containers/"}

// errElsewhere reports a log that is a link to something that is not a log.
var errElsewhere = errors.New("is a link to something other than a log: not read")

func calicoLog(_ context.Context, p *probe.Pass) {
	calico := p.Of(probe.KindCalico)
	if len(calico) == 0 && (len(p.Targets) > 0 || node.Unlisted(p, probe.KindCalico) != nil) {
		p.Report(node.Gap(p, probe.KindCalico, "no verified calico-node is known on this node"))
		return
	}
	folder, account, err := calicoLogs(p.Host, calico)
	var containers []string
	if err == nil {
		containers, err = p.Host.ReadDir(folder)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		p.Report(probe.Found(probe.Skip, "no log of calico-node below %s", logPods))
		return
	case err != nil:
		p.Report(node.Unseen(err))
		return
	}
	containers = slices.DeleteFunc(containers, ownContainer)
	for _, c := range containers[:min(len(containers), logContainers)] {
		r := containerLog(p.Host, path.Join(folder, c), account, p.Host.Now())
		p.Report(r.On(c).With(probe.FactOfContainer, c))
	}
}

// ownContainer reports whether a container in calico-node's pod is a probe that joined the pod as an ephemeral
// container. Its log does not belong to Calico.
func ownContainer(name string) bool { return strings.HasPrefix(name, "calico-probe-") }

// calicoLogs returns this node's calico-node log folder and calico-node's account, both for the pod that the plan
// specifies. Without the API, it returns the newest folder with that name in kube-system, where tenants create no
// pods. The account is then unknown.
func calicoLogs(h *probe.Host, calico []probe.Target) (folder, account string, err error) {
	for _, t := range calico {
		if name := t.Attrs[probe.AttrLogs]; name != "" && !strings.Contains(name, "/") {
			return path.Join(logPods, name), t.Attrs[probe.AttrAccount], nil
		}
	}
	if len(calico) > 0 {
		return "", "", fs.ErrNotExist
	}
	names, err := h.ReadDir(logPods)
	if err != nil {
		return "", "", err
	}
	var at time.Time
	for _, name := range names {
		if !strings.HasPrefix(name, "kube-system_calico-node-") {
			continue
		}
		of := path.Join(logPods, name)
		if info, err := h.Stat(of); err == nil && info.ModTime().After(at) {
			folder, at = of, info.ModTime()
		}
	}
	if folder == "" {
		return "", "", fs.ErrNotExist
	}
	return folder, "", nil
}

// containerLog evaluates the last two runs of one container.
func containerLog(h *probe.Host, folder, account string, now time.Time) probe.Result {
	names, err := h.ReadDir(folder)
	if err != nil {
		return node.Unseen(err)
	}
	runs := runsOf(names)
	if len(runs) == 0 {
		return probe.Found(probe.Skip, "the container has logged nothing yet")
	}
	last := runs[len(runs)-1]
	present, err := readRun(h, folder, account, last)
	switch {
	case errors.Is(err, errElsewhere):
		return probe.Found(probe.Skip, "%v", err)
	case err != nil:
		return node.Unseen(err)
	}
	if present.end != nil {
		return present.result(probe.Fail, "run %d ended with: %s", last, now)
	}
	if len(runs) > 1 && present.young(now) {
		before, err := readRun(h, folder, account, runs[len(runs)-2])
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, errElsewhere): // the kubelet has deleted the log
		case err != nil:
			return node.Unseen(err)
		case before.end != nil && now.Sub(before.end.Time) < logBefore:
			r := before.result(probe.Warn, "run %d ended with: %s", runs[len(runs)-2], now)
			r.Saw += "; a new run has just started"
			return r
		}
	}
	switch worst := present.worst; {
	case worst == nil:
		return probe.Found(probe.OK, "no error among the last %d lines", present.lines).With(factRun, last)
	case worst.signature != nil && worst.quote().Current(now.Add(-logFresh)):
		return present.result(probe.Warn, "run %d logs: %s", last, now)
	}
	if !present.worst.quote().Current(now.Add(-logFresh)) {
		return present.result(probe.Info, "run %d continues, or ended well; history: its last error was %s", last, now).
			With(probe.FactHistory, true)
	}
	return present.result(probe.Info, "run %d continues, or ended well; its last error: %s", last, now)
}

// runsOf returns the sorted numbers of the runs to which logs with these names belong.
func runsOf(names []string) []int {
	var runs []int
	for _, name := range names {
		m := runOfName.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		if n, err := strconv.Atoi(m[1]); err == nil {
			runs = append(runs, n)
		}
	}
	slices.Sort(runs)
	return runs
}

// A runLog is the parsed end of the log of one run.
type runLog struct {
	lines int
	first time.Time // number of lines read
	tail  bool      // the log contains earlier lines
	worst *logLine  // the last error
	end   *logLine  // the line with which the run ended
}

// logLine is a relevant line.
type logLine struct {
	podlog.Line
	level     int
	signature *signature
	past      bool // its process continued after this line
}

func readRun(h *probe.Host, folder, account string, number int) (runLog, error) {
	lines, whole, err := lastOfLog(h, path.Join(folder, runFile(number)))
	if err != nil {
		return runLog{}, err
	}
	r := judge(lines, account)
	r.tail = !whole
	return r, nil
}

// lastOfLog reads the last lines of a container's log. It reports whether these lines are the whole log.
func lastOfLog(h *probe.Host, name string) (lines []podlog.Line, whole bool, err error) {
	f, err := h.File(name)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	if !slices.ContainsFunc(LogPlaces, func(place string) bool { return strings.HasPrefix(f.Name(), place) }) {
		return nil, false, fmt.Errorf("%s %w", name, errElsewhere)
	}
	if lines, err = podlog.Tail(f, logTail); err != nil {
		return nil, false, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, false, fmt.Errorf("looking at %s: %w", f.Name(), err)
	}
	return lines, info.Size() <= logTail, nil
}

// judge finds the relevant lines among a run's last lines. Calico's start-up ends with "Terminating" after a line
// that states the reason. install-cni and Felix end with a fatal line. judge recognises only errors, and warnings
// before the end of start-up, because other lines may quote text from a tenant.
func judge(lines []podlog.Line, account string) runLog {
	out := runLog{lines: len(lines)}
	if len(lines) > 0 {
		out.first = lines[0].Time
	}
	claims := map[string]*logLine{} // by process, the reason for its "Terminating"
	var last *logLine               // the last line of any process
	for _, l := range lines {
		level, process, text := levelOf(l.Text)
		it := &logLine{Line: podlog.Line{Time: l.Time, Text: text}, level: level}
		switch claim := claims[process]; {
		case endsRun(text):
			if level == levelNone { // written by the script that started the process
				claim = last
			}
			if out.end == nil || level != levelNone {
				out.end = cmp.Or(claim, it)
			}
			continue
		case level == levelInfo:
			out.end = nil // the run continues, because another of its processes ended
			if claim != nil && claim.level == levelWarning {
				delete(claims, process)
			} else if claim != nil {
				claim.past = true
			}
		case level >= levelWarning:
			it.signature = calicoFaults(text, account)
			claims[process] = surer(claim, it)
			last = claims[process]
		}
		if level >= levelError {
			out.worst = it
		}
		if level == levelFatal {
			out.end = it
		}
	}
	if out.end != nil {
		out.worst = out.end
	}
	return out
}

// surer returns the line that explains the end of a process. It is the more severe line, or the later one if both are
// equally severe. The earlier line wins if it alone is recognised and the process did not continue after it.
func surer(before, now *logLine) *logLine {
	switch {
	case before == nil, now.level > before.level:
		return now
	case now.level < before.level, before.signature != nil && now.signature == nil && !before.past:
		return before
	}
	return now
}

// young reports whether the run began so recently that it may still log its error.
func (r runLog) young(now time.Time) bool {
	return !r.tail && (r.lines == 0 || now.Sub(r.first) < time.Minute)
}

// quote returns the line in a form that may be quoted.
func (l *logLine) quote() probe.Statement { return quoted(l.Line) }

// quoted returns a log line as a statement.
func quoted(l podlog.Line) probe.Statement {
	return probe.Statement{Text: probe.Quoted(l.Text), At: l.Time}
}

func (r runLog) result(status probe.Status, format string, number int, now time.Time) probe.Result {
	it := cmp.Or(r.end, r.worst)
	quote := it.quote()
	out := probe.Found(status, format, number, quote.Aged(now)).With(FactLine, quote.Text).With(factRun, number).
		With(FactEnded, r.end != nil)
	if it.signature != nil {
		out = out.With(FactSignature, it.signature.ID)
		if m := forbidden.FindStringSubmatch(it.Text); m != nil {
			out = out.With(factWho, m[1]).With(factMay, m[2]+" "+m[3])
		}
	}
	return out
}
