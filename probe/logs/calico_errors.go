package logs

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
	"github.com/calico-probe/calico-probe/probe/podlog"
)

// CalicoErrors reads the errors that calico-node logs repeatedly while it is running.
var CalicoErrors = &probe.Check{
	ID: probe.CheckCalicoErrors, From: probe.FromNode,
	In: probe.Standard, Tags: []string{probe.TagFelix, probe.TagDatastore}, Access: []string{"var/log/pods", "proc"},
	Run: calicoErrors,
}

// Facts of calico-errors, in addition to those of calico-log.
const (
	factModule probe.Fact = "module"  // the missing kernel module, as the component names it
	factRemote probe.Fact = "remote"  // true if the other end rejects the certificate
	factNoFile probe.Fact = "no_file" // true if this end cannot read its own certificate, key or CA
	factAtLine probe.Fact = "at_line" // the line of the file that BIRD rejects
)

func calicoErrors(_ context.Context, p *probe.Pass) {
	now := p.Host.Now()
	for _, t := range p.Of(probe.KindLogs) {
		folder := t.Attrs[probe.AttrLogs]
		if t.Name != typha || folder == "" || strings.Contains(folder, "/") {
			continue
		}
		if lines, began, err := latestLines(p.Host, path.Join(logPods, folder, typha), now); err == nil {
			for _, e := range repeatedErrors(lines, typhaRepeats, now) {
				p.Report(e.since(began, now).On(e.on()).With(probe.FactOfContainer, typha))
			}
		}
	}
	calico := p.Of(probe.KindCalico)
	if len(calico) == 0 && (len(p.Targets) > 0 || node.Unlisted(p, probe.KindCalico) != nil) {
		p.Report(node.Gap(p, probe.KindCalico, "no verified calico-node is known on this node"))
		return
	}
	folder, _, err := calicoLogs(p.Host, calico)
	var lines []podlog.Line
	var began time.Time
	if err == nil {
		lines, began, err = latestLines(p.Host, path.Join(folder, "calico-node"), now)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errElsewhere):
		p.Report(probe.Found(probe.Skip, "no log of calico-node below %s", logPods))
		return
	case err != nil:
		p.Report(node.Unseen(err))
		return
	}
	found := repeatedErrors(lines, calicoRepeats, now)
	for _, e := range found {
		r := e.since(began, now)
		if e.module != "" && moduleLoaded(p.Host, e.module) {
			r.Status = probe.Info
			r.Saw += "; that module is loaded now"
		}
		p.Report(r.On(e.on()))
	}
	if len(found) == 0 {
		p.Report(probe.Found(probe.OK, "no known error in the last %d lines", len(lines)))
	}
}

// latestLines returns the last lines of a container's current run. It also returns the time when that run began,
// or zero if it has not logged anything yet. If the run began recently, the lines of the previous run come first.
func latestLines(h *probe.Host, folder string, now time.Time) (lines []podlog.Line, began time.Time, err error) {
	names, err := h.ReadDir(folder)
	if err != nil {
		return nil, began, err
	}
	runs := runsOf(names)
	if len(runs) == 0 {
		return nil, began, fs.ErrNotExist
	}
	last := len(runs) - 1
	lines, whole, err := lastOfLog(h, path.Join(folder, runFile(runs[last])))
	if err != nil {
		return nil, began, err
	}
	if len(lines) > 0 {
		began = lines[0].Time
	}
	if last == 0 || !whole || len(lines) > 0 && now.Sub(began) > time.Minute {
		return lines, began, nil
	}
	before, _, err := lastOfLog(h, path.Join(folder, runFile(runs[last-1])))
	if err != nil { // the kubelet has deleted the log
		return lines, began, nil //nolint:nilerr // return the lines that exist
	}
	return slices.Concat(before, lines), began, nil
}

// repeatedError is a fault that is logged repeatedly.
type repeatedError struct {
	of     *repeated
	line   podlog.Line
	first  time.Time
	times  int
	by     map[string]int // number of times, by component
	module string
}

