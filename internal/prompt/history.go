package prompt

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

// remembered is how many lines a history keeps.
const remembered = 1000

// History is what was typed in this session and others, in a file. Sessions at the same
// time add to it line by line.
type History struct{ path string }

// OpenHistory gives the history in a file, made for this user alone, and its lines.
func OpenHistory(path string) (*History, []string, error) {
	h := &History{path}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, nil, fmt.Errorf("keeping a history: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("keeping a history: %w", err)
	}
	defer f.Close()
	if err := f.Chmod(0o600); err != nil { // of one that was there
		return nil, nil, fmt.Errorf("keeping a history: %w", err)
	}
	lines, size, err := linesOf(f)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the history: %w", err)
	}
	if len(lines) > remembered || size > mostHistory {
		lines = lines[max(0, len(lines)-remembered):]
		if err := h.replace(f, size, lines); err != nil {
			return nil, nil, fmt.Errorf("shortening the history: %w", err)
		}
	}
	return h, lines, nil
}

// Add appends a line, but one that begins with a space, as shells do. Each is one write to a
// file opened anew, which another session may have replaced meanwhile.
func (h *History) Add(line string) error {
	if strings.HasPrefix(line, " ") {
		return nil
	}
	f, err := os.OpenFile(h.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("keeping a history: %w", err)
	}
	_, err = f.WriteString(strings.ReplaceAll(line, "\n", " ") + "\n")
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return fmt.Errorf("keeping a history: %w", err)
	}
	return nil
}

// replace puts the lines in the file's place, and behind them what other sessions have
// added to it since its first size bytes were read.
func (h *History) replace(old *os.File, size int64, lines []string) error {
	f, err := os.CreateTemp(filepath.Dir(h.path), "."+filepath.Base(h.path)+"-") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails once it is in its place
	defer f.Close()
	text := strings.Join(lines, "\n")
	if text != "" {
		text += "\n"
	}
	if _, err := f.WriteString(text); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), h.path); err != nil {
		return err
	}
	if _, err := old.Seek(size, io.SeekStart); err != nil {
		return err
	}
	late, err := io.ReadAll(old)
	if err != nil || len(late) == 0 {
		return err
	}
	again, err := os.OpenFile(h.path, os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer again.Close()
	_, err = again.Write(late)
	return err
}

// mostHistory bounds what is read of a file: a thousand long lines are far less.
const mostHistory = 4 << 20

// linesOf are the lines of a file that can be shown, and its size. A line of which only
// the end was read is none.
func linesOf(f *os.File) ([]string, int64, error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, 0, err
	}
	from := max(0, size-mostHistory)
	b, err := io.ReadAll(io.NewSectionReader(f, from, size-from))
	if err != nil {
		return nil, 0, err
	}
	var lines []string
	if from > 0 {
		_, b, _ = bytes.Cut(b, []byte("\n"))
	}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimRight(line, "\r\n")
		hidden := func(r rune) bool { return r != '\t' && !unicode.IsGraphic(r) }
		if line != "" && utf8.ValidString(line) && !strings.ContainsFunc(line, hidden) {
			lines = append(lines, line)
		}
	}
	return lines, size, nil
}
