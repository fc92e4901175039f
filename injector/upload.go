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
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// A remoteShell runs a script in a shell on the node, with in, out and errs as its stdin, stdout and stderr. It returns
// when the script exits or ctx is done.
type remoteShell func(ctx context.Context, script string, in io.Reader, out, errs io.Writer) error

// verifyMachine returns why the machine with this machine-id is not the node, or nil if it is. "" = the machine has no
// readable machine-id.
type verifyMachine func(id string) *PlacementError

// The time limits for the steps of an upload. The time for the first reply includes the login, which is slow on a
// thrashing node. The whole transfer has no time limit, but each chunk has one. After the last chunk, a slow connection
// may still buffer one or two megabytes.
const (
	replyLimit  = 15 * time.Second
	chunkLimit  = 15 * time.Second
	unpackLimit = 60 * time.Second
	chunk       = 32 << 10
)

// upload sends the embedded probe to the node through a remote shell, starts it there and opens the session with it. If
// verify rejects a machine, it does not create anything on it. method is the access method. where tells the user where
// the probe runs.
func upload(
	ctx context.Context, o Options, method, where string, v view, shell remoteShell, verify verifyMachine,
) (*Session, error) {
	if len(o.Embedded) == 0 {
		return nil, refuse(facts.ReasonSupport, "this client has no embedded probe for %s: use a release of calico-probe, or build it with 'make build'",
			cmp.Or(o.Arch, "the node's architecture, which is missing in the API"))
	}
	plain, err := unpacked(o.Embedded)
	if err != nil {
		return nil, refuse(facts.ReasonSupport, "this client's embedded probe is damaged: %v", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	in, stdin := io.Pipe()
	out, stdout := io.Pipe()
	other := &noise{tooMuch: make(chan struct{})}
	u := &uploading{
		options: o, plain: plain, verify: verify,
		stdin: stdin, stdout: bufio.NewReader(out), noise: other, ended: make(chan struct{}),
	}
	probe.Detach(func() error {
		defer close(u.ended)
		u.err = probe.Recovered(func() error {
			return shell(ctx, scriptFor(o, method, v, len(plain)), in, stdout, other)
		})
		in.CloseWithError(errOr(u.err, errConnClosed))
		stdout.CloseWithError(errOr(u.err, io.EOF))
		return nil
	}, func(err error) { stdout.CloseWithError(err) })
	if err := u.run(ctx); err != nil {
		stopped := context.Cause(ctx)
		stdin.Close()
		out.Close()
		if !errors.Is(err, errStalled) { // a stalled script notices only a closed connection
			select { // the script cleans up
			case <-u.ended:
			case <-time.After(ending):
			}
		}
		cancel()
		if stopped != nil {
			return nil, fmt.Errorf("stopped while uploading the probe: %w", stopped)
		}
		return nil, err
	}
	s := &Session{
		created: []string{"a probe " + where + " (its file is already deleted)"},
		remove:  func(bool, bool) error { return nil },
		through: method, first: o.Patience,
	}
	s.start(ctx, func(ctx context.Context, requests io.Reader, events io.Writer) error {
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		return u.connect(requests, events)
	}, nil)
	return s, nil
}

// uploading is the state of one probe's upload through a remote shell.
type uploading struct {
	options Options
	plain   []byte // the probe, unpacked
	verify  verifyMachine
	stdin   *io.PipeWriter // stdin of the script
	stdout  *bufio.Reader
	noise   *noise        // the node's output except the script's replies
	ended   chan struct{} // closed when the remote shell has ended, with err
	err     error
}

// run follows the script's replies until the probe is started.
func (u *uploading) run(ctx context.Context) error {
	reply, err := u.reply(ctx, cmp.Or(u.options.Start, replyLimit))
	if err != nil {
		return err
	}
	id, ok := strings.CutPrefix(reply, "on")
	if !ok {
		return u.refusal(reply)
	}
	if refused := u.verify(machineID(id)); refused != nil {
		return refused
	}
	if err := u.send(ctx, []byte("go\n")); err != nil {
		return err
	}
	if reply, err = u.reply(ctx, replyLimit); err != nil {
		return err
	}
	var program []byte
	switch reply {
	case "send packed":
		program = u.options.Embedded
	case "send plain":
		program = u.plain
	default:
		return u.refusal(reply)
	}
	for piece := range slices.Chunk(program, chunk) {
		if err := u.send(ctx, piece); err != nil {
			return err
		}
	}
	if reply, err = u.reply(ctx, unpackLimit); err != nil {
		return err
	}
	switch reply {
	case "ready root":
		return nil
	case "ready user":
		u.options.Note("the login is not root ('id -u'), and 'sudo -n' fails: the probe cannot read files that only root may read")
		return nil
	}
	return u.refusal(reply)
}

// connect connects the started probe to its session until either side ends.
func (u *uploading) connect(requests io.Reader, events io.Writer) error {
	crashed := make(chan error, 2)
	report := func(err error) { crashed <- err }
	probe.Detach(func() error { // ends when the remote shell ends, or earlier
		err := probe.Recovered(func() error { _, err := io.Copy(u.stdin, requests); return err })
		if errors.As(err, new(*probe.Crash)) {
			report(err) // report before closing stdin, which ends the script
		}
		return u.stdin.CloseWithError(errOr(err, io.EOF))
	}, report)
	_, err := io.Copy(events, u.stdout)
	if err != nil {
		err = fmt.Errorf("%w%s", err, withOutput(u.noise.String()))
	} else {
		<-u.ended
		err = u.err
	}
	select {
	case crash := <-crashed:
		return errors.Join(crash, err)
	default:
		return err
	}
}

// machineID returns the machine-id in the text of its file, or "" if it has none yet.
func machineID(text string) string {
	if text = strings.TrimSpace(text); text == "uninitialized" {
		return ""
	}
	return text
}

// errStalled is the error of an upload step that took too long.
var errStalled = errors.New("no reply in time")

// maxNoise limits a node's output, without the script's replies, before the probe runs. Login files, banners and error
// messages are far shorter.
const maxNoise = 1 << 20

// errNoise is the error if a node writes more than maxNoise bytes.
var errNoise = errors.New("more than 1 MiB came back before the probe started")

// noise collects the node's output except the script's replies. It keeps the end, which may explain why the shell
// failed.
type noise struct {
	lastOutput
	heard   atomic.Int64
	full    sync.Once
	tooMuch chan struct{} // closed once the output exceeds maxNoise
}

func (n *noise) Write(b []byte) (int, error) {
	if n.heard.Add(int64(len(b))) > maxNoise {
		n.full.Do(func() { close(n.tooMuch) })
	}
	return n.lastOutput.Write(b)
}

// readReply reads until the end of the script's next reply. Output from login files and banners before the reply is
// noise. readReply reads in pieces, because a line of noise may never end.
func (u *uploading) readReply() (string, error) {
	for atStart := true; ; {
		piece, err := u.stdout.ReadSlice('\n')
		reply, ours := strings.CutPrefix(strings.TrimSpace(string(piece)), u.options.Run+" ")
		unfinished := errors.Is(err, bufio.ErrBufferFull)
		if ours && atStart && !unfinished {
			return reply, err
		}
		_, _ = u.noise.Write(piece) // never fails
		select {
		case <-u.noise.tooMuch:
			return "", errNoise
		default:
		}
		if atStart = err == nil; !atStart && !unfinished {
			return "", err
		}
	}
}

// reply waits for the script's next reply.
func (u *uploading) reply(ctx context.Context, limit time.Duration) (string, error) {
	text := ""
	got := probe.Async(func() (err error) { // ends when the remote shell ends, or earlier
		text, err = u.readReply()
		return err
	})
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case err := <-got:
		switch {
		case err == nil:
			return text, nil
		case errors.Is(err, errNoise):
			return "", u.failed(errNoise)
		}
		<-u.ended
		return "", u.failed(errOr(u.err, err))
	case <-u.noise.tooMuch:
		return "", u.failed(errNoise)
	case <-late.C:
		return "", u.failed(fmt.Errorf("%w (%v)", errStalled, limit))
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// send writes to the script.
func (u *uploading) send(ctx context.Context, b []byte) error {
	sent := probe.Async(func() error { // ends when the remote shell ends, or earlier
		_, err := u.stdin.Write(b)
		return err
	})
	late := time.NewTimer(chunkLimit)
	defer late.Stop()
	select {
	case err := <-sent:
		if err != nil {
			return u.failed(err)
		}
		return nil
	case <-u.noise.tooMuch:
		return u.failed(errNoise)
	case <-late.C:
		return u.failed(fmt.Errorf("%w (%v)", errStalled, chunkLimit))
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// failed returns the error for an upload that ended with err.
func (u *uploading) failed(err error) error { return &uploadError{err, u.noise.String()} }

// uploadError is the error if a remote shell exited or stalled before the probe ran.
type uploadError struct {
	err    error
	output string // the end of its output, without the script's replies
}

func (e *uploadError) Error() string { return e.err.Error() + withOutput(e.output) }
func (e *uploadError) Unwrap() error { return e.err }

// refusal returns the error for a reply with which the script ends.
func (u *uploading) refusal(reply string) *PlacementError {
	switch what, which, _ := strings.Cut(reply, " "); what {
	case "lacks":
		return refuse(facts.ReasonShell, "the shell there lacks the program %s, which the upload needs", which)
	case "nowhere":
		tried := strings.NewReplacer(`"`, "", ":-/nowhere", "").Replace(folders)
		return refuse(facts.ReasonShell, "no folder with %d MB free allows running programs (tried %s)", neededKiB(len(u.plain))>>10, tried)
	case "broken":
		return refuse(facts.ReasonShell, "the probe does not run there: the upload is incomplete, the disk is full, or the node forbids it%s",
			withOutput(u.noise.String()))
	}
	return refuse(facts.ReasonShell, "unexpected reply from the shell there: %q", reply)
}

// unpacked returns the unpacked embedded probe.
func unpacked(packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("unpacking it: %w", err)
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("unpacking it: %w", err)
	}
	return plain, nil
}
