package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/alerts"
	"github.com/calico-probe/calico-probe/report"
	"github.com/calico-probe/calico-probe/runbook"
)

// servant is who runs a runbook for an alert.
const servant = "calico-probe serve"

// startable are the runbooks that an alert can start, by name: those that are right and
// take nothing that an alert does not give. Others are told to odd.
func startable(dirs []string, odd func(name, why string)) (map[string]*runbook.Runbook, error) {
	items, err := library(dirs)
	if err != nil {
		return nil, err
	}
	out := map[string]*runbook.Runbook{}
	for _, it := range items {
		err := it.Err
		if err == nil {
			_, err = it.Runbook.Given(nil, nil, nil)
		}
		if err != nil {
			odd(it.Name, oneLine(err.Error()))
			continue
		}
		out[it.Name] = it.Runbook
	}
	return out, nil
}

// follow runs a runbook for an alert, or goes on with it where the program was killed.
// There is nobody to ask, no command is started and nothing is changed.
func (o *serveOptions) follow(ctx context.Context, log *slog.Logger, run *runOptions, job alerts.Job, folder string) (alerts.Report, error) {
	rb, j, err := o.journalOf(job, folder)
	if err != nil {
		return alerts.Report{}, err
	}
	defer func() { _ = j.Close() }() // every line of it is written, or was complained about
	by := &runbookOptions{runOptions: run, runTimeout: o.timeout}
	e := &runbook.Engine{Runbook: rb, Journal: j, World: runbook.World{
		Run: by.runOn, Nodes: by.nodes,
		Ask:      func(context.Context, runbook.Question) (string, error) { return "", runbook.ErrNobody },
		Confirm:  func(context.Context, runbook.Proposal) (bool, error) { return false, runbook.ErrNobody },
		Show:     func(runbook.Entry) error { return nil },
		Progress: func(string) {}, Say: func(text string) { log.Info(oneLine(text), "job", job.ID) }, Who: servant,
	}}
	r, err := e.Do(ctx)
	if err != nil {
		return alerts.Report{}, err
	}
	var text bytes.Buffer
	if err := runbook.WriteMarkdown(&text, r); err != nil {
		return alerts.Report{}, err
	}
	whole, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return alerts.Report{}, fmt.Errorf("encoding the record: %w", err)
	}
	return alerts.Report{Verdict: r.Outcome.Verdict, Says: cameTo(r), JSON: append(whole, '\n'), Markdown: text.Bytes()}, nil
}

// journalOf opens the journal of a job, or begins one. One that cannot be gone on with,
// since another version has written it, is begun anew.
func (o *serveOptions) journalOf(job alerts.Job, folder string) (*runbook.Runbook, *runbook.Journal, error) {
	name := filepath.Join(folder, "journal")
	if j, err := runbook.OpenJournal(name, true); err == nil {
		rb, err := runbook.Load(j.Begun.File, []byte(j.Begun.Source), knownToRunbooks())
		if err == nil {
			return rb, j, j.Resume(servant)
		}
		_ = j.Close() // nothing was written to it
	}
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("beginning the journal anew: %w", err)
	}
	rb := o.books[job.Procedure.Runbook]
	if rb == nil { // of a job from before the runbooks were changed
		return nil, nil, fmt.Errorf("there is no runbook %s any more", job.Procedure.Runbook)
	}
	params, err := rb.Given(nil, nil, nil)
	if err != nil {
		return nil, nil, err
	}
	j, err := runbook.CreateJournal(name, runbook.Begun{
		Runbook: rb.Metadata.Name, Digest: rb.Digest(), File: rb.Metadata.Name, Source: rb.Source(), Node: job.Node, Params: params, By: servant, At: time.Now().UTC(),
	})
	return rb, j, err
}

// cameTo is what a runbook came to, in a line: what it concludes, with the cause it saw
// last of the node where it is a fault.
func cameTo(r *runbook.Record) string {
	says := oneLine(r.Outcome.Says)
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
				return oneLine(asked.Causes[0].ID + ": " + asked.Causes[0].Says)
			case !strings.Contains(says, asked.Causes[0].ID):
				return asked.Causes[0].ID + ": " + says
			default:
				return says
			}
		}
	}
	return says
}

// plain carries out a run as 'calico-probe run' does.
func (o *serveOptions) plain(ctx context.Context, run *runOptions) (alerts.Report, error) {
	var whole, text bytes.Buffer
	var forms []report.Sink
	for _, f := range []struct {
		format string
		w      *bytes.Buffer
	}{{"json", &whole}, {"markdown", &text}} {
		s, err := report.New(f.format, f.w, false)
		if err != nil {
			return alerts.Report{}, err
		}
		forms = append(forms, s)
	}
	seen, err := run.record(ctx, forms...)
	if err != nil {
		return alerts.Report{}, errors.New(explainError(err))
	}
	if seen.Verdict == nil {
		return alerts.Report{}, errors.New("the run came to no verdict")
	}
	return alerts.Report{Verdict: seen.Verdict.Word, Says: firstOf(seen), JSON: whole.Bytes(), Markdown: text.Bytes()}, nil
}
