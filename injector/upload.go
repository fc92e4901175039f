package injector

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// A line runs a script in a shell on the node and carries its stdin, stdout and
// stderr until it ends or ctx does.
type line func(ctx context.Context, script string, in io.Reader, out, errs io.Writer) error

// view is how a program at the end of a line sees the node.
type view struct {
	root, proc string
	only       []string // nil = all of it
}

// machineIDs are the files with the node's machine-id, in the order in which the kubelet
// looks for it; none where the node's root is not in sight.
func (v view) machineIDs() []string {
	if v.only != nil {
		return nil
	}
	return []string{path.Join(v.root, "etc/machine-id"), path.Join(v.root, "var/lib/dbus/machine-id")}
}

// judge says why a machine is not taken for the node, nil where it is; id is its
// machine-id, "" = it shows none.
type judge func(id string) *PlacementError

// carrying is the script that unpacks a carried probe and runs it. It stands on one line,
// without a backslash and with ! only before a blank, so that every login shell passes it on
// to sh as it is. Before it creates anything it prints the machine's machine-id and waits for
// "go". The folder must be one where programs may be run: /run, /tmp and /dev/shm often are
// not. The client sends the probe only when it is told to, and
// speaks to it only when the script is ready: what reads the one never swallows the
// other. Each word stands on a line of its own, also behind login files that leave
// theirs unfinished. Where the line is cut without a word, what waits for the probe is
// ended: a shell runs its trap only between two programs. The probe removes itself as
// soon as it runs; the trap does where it never gets that far.
const carrying = `umask 077; d=;
say() { echo; echo "{run} $*"; };
i=; for p in {ids}; do [ -n "$i" ] || read i <"$p"; done 2>/dev/null;
say on "$i";
( i=0; while [ $i -lt 15 ]; do sleep 2 || exit; i=$((i+1)); done; kill $$ ) </dev/null >/dev/null 2>&1 & k=$! ;
read g; kill $k 2>/dev/null; [ "$g" = go ] || exit 1;
trap 'r=$?; [ -z "$d" ] || rm -rf "$d"; exit $r' EXIT;
trap 'exit 1' HUP INT TERM PIPE;
for x in chmod head mkdir rm sh wc; do command -v $x >/dev/null 2>&1 || { say lacks $x; exit 1; }; done;
for b in {folders}; do
free=$(df -Pk "$b" 2>/dev/null | { read h; read f s u a r; echo "$a"; });
[ "${free:-{kb}}" -ge {kb} ] 2>/dev/null || continue;
mkdir "$b/calico-probe-{run}" 2>/dev/null || continue;
d="$b/calico-probe-{run}";
if ( : >"$d/probe" && chmod 700 "$d/probe" && "$d/probe" ) </dev/null >/dev/null 2>&1; then break; fi;
rm -rf "$d"; d=;
done;
[ -n "$d" ] || { say nowhere; exit 1; };
n={plain}; f=probe; if command -v gzip >/dev/null 2>&1; then n={packed}; f=packed; fi;
if [ $f = packed ]; then say send packed; else say send plain; fi;
( i=0; while [ $i -lt 60 ]; do sleep 2 && [ -e "$d/pid" ] || exit; i=$((i+1)); done; read p <"$d/pid" && kill $p ) </dev/null >/dev/null 2>&1 &
sh -c 'echo $$ >"$0/pid"; exec head -c $1 >"$0/$2"' "$d" $n $f; rm -f "$d/pid";
if [ $f = packed ]; then gzip -dc <"$d/packed" >"$d/probe"; rm -f "$d/packed"; fi;
[ $(wc -c <"$d/probe") -eq {plain} ] 2>/dev/null || { say broken; exit 1; };
t=; if timeout 1 true 2>/dev/null; then t="timeout 10"; fi;
$t "$d/probe" version </dev/null >/dev/null || { say broken; exit 1; };
s=; w=user; if [ "$(id -u 2>/dev/null)" = 0 ]; then w=root; elif $t sudo -n "$d/probe" version </dev/null >/dev/null 2>&1; then s="sudo -n"; w=root; fi;
o={only}; for p in {dirs}; do if [ -d "$p" ]; then o="$o,$p"; fi; done;
say ready $w; $s "$d/probe" session --unlink --only "$o" {args}`

// folders are where the probe may be unpacked; first those that do not outlive a
// reboot.
const folders = `/run /tmp /var/tmp "${HOME:-/nowhere}" /dev/shm`

// How long each step of a carried start may take. The first word waits for the
// login, which on a node that thrashes takes its time; after that it is the
// line that counts, so it only must not stand still. When the last of the probe is
// sent, a megabyte or two may still lie in buffers before a slow line.
const (
	firstWord  = 15 * time.Second
	standstill = 15 * time.Second
	unpacking  = 60 * time.Second
	chunk      = 32 << 10
)

