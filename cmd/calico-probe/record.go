package main

import (
	"context"
	"errors"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/report"
)

// record runs and keeps what was seen; with an error, what was seen before it.
func (o *runOptions) record(ctx context.Context) (report.Run, error) {
	if err := o.complete(); err != nil {
		return report.Run{}, err
	}
	kept := &recorder{}
	o.sink = kept
	if err := o.do(ctx); err != nil && !errors.As(err, new(exit)) {
		return kept.run, err
	}
	return kept.run, nil
}

// recorder is a sink that keeps a run as if it had been saved.
type recorder struct{ run report.Run }

func (r *recorder) Event(ev probe.Event) error { r.run.Add(ev); return nil }
