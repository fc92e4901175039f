package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checks"
)

// Logs prints what a container wrote.
var Logs = &probe.Tool{
	Name: "logs", Usage: "[-f] [-n LINES] [-t] [-p | --previous] [POD/]CONTAINER", Short: "a container's log, through its runtime",
	Doc: `Finds the container through the container runtime and prints the end of its log file, as
the container wrote it: works while the API server is away, and for containers that have
ended. The name is a container's, a pod's, POD/CONTAINER, NAMESPACE/POD/CONTAINER or the
beginning of an ID; where several fit, they are listed.

  -n LINES      50 unless told, 100000 at most
  -f            go on with what is written from now on, until it is stopped (Ctrl-C) or the
                container ends
  -t            with the time of each line
  --previous    of the attempt before (-p)

  logs calico-node
  logs -f -n 10 kube-system/coredns-5ddf468bdc-lwdfv/coredns
  logs --previous calico-node

Files that the kubelet has compressed are named and not read.`,
	Parse: func(args []string) (probe.ToolFunc, error) {
		l, err := parseLogs(args)
		return l.run, err
	},
	Endless: func(args []string) bool { l, err := parseLogs(args); return err == nil && l.follow },
}

// reading is what logs was told.
type reading struct {
	name                  string
	lines                 int
	follow, times, before bool
}

func parseLogs(args []string) (reading, error) {
	var l reading
	f := options("logs")
	f.IntVar(&l.lines, "n", 50, "")
	f.BoolVar(&l.follow, "f", false, "")
	f.BoolVar(&l.times, "t", false, "")
	f.BoolVar(&l.before, "previous", false, "")
	f.BoolVar(&l.before, "p", false, "")
	rest, err := words(f, args)
	if err == nil {
		err = within("-n", l.lines, 0, 100_000)
	}
	switch {
	case err != nil:
		return l, err
	case len(rest) != 1 || rest[0] == "":
		return l, errors.New("logs takes one container: logs calico-node; 'ps' lists them")
	case l.follow && l.before:
		return l, errors.New("the attempt before has ended: -f and --previous do not go together")
	}
	l.name = rest[0]
	return l, nil
}

func (l reading) run(ctx context.Context, j *probe.Job) probe.Result {
	conn, socket, err := checks.Runtime(j.Host)
	if err != nil {
		return unread(err)
	}
	defer conn.Close()
	r := runtime{conn, socket}
	list, err := r.containers(ctx)
	if err != nil {
		return r.silent(ctx, err)
	}
	found := named(list, l.name)
	switch {
	case len(found) == 0:
		return probe.Found(probe.Fail, "the runtime has no container %q; 'ps -a' lists them", l.name).With(probe.FactReason, "missing")
	case len(found) > 1:
		if live := slices.DeleteFunc(slices.Clone(found), func(c []container) bool { return c[0].state != cri.ContainerState_CONTAINER_RUNNING }); len(live) == 1 {
			j.Say("(of %d containers that fit, the one that runs: %s)", len(found), live[0][0])
			found = live
			break
		}
		t := newTable(j, "CONTAINER", "STATE", "ID")
		for _, attempts := range found[:min(len(found), mostRows)] {
			t.row(attempts[0].String(), stateName(attempts[0].state), fmt.Sprintf("%.12s", attempts[0].id))
		}
		t.end()
		return probe.Found(probe.Unknown, "%d containers fit %q: name one of them", len(found), l.name)
	}
	c := found[0][0]
	if l.before {
		if len(found[0]) < 2 {
			return probe.Found(probe.Fail, "the runtime has no attempt of %s before this one", c).With(probe.FactReason, "missing")
		}
		c = found[0][1]
	}
	s, err := r.status(ctx, c.id)
	if err != nil {
		return r.silent(ctx, err)
	}
	return l.read(ctx, j, c, s, func(ctx context.Context) (*cri.ContainerStatus, error) { return r.status(ctx, c.id) })
}

// named are the containers that a name fits, each with its attempts, the newest first.
func named(list []container, name string) [][]container {
	fits := []func(container) bool{
		func(c container) bool { return c.name == name || c.pod+"/"+c.name == name || c.String() == name },
		func(c container) bool { return c.pod == name || c.namespace+"/"+c.pod == name },
		func(c container) bool { const enough = 4; return len(name) >= enough && strings.HasPrefix(c.id, name) },
	}
	for i, fit := range fits {
		var out [][]container
		for _, c := range list {
			switch n := len(out); {
			case !fit(c):
			case n > 0 && out[n-1][0].String() == c.String() && i < 2: // an ID is of one attempt
				out[n-1] = append(out[n-1], c)
			default:
				out = append(out, []container{c})
			}
		}
		if len(out) > 0 {
			return out
		}
	}
	return nil
}

