package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/alerts"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/page"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/runbook"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
)

// servant is who runs a runbook for an alert.
const servant = "calico-probe serve"

// startable are the runbooks that an alert can start, by name: those that are right and
// take nothing that an alert does not give. The others are told to odd. One of the
// folders that is wrong, or wants to answer alerts and cannot, is an error: its alerts
// would lead nowhere, or to what it replaces.
func startable(dirs []string, odd func(name, why string)) (map[string]runbook.Item, error) {
	items, err := library(dirs)
	if err != nil {
		return nil, err
	}
	out := map[string]runbook.Item{}
	for _, it := range items {
		err := it.Err
		if err == nil {
			_, _, err = it.Runbook.Given(nil, nil, nil)
		}
		if err == nil {
			err = unattended(it.Runbook.Spec.Steps)
		}
		switch {
		case err == nil:
			out[it.Name] = it
		case !it.BuiltIn && (it.Err != nil || len(it.Alerts) > 0):
			return nil, ui.BadUsage("no alert can start the runbook %s: %w", it.Name, err)
		default:
			odd(it.Name, probe.OneLine(err.Error()))
		}
	}
	return out, nil
}

// unattended says what of the steps cannot be done where there is nobody to ask, and no
// node but by way of the cluster.
func unattended(steps []runbook.Step) error {
	for _, s := range steps {
		runs := []*runbook.Run{s.Run}
		if s.Wait != nil {
			runs = append(runs, s.Wait.Run)
		}
		for _, r := range runs {
			if r != nil && !worksInPod(r.Via) {
				return fmt.Errorf("it asks by way of %s, which is nothing for a pod", r.Via)
			}
		}
		if s.Ask != nil && s.Ask.Default == nil {
			return fmt.Errorf("its question %s has no default, and there is nobody to ask", s.Name)
		}
		for _, b := range s.Choose {
			if err := unattended(b.Steps); err != nil {
				return err
			}
		}
	}
	return nil
}

// routesOf are the routes that the runbooks say themselves, one's own before the built-in.
func routesOf(books map[string]runbook.Item) (alerts.Routes, error) {
	var own, builtIn []alerts.Answer
	by := map[string]string{} // one's own, by what they answer
	for _, name := range slices.Sorted(maps.Keys(books)) {
		for _, match := range books[name].Alerts {
			alert, matchers, err := runbook.Alert(match)
			if err != nil {
				return alerts.Routes{}, ui.BadUsage("the runbook %s: %w", name, err)
			}
			answer := alerts.Answer{Alert: alert, Matchers: matchers, Runbook: name}
			if books[name].BuiltIn {
				builtIn = append(builtIn, answer)
				continue
			}
			if by[match] != "" {
				return alerts.Routes{}, ui.BadUsage("the runbooks %s and %s both answer the alert %s: say which with --config", by[match], name, probe.OneLine(match))
			}
			by[match] = name
			own = append(own, answer)
		}
	}
	routes, err := alerts.RoutesFor(append(own, builtIn...))
	if err != nil {
		return alerts.Routes{}, ui.BadUsage("%w", err)
	}
	return routes, nil
}

// follow runs a runbook for an alert, or goes on with it where the program was killed.
// There is nobody to ask, no command is started and nothing is changed.
func (o *serveOptions) follow(ctx context.Context, log *slog.Logger, client *examine.Client, run examine.Options,
	job alerts.Job, folder string) (alerts.Report, error) {
	rb, j, err := o.journalOf(log, job, folder)
	if err != nil {
		return alerts.Report{}, err
	}
	defer func() { _ = j.Close() }() // every line of it is written, or was complained about
	if j.Ended {                     // the program was killed before its report was there
		r, err := runbook.Replay(rb, j)
		if err != nil {
			return alerts.Report{}, err
		}
		return reported(r)
	}
	e := &runbook.Engine{Runbook: rb, Journal: j, World: o.world(log.With("job", job.ID), client, run)}
	r, err := e.Do(ctx)
	if err != nil {
		return alerts.Report{}, err
	}
	return reported(r)
}

// world is what a runbook may do for an alert.
func (o *serveOptions) world(log *slog.Logger, client *examine.Client, run examine.Options) runbook.World {
	by := &runbookOptions{runFlags: &runFlags{app: o.app, Options: run}, client: client, runTimeout: o.Timeout}
	return runbook.World{
		Run: func(ctx context.Context, node string, r runbook.Run) (report.Run, error) {
			r.Via = o.viaOf(r.Via)
			return by.runOn(ctx, node, r)
		},
		Agree: func(ctx context.Context, r runbook.Run, nodes []string) error {
			r.Via = o.viaOf(r.Via)
			return by.agree(ctx, r, nodes)
		},
		Fleet: func(ctx context.Context, f runbook.Fleet) (report.Fleet, error) {
			if o.Via != examine.ViaAuto { // the administrator holds it back
				f.Via = ""
			}
			return by.lookAt(ctx, f)
		},
		Nodes:    by.nodes,
		Ask:      func(context.Context, runbook.Question) (string, error) { return "", runbook.ErrNoPerson },
		Confirm:  func(context.Context, runbook.Proposal) (bool, error) { return false, runbook.ErrNoPerson },
		Show:     func(runbook.Entry) error { return nil },
		Progress: func(string) {}, Waits: func(string) {},
		Say: func(text string) { log.Info(probe.OneLine(text)) }, Who: servant,
	}
}

// viaInPod is what auto stands for in a pod, which has no keys for ssh.
func viaInPod() string {
	return strings.Join(slices.DeleteFunc(injector.FallbackNames(), func(m string) bool { return !worksInPod(m) }), ",")
}

