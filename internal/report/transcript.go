package report

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/calico-probe/calico-probe/internal/filelock"
	"github.com/calico-probe/calico-probe/probe"
)

// Transcript is the record of a session, written line by line while the session runs. It contains the typed commands
// with their outcomes, every event of every answer, and the output of tools, each with the time. If the client is
// killed, the file is readable up to the last complete line.
type Transcript struct {
	mu   sync.Mutex
	file *os.File
	enc  *probe.Encoder
}

// The reasons why a file is rejected.
var (
	errNoTranscript = errors.New("exists and is not a session transcript: name a new file")
	errRecording    = errors.New("is the transcript of another session that is still running: name another file")
)

// Record begins a transcript in a new or empty file, or continues a transcript that no other session is writing. Only
// the file's owner may read it.
func Record(name string) (*Transcript, error) {
	// Opening a pipe would wait for its other end.
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s %w", name, errNoTranscript)
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := begin(f); err != nil {
		return nil, errors.Join(fmt.Errorf("%s %w", name, err), f.Close())
	}
	t := &Transcript{file: f, enc: probe.NewEncoder(f)}
	return t, t.Add(probe.Event{Type: probe.EventSession, Start: &probe.Start{V: probe.Version, Version: probe.Release,
		Time: time.Now().UTC()}})
}

// begin prepares a file for writing at its end.
func begin(f *os.File) error {
	if !filelock.Lock(f) {
		return errRecording
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() > 0 {
		ev, err := probe.NewDecoder(io.NewSectionReader(f, 0, probe.MaxLine)).Next()
		if err != nil || ev.Type != probe.EventSession {
			return errNoTranscript
		}
	}
	if info.Mode().Perm()&0o077 != 0 {
		if err := f.Chmod(0o600); err != nil {
			return fmt.Errorf("is readable by others, and its mode cannot be changed: %w", err)
		}
	}
	if info.Size() > 0 {
		_, err = f.WriteString("\n") // the last line may be incomplete
	}
	return err
}

// Add writes an event with the time.
func (t *Transcript) Add(ev probe.Event) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ev.At.IsZero() {
		ev.At = time.Now()
	}
	ev.At = ev.At.UTC()
	t.enc.Encode(ev)
	return t.enc.Err()
}

// Close ends the transcript.
func (t *Transcript) Close() error { return filelock.Close(t.file) }

// isTranscript reports whether the first line of a file is that of a transcript.
func isTranscript(line []byte) bool {
	var ev probe.Event
	return json.Unmarshal(line, &ev) == nil && ev.Type == probe.EventSession && ev.Start != nil
}

// loadTranscript returns each visited node's latest answers, in the order of the visits, and the commands. It does not
// keep anything else, because the transcript of a long night may have any size.
func loadTranscript(r io.Reader) ([]Run, []Deed, error) {
	d := probe.NewDecoder(r)
	var all []*Latest
	var deeds []Deed
	open := -1
	for {
		ev, err := d.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, err
		}
		if err := readable(ev); err != nil {
			return nil, nil, err
		}
		switch ev.Type {
		case probe.EventSession:
			if open >= 0 {
				deeds[open].Came = unended
			}
			open = -1
		case probe.EventTyped:
			open = len(deeds)
			deeds = append(deeds, Deed{At: ev.At, Node: ev.Node, Typed: ev.Text, Came: unended})
		case probe.EventDone:
			if open >= 0 {
				deeds[open].Came, deeds[open].Took = cmp.Or(ev.Text, "ok"), ev.At.Sub(deeds[open].At)
			}
			open = -1
		default:
			if cmp.Or(ev.For, ev.Node) != "" {
				var l *Latest
				all, l = latestOf(all, ev)
				l.Add(ev)
			}
		}
	}
	var runs []Run
	for _, l := range all {
		if len(l.Requested()) > 0 {
			runs = append(runs, l.Run())
		}
	}
	return runs, deeds, nil
}

// unended is the outcome for a command without a recorded outcome: the client was killed.
const unended = "the record ends here"

// Deed is a command of a session with its outcome.
type Deed struct {
	At    time.Time
	Node  string // the node of the prompt
	Typed string
	Came  string
	Took  time.Duration
}

// WriteDeeds lists the commands, one per line, with the time by the client's clock in UTC.
func WriteDeeds(w io.Writer, deeds []Deed) error {
	width := len("NODE")
	for _, d := range deeds {
		width = max(width, len(d.Node))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%-20s  %-*s  %-40s  %-6s  %s\n", "TIME", width, "NODE", "COMMAND", "TOOK", "CAME TO")
	for _, d := range deeds {
		fmt.Fprintf(&b, "%-20s  %-*s  %-40s  %-6s  %s\n", d.At.UTC().Format(time.RFC3339), width, printable(d.Node),
			printable(d.Typed), d.Took.Round(time.Second), printable(d.Came))
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing what was done: %w", err)
	}
	return nil
}
