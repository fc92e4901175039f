// Package podlog parses the log files of containers on a node. In a CRI log, each line has the form "TIME STREAM
// TAGS TEXT". In a Docker log, each line is a JSON object. The kubelet keeps the logs below /var/log/pods in a
// folder NAMESPACE_POD_UID/CONTAINER. The file N.log contains the run after the container's Nth restart. Tail is
// the entry point.
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
	"io/fs"
	"strings"
	"time"
)

// Line is one line that a container logged.
type Line struct {
	Time time.Time // the time when the runtime received the line, zero if the file contains no time
	Text string
}

// behind is the maximum distance before the wanted end of a file in which Tail looks for the start of a continued
// line. It is larger than the 16 KiB parts into which runtimes split a long line.
const behind = 32 << 10

// File is the input for Tail.
type File interface {
	io.ReaderAt
	Name() string
	Stat() (fs.FileInfo, error)
}

// Tail returns the last lines of a log. These are the lines that begin within the given number of bytes before its end.
func Tail(f File, most int64) ([]Line, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("reading a log: %w", err)
	}
	from := max(0, info.Size()-most)
	start := max(0, from-behind)
	b := make([]byte, info.Size()-start)
	n, err := f.ReadAt(b, start)
	if err != nil && err != io.EOF { // the file was truncated in the meantime
		return nil, fmt.Errorf("reading %s: %w", f.Name(), err)
	}
	b, skip := b[:n], int(from-start)
	if start > 0 {
		rest, _, _ := bytes.Cut(b, []byte("\n")) // part of a line that begins even earlier
		b = b[min(len(rest)+1, len(b)):]
		skip -= len(rest) + 1
	}
	return take(b, skip), nil
}

// Parse splits a log into lines. If text is in neither format, it becomes a line unchanged.
func Parse(log []byte) []Line { return take(log, 0) }

// take splits a log into lines. It drops lines that begin in the log's first bytes, together with their continuations.
func take(log []byte, skip int) []Line {
	const leftOut = -1
	var out []Line
	open := map[string]int{} // for each stream, the index of the unfinished line
	pos := 0
	for text := range strings.Lines(string(log)) {
		p := parse(strings.TrimRight(text, "\r\n"))
		at, goesOn := open[p.stream]
		switch {
		case goesOn && at != leftOut:
			out[at].Text += p.Text
		case goesOn:
		case pos < skip:
			at = leftOut
		default:
			at = len(out)
			out = append(out, p.Line)
		}
		delete(open, p.stream)
		if p.more {
			open[p.stream] = at
		}
		pos += len(text)
	}
	return out
}

// part is one line of the file.
type part struct {
	Line
	stream string // "" if the file does not contain a stream
	more   bool   // the text continues in the next part of the same stream
}

// parse parses one line of the file.
func parse(raw string) part {
	if strings.HasPrefix(raw, "{") {
		var docker struct {
			Log    string    `json:"log"`
			Stream string    `json:"stream"`
			Time   time.Time `json:"time"`
		}
		if err := json.Unmarshal([]byte(raw), &docker); err == nil && !docker.Time.IsZero() {
			text, ended := strings.CutSuffix(docker.Log, "\n")
			return part{Line{docker.Time, text}, docker.Stream, !ended}
		}
	}
	if fields := strings.SplitN(raw, " ", 4); len(fields) >= 3 {
		at, err := time.Parse(time.RFC3339Nano, fields[0])
		if err == nil && (fields[1] == "stdout" || fields[1] == "stderr") {
			return part{Line{at, strings.Join(fields[3:], "")}, fields[1], strings.HasPrefix(fields[2], "P")}
		}
	}
	return part{Line: Line{Text: raw}}
}
