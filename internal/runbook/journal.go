package runbook

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/calico-probe/calico-probe/internal/filelock"
	"github.com/calico-probe/calico-probe/probe"
)

// Header is the first line of a journal. It has all the data that a resume needs.
type Header struct {
	V       int                 `json:"v"`
	Kind    string              `json:"kind"`    // always RunbookJournal
	Version string              `json:"version"` // of the program
	Runbook string              `json:"runbook"`
	Digest  string              `json:"digest"`
	File    string              `json:"file"`   // name of the runbook
	Source  string              `json:"source"` // its text
	Node    string              `json:"node"`
	Params  map[string]string   `json:"params"`
	Flags   map[string][]string `json:"flags,omitempty"`  // flags as typed, without secrets
	Server  string              `json:"server,omitempty"` // address of the API
	Cluster *probe.Cluster      `json:"cluster,omitempty"`
	By      string              `json:"by"`
	At      time.Time           `json:"at"`
}

// line is any other line of a journal. It records, for example, that an effect started, or that it ended with the
// outcome Out.
type line struct {
	Type string          `json:"type"` // begin, end, resume, outcome or left
	At   time.Time       `json:"at"`
	Key  string          `json:"key,omitempty"` // of the effect
	Step string          `json:"step,omitempty"`
	By   string          `json:"by,omitempty"` // who resumed the runbook
	Out  json.RawMessage `json:"out,omitempty"`
}

// The types of lines.
const (
	lineBegin   = "begin"
	lineEnd     = "end"
	lineResume  = "resume"
	lineOutcome = "outcome"
	lineLeft    = "left"
)

const journalKind = "RunbookJournal"

// maxJournal is the maximum size of a journal in bytes, because a journal is read into memory. A run has a few hundred
// KB, and a record has at most maxAnswers bytes of results.
const maxJournal = 32 << 20

// The reasons why a journal cannot be resumed.
var (
	ErrNoJournal = errors.New("is not the journal of a runbook")
	ErrInUse     = errors.New("is the journal of a runbook that is running elsewhere")
	ErrEnded     = errors.New("is the journal of a finished runbook: 'calico-probe runbook record' shows its outcome")
)

// Journal is the log of one runbook's effects: what started, and what the outcome was. Each line is written before the
// next step, so the runbook can be resumed after the client was killed. If there is no file, the journal is in memory.
type Journal struct {
	Header Header
	Ended  bool // it has an outcome

	mu    sync.Mutex
	file  *os.File
	err   error
	began map[string]line // effects that have started but not ended
	done  map[string]line
	came  Outcome // the outcome, if it has ended
	cut   *left   // the state in which it was left, until a later run resumes it
}

// left describes an unfinished runbook that can be resumed.
type left struct {
	Entry   *Entry  `json:"entry,omitempty"` // the run or wait that was stopped, with its last results
	Outcome Outcome `json:"outcome"`
}

// NewJournal starts a journal in memory.
func NewJournal(b Header) *Journal {
	b.V, b.Kind, b.Version = recordVersion, journalKind, probe.Release
	return &Journal{Header: b, began: map[string]line{}, done: map[string]line{}}
}

// CreateJournal starts a journal in a new file that only its owner can read.
func CreateJournal(name string, b Header) (*Journal, error) {
	j := NewJournal(b)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("creating the journal: %w", err)
	}
	filelock.Lock(f) // no other process has the file open yet
	j.file = f
	if err := j.write(j.Header); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(name))
	}
	return j, nil
}

// OpenJournal reads a journal. If goOn is true, it also locks the journal for this process, which a resume needs.
func OpenJournal(name string, goOn bool) (*Journal, error) {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() { // opening a named pipe would block
		return nil, fmt.Errorf("%s %w", name, ErrNoJournal)
	}
	mode := os.O_RDONLY
	if goOn {
		mode = os.O_RDWR | os.O_APPEND
	}
	f, err := os.OpenFile(name, mode, 0)
	if err != nil {
		return nil, fmt.Errorf("opening the journal: %w", err)
	}
	free := !goOn || filelock.Lock(f) // lock before reading: another process may still write
	j, whole, err := readJournal(f)
	switch {
	case err != nil:
	case !goOn:
		return j, f.Close()
	case j.Ended:
		err = ErrEnded
	case !free:
		err = ErrInUse
	case j.Header.Version != probe.Release:
		err = fmt.Errorf("is from calico-probe %s, but this is %s: resume with version %[1]s, or start again", j.Header.Version, probe.Release)
	case !whole: // the last line is incomplete
		_, err = f.WriteString("\n")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s %w", name, err), filelock.Close(f))
	}
	j.file = f
	return j, nil
}

// readJournal reads the complete lines of a journal. whole reports whether the last line is complete.
func readJournal(r io.Reader) (j *Journal, whole bool, err error) {
	limited := &io.LimitedReader{R: r, N: maxJournal}
	in := bufio.NewReader(limited)
	first, err := in.ReadBytes('\n')
	var b Header
	if err != nil || json.Unmarshal(first, &b) != nil || b.Kind != journalKind {
		return nil, false, ErrNoJournal
	}
	if b.V > recordVersion {
		return nil, false, fmt.Errorf("was written by a newer calico-probe (%s)", b.Version)
	}
	j = &Journal{Header: b, began: map[string]line{}, done: map[string]line{}}
	for {
		text, err := in.ReadBytes('\n')
		var l line
		if json.Unmarshal(text, &l) == nil {
			j.take(l)
		}
		if errors.Is(err, io.EOF) && limited.N <= 0 { // otherwise the missing effects would run again
			return nil, false, fmt.Errorf("is larger than a journal can be (%d MB)", maxJournal>>20)
		}
		if errors.Is(err, io.EOF) {
			return j, len(text) == 0, nil
		}
		if err != nil {
			return nil, false, fmt.Errorf("reading the journal: %w", err)
		}
	}
}

