package session

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

	"github.com/calico-probe/calico-probe/internal/apierror"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/prompt"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
)

// record keeps an event of a node in the node's latest answers and in the transcript.
func (c *Session) record(s *nodeSession, ev probe.Event) {
	ev = stamped(s, ev)
	s.answers.Add(ev)
	c.mark(s, ev)
	c.write(ev)
}

// badOnes has the checks with bad results, by status.
type badOnes map[probe.Status][]string

// mark adds a result to the outcome of the current command.
func (c *Session) mark(s *nodeSession, ev probe.Event) {
	if s != c.at || ev.Result == nil || ev.Node != s.opts.Node {
		return
	}
	if names := c.bad[ev.Result.Status]; c.bad != nil && !slices.Contains(names, ev.Result.Check) {
		c.bad[ev.Result.Status] = append(names, ev.Result.Check)
	}
}

// cameTo returns a description of an exit code for the transcript.
func (b badOnes) cameTo(code ui.Exit) string {
	word := map[ui.Exit]string{report.ExitFault: report.WordFault, report.ExitWarnings: report.WordWarnings,
		report.ExitIncomplete: report.WordIncomplete}[code]
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

// stamped sets an event's time and node.
func stamped(s *nodeSession, ev probe.Event) probe.Event {
	ev.At = time.Now()
	switch {
	case ev.Node == "":
		ev.Node = s.opts.Node
	case ev.Node != s.opts.Node:
		ev.For = s.opts.Node
	}
	return ev
}

// write adds an event to the transcript, if there is one. A full disk does not end the session.
func (c *Session) write(ev probe.Event) {
	if c.log == nil {
		return
	}
	if err := c.log.Add(ev); err != nil {
		c.unwritten.Do(func() { ui.Say(c.stderr, "the transcript stopped, but the session continues: %v", err) })
	}
}

// beginTranscript opens the user's transcript.
func (c *Session) beginTranscript() error {
	if c.opts.Transcript == "" {
		return nil
	}
	var err error
	if c.log, err = report.Record(c.opts.Transcript); err != nil {
		return ui.BadUsage("the transcript: %w", err)
	}
	return nil
}

// typed records a command.
func (c *Session) typed(l prompt.Line) {
	c.bad = badOnes{}
	c.write(probe.Event{Type: probe.EventTyped, Node: c.at.opts.Node, Text: l.Text})
}

func (c *Session) done(ctx context.Context, err error) {
	text := ""
	switch {
	case err == nil, errors.Is(err, prompt.ErrExit):
	case ctx.Err() != nil:
		text = "stopped"
	default:
		text = apierror.Explain(err)
		if code, ok := errors.AsType[ui.Exit](err); ok && text == code.Error() { // the text does not show the reason
			text = c.bad.cameTo(code)
		}
	}
	c.write(probe.Event{Type: probe.EventDone, Node: c.at.opts.Node, Text: text})
}

// asks immediately runs a run's checks on a node. Earlier answers to these checks are then obsolete. It records the
// answers and passes them to shown.
func (c *Session) asks(ctx context.Context, s *nodeSession, run *examine.Run, shown report.Sink) error {
	return c.asksInto(ctx, s, run, c.record, shown)
}

// asksInto does the same, but records the answers with record.
func (c *Session) asksInto(ctx context.Context, s *nodeSession, run *examine.Run,
	record func(*nodeSession, probe.Event), shown report.Sink) error {
	run.Sink = report.SinkFunc(func(ev probe.Event) error {
		record(s, ev)
		return shown.Event(ev)
	})
	client, snap, err := s.Snapshot(ctx)
	if err != nil {
		return err
	}
	at, err := s.client.ClusterOf(s.opts)
	if err != nil {
		return err
	}
	record(s, round(run, snap, at))
	defer run.Wait()
	if err := run.AskAPI(ctx, client, snap); err != nil {
		return err
	}
	if err = s.askNode(ctx, run, snap); err == nil {
		err = run.Compare(ctx, client, snap)
	}
	return errors.Join(err, run.ReportOthers(snap))
}

// round returns the event that starts a new run on a node.
func round(run *examine.Run, snap *cluster.Snapshot, at *probe.Cluster) probe.Event {
	ev := probe.Event{Type: probe.EventRecheck, Start: &probe.Start{V: probe.Version, Version: probe.Release,
		Run: run.ID, Time: time.Now().UTC(), Checks: run.Owes(snap), Cluster: at}}
	if run.Compares(snap) {
		ev.Method = probe.MethodBaseline
	}
	return ev
}

const saveDoc = `Writes the latest answers about this node, with the causes and the verdict, for
'calico-probe analyze' and 'calico-probe diff': as JSON if the name ends in .json,
otherwise as NDJSON. It only overwrites a file with -f. Only you may read the file.
~ is not expanded.`

// saving parses the arguments of save.
func saving(args []string) (name string, over bool, err error) {
	rest := slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == "-f" })
	if len(rest) != 1 || strings.HasPrefix(rest[0], "-") || rest[0] == "" {
		return "", false, errors.New("save takes a file name, and -f to overwrite the file")
	}
	if strings.HasPrefix(rest[0], "~") {
		return "", false, errors.New("save does not expand ~: use an absolute or a relative path")
	}
	return rest[0], len(rest) < len(args), nil
}

func (c *Session) saveCommand() *prompt.Command {
	return &prompt.Command{
		Name: "save", Usage: "[-f] FILE", Short: "write the latest answers to a file", Doc: saveDoc, Run: c.save,
		Check: func(args []string) error { _, _, err := saving(args); return err },
	}
}

// save writes the node's latest answers as if they were from one run.
func (c *Session) save(_ context.Context, call *prompt.Call) error {
	name, over, err := saving(call.Args)
	if err != nil {
		return prompt.Usagef("%w", err)
	}
	if len(c.at.answers.Requested()) == 0 {
		return fmt.Errorf("no check has run on %s so far: use 'run' first", c.at.opts.Node)
	}
	if err := writeSaved(name, over, c.at.concluded); err != nil {
		return err
	}
	count := 0
	for _, ev := range c.at.answers.Run().Events {
		if ev.Result != nil {
			count++
		}
	}
	age := ""
	if at := c.at.answers.Oldest(); !at.IsZero() {
		age = fmt.Sprintf(", the oldest of them %v old", time.Since(at).Round(time.Second))
	}
	_, err = fmt.Fprintf(call.Out, "%d results of %s are in %s%s\n", count, c.at.opts.Node, name, age)
	return err
}

// writeSaved atomically writes a conclusion to a file.
func writeSaved(name string, over bool, concluded func(report.Sink) (ui.Exit, error)) error {
	var f *os.File
	info, err := os.Stat(name)
	if err == nil && info.IsDir() {
		return fmt.Errorf("%s is a folder: name a file in it", name)
	}
	if !over {
		f, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	} else if name, err = overwritable(name); err == nil {
		f, err = os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*") // readable by its owner only
	}
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists already: 'save -f %s' overwrites it", name, probe.Quote(name))
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

// overwritable returns the file with this name, and follows links. It refuses devices.
func overwritable(name string) (string, error) {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return name, nil
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a file: name a file", name)
	}
	return filepath.EvalSymlinks(name)
}