// carry brings the client's own probe to the node over a line and opens the
// conversation with it. Nothing is created there before judge is content.
func carry(ctx context.Context, o Options, way, whereto string, v view, l line, judge judge) (*Session, error) {
	if len(o.Carried) == 0 {
		return nil, refuse(facts.ReasonSupport, "this client carries no probe for %s: use a release of calico-probe, or one that 'make build' made", cmp.Or(o.Arch, "the node's architecture, which the API does not tell"))
	}
	plain, err := unpacked(o.Carried)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	in, feed := io.Pipe()
	out, sink := io.Pipe()
	words := &noise{tooMuch: make(chan struct{})}
	c := &carried{options: o, feed: feed, words: bufio.NewReader(out), noise: words, ended: make(chan struct{}), plain: len(plain)}
	go func() {
		defer close(c.ended)
		c.err = l(ctx, scriptFor(o, way, v, len(plain)), in, sink, words)
		in.CloseWithError(errOr(c.err, errors.New("the line is closed")))
		sink.CloseWithError(errOr(c.err, io.EOF))
	}()
	if err := c.start(ctx, plain, judge); err != nil {
		stopped := context.Cause(ctx)
		feed.Close()
		out.Close()
		if !errors.Is(err, errStill) { // else the end of the line has to tell the script
			select { // it cleans up
			case <-c.ended:
			case <-time.After(ending):
			}
		}
		cancel()
		if stopped != nil {
			return nil, fmt.Errorf("stopped while bringing the probe: %w", stopped)
		}
		return nil, err
	}
	s := &Session{
		created: []string{"a probe " + whereto + " that has removed its file there"},
		remove:  func(bool, bool) error { return nil },
		through: way,
	}
	s.talk(ctx, func(ctx context.Context, requests io.Reader, events io.Writer) error {
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		go func() { // ends with the line at the latest
			_, err := io.Copy(feed, requests)
			feed.CloseWithError(errOr(err, io.EOF))
		}()
		if _, err := io.Copy(events, c.words); err != nil {
			return fmt.Errorf("%w%s", err, saying(words.String()))
		}
		<-c.ended
		return c.err
	}, nil)
	return s, nil
}

// carried is a probe on its way over a line.
type carried struct {
	options Options
	feed    *io.PipeWriter
	words   *bufio.Reader
	noise   *noise
	ended   chan struct{} // closed when the line has ended, with err
	err     error
	plain   int // bytes of the probe, unpacked
}

// start goes through the handshake until the probe is there.
func (c *carried) start(ctx context.Context, plain []byte, judge judge) error {
	word, err := c.next(ctx, cmp.Or(c.options.Start, firstWord))
	if err != nil {
		return err
	}
	id, ours := strings.CutPrefix(word, "on")
	if !ours {
		return c.refusal(word)
	}
	if refused := judge(machineID(id)); refused != nil {
		return refused
	}
	if err := c.send(ctx, []byte("go\n")); err != nil {
		return err
	}
	if word, err = c.next(ctx, firstWord); err != nil {
		return err
	}
	var load []byte
	switch word {
	case "send packed":
		load = c.options.Carried
	case "send plain":
		load = plain
	default:
		return c.refusal(word)
	}
	for sent := 0; sent < len(load); sent += chunk {
		if err := c.send(ctx, load[sent:min(len(load), sent+chunk)]); err != nil {
			return err
		}
	}
	if word, err = c.next(ctx, unpacking); err != nil {
		return err
	}
	switch word {
	case "ready root":
		return nil
	case "ready user":
		c.options.Note("the login is not root's by 'id -u', and 'sudo -n' does not make it so: what takes root is not seen")
		return nil
	}
	return c.refusal(word)
}

// machineID is what a machine-id is compared by, "" = a file that has none, or none yet.
func machineID(text string) string {
	if text = strings.TrimSpace(text); text == "uninitialized" {
		return ""
	}
	return text
}

// errStill is a step of a carried start that did not come to its end in time.
var errStill = errors.New("nothing came back in time")

// mostNoise is how much may come from the node before the probe is there that is none of
// the script's words: login files, banners and what stands on stderr are far shorter.
const mostNoise = 1 << 20

// errNoise is a node that says more than that.
var errNoise = errors.New("more than 1 MiB came back before the probe was there")

// noise is what comes from the node beside the script's words. It keeps the end of that,
// which may be why there is no shell.
type noise struct {
	lastWords
	heard   atomic.Int64
	full    sync.Once
	tooMuch chan struct{} // closed once it is more than mostNoise
}

