package do

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// How much of a log and of one line is kept in memory, and how often the file is polled.
const (
	maxTail    = 4 << 20
	maxLine    = 64 << 10
	logEvery   = 250 * time.Millisecond
	stateEvery = 2 * time.Second
)

// open opens the log file. If the name leads to anything else, open returns an error.
func (f *followed) open() error {
	file, err := f.host.Open(f.name)
	if err != nil {
		return err
	}
	if !f.ofLogs(file.Name()) {
		_ = file.Close()
		return fmt.Errorf("%s leads to %s, which is not a log of this container: not read", f.name, file.Name())
	}
	if f.file != nil {
		_ = f.file.Close()
	}
	f.file, f.at = file, 0
	return nil
}

// ofLogs reports whether a path without links is a container's log. It must be a file with the name of the pod
// and container below the folder for all pods' logs, or docker's log to which that file links. A pod that can
// write to /var/log can create other links.
func (f *followed) ofLogs(at string) bool {
	pods, err := f.host.Find(path.Dir(path.Dir(path.Dir(f.name))))
	if err != nil {
		return false
	}
	defer pods.Close()
	return strings.HasPrefix(at, strings.TrimSuffix(pods.Name(), "/")+"/") || f.id != "" &&
		strings.HasSuffix(at, "/"+f.id+"/"+f.id+"-json.log")
}

// followed is a log file that is read while it grows.
type followed struct {
	host     *probe.Host
	name, id string // name of the file, and of its container
	file     *os.File
	at       int64 // number of bytes read so far
	join     joiner
}

// more reads what was added to the file. If another file has replaced it, more starts to read that file. It
// returns false if nothing was added.
func (f *followed) more(each func(logLine)) (bool, error) {
	buf := make([]byte, 64<<10)
	n, err := f.file.ReadAt(buf, f.at)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	if n > 0 {
		used := bytes.LastIndexByte(buf[:n], '\n') + 1
		if used == 0 && n == len(buf) { // a line that is longer than any that a runtime writes
			used = n
		}
		for raw := range bytes.Lines(buf[:used]) {
			f.join.take(raw, each)
		}
		f.at += int64(used)
		if used > 0 {
			return true, nil
		}
	}
	there, err := f.host.Stat(f.name)
	if errors.Is(err, fs.ErrNotExist) { // between the old file and the new one, or removed with the pod
		return false, nil
	}
	if err != nil {
		return false, err
	}
	mine, err := f.file.Stat()
	switch {
	case err != nil:
		return false, err
	case os.SameFile(there, mine) && there.Size() < f.at: // truncated in place
		f.at, f.join = 0, joiner{}
		return true, nil
	case os.SameFile(there, mine):
		return false, nil
	}
	// The old file still contains what was written between the last read and the rotation.
	if now, err := f.file.Stat(); err == nil && now.Size() > f.at+int64(n) {
		return true, nil
	}
	err = f.open()
	if errors.Is(err, fs.ErrNotExist) { // the file was rotated again
		return false, nil
	}
	return err == nil, err
}

// tail returns the last lines of a log, and reports whether they include its beginning. Later reads continue after
// these lines. It reads as much from the end as it needs, up to maxTail.
func (f *followed) tail(want int) (lines []logLine, whole bool, err error) {
	info, err := f.file.Stat()
	if err != nil {
		return nil, false, err
	}
	size := info.Size()
	for look := int64(128 << 10); ; look *= 8 {
		look = min(look, maxTail)
		from := max(size-look, 0)
		buf := make([]byte, size-from)
		n, err := f.file.ReadAt(buf, from)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, false, err
		}
		buf = buf[:n]
		used := bytes.LastIndexByte(buf, '\n') + 1
		f.at, f.join = from+int64(used), joiner{}
		buf = buf[:used]
		whole = from == 0
		if !whole { // it begins inside a line, which may have several parts
			buf = buf[bytes.IndexByte(buf, '\n')+1:]
		}
		lines = lines[:0]
		for raw := range bytes.Lines(buf) {
			f.join.take(raw, func(l logLine) {
				if lines = append(lines, l); len(lines) > 2*want+1 { // earlier lines will not be shown
					lines = slices.Clone(lines[len(lines)-want-1:])
				}
			})
		}
		if !whole && len(lines) > 0 {
			lines = lines[1:]
		}
		if len(lines) >= want {
			return lines[len(lines)-want:], false, nil
		}
		if whole || look == maxTail {
			return lines, whole, nil
		}
	}
}

