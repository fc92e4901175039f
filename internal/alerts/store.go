package alerts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/internal/filelock"
)

// store keeps jobs and reports in a folder: jobs/ID.json, reports/ID.json and ID.md, and work/ID until a job is done.
// Files are written atomically. Only read, check, and the methods for a job's work/ID may be called concurrently.
type store struct {
	dir   string
	lock  *os.File             // locks the folder for this process
	flush func(*os.File) error // Sync; tests make it fail
}

const (
	folderJobs    = "jobs"
	folderReports = "reports"
	folderWork    = "work"
	fileLock      = "lock"
	fileUnmapped  = "unmapped.json"
	fileFirings   = "firings.ndjson"
	partial       = ".partial-" // prefix of a file that is being written
)

// openStore opens or creates a folder, and locks it for this process. Otherwise two servers would run each other's
// jobs.
func openStore(dir string) (_ *store, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, fileLock), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Close())
		}
	}()
	if !filelock.Lock(lock) {
		return nil, fmt.Errorf("store: another calico-probe serve uses %s: each needs its own folder", dir)
	}
	s := &store{dir, lock, (*os.File).Sync}
	for _, sub := range []string{folderJobs, folderReports, folderWork} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, fmt.Errorf("store: %w", err)
		}
	}
	for _, sub := range []string{".", folderJobs, folderReports} { // a killed program leaves partial files behind
		left, err := filepath.Glob(filepath.Join(dir, sub, partial+"*"))
		if err != nil {
			return nil, fmt.Errorf("store: %w", err)
		}
		for _, name := range left {
			if err := os.Remove(name); err != nil {
				return nil, fmt.Errorf("store: %w", err)
			}
		}
	}
	return s, s.check()
}

// close releases the folder.
func (s *store) close() error {
	if err := filelock.Close(s.lock); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}

// check reports whether the folder is writable.
func (s *store) check() error {
	f, err := os.CreateTemp(s.dir, partial)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	_, err = f.WriteString("ok\n")
	if err = errors.Join(err, f.Close(), os.Remove(f.Name())); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}

// write writes a file and syncs its content; sync makes its name durable.
func (s *store) write(name string, b []byte) (err error) {
	name = filepath.Join(s.dir, name)
	f, err := os.CreateTemp(filepath.Dir(name), partial) // with mode 0600
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("store: %w", errors.Join(err, os.Remove(f.Name())))
		}
	}()
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

// sync makes the names of a folder's files durable.
func (s *store) sync(folder string) error {
	d, err := os.Open(filepath.Join(s.dir, folder))
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if err := errors.Join(syncFolder(d), d.Close()); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}

// writeJobs writes jobs durably.
func (s *store) writeJobs(jobs ...Job) error {
	if len(jobs) == 0 {
		return nil
	}
	for _, j := range jobs {
		b, err := json.Marshal(j)
		if err != nil {
			return fmt.Errorf("store: job %s: %w", j.ID, err)
		}
		if err := s.write(filepath.Join(folderJobs, j.ID+".json"), b); err != nil {
			return err
		}
	}
	return s.sync(folderJobs)
}

// jobs returns the jobs in the store, oldest first. It passes unreadable files to odd.
func (s *store) jobs(odd func(error)) ([]Job, error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, folderJobs)) // sorted by name, and IDs sort by time
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	var out []Job
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok {
			continue
		}
		b, err := os.ReadFile(filepath.Join(s.dir, folderJobs, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("store: %w", err)
		}
		var j Job
		if err := json.Unmarshal(b, &j); err != nil || j.ID != id || !j.sound() {
			odd(fmt.Errorf("store: %s is not a job, ignored", e.Name()))
			continue
		}
		out = append(out, j)
	}
	return out, nil
}

// sound reports whether a loaded job is valid. The workers rely on this.
func (j Job) sound() bool {
	state := slices.Contains([]State{Queued, Running, Done}, j.State)
	return state && j.Node != "" && j.Procedure != Procedure{} && len(j.Alerts) > 0 &&
		(j.State != Done || slices.Contains(verdicts(), j.Verdict))
}