// What is held of a log at once, of one line, and how often it is looked for more.
const (
	mostTail   = 4 << 20
	mostOfLine = 64 << 10
	logEvery   = 250 * time.Millisecond
	stateEvery = 2 * time.Second
)

// read prints the end of a log file, and follows it.
func (l reading) read(ctx context.Context, j *probe.Job, c container, s *cri.ContainerStatus, again func(context.Context) (*cri.ContainerStatus, error)) probe.Result {
	if s.GetLogPath() == "" {
		return probe.Found(probe.Skip, "the runtime keeps no log file of %s", c)
	}
	name := path.Clean(s.GetLogPath())
	f := &followed{host: j.Host, name: name, id: c.id}
	err := f.open()
	switch {
	case errors.Is(err, fs.ErrNotExist) && j.Host.Only != nil:
		return probe.Found(probe.Skip, "the log file of %s leads to where this way onto the node does not see: %s", c, name)
	case errors.Is(err, fs.ErrNotExist):
		return probe.Found(probe.Fail, "the log file of %s is not there: %s", c, name).With(probe.FactReason, "missing")
	case err != nil:
		return unread(err)
	}
	defer func() { f.file.Close() }()
	out, flush := buffered(j)
	lines, whole, err := f.tail(l.lines)
	if err != nil {
		return unread(fmt.Errorf("reading %s: %w", name, err))
	}
	follow := l.follow && s.GetState() == cri.ContainerState_CONTAINER_RUNNING
	if !follow { // then it will not be ended any more
		f.join.rest(func(line logLine) { lines = append(lines, line) })
		lines = lines[max(len(lines)-l.lines, 0):]
	}
	nothing := "has written nothing"
	if whole && len(lines) < l.lines {
		before, there := earlier(j, f.file.Name(), l.lines-len(lines))
		if lines = append(before, lines...); there {
			nothing += " since its log was put aside"
		}
	} else if len(lines) < l.lines {
		j.Say("(no more than the last %d MiB are looked at)", mostTail>>20)
		nothing = "has written a line that is longer"
	}
	for _, line := range lines {
		l.print(out, line)
	}
	_ = flush() // a session that is gone ends the tool
	n := len(lines)
	if follow && n == 0 && l.lines > 0 {
		j.Say("(so far %s %s)", c, nothing)
	}
	if follow {
		var more int
		var why string
		more, s, why = l.keepOn(ctx, out, flush, f, s, again)
		if n += more; why != "" {
			return probe.Found(probe.Unknown, "%s", why)
		}
	}
	what := several(n, "line") + " of " + c.String()
	if n == 0 && l.lines > 0 {
		what = c.String() + " " + nothing
		j.Say("(%s)", what)
	}
	if s.GetState() == cri.ContainerState_CONTAINER_EXITED {
		what += ", which " + ended(s, time.Now())
		j.Say("(%s %s)", c, ended(s, time.Now()))
	}
	return probe.Found(probe.OK, "%s", what)
}

// open opens the log file, and nothing else to which its name may lead.
func (f *followed) open() error {
	file, err := f.host.Open(f.name)
	if err != nil {
		return err
	}
	if !f.ofLogs(file.Name()) {
		_ = file.Close()
		return fmt.Errorf("%s leads to %s, which is no log of this container: not read", f.name, file.Name())
	}
	if f.file != nil {
		_ = f.file.Close()
	}
	f.file, f.at = file, 0
	return nil
}

// ofLogs tells whether a path without links is a container's log: a file below
// the folder of all pods' logs, in which that name lies by pod and container, or that of
// docker's to which it is a link. A pod that may write to /var/log can make other links of it.
func (f *followed) ofLogs(at string) bool {
	pods, err := f.host.Find(path.Dir(path.Dir(path.Dir(f.name))))
	if err != nil {
		return false
	}
	defer pods.Close()
	return strings.HasPrefix(at, strings.TrimSuffix(pods.Name(), "/")+"/") || f.id != "" && strings.HasSuffix(at, "/"+f.id+"/"+f.id+"-json.log")
}

// print writes one line as it is shown.
func (l reading) print(out *probe.Job, line logLine) {
	text := colours.ReplaceAllString(line.text, "")
	if l.times {
		text = line.at + " " + text
	}
	out.Say("%s", text)
}

// colours are what a program writes to a terminal to paint it (ECMA-48).
var colours = regexp.MustCompile("\x1b\\[[0-9;?]*[ -/]*[@-~]")

// followed is a log file that is read as it grows.
type followed struct {
	host     *probe.Host
	name, id string // of the file and of its container
	file     *os.File
	at       int64 // read so far
	join     joiner
}

