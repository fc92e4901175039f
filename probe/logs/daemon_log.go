package logs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/journal"
	"github.com/calico-probe/calico-probe/probe/lazy"
	"github.com/calico-probe/calico-probe/probe/node"
)

// DaemonLog reads the last lines that the kubelet and the container runtime logged. Nothing outside the node shows
// why one of them exited.
var DaemonLog = &probe.Check{
	ID: probe.CheckDaemonLog, From: probe.FromNode,
	In: probe.Standard, Tags: []string{probe.TagRuntime}, Access: []string{"var/log", "run/log/journal", "uid 0"},
	Run: serviceLog,
}

// Facts of daemon-log, in addition to those of calico-log.
const (
	factEnds    probe.Fact = "ends"    // how often the service exited in the period that was read
	factStopped probe.Fact = "stopped" // true if it exited on purpose
	FactByTag   probe.Fact = "by_tag"  // true if any program may write to the files under a service's name
)

// Targets of daemon-log.
const (
	ServiceKubelet    = "kubelet"
	ServiceContainerd = "containerd"
	ServiceDocker     = "dockerd"
	ServiceCRIO       = "crio"
)

// service is a daemon on a node, and the systemd units that may run it.
type service struct {
	name  string
	Units []string
}

// Services lists the services whose lines are read. In k3s and RKE2, a single process is the kubelet and more.
var Services = []service{
	{ServiceKubelet, []string{"kubelet.service", "k3s.service", "k3s-agent.service", "rke2-server.service",
		"rke2-agent.service"}},
	{ServiceContainerd, []string{"containerd.service"}},
	{ServiceDocker, []string{"docker.service"}},
	{ServiceCRIO, []string{"crio.service"}},
}

const (
	ServiceSince = 15 * time.Minute // systemd restarts a failing service within seconds to minutes
	serviceLines = 200              // number of lines for each service; a kubelet writes about twenty before it exits

	journalFolders = 16 // number of folders: one for each machine ID, usually one
	journalFiles   = 8  // number of files with entries in the period: on most nodes, each file covers hours
)

// journalPlaces lists systemd's journal folders: the persistent folder, and the folder that exists until the next boot.
var journalPlaces = []string{"/var/log/journal", "/run/log/journal"}

// journalName matches the name of a system journal file, active or archived.
var journalName = lazy.New(`^system(?:@[0-9a-f~-]+)?\.journal$`)

// machineID matches the name of a folder that contains a machine's journal.
var machineID = lazy.New(`^[0-9a-f]{32}$`)

func serviceLog(ctx context.Context, p *probe.Pass) { serviceLogAt(ctx, p, p.Host.Now()) }

func serviceLogAt(ctx context.Context, p *probe.Pass, now time.Time) {
	lines, err := journalLines(ctx, p.Host, now.Add(-ServiceSince))
	where, byTag := "the journal", false
	if lines == nil && (err == nil || errors.Is(err, probe.ErrNotVisible)) { // from the journal, or from a part of it
		of, unread := logFileLines(p.Host, now.Add(-ServiceSince))
		if of != nil || err == nil {
			lines, err, where, byTag = of, unread, "the files below /var/log", true
		}
	}
	switch {
	case err != nil:
		p.Report(node.Unseen(err))
		return
	case lines == nil:
		p.Report(probe.Found(probe.Skip,
			"no systemd journal of the last %s (/var/log/journal, /run/log/journal) and no log of these services below /var/log on this node",
			probe.Age(ServiceSince)))
		return
	}
	for _, s := range Services {
		of := slices.DeleteFunc(slices.Clone(lines), func(e journal.Entry) bool { return !slices.Contains(s.Units, e.Unit) })
		switch {
		case len(of) > 0:
			r := judgeService(of).result(now).On(s.name)
			if byTag {
				r = r.With(FactByTag, true)
			}
			p.Report(r)
		case s.name == ServiceKubelet:
			p.Report(probe.Found(probe.Info, "it logged nothing in the last %s, according to %s", probe.Age(ServiceSince), where).
				On(s.name))
		}
	}
}

// journalLines returns the lines that the services have written to the journal since the given
// time. It returns nil if no journal covers that time.
func journalLines(ctx context.Context, h *probe.Host, since time.Time) ([]journal.Entry, error) {
	var units []string
	for _, s := range Services {
		units = append(units, s.Units...)
	}
	return JournalEntries(ctx, h, journal.Want{Units: units, Since: since, Most: serviceLines})
}

// farJournal is a Host's Far that can also query the node's journal.
type farJournal interface {
	Journal(ctx context.Context, want journal.Want) ([]journal.Entry, error)
}

// JournalEntries returns the wanted lines of the journal, or nil if no journal covers that time.
func JournalEntries(ctx context.Context, h *probe.Host, want journal.Want) ([]journal.Entry, error) {
	var out []journal.Entry
	var bad error
	seen := 0
	if far, ok := h.Far.(farJournal); ok {
		entries, failed := far.Journal(ctx, want)
		if failed == nil {
			return entries, nil
		}
		bad = failed
	}
	for _, place := range journalPlaces {
		names, err := journalsIn(h, place)
		if err != nil && (h.Far == nil || !errors.Is(err, probe.ErrNotVisible)) {
			bad = errors.Join(bad, err)
		}
		for _, name := range names {
			if seen == journalFiles {
				break
			}
			entries, fresh, err := readJournal(ctx, h, name, want)
			switch {
			case errors.Is(err, fs.ErrNotExist): // the file was rotated
			case err != nil && len(entries) == 0:
				bad = errors.Join(bad, fmt.Errorf("%s: %w", name, err))
			case fresh:
				seen++
				out = append(out, entries...)
			}
		}
	}
	if seen == 0 {
		return nil, bad
	}
	slices.SortStableFunc(out, func(a, b journal.Entry) int { return a.Time.Compare(b.Time) })
	return slices.Concat([]journal.Entry{}, out), nil
}

// journalsIn lists the files of the system journal below a place, with the most recently written file first.
func journalsIn(h *probe.Host, place string) ([]string, error) {
	folders, err := h.ReadDir(place)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	at := map[string]time.Time{}
	folders = slices.DeleteFunc(folders, func(name string) bool { return !machineID.MatchString(name) })
	for _, folder := range folders[:min(len(folders), journalFolders)] {
		files, err := h.ReadDir(path.Join(place, folder))
		if err != nil {
			continue // it is not a folder, or was deleted
		}
		for _, name := range files {
			name = path.Join(place, folder, name)
			if info, err := h.Stat(name); journalName.MatchString(path.Base(name)) && err == nil {
				at[name] = info.ModTime()
			}
		}
	}
	out := make([]string, 0, len(at))
	for name := range at {
		out = append(out, name)
	}
	slices.SortFunc(out, func(a, b string) int {
		if c := at[b].Compare(at[a]); c != 0 {
			return c
		}
		return strings.Compare(a, b)
	})
	return out[:min(len(out), 2*journalFiles)], nil
}

// readJournal reads one file. It reports whether the file contains entries since the wanted time.
func readJournal(ctx context.Context, h *probe.Host, name string, want journal.Want) ([]journal.Entry, bool, error) {
	f, err := h.File(name)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	if _, to, err := journal.Span(f); err != nil || to.Before(want.Since) {
		return nil, false, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, false, fmt.Errorf("looking at %s: %w", name, err)
	}
	out, err := journal.Tail(ctx, f, info.Size(), want)
	return out, true, err
}