// viaOfServe says what --via takes here.
func viaOfServe() string { return examine.ViaUsage(injector.PersonNames()...) }

// worksInPod tells whether an access method can be used in a pod.
func worksInPod(method string) bool { return !slices.Contains(injector.PersonNames(), method) }

// viaOf is by which access methods a runbook's step runs that asks for some: not where the
// administrator holds it back by serve's own, and never by ssh.
func (o *serveOptions) viaOf(step string) string {
	switch {
	case o.Via != examine.ViaAuto:
		return ""
	case step == examine.ViaAuto:
		return viaInPod()
	}
	return step
}

// reported is the report of a runbook that has come to its end.
func reported(r *runbook.Record) (alerts.Report, error) {
	var whole, text bounded
	if err := runbook.WriteMarkdown(&text, r); err != nil {
		return alerts.Report{}, err
	}
	enc := json.NewEncoder(&whole)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return alerts.Report{}, fmt.Errorf("encoding the record: %w", err)
	}
	return alerts.Report{
		Verdict: r.Outcome.Verdict, Says: conclusion(r), JSON: whole.kept.Bytes(), Markdown: text.kept.Bytes(),
	}, nil
}

// journalOf opens the journal of a job, or begins one. One that another version has
// written is begun anew, and so is what is no journal: the program was killed in its
// first line. Where it has ended it is only read.
func (o *serveOptions) journalOf(log *slog.Logger, job alerts.Job,
	folder string) (*runbook.Runbook, *runbook.Journal, error) {
	name := filepath.Join(folder, "journal")
	j, err := runbook.OpenJournal(name, false)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return o.beginJournal(job, name)
	case errors.Is(err, runbook.ErrNoJournal), err == nil && j.Begun.Version != probe.Release:
		if err := os.Remove(name); err != nil {
			return nil, nil, fmt.Errorf("beginning the journal anew: %w", err)
		}
		return o.beginJournal(job, name)
	case err == nil && !j.Ended:
		j, err = runbook.OpenJournal(name, true)
	}
	if err != nil {
		return nil, nil, err
	}
	rb, err := runbook.Load(j.Begun.File, []byte(j.Begun.Source), knownToRunbooks())
	if err != nil {
		return nil, nil, errors.Join(err, j.Close())
	}
	if !j.Ended {
		if err := j.Resume(servant); err != nil { // the runbook goes on all the same, as where that happens later
			log.Warn(probe.OneLine(err.Error()), "job", job.ID)
		}
	}
	return rb, j, nil
}

func (o *serveOptions) beginJournal(job alerts.Job, name string) (*runbook.Runbook, *runbook.Journal, error) {
	rb := o.books[job.Procedure.Runbook].Runbook
	if rb == nil { // of a job from before the runbooks were changed
		return nil, nil, fmt.Errorf("there is no runbook %s any more", job.Procedure.Runbook)
	}
	params, _, err := rb.Given(nil, nil, nil)
	if err != nil {
		return nil, nil, err
	}
	j, err := runbook.CreateJournal(name, runbook.Begun{
		Runbook: rb.Metadata.Name, Digest: rb.Digest(), File: rb.Metadata.Name, Source: rb.Source(), Node: job.Node,
		Cluster: o.asks, Params: params, By: servant, At: time.Now().UTC(),
	})
	return rb, j, err
}

// conclusion is what a runbook came to, in a line: what it concludes, with the cause it saw
// last of the node where it is a fault.
func conclusion(r *runbook.Record) string {
	says := probe.OneLine(r.Outcome.Says)
	if r.Outcome.Verdict != alerts.Fault {
		return says
	}
	for _, step := range slices.Backward(r.Steps) {
		for _, asked := range step.Asked {
			switch {
			case asked.Node != r.Node:
			case len(asked.Causes) == 0:
				return says
			case says == "":
				return probe.OneLine(asked.Causes[0].ID + ": " + asked.Causes[0].Says)
			case !strings.Contains(says, asked.Causes[0].ID):
				return asked.Causes[0].ID + ": " + says
			default:
				return says
			}
		}
	}
	return says
}

// plainRun carries out a run as 'calico-probe run' does.
func plainRun(ctx context.Context, client *examine.Client, run examine.Options) (alerts.Report, error) {
	var whole, text bounded
	var forms []report.Sink
	for _, f := range []struct {
		format string
		w      *bounded
	}{{"json", &whole}, {"markdown", &text}} {
		s, err := report.New(f.format, f.w, false)
		if err != nil {
			return alerts.Report{}, err
		}
		forms = append(forms, s)
	}
	seen, err := examine.Record(ctx, client, run, forms...)
	if err != nil {
		return alerts.Report{}, errors.New(cluster.Explain(err))
	}
	if seen.Verdict == nil {
		return alerts.Report{}, errors.New("the run came to no verdict")
	}
	return alerts.Report{Verdict: seen.Verdict.Word, Says: firstOf(seen), JSON: whole.kept.Bytes(),
		Markdown: text.kept.Bytes()}, nil
}

// storedPage is the page of a report as reported and plainRun make them.
func storedPage(b []byte) (page.Page, error) {
	p, err := report.ReadPage(b)
	if err != nil {
		return runbook.ReadPage(b)
	}
	return p, nil
}

// bounded keeps in memory only as much of a report as shows that it is more than is stored.
type bounded struct{ kept bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	b.kept.Write(p[:min(len(p), alerts.MaxJSON+1-b.kept.Len())])
	return len(p), nil
}
