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

// remembered is the maximum number of lines that a history keeps.
const remembered = 1000

// History is a file with the lines that were typed in this and other sessions. Sessions that run at the same time
// append to it line by line.
type History struct{ path string }

// OpenHistory returns the history in a file that only this user can read, and the lines in it.
func OpenHistory(path string) (*History, []string, error) {
	h := &History{path}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, nil, fmt.Errorf("opening the history: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the history: %w", err)
	}
	defer f.Close()
	if err := f.Chmod(0o600); err != nil { // for an existing file
		return nil, nil, fmt.Errorf("opening the history: %w", err)
	}
	lines, size, err := linesOf(f)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the history: %w", err)
	}
	if len(lines) > remembered || size > maxHistory {
		lines = lines[max(0, len(lines)-remembered):]
		if err := h.replace(f, size, lines); err != nil {
			return nil, nil, fmt.Errorf("shortening the history: %w", err)
		}
	}
	return h, lines, nil
}

// Add appends a line, unless it begins with a space, as in shells. It opens the file each time, because another session
// may have replaced it, and appends with a single write.
func (h *History) Add(line string) error {
	if strings.HasPrefix(line, " ") {
		return nil
	}
	f, err := os.OpenFile(h.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("opening the history: %w", err)
	}
	_, err = f.WriteString(strings.ReplaceAll(line, "\n", " ") + "\n")
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return fmt.Errorf("writing the history: %w", err)
	}
	return nil
}

// replace atomically replaces the file with these lines. It also keeps the lines that other sessions have appended
// after the first size bytes.
func (h *History) replace(old *os.File, size int64, lines []string) error {
	f, err := os.CreateTemp(filepath.Dir(h.path), "."+filepath.Base(h.path)+"-") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // has no effect after the rename
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

// maxHistory is the maximum number of bytes to read from a file. A thousand long lines are much shorter.
const maxHistory = 4 << 20

// linesOf returns a file's printable lines and size. If the start of the first line was not read, it drops this line.
func linesOf(f *os.File) ([]string, int64, error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, 0, err
	}
	from := max(0, size-maxHistory)
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
