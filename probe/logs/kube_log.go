package logs

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/journal"
	"github.com/calico-probe/calico-probe/probe/lazy"
	"github.com/calico-probe/calico-probe/probe/node"
	"github.com/calico-probe/calico-probe/probe/podlog"
)

// KubeLog reads what kube-proxy and CoreDNS on this node logged before they exited. It also reads
// what they complain about.
var KubeLog = &probe.Check{
	ID: probe.CheckKubeLog, From: probe.FromNode,
	In: probe.Standard, Tags: []string{probe.TagService, probe.TagDNS}, Run: kubeLog,
	Access: []string{"var/log", "run/log/journal", "uid 0"},
}

// The log locations of a kube-proxy that runs outside a pod.
const (
	kubeProxyFile = "/var/log/kube-proxy.log"
	kubeProxyUnit = "kube-proxy.service"
)

func kubeLog(ctx context.Context, p *probe.Pass) { kubeLogAt(ctx, p, p.Host.Now()) }

func kubeLogAt(ctx context.Context, p *probe.Pass, now time.Time) {
	found := false
	say := func(r probe.Result, of, on string) {
		found = true
		// kube-proxy's Node was created after kube-proxy had stopped waiting for it.
		line := r.Facts.Str(FactLine)
		if r.Facts.Str(FactSignature) == faultNodeNotFound && r.Facts[FactEnded] == false && p.Host.Node != "" &&
			strings.Contains(strings.ReplaceAll(line, `\"`, `"`), strconv.Quote(p.Host.Node)) {
			r.Status = probe.Info
		}
		p.Report(r.On(on).With(probe.FactOfContainer, of))
	}
	for _, t := range p.Of(probe.KindLogs) {
		folder := t.Attrs[probe.AttrLogs]
		if endings[t.Name].Ends == nil || folder == "" || strings.Contains(folder, "/") {
			continue
		}
		r, err := podsLog(p.Host, path.Join(logPods, folder, t.Name), t.Name, now)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			say(node.Unseen(err), t.Name, t.Name+" "+t.Host)
		default:
			say(r, t.Name, strings.TrimSpace(t.Name+" "+t.Host))
		}
	}
	isPod := slices.ContainsFunc(p.Of(probe.KindLogs), func(t probe.Target) bool { return t.Name == kubeProxy })
	if r, on, ok := hostProxyLog(ctx, p.Host, now); ok && !isPod {
		say(r, kubeProxy, on)
	}
	if !found {
		p.Report(node.Gap(p, probe.KindLogs, "no log of kube-proxy, CoreDNS, calico-kube-controllers or Typha on this node"))
	}
}

// hostProxyLog evaluates a kube-proxy that runs as a program on the host. It reads its log file or the journal. It
// returns false if kube-proxy has not logged anything there recently.
func hostProxyLog(ctx context.Context, h *probe.Host, now time.Time) (probe.Result, string, bool) {
	// A log file that no longer grows proves nothing about the current state.
	if info, err := h.Stat(kubeProxyFile); err == nil && now.Sub(info.ModTime()) < logBefore {
		if lines, _, err := lastOfLog(h, kubeProxyFile); err == nil {
			return presentRun(kubeProxy, timed(lines, info.ModTime()), now), kubeProxyFile, true
		}
	}
	entries, err := JournalEntries(ctx, h, journal.Want{Units: []string{kubeProxyUnit}, Since: now.Add(-ServiceSince),
		Most: serviceLines})
	var runs [][]podlog.Line // by the process that logged them
	pid := ""
	for _, e := range entries {
		if e.About {
			continue
		}
		if len(runs) == 0 || e.PID != pid {
			runs, pid = append(runs, nil), e.PID
		}
		last := &runs[len(runs)-1]
		*last = append(*last, podlog.Line{Time: e.Time, Text: e.Text})
	}
	if err != nil || len(runs) == 0 {
		return probe.Result{}, "", false
	}
	return lastRuns(kubeProxy, runs, now), kubeProxyUnit, true
}

// lastRuns evaluates the last of several runs. If that run began recently, it evaluates the run before it.
func lastRuns(component string, runs [][]podlog.Line, now time.Time) probe.Result {
	last := len(runs) - 1
	r := presentRun(component, runs[last], now)
	if r.Status != probe.Fail && last > 0 && now.Sub(runs[last][0].Time) < youngRun {
		return runBefore(component, runs[last-1], now, r)
	}
	return r
}

