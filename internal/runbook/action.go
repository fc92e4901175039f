package runbook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// Limits of an action.
const (
	dryRunLimit = time.Minute
	keepLimit   = 20 * time.Second // for each command: a missing log is not a reason to wait long
	actionLimit = 5 * time.Minute  // a drain takes minutes
	keptLines   = 40               // number of last lines to keep from each command
)

// action runs a step that changes the node or the cluster. It runs only if the user allowed the step by name, saw its
// dry run, and confirmed it. If an earlier attempt started and its result is unknown, it never runs again without a new
// confirmation.
func (w *walk) action(ctx context.Context, e *Entry, s *Step) error {
	var out Deed
	at, done, err := w.Journal.ended(e.Step, &out)
	if err != nil {
		return err
	}
	before, err := w.cutDeed(e.Step)
	if err != nil {
		return err
	}
	if done {
		known := out
		before = &known
	}
	switch {
	case w.past && !done:
		e.Deed = before
		return goesOn(s.Name)
	// If an action did not run, or it is unknown whether it ran, it is offered again if the resumed runbook allows it.
	case !done, (out.NotRun != "" || out.Unsure != "") && !w.past && slices.Contains(w.Actions, s.Name):
		if out, err = w.propose(ctx, e.Step, s, before); err != nil {
			if e.Deed = before; out.Unsure != "" {
				e.Deed = &out
			}
			return err
		}
		at, err = w.Journal.end(e.Step, s.Name, out)
		w.wrote(err)
	}
	e.At, e.Deed = at, &out
	return nil
}

// cutDeed returns an action that started but has no recorded end, so its result is unknown. It returns nil if there is
// no such action.
func (w *walk) cutDeed(key string) (*Deed, error) {
	var d Deed
	at, ok, err := w.Journal.unfinished(key, &d)
	if !ok || err != nil {
		return nil, err
	}
	d.Unsure = interruptedAt(at)
	return &d, nil
}

func interruptedAt(began time.Time) string {
	return fmt.Sprintf("it started at %s and was interrupted", began.UTC().Format("2006-01-02 15:04:05 UTC"))
}

// notRun returns why an action is only shown, or "" if it is allowed to run. unknown is the error from building the
// action's command.
func (w *walk) notRun(s *Step, unknown error) string {
	switch {
	case unknown != nil:
		return "cannot build its command: " + plainly(unknown.Error())
	case !slices.Contains(w.Actions, s.Name):
		return "not allowed: use --allow-actions " + s.Name
	case !w.Commands:
		return "commands are not allowed here"
	case w.World.Unattended:
		return fmt.Sprintf("cannot be confirmed: %v", ErrNoPerson)
	case w.Journal.Err() != nil:
		return "the journal cannot be written, so the action would leave no record"
	}
	return ""
}

// propose shows an action, and runs it if the user confirms. If an earlier attempt may have run, propose keeps the
// output that this attempt saved, because the originals may be gone.
func (w *walk) propose(ctx context.Context, at string, s *Step, before *Deed) (Deed, error) {
	a := s.Action
	out := Deed{Says: w.sight().say(ctx, a.Says), Touches: w.sight().say(ctx, a.Touches), Command: a.Command, Exit: -1}
	if before != nil {
		if out.Before = before.Before; before.Unsure != "" {
			out.Before = before.Unsure + ", confirmed by " + before.By
		}
		if out.Before != "" {
			out.Kept = slices.Clone(before.Kept)
		}
	}
	dryRun, err := w.words(ctx, a.DryRun)
	if err == nil {
		var command []string
		if command, err = w.words(ctx, a.Command); err == nil {
			out.Command = command
		}
	}
	if ctx.Err() != nil {
		return out, context.Cause(ctx)
	}
	if out.NotRun = w.notRun(s, err); out.NotRun != "" { // check this before anything is started
		return out, nil
	}
	w.World.Progress("dry run of " + s.Name)
	dry, err := w.start(ctx, dryRunLimit, dryRun, nil)
	if err != nil {
		return out, err
	}
	out.DryRun = probe.Plain(dry.all)
	if dry.exit != 0 {
		out.NotRun = "its dry run failed: " + dry.why()
		return out, nil
	}
	if err := w.keep(ctx, &out, a.Keep); err != nil {
		return out, err
	}
	yes, err := w.World.Confirm(ctx, Proposal{Step: s.Name, Deed: out, Seen: w.old()})
	switch {
	case errors.Is(err, ErrNoPerson):
		out.NotRun = fmt.Sprintf("not confirmed: %v", err)
		return out, nil
	case err != nil:
		return out, err
	case !yes:
		out.NotRun = "not confirmed"
		return out, nil
	}
	return w.perform(ctx, at, s.Name, out)
}

// Before an action runs, keep saves the output of commands that show what the action destroys. If a command fails, the
// user sees that before confirming. It is not a reason to refuse.
func (w *walk) keep(ctx context.Context, out *Deed, commands [][]string) error {
	for _, texts := range commands {
		words, err := w.words(ctx, texts)
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			out.Kept = append(out.Kept, Kept{Command: texts, At: time.Now().UTC(), Failed: plainly(err.Error())})
			continue
		}
		k := Kept{Command: words, At: time.Now().UTC()}
		w.World.Progress("saving the output of " + Quoted(words))
		ran, err := w.start(ctx, keepLimit, words, nil)
		if err != nil {
			return err
		}
		if ran.exit != 0 {
			k.Failed = ran.why()
		} else {
			k.Lines = lastLines(ran.all)
		}
		out.Kept = append(out.Kept, k)
	}
	return nil
}

// lastLines returns the last lines of a text. It cleans them and cuts each to a limit, but keeps columns and indents.
func lastLines(text string) []string {
	var out []string
	for line := range strings.Lines(strings.TrimRight(text, " \t\r\n")) {
		out = append(out, probe.Cut(probe.Plain(strings.TrimRight(line, " \t\r\n")), maxSaw))
	}
	return out[max(0, len(out)-keptLines):]
}

// perform runs a confirmed action.
func (w *walk) perform(ctx context.Context, at, step string, out Deed) (Deed, error) {
	out.By = w.World.Who
	if err := w.Journal.certainly(at, step, out); err != nil {
		out.NotRun = plainly(err.Error()) + ", so the action would leave no record"
		return out, nil
	}
	began := time.Now()
	did, err := w.start(ctx, actionLimit, out.Command, nil)
	if err != nil { // only its start is recorded
		out.Unsure = interruptedAt(began)
		return out, err
	}
	out.Exit, out.Output = did.exit, probe.Plain(did.all)
	switch {
	case !did.started:
		out.NotRun = "its command " + did.failed
	case did.failed != "":
		out.Unsure = "its command " + did.failed
	}
	return out, nil
}