func (j *Journal) take(l line) {
	j.cut = nil
	switch l.Type {
	case lineLeft:
		if cut := new(left); json.Unmarshal(l.Out, cut) == nil {
			j.cut = cut
		}
	case lineBegin:
		if j.began[l.Key] = l; l.Out != nil { // it has side effects, so an earlier outcome is obsolete
			delete(j.done, l.Key)
		}
	case lineEnd:
		delete(j.began, l.Key)
		j.done[l.Key] = l
	case lineOutcome:
		j.Ended = json.Unmarshal(l.Out, &j.came) == nil
	}
}

// Name returns the name of the journal's file, or "" if there is no file.
func (j *Journal) Name() string {
	if j.file == nil {
		return ""
	}
	return j.file.Name()
}

// Err returns the first write error. Nothing is written after it.
func (j *Journal) Err() error { j.mu.Lock(); defer j.mu.Unlock(); return j.err }

// Close closes the file.
func (j *Journal) Close() error {
	if j.file == nil {
		return nil
	}
	return filelock.Close(j.file)
}

// Resume records who resumes the runbook.
func (j *Journal) Resume(by string) error { return j.add(line{Type: lineResume, By: by}) }

// begin records that an effect is about to start.
func (j *Journal) begin(key, step string) error {
	return j.add(line{Type: lineBegin, Key: key, Step: step})
}

// certainly records that an effect is about to start, with what is already known about it, and syncs the file. An
// action must not run without a durable record.
func (j *Journal) certainly(key, step string, out any) error {
	b, err := json.Marshal(out)
	if err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	if err := j.add(line{Type: lineBegin, Key: key, Step: step, Out: b}); err != nil || j.file == nil {
		return err
	}
	if err := j.file.Sync(); err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	return nil
}

// end records the outcome of an effect, and returns the recorded time.
func (j *Journal) end(key, step string, out any) (time.Time, error) {
	b, err := json.Marshal(out)
	if err != nil {
		return time.Time{}, fmt.Errorf("writing the journal: %w", err)
	}
	l := line{Type: lineEnd, Key: key, Step: step, Out: b, At: time.Now().UTC()}
	return l.At, j.add(l)
}

// outcome records the end of the runbook.
func (j *Journal) outcome(o Outcome) error {
	b, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	return j.add(line{Type: lineOutcome, Out: b})
}

// left records that the runbook stopped before its end.
func (j *Journal) left(l left) error {
	b, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	return j.add(line{Type: lineLeft, Out: b})
}

// ended returns the outcome of a finished effect.
func (j *Journal) ended(key string, out any) (at time.Time, ok bool, err error) {
	return j.known(j.done, key, out)
}

// forget removes the outcome of a finished effect, which then runs again.
func (j *Journal) forget(key string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.done, key)
}

// unfinished returns what was known when an effect started that has not ended.
func (j *Journal) unfinished(key string, out any) (at time.Time, ok bool, err error) {
	return j.known(j.began, key, out)
}

func (j *Journal) known(lines map[string]line, key string, out any) (at time.Time, ok bool, err error) {
	j.mu.Lock()
	l, ok := lines[key]
	j.mu.Unlock()
	if !ok {
		return time.Time{}, false, nil
	}
	if err := json.Unmarshal(l.Out, out); err != nil {
		return l.At, true, fmt.Errorf("the journal does not match its runbook at %s: %w", key, err)
	}
	return l.At, true, nil
}

func (j *Journal) add(l line) error {
	if l.At.IsZero() {
		l.At = time.Now().UTC()
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.take(l)
	if j.err == nil {
		j.err = j.write(l)
	}
	return j.err
}

// write writes one line with a single call. A crash then cannot leave half of a line before another line.
func (j *Journal) write(v any) error {
	if j.file == nil {
		return nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	if _, err := j.file.Write(b.Bytes()); err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	return nil
}

// Prune removes journals that are older than age from a folder. If more than keep journals are left, it also removes
// the oldest. It does not remove journals that are in use. It ignores errors, because the next call retries.
func Prune(dir string, age time.Duration, keep int) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	type journal struct {
		name string
		at   time.Time
	}
	var all []journal
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && isJournalName(e.Name()) {
			all = append(all, journal{dir + string(os.PathSeparator) + e.Name(), info.ModTime()})
		}
	}
	slices.SortFunc(all, func(a, b journal) int { return b.at.Compare(a.at) })
	for i, j := range all {
		if i >= keep || time.Since(j.at) > age {
			removeUnused(j.name)
		}
	}
}

func removeUnused(name string) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if filelock.Lock(f) {
		_ = os.Remove(name)
	}
}

// JournalName returns a file name for a journal. Names sort by time.
func JournalName(runbook, node string, at time.Time) string {
	plain := strings.Map(func(r rune) rune { // the text that the user types as a node must not become a path
		if strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.", r) {
			return r
		}
		return '_'
	}, node)
	return fmt.Sprintf("%s-%s-%s.ndjson", at.UTC().Format(journalTime), runbook, plain)
}

const journalTime = "20060102T150405.000Z"

// isJournalName reports whether a file in the folder is a journal.
func isJournalName(name string) bool {
	stamp, _, _ := strings.Cut(name, "-")
	_, err := time.Parse(journalTime, stamp)
	return err == nil && strings.HasSuffix(name, ".ndjson")
}
