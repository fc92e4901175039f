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

// Begun is the first line of a journal: all that is needed to go on with it.
type Begun struct {
	V       int                 `json:"v"`
	Kind    string              `json:"kind"`    // RunbookJournal
	Version string              `json:"version"` // of the program
	Runbook string              `json:"runbook"`
	Digest  string              `json:"digest"`
	File    string              `json:"file"`   // what the runbook is called
	Source  string              `json:"source"` // its text
	Node    string              `json:"node"`
	Params  map[string]string   `json:"params"`
	Flags   map[string][]string `json:"flags,omitempty"`  // that were typed; none that is secret
	Server  string              `json:"server,omitempty"` // the API it asks
	Cluster *probe.Cluster      `json:"cluster,omitempty"`
	By      string              `json:"by"`
	At      time.Time           `json:"at"`
}

// line is any other line of a journal: an effect that began, or that ended with Out.
type line struct {
	Type string          `json:"type"` // begin, end, resume, outcome or left
	At   time.Time       `json:"at"`
	Key  string          `json:"key,omitempty"` // of the effect
	Step string          `json:"step,omitempty"`
	By   string          `json:"by,omitempty"` // of a resume
	Out  json.RawMessage `json:"out,omitempty"`
}

// Types of lines.
const (
	lineBegin   = "begin"
	lineEnd     = "end"
	lineResume  = "resume"
	lineOutcome = "outcome"
	lineLeft    = "left"
)

const journalKind = "RunbookJournal"

// longestJournal bounds what is read, in bytes: all of it is held in memory. A run has a few
// hundred KB, and a record at most mostAnswers of results.
const longestJournal = 32 << 20

// Why a journal is not gone on with.
var (
	ErrNoJournal = errors.New("is not the journal of a runbook")
	ErrInUse     = errors.New("is the journal of a runbook that is running elsewhere")
	ErrEnded     = errors.New("is the journal of a finished runbook: 'calico-probe runbook record' shows its outcome")
)

// Journal is the log of the effects of one runbook: what began, and what it came to. A
// nil file keeps it in memory.
type Journal struct {
	Begun Begun
	Ended bool // it has an outcome

	mu    sync.Mutex
	file  *os.File
	err   error
	began map[string]line // and has not ended
	done  map[string]line
	came  Outcome // where it has ended
	cut   *left   // where it was left last, and no run has gone on since
}

// left is how a runbook was left that can be gone on with.
type left struct {
	Entry   *Entry  `json:"entry,omitempty"` // the run or wait that was stopped, with what it saw last
	Outcome Outcome `json:"outcome"`
}

// NewJournal begins a journal in memory.
func NewJournal(b Begun) *Journal {
	b.V, b.Kind, b.Version = recordVersion, journalKind, probe.Release
	return &Journal{Begun: b, began: map[string]line{}, done: map[string]line{}}
}

// CreateJournal begins one in a new file that only its owner can read.
func CreateJournal(name string, b Begun) (*Journal, error) {
	j := NewJournal(b)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("beginning the journal: %w", err)
	}
	filelock.Lock(f) // no other process knows of it
	j.file = f
	if err := j.write(j.Begun); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(name))
	}
	return j, nil
}

