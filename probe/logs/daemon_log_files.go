package logs

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/journal"
	"github.com/calico-probe/calico-probe/probe/lazy"
	"github.com/calico-probe/calico-probe/probe/podlog"
)

// ServiceTail is the number of bytes to read from the end of each log file outside the journal.
const ServiceTail = 256 << 10

// logFiles lists the services' log files below /var/log, with the unit that writes each of them. For a syslog, the
// unit is "", because each line names its writer.
var logFiles = []struct{ unit, name string }{
	{"kubelet.service", "kubelet.log"}, {"k3s.service", "k3s.log"}, {"k3s-agent.service", "k3s-agent.log"},
	{"containerd.service", "containerd.log"}, {"docker.service", "docker.log"}, {"docker.service", "dockerd.log"},
	{"crio.service", "crio.log"}, {"", "syslog"}, {"", "messages"}, {"", "daemon.log"},
}

// UnitOf maps the name of a program in a syslog to the program's unit.
var UnitOf = map[string]string{"kubelet": "kubelet.service", "k3s": "k3s.service", "containerd": "containerd.service",
	"dockerd": "docker.service", "crio": "crio.service"}

// If the services log to files, logFileLines returns their lines since the given time. If there are
// no such files, it returns nil.
func logFileLines(h *probe.Host, since time.Time) ([]journal.Entry, error) {
	var out []journal.Entry
	for _, it := range logFiles {
		f, err := h.File(path.Join("/var/log", it.name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return out, err
		}
		lines, err := linesOf(f, it.unit)
		_ = f.Close()
		if err != nil {
			return out, err
		}
		out = append(out, slices.DeleteFunc(lines, func(e journal.Entry) bool { return e.Time.Before(since) })...)
		if len(lines) > 0 && out == nil { // such files exist, but contain nothing new
			out = []journal.Entry{}
		}
	}
	slices.SortStableFunc(out, func(a, b journal.Entry) int { return a.Time.Compare(b.Time) })
	return out, nil
}

// linesOf returns the services' lines at the end of a file.
func linesOf(f probe.File, unit string) ([]journal.Entry, error) {
	if !strings.HasPrefix(f.Name(), "/var/log/") {
		return nil, nil // a link to something that is not a log
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	raw, err := podlog.Tail(f, ServiceTail)
	if err != nil {
		return nil, err
	}
	var out []journal.Entry
	var at time.Time
	for _, l := range raw {
		when, rest := stamped(l.Text)
		if !when.IsZero() {
			at = when
		}
		if e, ok := fromSyslog(rest, unit); ok {
			e.Time = at
			out = append(out, e)
		}
	}
	for i := range out {
		if out[i].Time.Year() == 0 { // the times lack year and zone: assume that the last line is as old as the file
			out[i].Time = info.ModTime().Add(out[i].Time.Sub(at))
		}
	}
	return out, nil
}

// The time formats of log lines: rsyslog's new and old formats, and the formats of the services themselves.
var (
	newSyslog = lazy.New(`^(\d{4}-\d\d-\d\dT\S+) \S+ (.*)$`)
	oldSyslog = lazy.New(`^([A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) \S+ (.*)$`)
)

// stamped returns the time of a line, and the rest of the line. If the line has no year, the year is 0.
func stamped(line string) (time.Time, string) {
	for _, form := range []struct {
		is     *lazy.Regexp
		layout string
		time   int  // the group that captures the time
		own    bool // the service's own format, which remains part of the line
	}{{newSyslog, time.RFC3339Nano, 1, false}, {oldSyslog, "Jan _2 15:04:05", 1, false},
		{klogLine, "0102 15:04:05.000000", 2, true}, {logrusLine, time.RFC3339Nano, 1, true}} {
		m := form.is.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		at, err := time.Parse(form.layout, m[form.time])
		switch {
		case err != nil:
		case form.own:
			return at, line
		default:
			return at, m[2]
		}
	}
	return time.Time{}, line
}

// syslogTag captures the writer of a syslog line.
var syslogTag = lazy.New(`^([\w.-]+)\[(\d+)\]: (.*)$`)

// fromSyslog parses a line that a service wrote. In a service's own file, lines have no tag.
func fromSyslog(text, unit string) (journal.Entry, bool) {
	m := syslogTag.FindStringSubmatch(text)
	switch {
	case m == nil:
		return journal.Entry{Unit: unit, Text: text}, unit != ""
	case m[1] == "systemd" && m[2] == "1":
		about, _, _ := strings.Cut(m[3], ": ")
		return journal.Entry{Unit: about, PID: m[2], About: true, Text: m[3]}, true
	case UnitOf[m[1]] != "":
		return journal.Entry{Unit: UnitOf[m[1]], PID: m[2], Text: m[3]}, true
	}
	return journal.Entry{}, false
}
