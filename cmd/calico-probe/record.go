package main

import (
	"context"
	"errors"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/report"
)

// record runs and keeps what was seen, with an error what was seen before it; others are
// shown it as it comes.
func (o *runOptions) record(ctx context.Context, others ...report.Sink) (report.Run, error) {
	if err := o.complete(); err != nil {
		return report.Run{}, err
	}
	kept := &recorder{others: others}
	o.sink = kept
	if err := o.do(ctx); err != nil && !errors.As(err, new(exit)) {
		return kept.run, err
	}
	return kept.run, nil
}

// recorder is a sink that keeps a run as if it had been saved.
type recorder struct {
	run    report.Run
	others []report.Sink
}

func (r *recorder) Event(ev probe.Event) error {
	r.run.Add(ev)
	for _, s := range r.others {
		if err := s.Event(ev); err != nil {
			return err
		}
	}
	return nil
}
