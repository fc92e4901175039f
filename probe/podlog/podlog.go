// Package podlog reads the files in which a node keeps what its containers wrote: those of the
// container runtime interface, one line "TIME STREAM TAGS TEXT" each, and those of Docker, one
// JSON object each. The kubelet keeps them below /var/log/pods, in a folder
// NAMESPACE_POD_UID/CONTAINER with a file N.log for the run after the container's Nth restart.
//
//	lines, err := podlog.Tail(f, 64<<10)
//
// Formats: k8s.io/cri-client, pkg/logs (CRI); Docker's json-file driver.
package podlog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// Line is one line that a container wrote.
type Line struct {
	Time time.Time // when the runtime had it, zero where the file does not say
	Text string
}

// Tail is the last lines of a log, of at most so many bytes of its file; a line whose beginning
// is further back is left out.
func Tail(f *os.File, most int64) ([]Line, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("reading a log: %w", err)
	}
	from := max(0, info.Size()-most)
	b := make([]byte, min(info.Size(), most))
	n, err := f.ReadAt(b, from)
	if err != nil && err != io.EOF { // it was cut meanwhile
		return nil, fmt.Errorf("reading %s: %w", f.Name(), err)
	}
	b = b[:n]
	if from > 0 {
		_, b, _ = bytes.Cut(b, []byte("\n"))
	}
	return Parse(b), nil
}

// Parse takes a log apart. What is in neither format is a line as it stands.
func Parse(log []byte) []Line {
	var out []Line
	open := false // the last line goes on
	for text := range strings.Lines(string(log)) {
		line, more := parse(strings.TrimRight(text, "\r\n"))
		if open {
			out[len(out)-1].Text += line.Text
		} else {
			out = append(out, line)
		}
		open = more
	}
	return out
}

// parse takes one line of the file; more = the text goes on in the next.
func parse(raw string) (line Line, more bool) {
	if strings.HasPrefix(raw, "{") {
		var docker struct {
			Log  string    `json:"log"`
			Time time.Time `json:"time"`
		}
		if err := json.Unmarshal([]byte(raw), &docker); err == nil && !docker.Time.IsZero() {
			text, ended := strings.CutSuffix(docker.Log, "\n")
			return Line{docker.Time, text}, !ended
		}
	}
	if fields := strings.SplitN(raw, " ", 4); len(fields) >= 3 {
		at, err := time.Parse(time.RFC3339Nano, fields[0])
		if err == nil && (fields[1] == "stdout" || fields[1] == "stderr") {
			return Line{at, strings.Join(fields[3:], "")}, strings.HasPrefix(fields[2], "P")
		}
	}
	return Line{Text: raw}, false
}
