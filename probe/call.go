package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// stopping is how long a tool that was stopped may take to say what it knows.
const stopping = 2 * time.Second

// call runs one tool: a start event, what it writes, and an end event with how it
// went. One that panics or blocks in the kernel costs its own answer and nothing else.
func (r *Runner) call(ctx context.Context, c Call, by *asked, emit func(Event)) {
	began := time.Now()
	emit(Event{Type: EventStart, Start: &Start{V: Version, Version: r.Version, Node: r.Host.Node, Time: began.UTC(), Tool: c.Tool}})
	var mu sync.Mutex
	open := true
	say := func(ev Event) {
		mu.Lock()
		defer mu.Unlock()
		if open {
			emit(ev)
		}
	}
	got := make(chan Result, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				got <- Found(Unknown, "%s itself broke: %v", c.Tool, p)
			}
		}()
		got <- r.use(ctx, c, by, say)
	}()
	var outcome Result
	select {
	case outcome = <-got:
	case <-ctx.Done():
		select {
		case outcome = <-got:
		case <-time.After(stopping):
			outcome = Found(Unknown, "%s does not stop; still blocked", c.Tool).With(FactReason, "blocked")
		}
	}
	mu.Lock()
	open = false
	mu.Unlock()
	outcome.Check, outcome.Elapsed = c.Tool, time.Since(began)
	if !slices.Contains(Statuses(), outcome.Status) {
		outcome.Status = Unknown
	}
	emit(Event{Type: EventEnd, End: &End{Counts: Counts{}, Elapsed: outcome.Elapsed, Outcome: &outcome, Stopped: stopped(ctx)}})
}

// use runs a tool where it is to run.
func (r *Runner) use(ctx context.Context, c Call, by *asked, say func(Event)) Result {
	i := slices.IndexFunc(r.Tools, func(t *Tool) bool { return t.Name == c.Tool })
	if i < 0 {
		return Found(Unknown, "this probe (%s) has no %s", r.Version, c.Tool)
	}
	run, err := r.Tools[i].Parse(c.Args)
	if err != nil {
		return Found(Unknown, "this probe (%s) does not take these arguments: %v", r.Version, err)
	}
	if c.From == nil {
		j := &Job{Host: r.Host, Out: spoken{say}, In: by.typed, Size: c.Size, Sizes: by.sizes}
		if !r.Tools[i].Reads { // else somebody waits for what their key does
			out := &gathered{to: spoken{say}}
			defer out.flush()
			j.Out = out
		}
		return run(ctx, j)
	}
	if r.Enter == nil {
		return Found(Skip, "this probe cannot enter pods")
	}
	inside := c
	inside.From = nil
	outcome := Found(Unknown, "nothing came back from inside %s", c.From.Name)
	err = r.Enter(ctx, *c.From, Request{Type: RequestCall, Call: &inside}, func(ev Event) {
		switch {
		case ev.Type == EventOut:
			say(ev)
		case ev.End != nil && ev.End.Outcome != nil:
			outcome = *ev.End.Outcome
		}
	})
	switch {
	case errors.Is(err, ErrNotVisible), errors.Is(err, errors.ErrUnsupported):
		return Found(Skip, "not run inside %s: %v", c.From.Name, err)
	case err != nil:
		return Found(Unknown, "not run inside %s: %v", c.From.Name, err)
	}
	return outcome
}

// How much a tool may write before it is passed on, and how long that may wait: a table
// comes cell by cell, and every event costs a line of JSON, a frame, and a line of the
// container's log.
const (
	gather    = 8 * piece
	gathering = 50 * time.Millisecond
)

// gathered passes on what a tool writes in pieces worth the trouble.
type gathered struct {
	to   spoken
	mu   sync.Mutex
	kept []byte
	late *time.Timer // passes on what is kept
}

func (g *gathered) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.kept = append(g.kept, b...); len(g.kept) >= gather {
		g.pass()
	} else if g.late == nil {
		g.late = time.AfterFunc(gathering, g.flush)
	}
	return len(b), nil
}

func (g *gathered) flush() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pass()
}

func (g *gathered) pass() {
	if g.late != nil {
		g.late.Stop()
		g.late = nil
	}
	_, _ = g.to.Write(g.kept) // it takes everything
	g.kept = g.kept[:0]
}

// Say writes one line of a tool's output.
func (j *Job) Say(format string, args ...any) { _, _ = fmt.Fprintf(j.Out, format+"\n", args...) }

// toolNames lists what this probe has.
func (r *Runner) toolNames() []string {
	var out []string
	for _, t := range r.Tools {
		out = append(out, t.Name)
	}
	return out
}
