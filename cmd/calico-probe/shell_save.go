package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checks"
	"github.com/calico-probe/calico-probe/prompt"
	"github.com/calico-probe/calico-probe/report"
)

// record keeps an event of a node: among its latest answers, and in the transcript.
func (c *conversation) record(s *seat, ev probe.Event) {
	ev = stamped(s, ev)
	s.run.Add(ev)
	c.mark(s, ev)
	c.write(ev)
}

// badOnes are checks with answers that are not good, by what those are.
type badOnes map[probe.Status][]string

// mark keeps in mind what a command comes to.
func (c *conversation) mark(s *seat, ev probe.Event) {
	if s != c.at || ev.Result == nil || ev.Node != s.o.node {
		return
	}
	if names := c.bad[ev.Result.Status]; c.bad != nil && !slices.Contains(names, ev.Result.Check) {
		c.bad[ev.Result.Status] = append(names, ev.Result.Check)
	}
}

// cameTo puts an exit code into words, for whoever reads what was done.
func (b badOnes) cameTo(code exit) string {
	word := map[exit]string{report.ExitFault: report.WordFault, report.ExitWarnings: report.WordWarnings, report.ExitIncomplete: report.WordIncomplete}[code]
	var parts []string
	for _, s := range []probe.Status{probe.Fail, probe.Warn, probe.Unknown} {
		if len(b[s]) > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", s, strings.Join(b[s], " ")))
		}
	}
	switch {
	case word == "":
		return code.Error()
	case len(parts) > 0:
		word += ": " + strings.Join(parts, ", ")
	}
	return fmt.Sprintf("%s (%v)", word, code)
}

// stamped says when it was, and about which node.
func stamped(s *seat, ev probe.Event) probe.Event {
	ev.At = time.Now()
	switch {
	case ev.Node == "":
		ev.Node = s.o.node
	case ev.Node != s.o.node:
		ev.For = s.o.node
	}
	return ev
}

// write puts an event into the transcript, if there is one. A disk that is full does
// not end the session.
func (c *conversation) write(ev probe.Event) {
	if c.log == nil {
		return
	}
	if err := c.log.Add(ev); err != nil {
		c.unwritten.Do(func() { say(c.ErrOut, "the transcript is not written any more, the session goes on: %v", err) })
	}
}

// beginTranscript opens the transcript the user named.
func (c *conversation) beginTranscript() error {
	if c.transcript == "" {
		return nil
	}
	var err error
	if c.log, err = report.Record(c.transcript); err != nil {
		return badUsage("the transcript: %w", err)
	}
	return nil
}

// typed records a command, and what it came to.
func (c *conversation) typed(l prompt.Line) {
	c.bad = badOnes{}
	c.write(probe.Event{Type: probe.EventTyped, Node: c.at.o.node, Text: l.Text})
}

func (c *conversation) done(ctx context.Context, err error) {
	text := ""
	switch {
	case err == nil, errors.Is(err, prompt.ErrExit):
	case ctx.Err() != nil:
		text = "stopped"
	default:
		text = explainError(err)
		if code, ok := errors.AsType[exit](err); ok && text == code.Error() { // which tells nobody anything
			text = c.bad.cameTo(code)
		}
	}
	c.write(probe.Event{Type: probe.EventDone, Node: c.at.o.node, Text: text})
}

// asks has a node answer what own wants to know, now: what was answered to that before
// is old. Its answers are recorded and given to shown.
func (c *conversation) asks(ctx context.Context, s *seat, own *runOptions, shown report.Sink) error {
	return c.asksInto(ctx, s, own, c.record, shown)
}

// asksInto does the same and has its answers recorded by record.
func (c *conversation) asksInto(ctx context.Context, s *seat, own *runOptions, record func(*seat, probe.Event), shown report.Sink) error {
	own.warm = s
	own.sink = report.SinkFunc(func(ev probe.Event) error {
		record(s, ev)
		return shown.Event(ev)
	})
	_, snap, err := s.fresh(ctx)
	if err != nil {
		return err
	}
	at, err := own.where()
	if err != nil {
		return err
	}
	record(s, round(own, snap, at))
	return own.gather(ctx)
}

