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
	"github.com/calico-probe/calico-probe/internal/apierror"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/page"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/runbook"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
)

// servant is the user name that the journal records when an alert starts a runbook.
const servant = "calico-probe serve"

// startable returns the runbooks that an alert can start, by name. They are valid and need only the alert's input. It
// passes all other runbooks to odd. It returns an error if a runbook in a folder is invalid, or declares alerts but
// cannot run for them. Otherwise such alerts would start nothing, or start the runbook that it replaces.
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

// unattended returns an error if a step needs a person, or uses an access method that does not
// work in a pod.
func unattended(steps []runbook.Step) error {
	for _, s := range steps {
		runs := []*runbook.Run{s.Run}
		if s.Wait != nil {
			runs = append(runs, s.Wait.Run)
		}
		for _, r := range runs {
			if r != nil && !worksInPod(r.Via) {
				return fmt.Errorf("it uses the access method %s, which does not work in a pod", r.Via)
			}
		}
		if s.Ask != nil && s.Ask.Default == nil {
			return fmt.Errorf("its question %s does not have a default, and no person is present to answer it", s.Name)
		}
		for _, b := range s.Choose {
			if err := unattended(b.Steps); err != nil {
				return err
			}
		}
	}
	return nil
}

// routesOf returns the routes that runbooks declare, those of the user's runbooks first.
func routesOf(books map[string]runbook.Item) (alerts.Routes, error) {
	var own, builtIn []alerts.Answer
	by := map[string]string{} // the user's runbooks by alert
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
				return alerts.Routes{}, ui.BadUsage("the runbooks %s and %s both answer the alert %s: choose one with --config", by[match], name, probe.OneLine(match))
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

// follow runs a runbook for an alert, or resumes it if the program was killed. It does not ask questions, start
// commands or change anything.
func (o *serveOptions) follow(ctx context.Context, log *slog.Logger, client *examine.Client, run examine.Options,
	job alerts.Job, folder string) (alerts.Report, error) {
	rb, j, err := o.journalOf(log, job, folder)
	if err != nil {
		return alerts.Report{}, err
	}
	defer func() { _ = j.Close() }() // every line is already written, or its error was reported
	if j.Ended {                     // the program was killed before it wrote the report
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

// world returns the abilities of a runbook that an alert starts.
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
			if o.Via != examine.ViaAuto { // the administrator restricts the methods
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

// viaInPod returns the methods that auto includes in a pod. A pod has no keys for ssh.
func viaInPod() string {
	return strings.Join(slices.DeleteFunc(injector.FallbackNames(), func(m string) bool { return !worksInPod(m) }), ",")
}

// viaOfServe describes the values of --via for serve.
func viaOfServe() string { return examine.ViaUsage(injector.PersonNames()...) }

// worksInPod reports whether an access method works in a pod.
func worksInPod(method string) bool { return !slices.Contains(injector.PersonNames(), method) }

// viaOf returns the access methods of a runbook's step. serve's own --via takes precedence, and
// auto never includes ssh.
func (o *serveOptions) viaOf(step string) string {
	switch {
	case o.Via != examine.ViaAuto:
		return ""
	case step == examine.ViaAuto:
		return viaInPod()
	}
	return step
}

// reported returns the report of a finished runbook.
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

// journalOf opens the journal of a job, or creates one. It replaces a journal of another version. It also replaces an
// invalid journal, which exists if the program was killed while writing the first line. It opens a finished journal
// read-only.
func (o *serveOptions) journalOf(log *slog.Logger, job alerts.Job,
	folder string) (*runbook.Runbook, *runbook.Journal, error) {
	name := filepath.Join(folder, "journal")
	j, err := runbook.OpenJournal(name, false)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return o.beginJournal(job, name)
	case errors.Is(err, runbook.ErrNoJournal), err == nil && j.Header.Version != probe.Release:
		if err := os.Remove(name); err != nil {
			return nil, nil, fmt.Errorf("replacing the journal: %w", err)
		}
		return o.beginJournal(job, name)
	case err == nil && !j.Ended:
		j, err = runbook.OpenJournal(name, true)
	}
	if err != nil {
		return nil, nil, err
	}
	rb, err := runbook.Load(j.Header.File, []byte(j.Header.Source), knownToRunbooks())
	if err != nil {
		return nil, nil, errors.Join(err, j.Close())
	}
	if !j.Ended {
		if err := j.Resume(servant); err != nil { // the runbook continues, as it does after any later write error
			log.Warn(probe.OneLine(err.Error()), "job", job.ID)
		}
	}
	return rb, j, nil
}

func (o *serveOptions) beginJournal(job alerts.Job, name string) (*runbook.Runbook, *runbook.Journal, error) {
	rb := o.books[job.Procedure.Runbook].Runbook
	if rb == nil { // the runbook was removed after the job was created
		return nil, nil, fmt.Errorf("runbook %s no longer exists", job.Procedure.Runbook)
	}
	params, _, err := rb.Given(nil, nil, nil)
	if err != nil {
		return nil, nil, err
	}
	j, err := runbook.CreateJournal(name, runbook.Header{
		Runbook: rb.Metadata.Name, Digest: rb.Digest(), File: rb.Metadata.Name, Source: rb.Source(), Node: job.Node,
		Cluster: o.asks, Params: params, By: servant, At: time.Now().UTC(),
	})
	return rb, j, err
}

// conclusion summarizes a runbook in one line: its conclusion and, if that is a fault, the node's last cause.
func conclusion(r *runbook.Record) string {
	says := probe.OneLine(r.Outcome.Says)
	if r.Outcome.Verdict != alerts.Fault {
		return says
	}
	for _, step := range slices.Backward(r.Steps) {
		for _, seen := range step.Asked {
			switch {
			case seen.Node != r.Node:
			case len(seen.Causes) == 0:
				return says
			case says == "":
				return probe.OneLine(seen.Causes[0].ID + ": " + seen.Causes[0].Says)
			case !strings.Contains(says, seen.Causes[0].ID):
				return seen.Causes[0].ID + ": " + says
			default:
				return says
			}
		}
	}
	return says
}

// plainRun examines a node as 'calico-probe run' does.
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
		return alerts.Report{}, errors.New(apierror.Explain(err))
	}
	if seen.Verdict == nil {
		return alerts.Report{}, errors.New("the run did not reach a verdict")
	}
	return alerts.Report{Verdict: seen.Verdict.Word, Says: firstOf(seen), JSON: whole.kept.Bytes(),
		Markdown: text.kept.Bytes()}, nil
}

// storedPage returns the page of a report from reported or plainRun.
func storedPage(b []byte) (page.Page, error) {
	p, err := report.ReadPage(b)
	if err != nil {
		return runbook.ReadPage(b)
	}
	return p, nil
}

// bounded keeps at most alerts.MaxJSON+1 bytes of a report in memory. The extra byte shows that the report is too large
// to store.
type bounded struct{ kept bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	b.kept.Write(p[:min(len(p), alerts.MaxJSON+1-b.kept.Len())])
	return len(p), nil
}