// youngRun is the maximum length of a run that does not yet prove that the program works. A program that rejects its
// settings exits within seconds.
const youngRun = 20 * time.Second

// If the current run began recently, runBefore returns how the previous run ended. Otherwise, it returns the
// result of the current run.
func runBefore(component string, lines []podlog.Line, now time.Time, present probe.Result) probe.Result {
	of := ended(component, lines, now)
	if of.Status != probe.Fail {
		return present
	}
	of.Status = probe.Warn
	of.Saw += "; a new run has just started"
	return of
}

// podsLog evaluates the last two runs of a component's container.
func podsLog(h *probe.Host, folder, component string, now time.Time) (probe.Result, error) {
	names, err := h.ReadDir(folder)
	if err != nil {
		return probe.Result{}, err
	}
	runs := runsOf(names)
	if len(runs) == 0 {
		return probe.Found(probe.Skip, "the container has logged nothing yet"), nil
	}
	last := len(runs) - 1
	lines, whole, err := lastOfLog(h, path.Join(folder, runFile(runs[last])))
	if err != nil {
		return probe.Result{}, err
	}
	r := presentRun(component, lines, now)
	young := whole && (len(lines) == 0 || now.Sub(lines[0].Time) < youngRun)
	if r.Status == probe.Fail || last == 0 || !young {
		return r.With(factRun, runs[last]), nil
	}
	before, _, err := lastOfLog(h, path.Join(folder, runFile(runs[last-1])))
	if err != nil { // the kubelet has deleted it
		return r.With(factRun, runs[last]), nil
	}
	if of := runBefore(component, before, now, r); of.Facts[FactEnded] == true {
		return of.With(factRun, runs[last-1]), nil
	}
	return r.With(factRun, runs[last]), nil
}

// presentRun evaluates the current run: how it ended, or what it complains about while it runs.
func presentRun(component string, lines []podlog.Line, now time.Time) probe.Result {
	r := ended(component, lines, now)
	if r.Status == probe.OK {
		if complains, ok := judgeComplaints(component, lines, now); ok {
			return complains
		}
	}
	return r
}

// ended finds the line with which a component's run ended. Only similar lines may follow that line.
func ended(component string, lines []podlog.Line, now time.Time) probe.Result {
	how := endings[component]
	var end *podlog.Line
	for i := range lines {
		if restartsAfterUpdate.MatchString(lines[i].Text) {
			end = nil
			continue
		}
		if m := how.Ends.FindStringSubmatch(lines[i].Text); m != nil && end == nil {
			end = &podlog.Line{Time: lines[i].Time, Text: m[1]}
		} else if m == nil && goesOn.MatchString(lines[i].Text) {
			end = nil // it belongs to another run in the same file, or is not the end
		}
	}
	if end == nil || !end.Time.IsZero() && now.Sub(end.Time) > logBefore {
		return probe.Found(probe.OK, "no run ended with an error among the last %d lines", len(lines))
	}
	quote := quoted(*end)
	r := probe.Found(probe.Fail, "the run ended with: %s", quote.Aged(now)).
		With(FactLine, quote.Text).With(FactEnded, true)
	for _, list := range [][]*signature{how.Signatures, anyEnding} {
		for _, s := range list {
			if !s.Match.MatchString(end.Text) {
				continue
			}
			return r.With(FactSignature, s.ID)
		}
	}
	return r
}

// restartsAfterUpdate matches the line with which kube-proxy exits after its configuration has changed. It exits to
// restart with the new configuration (options.go).
var restartsAfterUpdate = lazy.New(`content of the proxy server's configuration file was updated`)

// goesOn matches lines that kube-proxy or CoreDNS log while they are running. A usage text does not match.
var goesOn = lazy.New(`^[IWEF]\d{4} [\d:.]+ +\d+ |^\d{4}-\d\d-\d\d [\d:.]+ \[(?:DEBUG|INFO|WARNING|ERROR)\]|^\[(?:INFO|WARNING|ERROR)\] |^CoreDNS-`)

// runFile returns the name of the log of a run.
func runFile(number int) string { return strconv.Itoa(number) + ".log" }
