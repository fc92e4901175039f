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

// ServiceTail is how many bytes are read of each file that is not the journal's.
const ServiceTail = 256 << 10

// logFiles are the files of services below /var/log by the unit whose lines they hold, "" for those of
// a syslog, where each line names who wrote it.
var logFiles = []struct{ unit, name string }{
	{"kubelet.service", "kubelet.log"}, {"k3s.service", "k3s.log"}, {"k3s-agent.service", "k3s-agent.log"},
	{"containerd.service", "containerd.log"}, {"docker.service", "docker.log"}, {"docker.service", "dockerd.log"},
	{"crio.service", "crio.log"}, {"", "syslog"}, {"", "messages"}, {"", "daemon.log"},
}

// UnitOf is the unit of a program, by the name it has in a syslog.
var UnitOf = map[string]string{"kubelet": "kubelet.service", "k3s": "k3s.service", "containerd": "containerd.service",
	"dockerd": "docker.service", "crio": "crio.service"}

// logFileLines are the services' lines since a time, where they write to files; nil without such files.
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
		if len(lines) > 0 && out == nil { // there are such files, and nothing new in them
			out = []journal.Entry{}
		}
	}
	slices.SortStableFunc(out, func(a, b journal.Entry) int { return a.Time.Compare(b.Time) })
	return out, nil
}

// linesOf are the services' lines in the end of a file.
func linesOf(f probe.File, unit string) ([]journal.Entry, error) {
	if !strings.HasPrefix(f.Name(), "/var/log/") {
		return nil, nil // a link to what is no log
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
		if out[i].Time.Year() == 0 { // it has neither year nor zone: the last line is as old as the file
			out[i].Time = info.ModTime().Add(out[i].Time.Sub(at))
		}
	}
	return out, nil
}

// The forms of a line's time: those of rsyslog, new and old, and those of the services themselves.
var (
	newSyslog = lazy.New(`^(\d{4}-\d\d-\d\dT\S+) \S+ (.*)$`)
	oldSyslog = lazy.New(`^([A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) \S+ (.*)$`)
)

// stamped is the time of a line, of the year 0 where the line has no year, and what follows it.
func stamped(line string) (time.Time, string) {
	for _, form := range []struct {
		is     *lazy.Regexp
		layout string
		time   int  // the group that it is
		own    bool // the service's own form, which stays on the line
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

// syslogTag is who wrote a line of a syslog.
var syslogTag = lazy.New(`^([\w.-]+)\[(\d+)\]: (.*)$`)

// fromSyslog is a line of a service; in a file of its own the service writes no name.
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