// OpenJournal reads one to show it, or to go on with it, which takes it for this process.
func OpenJournal(name string, goOn bool) (*Journal, error) {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() { // opening a pipe waits for its other end
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
	free := !goOn || filelock.Lock(f) // before it is read: its holder may still write
	j, whole, err := readJournal(f)
	switch {
	case err != nil:
	case !goOn:
		return j, f.Close()
	case j.Ended:
		err = ErrEnded
	case !free:
		err = ErrInUse
	case j.Begun.Version != probe.Release:
		err = fmt.Errorf("is from calico-probe %s, and this is %s: resume with that version, or start again", j.Begun.Version, probe.Release)
	case !whole: // its last line was cut
		_, err = f.WriteString("\n")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s %w", name, err), filelock.Close(f))
	}
	j.file = f
	return j, nil
}

// readJournal reads what is whole of a journal; whole tells whether its last line is.
func readJournal(r io.Reader) (j *Journal, whole bool, err error) {
	limited := &io.LimitedReader{R: r, N: longestJournal}
	in := bufio.NewReader(limited)
	first, err := in.ReadBytes('\n')
	var b Begun
	if err != nil || json.Unmarshal(first, &b) != nil || b.Kind != journalKind {
		return nil, false, ErrNoJournal
	}
	if b.V > recordVersion {
		return nil, false, fmt.Errorf("was written by a newer calico-probe (%s)", b.Version)
	}
	j = &Journal{Begun: b, began: map[string]line{}, done: map[string]line{}}
	for {
		text, err := in.ReadBytes('\n')
		var l line
		if json.Unmarshal(text, &l) == nil {
			j.take(l)
		}
		if errors.Is(err, io.EOF) && limited.N <= 0 { // what comes after would be done again
			return nil, false, fmt.Errorf("has more than %d MB, which no journal has", longestJournal>>20)
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
		if j.began[l.Key] = l; l.Out != nil { // it changes something: what it came to before is old
			delete(j.done, l.Key)
		}
	case lineEnd:
		delete(j.began, l.Key)
		j.done[l.Key] = l
	case lineOutcome:
		j.Ended = json.Unmarshal(l.Out, &j.came) == nil
	}
}

// Name is that of its file, "" where it has none.
func (j *Journal) Name() string {
	if j.file == nil {
		return ""
	}
	return j.file.Name()
}

// Err is the first error that writing met; from then on nothing is written.
func (j *Journal) Err() error { j.mu.Lock(); defer j.mu.Unlock(); return j.err }

// Close ends writing.
func (j *Journal) Close() error {
	if j.file == nil {
		return nil
	}
	return filelock.Close(j.file)
}

// Resume notes who goes on with it.
func (j *Journal) Resume(by string) error { return j.add(line{Type: lineResume, By: by}) }

// begin notes that an effect is about to happen.
func (j *Journal) begin(key, step string) error {
	return j.add(line{Type: lineBegin, Key: key, Step: step})
}

// certainly notes that an effect is about to happen, with what is known of it, and returns
// when that is on the disk.
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

// end notes what an effect came to, and gives the time that stands there.
func (j *Journal) end(key, step string, out any) (time.Time, error) {
	b, err := json.Marshal(out)
	if err != nil {
		return time.Time{}, fmt.Errorf("writing the journal: %w", err)
	}
	l := line{Type: lineEnd, Key: key, Step: step, Out: b, At: time.Now().UTC()}
	return l.At, j.add(l)
}

// outcome notes that the runbook has come to its end.
func (j *Journal) outcome(o Outcome) error {
	b, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	return j.add(line{Type: lineOutcome, Out: b})
}

// left notes that the runbook was left before its end.
func (j *Journal) left(l left) error {
	b, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	return j.add(line{Type: lineLeft, Out: b})
}

// ended gives what an effect came to that has ended.
func (j *Journal) ended(key string, out any) (at time.Time, ok bool, err error) {
	return j.known(j.done, key, out)
}

// forget has an effect done again that had ended.
func (j *Journal) forget(key string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.done, key)
}

// begun gives what was known of an effect when it began that has not ended since.
func (j *Journal) begun(key string, out any) (at time.Time, ok bool, err error) {
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

// write writes one whole line at once.
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

// Prune removes the journals of a folder that are not needed any more: those older than the
// age, and the oldest ones above the number to keep, but none that is in use. Errors are
// nobody's concern: it is tried again the next time.
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

// JournalName is what a journal of this moment is called, the latest last.
func JournalName(runbook, node string, at time.Time) string {
	plain := strings.Map(func(r rune) rune { // whatever is typed as a node is no path
		if strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.", r) {
			return r
		}
		return '_'
	}, node)
	return fmt.Sprintf("%s-%s-%s.ndjson", at.UTC().Format(journalTime), runbook, plain)
}

const journalTime = "20060102T150405.000Z"

// isJournalName tells a journal from other files of its folder.
func isJournalName(name string) bool {
	stamp, _, _ := strings.Cut(name, "-")
	_, err := time.Parse(journalTime, stamp)
	return err == nil && strings.HasSuffix(name, ".ndjson")
}
