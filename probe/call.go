package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// stopping is the maximum time that a stopped tool has to report its partial result.
const stopping = 2 * time.Second

// call runs one tool: a start event, the tool's output, and an end event with the outcome. If a tool panics or
// blocks in the kernel, only its own answer is lost.
func (r *Runner) call(ctx context.Context, c Call, by *current, emit func(Event)) {
	began := time.Now()
	emit(Event{Type: EventStart,
		Start: &Start{V: Version, Version: r.Version, Node: r.Host.Node, Time: began.UTC(), Tool: c.Tool}})
	var mu sync.Mutex
	open := true
	say := func(ev Event) {
		mu.Lock()
		defer mu.Unlock()
		if open {
			emit(ev)
		}
	}
	var result Result
	ended := Async(func() error { result = r.use(ctx, c, by, say); return nil })
	ending := func(crash error) Result {
		if crash != nil {
			return Found(Unknown, "%s %v", c.Tool, crash)
		}
		return result
	}
	var outcome Result
	select {
	case crash := <-ended:
		outcome = ending(crash)
	case <-ctx.Done():
		select {
		case crash := <-ended:
			outcome = ending(crash)
		case <-time.After(stopping):
			outcome = Found(Unknown, "%s does not stop; still blocked", c.Tool).With(FactReason, "blocked")
		}
	}
	mu.Lock()
	open = false
	mu.Unlock()
	if ctx.Err() != nil && !stopped(ctx) { // perhaps evicted: the output is incomplete
		outcome = Found(Unknown, "the probe was stopped before %s finished", c.Tool)
	}
	outcome.Check, outcome.Elapsed = c.Tool, time.Since(began)
	if !slices.Contains(Statuses(), outcome.Status) {
		outcome.Status = Unknown
	}
	emit(Event{Type: EventEnd,
		End: &End{Counts: Counts{}, Elapsed: outcome.Elapsed, Outcome: &outcome, Stopped: stopped(ctx)}})
}

// use runs a tool on the node, or in the pod that the call specifies.
func (r *Runner) use(ctx context.Context, c Call, by *current, say func(Event)) Result {
	i := slices.IndexFunc(r.Tools, func(t *Tool) bool { return t.Name == c.Tool })
	if i < 0 {
		return Found(Unknown, "this probe (%s) has no %s", r.Version, c.Tool)
	}
	run, err := r.Tools[i].Parse(c.Args)
	if err != nil {
		return Found(Unknown, "this probe (%s) rejects these arguments: %v", r.Version, err)
	}
	switch seal, err := c.seal(); {
	case err != nil:
		return Found(Unknown, "the output of %s cannot be encrypted: %v", c.Tool, err)
	case seal != nil:
		plain := say
		say = func(ev Event) { plain(seal.close(ev)) }
	}
	if c.From == nil {
		out := &toolOutput{emit: say, atOnce: r.Tools[i].Reads}
		defer out.end()
		return run(ctx, &Job{Host: r.Host, Out: out, In: by.typed, Size: c.Size, Sizes: by.sizes, Hosts: c.Hosts})
	}
	if r.Enter == nil {
		return Found(Skip, "this probe cannot enter pods")
	}
	inside := c
	inside.From, inside.Key = nil, nil // the output is sealed here
	outcome := Found(Unknown, "no answer from inside %s", c.From.Name)
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

// Say writes one line of a tool's output and removes terminal control characters.
func (j *Job) Say(format string, args ...any) {
	line := strings.ReplaceAll(Plain(fmt.Sprintf(format, args...)), "\n", " ")
	_, _ = io.WriteString(j.Out, line+"\n") // a closed session stops the tool
}

// toolNames lists the tools of this probe.
func (r *Runner) toolNames() []string {
	var out []string
	for _, t := range r.Tools {
		out = append(out, t.Name)
	}
	return out
}