// keepOn prints what is written from now on. Why says what went wrong.
func (l reading) keepOn(ctx context.Context, out *probe.Job, flush func() error, f *followed, s *cri.ContainerStatus, again func(context.Context) (*cri.ContainerStatus, error)) (n int, _ *cri.ContainerStatus, why string) {
	tick := time.NewTicker(logEvery)
	defer tick.Stop()
	asked := time.Now()
	over := false
	for {
		more, err := f.more(func(line logLine) { n++; l.print(out, line) })
		if ferr := flush(); err == nil {
			err = ferr
		}
		switch {
		case err != nil:
			return n, s, fmt.Sprintf("reading on: %v", err)
		case over && !more:
			f.join.rest(func(line logLine) { n++; l.print(out, line) })
			_ = flush() // a session that is gone ends the tool
			return n, s, ""
		case ctx.Err() != nil:
			return n, s, ""
		case more:
			continue
		}
		if time.Since(asked) > stateEvery {
			now, err := again(ctx)
			switch {
			case status.Code(err) == codes.NotFound: // removed: what is in the file is all there is
				over = true
			case err == nil: // a runtime that does not answer now has not stopped the log
				s, over = now, now.GetState() == cri.ContainerState_CONTAINER_EXITED
			}
			asked = time.Now()
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// more reads what has been added to the file, or begins with the one that has taken its
// place; false when there is nothing.
func (f *followed) more(each func(logLine)) (bool, error) {
	buf := make([]byte, 64<<10)
	n, err := f.file.ReadAt(buf, f.at)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	if n > 0 {
		used := bytes.LastIndexByte(buf[:n], '\n') + 1
		if used == 0 && n == len(buf) { // a line longer than any runtime writes
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
	if errors.Is(err, fs.ErrNotExist) { // between the old one and the new, or gone with the pod
		return false, nil
	}
	if err != nil {
		return false, err
	}
	mine, err := f.file.Stat()
	switch {
	case err != nil:
		return false, err
	case os.SameFile(there, mine) && there.Size() < f.at: // emptied in place
		f.at, f.join = 0, joiner{}
		return true, nil
	case os.SameFile(there, mine):
		return false, nil
	}
	// What was written between the last look and the change is in the old one still.
	if now, err := f.file.Stat(); err == nil && now.Size() > f.at+int64(n) {
		return true, nil
	}
	err = f.open()
	if errors.Is(err, fs.ErrNotExist) { // put aside once more
		return false, nil
	}
	return err == nil, err
}

// tail gives the last lines of a log, and whether they go back to its beginning; reading
// on begins behind them. It looks at as much of the end as it needs, up to mostTail.
func (f *followed) tail(want int) (lines []logLine, whole bool, err error) {
	info, err := f.file.Stat()
	if err != nil {
		return nil, false, err
	}
	size := info.Size()
	for look := int64(128 << 10); ; look *= 8 {
		look = min(look, mostTail)
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
		if !whole { // it begins in the middle of a line, perhaps of several pieces
			buf = buf[bytes.IndexByte(buf, '\n')+1:]
		}
		lines = lines[:0]
		for raw := range bytes.Lines(buf) {
			f.join.take(raw, func(l logLine) {
				if lines = append(lines, l); len(lines) > 2*want+1 { // what is before will not be shown
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
		if whole || look == mostTail {
			return lines, whole, nil
		}
	}
}

// earlier gives the last lines of the file before, which the kubelet has put aside as
// 0.log.20261121-164500, and docker as ...-json.log.1, and whether there is one. Of those
// that are compressed it says so.
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
		j.Say("(what is older is compressed, in %s)", path.Base(newest))
		return nil, true
	}
	old, err := j.Host.Open(newest)
	if err != nil { // compressed this very moment, or no file
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

// writtenAt is when a file was written; a link in its place, which no runtime makes, is an
// error.
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

// joiner puts together what the runtime has cut: each stream has pieces of its own.
type joiner struct {
	stdout, stderr []byte
	at             string // time of the last piece
}

// take reads one raw line and gives the whole line it ends, if it does.
func (p *joiner) take(raw []byte, each func(logLine)) {
	raw = bytes.TrimRight(raw, "\r\n")
	at, stream, text, partial := parseLog(raw)
	kept := &p.stdout
	if stream == "stderr" {
		kept = &p.stderr
	}
	*kept = append(*kept, text[:min(len(text), mostOfLine-min(len(*kept), mostOfLine))]...)
	if !partial {
		each(logLine{at, strings.ToValidUTF8(string(*kept), "?")})
		*kept = nil
	} else {
		p.at = at
	}
}

// rest gives the pieces that no more follow: what a container wrote last before it ended in
// the middle of a line.
func (p *joiner) rest(each func(logLine)) {
	for _, kept := range []*[]byte{&p.stdout, &p.stderr} {
		if len(*kept) > 0 {
			each(logLine{p.at, strings.ToValidUTF8(string(*kept), "?")})
			*kept = nil
		}
	}
}

// parseLog reads a line of a log file: of the kubelet's interface ("TIME stdout F text",
// P for a piece of a line), or of docker ({"log":"text\n","stream":"stdout","time":"..."},
// a piece has no new line). What is neither is text as it is.
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