// earlier returns the last lines of the previous file, and reports whether there is such a file. The kubelet rotates
// to 0.log.20261121-164500, and docker to ...-json.log.1. If a file is compressed, earlier only mentions its name.
func earlier(j *probe.Job, file string, want int) (lines []logLine, there bool) {
	all, err := j.Host.ReadDir(path.Dir(file))
	if err != nil {
		return nil, false
	}
	newest, at := "", time.Time{}
	for _, name := range all {
		if !strings.HasPrefix(name, path.Base(file)+".") || strings.HasSuffix(name, ".tmp") {
			continue
		}
		name = path.Join(path.Dir(file), name)
		if written, err := writtenAt(j.Host, name); err == nil && written.After(at) {
			newest, at = name, written
		}
	}
	switch {
	case newest == "":
		return nil, false
	case strings.HasSuffix(newest, ".gz"):
		j.Say("(older lines are compressed, in %s)", path.Base(newest))
		return nil, true
	}
	old, err := j.Host.Open(newest)
	if err != nil { // it was just compressed, or is not a file
		return nil, true
	}
	defer old.Close()
	if old.Name() != newest {
		return nil, true
	}
	lines, _, err = (&followed{file: old}).tail(want)
	if err != nil {
		return nil, true
	}
	return lines, true
}

// writtenAt returns the time when a file was written. If there is a link in its place, writtenAt
// returns an error, because no runtime creates one.
func writtenAt(h *probe.Host, name string) (time.Time, error) {
	f, err := h.Find(name)
	if err != nil {
		return time.Time{}, err
	}
	defer f.Close()
	if f.Name() != name {
		return time.Time{}, fmt.Errorf("%s leads to %s", name, f.Name())
	}
	info, err := f.Stat()
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}

// logLine is one line as a container wrote it.
type logLine struct{ at, text string }

// joiner joins the parts into which the runtime splits a line. It handles each stream separately.
type joiner struct {
	stdout, stderr []byte
	at             string // time of the last part
}

// take reads one raw line. If that completes a whole line, take passes the whole line on.
func (p *joiner) take(raw []byte, each func(logLine)) {
	raw = bytes.TrimRight(raw, "\r\n")
	at, stream, text, partial := parseLog(raw)
	kept := &p.stdout
	if stream == "stderr" {
		kept = &p.stderr
	}
	*kept = append(*kept, text[:min(len(text), maxLine-min(len(*kept), maxLine))]...)
	if !partial {
		each(logLine{at, strings.ToValidUTF8(string(*kept), "?")})
		*kept = nil
	} else {
		p.at = at
	}
}

// rest passes on incomplete lines. They are the last output of a container that exited in the middle of a line.
func (p *joiner) rest(each func(logLine)) {
	for _, kept := range []*[]byte{&p.stdout, &p.stderr} {
		if len(*kept) > 0 {
			each(logLine{p.at, strings.ToValidUTF8(string(*kept), "?")})
			*kept = nil
		}
	}
}

// parseLog parses a line of a log file. The line is in the CRI format ("TIME stdout F text", P for part of a
// line), or in docker's format ({"log":"text\n","stream":"stdout","time":"..."}, where a part has no newline).
// Other text is returned unchanged.
func parseLog(raw []byte) (at, stream string, text []byte, partial bool) {
	if len(raw) > 0 && raw[0] == '{' {
		var one struct {
			Log          *string
			Stream, Time string
		}
		if json.Unmarshal(raw, &one) == nil && one.Log != nil {
			text, whole := strings.CutSuffix(*one.Log, "\n")
			return one.Time, one.Stream, []byte(text), !whole
		}
	}
	f := bytes.SplitN(raw, []byte(" "), 4)
	if len(f) < 3 || string(f[1]) != "stdout" && string(f[1]) != "stderr" {
		return "", "", raw, false
	}
	if _, err := time.Parse(time.RFC3339Nano, string(f[0])); err != nil {
		return "", "", raw, false
	}
	tag, _, _ := bytes.Cut(f[2], []byte(":"))
	if len(f) == 4 {
		text = f[3]
	}
	return string(f[0]), string(f[1]), text, string(tag) == "P"
}