// repeatedErrors returns the errors in some lines that are still occurring, in the order of the table.
func repeatedErrors(lines []podlog.Line, table []*repeated, now time.Time) []*repeatedError {
	var out []*repeatedError
	by := map[*repeated]*repeatedError{}
	for _, l := range lines {
		level, _, text := levelOf(l.Text)
		for _, s := range table {
			if s.Over != nil && s.Over.MatchString(text) {
				delete(by, s)
			}
			module, ok := s.Fits(level, text)
			if !ok || !s.Lasts && now.Sub(l.Time) > logBefore {
				continue
			}
			e := by[s]
			if e == nil {
				e = &repeatedError{of: s, first: l.Time, by: map[string]int{}}
				by[s] = e
			}
			component, _, _ := strings.Cut(text, "/")
			e.by[component]++
			e.line, e.times, e.module = podlog.Line{Time: l.Time, Text: text}, e.times+1, module
			break
		}
	}
	for _, s := range table {
		if e := by[s]; e != nil && slices.Max(slices.Collect(maps.Values(e.by))) >= s.Least &&
			e.line.Time.Sub(e.first) >= s.Spread {
			out = append(out, e)
		}
	}
	return out
}

func (e *repeatedError) on() string {
	switch {
	case e.module != "":
		return e.of.ID + " " + e.module
	case e.of.ID == faultBIRDConfig:
		program, _, _ := strings.Cut(e.line.Text, ":")
		return e.of.ID + " " + program
	}
	return e.of.ID
}

// since returns the result for a run that began at that time. If only the previous run logged a
// fault, the fault is history.
func (e *repeatedError) since(began, now time.Time) probe.Result {
	r := e.result(now)
	if e.line.Time.Before(began) {
		r.Status, r.Saw = probe.Info, "history: in the previous run, "+r.Saw
		r = r.With(probe.FactHistory, true)
	}
	return r
}

func (e *repeatedError) result(now time.Time) probe.Result {
	quote := quoted(podlog.Line{Time: e.line.Time, Text: withoutInput(e.line.Text)})
	line := quote.Text
	r := probe.Found(probe.Warn, "logged %d times, last: %s", e.times, quote.Aged(now)).With(FactSignature, e.of.ID).
		With(FactLine, line).With(probe.FactTimes, e.times).With(probe.FactOfContainer, "calico-node")
	if e.module != "" {
		r = r.With(factModule, e.module)
	}
	if program, says, _ := strings.Cut(e.line.Text, ": "); e.of.ID == faultBIRDConfig {
		at := inBIRDFile.FindStringSubmatch(says)
		number, _ := strconv.Atoi(at[2]) // its pattern matches only digits
		family := 4
		if program == "bird6" {
			family = 6
		}
		r = r.With(probe.FactFile, at[1]).With(factAtLine, number).With(probe.FactFamily, family)
	}
	if e.of.ID == faultTyphaCertificate {
		r = r.With(factRemote, remoteAlert.MatchString(e.line.Text)).
			With(factNoFile, noTyphaFile.MatchString(e.line.Text))
	}
	return r
}

// moduleLoaded reports whether the kernel has loaded a module in the meantime.
func moduleLoaded(h *probe.Host, module string) bool {
	text, err := kernel.ReadProc(h, "modules")
	if err != nil {
		return false
	}
	for line := range strings.Lines(text) {
		name, _, _ := strings.Cut(line, " ")
		if name == module || module == "xt_mark" && name == "xt_MARK" {
			return true
		}
	}
	return false
}

// maxQuoted is the maximum number of bytes of a line to quote.
const maxQuoted = 600

// withoutInput removes a command's input from a line, because the input is long and explains nothing.
func withoutInput(text string) string {
	if before, rest, ok := strings.Cut(text, ` input="`); ok {
		_, after, _ := strings.Cut(rest, `" `)
		text = before + " " + after
	}
	return text[:min(len(text), maxQuoted)]
}