// round says that a node is asked anew.
func round(own *runOptions, snap *cluster.Snapshot, at *probe.Cluster) probe.Event {
	ev := probe.Event{Type: probe.EventAsked, Start: &probe.Start{V: probe.Version, Version: probe.Release, Run: own.id, Time: time.Now().UTC(), Checks: own.owes(snap), Cluster: at}}
	if own.contrasts(snap) {
		ev.Way = probe.WayNeighbour
	}
	return ev
}

// byName is for checks that are asked for by name: they are asked here, and neighbours
// only where they are what is asked for.
func (o *runOptions) byName() {
	if !slices.Contains(o.picked, checks.NeighbourReach) {
		o.peers = 0
	}
}

// owes are the checks the node itself, or the API about it, has to answer.
func (o *runOptions) owes(snap *cluster.Snapshot) []string {
	var ids []string
	for _, check := range o.picked {
		if check.From == probe.FromAPI && snap != nil {
			ids = append(ids, check.ID)
		}
	}
	if o.goesOnto() {
		ids = append(ids, o.nodeChecks()...)
	}
	if o.goesOnto() && o.proves(snap) && !slices.Contains(ids, checks.EncapProof.ID) {
		ids = append(ids, checks.EncapProof.ID)
	}
	return ids
}

const saveDoc = `Writes the latest answers about this node, with the causes and the verdict, for
'calico-probe analyze' and 'calico-probe diff': as JSON where the name ends in .json,
else as NDJSON. A file that is there is only overwritten with -f. Only you may read it.
~ is not expanded.`

// saving parses the arguments of save.
func saving(args []string) (name string, over bool, err error) {
	rest := slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == "-f" })
	if len(rest) != 1 || strings.HasPrefix(rest[0], "-") || rest[0] == "" {
		return "", false, errors.New("save takes the name of a file, and -f to overwrite it")
	}
	if strings.HasPrefix(rest[0], "~") {
		return "", false, errors.New("save does not know ~: name the file in full, or from where you are")
	}
	return rest[0], len(rest) < len(args), nil
}

func (c *conversation) saveCommand() *prompt.Command {
	return &prompt.Command{
		Name: "save", Usage: "[-f] FILE", Short: "write the latest answers to a file", Doc: saveDoc, Run: c.save,
		Check: func(args []string) error { _, _, err := saving(args); return err },
	}
}

// save writes what the node answered last, as if it had been one run.
func (c *conversation) save(_ context.Context, call *prompt.Call) error {
	name, over, err := saving(call.Args)
	if err != nil {
		return prompt.Usagef("%w", err)
	}
	if len(c.at.run.Asked()) == 0 {
		return fmt.Errorf("nothing was asked of %s so far: 'run' asks, then there is something to save", c.at.o.node)
	}
	if err := writeSaved(name, over, c.at.concluded); err != nil {
		return err
	}
	count := 0
	for _, ev := range c.at.run.Run().Events {
		if ev.Result != nil {
			count++
		}
	}
	age := ""
	if at := c.at.run.Oldest(); !at.IsZero() {
		age = fmt.Sprintf(", the oldest of them %v old", time.Since(at).Round(time.Second))
	}
	_, err = fmt.Fprintf(call.Out, "%d results of %s are in %s%s\n", count, c.at.o.node, name, age)
	return err
}

// writeSaved puts what is concluded into a file, whole or not at all.
func writeSaved(name string, over bool, concluded func(report.Sink) (exit, error)) error {
	var f *os.File
	info, err := os.Stat(name)
	if err == nil && info.IsDir() {
		return fmt.Errorf("%s is a folder: name a file in it", name)
	}
	if !over {
		f, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	} else if name, err = overwritable(name); err == nil {
		f, err = os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*") // for its owner alone
	}
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already: 'save -f %s' overwrites it", name, probe.Quote(name))
	}
	if err != nil {
		return err
	}
	format := "ndjson"
	if strings.HasSuffix(name, ".json") {
		format = "json"
	}
	sink, err := report.New(format, f, false)
	if err == nil {
		_, err = concluded(sink)
	}
	err = errors.Join(err, f.Close())
	if err == nil && over {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%s is not saved: %w", name, err), os.Remove(f.Name()))
	}
	return nil
}

// overwritable is the file a name means, which may be a link; a device is not replaced.
func overwritable(name string) (string, error) {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return name, nil
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is no file: name one", name)
	}
	return filepath.EvalSymlinks(name)
}