func (n *noise) Write(b []byte) (int, error) {
	if n.heard.Add(int64(len(b))) > mostNoise {
		n.full.Do(func() { close(n.tooMuch) })
	}
	return n.lastWords.Write(b)
}

// word reads on to the script's next word. What login files and banners print is passed
// over, piece by piece: a line may have no end.
func (c *carried) word() (string, error) {
	for begins := true; ; {
		piece, err := c.words.ReadSlice('\n')
		word, ours := strings.CutPrefix(strings.TrimSpace(string(piece)), c.options.Run+" ")
		goesOn := errors.Is(err, bufio.ErrBufferFull)
		if ours && begins && !goesOn {
			return word, err
		}
		_, _ = c.noise.Write(piece) // never fails
		select {
		case <-c.noise.tooMuch:
			return "", errNoise
		default:
		}
		if begins = err == nil; !begins && !goesOn {
			return "", err
		}
	}
}

// next is the script's next word.
func (c *carried) next(ctx context.Context, limit time.Duration) (string, error) {
	type read struct {
		text string
		err  error
	}
	got := make(chan read, 1)
	go func() { // ends with the line at the latest
		text, err := c.word()
		got <- read{text, err}
	}()
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case r := <-got:
		switch {
		case r.err == nil:
			return r.text, nil
		case errors.Is(r.err, errNoise):
			return "", &lineError{errNoise, c.noise.String()}
		}
		<-c.ended
		return "", &lineError{errOr(c.err, r.err), c.noise.String()}
	case <-c.noise.tooMuch:
		return "", &lineError{errNoise, c.noise.String()}
	case <-late.C:
		return "", &lineError{fmt.Errorf("%w (%v)", errStill, limit), c.noise.String()}
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// send sends a piece of the probe.
func (c *carried) send(ctx context.Context, b []byte) error {
	sent := make(chan error, 1)
	go func() { // ends with the line at the latest
		_, err := c.feed.Write(b)
		sent <- err
	}()
	late := time.NewTimer(standstill)
	defer late.Stop()
	select {
	case err := <-sent:
		if err != nil {
			return &lineError{err, c.noise.String()}
		}
		return nil
	case <-c.noise.tooMuch:
		return &lineError{errNoise, c.noise.String()}
	case <-late.C:
		return &lineError{fmt.Errorf("%w (%v)", errStill, standstill), c.noise.String()}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// lineError is a line that ended, or stood still, before the probe was there.
type lineError struct {
	err  error
	said string // on stderr
}

func (e *lineError) Error() string { return e.err.Error() + saying(e.said) }
func (e *lineError) Unwrap() error { return e.err }

// refusal is what the script says instead of going on.
func (c *carried) refusal(word string) *PlacementError {
	switch what, which, _ := strings.Cut(word, " "); what {
	case "lacks":
		return refuse(facts.ReasonShell, "there is a shell and no program %s, which it takes to bring the probe", which)
	case "nowhere":
		return refuse(facts.ReasonShell, "no folder has %d MB free and lets programs run (tried %s)", room(c.plain)>>10, strings.NewReplacer(`"`, "", ":-/nowhere", "").Replace(folders))
	case "broken":
		return refuse(facts.ReasonShell, "the probe does not run there: it did not arrive whole, the disk is full, or the node forbids it%s", saying(c.noise.String()))
	}
	return refuse(facts.ReasonShell, "the shell there answered %q, which makes no sense", word)
}

// room is what must be free for a probe of so many bytes, in KiB: half as much again,
// for what it is packed in and so that it is not what fills a node.
func room(plain int) int { return plain*3/2>>10 + 1 }

// scriptFor fills in the script, on one line.
func scriptFor(o Options, way string, v view, plain int) string {
	var ids []string
	for _, p := range v.machineIDs() {
		ids = append(ids, probe.Quote(p))
	}
	only, dirs := "", ""
	if v.only != nil {
		only = "/none" // an empty list would mean everything
		for _, p := range v.only {
			dirs += " " + probe.Quote(p)
		}
	}
	var args []string
	for _, a := range []string{"--root", v.root, "--proc", v.proc, "--node", o.Node, "--way", way, "--life", (o.Whole + margin).String()} {
		args = append(args, probe.Quote(a))
	}
	return strings.NewReplacer(
		"\n", " ", "{run}", o.Run, "{ids}", strings.Join(ids, " "), "{folders}", folders, "{kb}", strconv.Itoa(room(plain)),
		"{packed}", strconv.Itoa(len(o.Carried)), "{plain}", strconv.Itoa(plain),
		"{only}", only, "{dirs}", dirs, "{args}", strings.Join(args, " "),
	).Replace(carrying)
}

// unpacked is what a packed probe is made of.
func unpacked(packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("unpacking the carried probe: %w", err)
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("unpacking the carried probe: %w", err)
	}
	return plain, nil
}