// tidy removes the folders of jobs that no longer need one.
func (s *store) tidy(needed func(id string) bool) error {
	entries, err := os.ReadDir(filepath.Join(s.dir, folderWork))
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	for _, e := range entries {
		if !needed(e.Name()) {
			if err := s.doneWith(e.Name()); err != nil {
				return fmt.Errorf("store: %w", err)
			}
		}
	}
	return nil
}

// heard records that an alert had a job. The job itself may be forgotten.
type heard struct {
	Key  string    `json:"key"` // of the alert
	Job  string    `json:"job"`
	Last time.Time `json:"last"` // time of the last notification
}

// addFirings appends firings durably. If a write fails, it tries to remove the incomplete part.
func (s *store) addFirings(list []heard) error {
	if len(list) == 0 {
		return nil
	}
	f, err := os.OpenFile(filepath.Join(s.dir, fileFirings), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = f.Write(append([]byte("\n"), lines(list)...)) // on a new line: the last line may be incomplete
		if err = errors.Join(err, s.flush(f)); err != nil {
			err = errors.Join(err, f.Truncate(size))
		}
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}

func lines(list []heard) []byte {
	var out bytes.Buffer
	for _, f := range list {
		b, _ := json.Marshal(f) // never fails: texts and a time
		out.Write(append(b, '\n'))
	}
	return out.Bytes()
}

// rewriteFirings replaces all firings.
func (s *store) rewriteFirings(list []heard) error {
	if err := s.write(fileFirings, lines(list)); err != nil {
		return err
	}
	return s.sync(".")
}

// firings returns the firings on disk, latest last. It skips incomplete lines.
func (s *store) firings() ([]heard, error) {
	b, err := os.ReadFile(filepath.Join(s.dir, fileFirings))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("store: %w", err)
	}
	var out []heard
	for line := range bytes.Lines(b) {
		var f heard
		if json.Unmarshal(line, &f) == nil && f.Key != "" {
			out = append(out, f)
		}
	}
	return out, nil
}

func (s *store) writeReport(id string, r Report) error {
	for suffix, b := range map[string][]byte{".json": r.JSON, ".md": r.Markdown} {
		if err := s.write(filepath.Join(folderReports, id+suffix), b); err != nil {
			return err
		}
	}
	return s.sync(folderReports)
}

// read returns a report. It returns fs.ErrNotExist if the job has no report or the report was removed.
func (s *store) read(id, suffix string) ([]byte, error) {
	b, err := os.ReadFile(filepath.Join(s.dir, folderReports, id+suffix))
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	return b, nil
}

// work returns the folder of an unfinished job.
func (s *store) work(id string) (string, error) {
	dir := filepath.Join(s.dir, folderWork, id)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("store: %w", err)
	}
	return dir, nil
}

// doneWith removes the work folder of a finished job.
func (s *store) doneWith(id string) error { return os.RemoveAll(filepath.Join(s.dir, folderWork, id)) }

// forget removes a job. It removes the report first, because a report must not exist without a job.
func (s *store) forget(id string) error {
	if err := s.doneWith(id); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	for _, name := range []string{
		folderReports + "/" + id + ".json", folderReports + "/" + id + ".md", folderJobs + "/" + id + ".json",
	} {
		if err := os.Remove(filepath.Join(s.dir, filepath.FromSlash(name))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("store: %w", err)
		}
	}
	return nil
}

// Unmapped is an alert that started nothing.
type Unmapped struct {
	Alert  Alert     `json:"alert"`
	Reason string    `json:"reason"`
	Times  int       `json:"times"` // number of times that Alertmanager sent it
	Last   time.Time `json:"last"`
}

func (s *store) writeUnmapped(list []Unmapped) error {
	b, err := json.Marshal(list)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if err := s.write(fileUnmapped, b); err != nil {
		return err
	}
	return s.sync(".")
}

func (s *store) unmapped(odd func(error)) ([]Unmapped, error) {
	b, err := os.ReadFile(filepath.Join(s.dir, fileUnmapped))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	var out []Unmapped
	if err := json.Unmarshal(b, &out); err != nil {
		odd(fmt.Errorf("store: %s is unreadable and will be replaced", fileUnmapped))
		return nil, nil
	}
	return out, nil
}
