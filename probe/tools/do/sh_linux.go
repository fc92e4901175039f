package do

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	securejoin "github.com/cyphar/filepath-securejoin"
	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/tools"
)

// The first is the time that a shell's processes have to exit after a hangup before they are killed. The second is
// the time for which other processes may hold the shell's output open without writing after the shell has exited.
const (
	hangUp = 400 * time.Millisecond
	lull   = 500 * time.Millisecond
)

// running is a shell that was started.
type running struct {
	cmd   *exec.Cmd
	out   *os.File // its output; on a terminal, this includes the echo of its input
	tty   bool
	ended chan struct{} // closed when the shell has exited
	over  atomic.Bool   // the same, without waiting
	// crashes of the goroutines that forward input and output: without them, the shell is useless
	crashed chan error
}

// maxCrashes is the number of goroutines of a shell that may crash.
const maxCrashes = 4

func (s shell) run(ctx context.Context, j *probe.Job) probe.Result {
	tty := j.Size != probe.Size{}
	if !tty && s.Command == nil {
		return probe.Found(probe.Skip, "a shell needs a terminal; without one, pass a command: sh -c COMMAND")
	}
	root, where, refused := s.place(j.Host)
	if refused != nil {
		return *refused
	}
	program := shellIn(root)
	if program == "" {
		return probe.Found(probe.Skip, "no shell %s", where).With(probe.FactReason, tools.ReasonNoShell)
	}
	r, err := s.start(j, root, program, tty)
	switch {
	case errors.Is(err, os.ErrPermission):
		return probe.Found(probe.Skip, "this probe is not allowed to start a shell %s: %v", where, err).
			With(probe.FactReason, tools.ReasonNoRoot)
	case err != nil:
		return probe.Failed(fmt.Errorf("starting %s %s: %w", program, where, err))
	}
	if !s.Quiet && s.Command == nil {
		// The line needs \r, because the user's terminal is in raw mode.
		_, _ = fmt.Fprintf(j.Out,
			"you are %s %s: your commands are not read-only; exit or Ctrl-D returns, Enter ~ . leaves a hung shell\r\n",
			user(), where)
	}
	return r.attend(ctx, j)
}

// place returns the root directory of the requested shell, and the name of that directory for the user.
func (s shell) place(h *probe.Host) (root, where string, refused *probe.Result) {
	node := cmp.Or(h.Node, "this machine")
	switch {
	case s.Own && h.Root != "/":
		return "/", fmt.Sprintf("in the toolbox on %s, whose files are below %s", node, h.Root), nil
	case s.Own:
		return "/", "in the toolbox on " + node, nil
	case h.Only == nil:
		return h.Root, "on " + node, nil
	case h.Root == "/": // uploaded into a container in which a shell is known to exist
		return "/", "in a container on " + node + ", not on the node itself", nil
	}
	r := probe.Found(probe.Skip, "the root directory of %s is not visible with this access method", node).
		With(probe.FactReason, tools.ReasonNoRoot)
	return "", "", &r
}

func user() string {
	if os.Getuid() == 0 {
		return "root"
	}
	return fmt.Sprintf("user %d, not root,", os.Getuid())
}

// shellIn returns root's shell from the passwd file below a root directory, if that shell is executable. Otherwise,
// it returns one of the usual shells, or "" if there is none.
func shellIn(root string) string {
	h := probe.Host{Root: root}
	all := []string{"/bin/bash", "/bin/sh", "/usr/bin/bash", "/usr/bin/sh", "/run/current-system/sw/bin/bash"}
	if passwd, err := h.ReadFile("etc/passwd"); err == nil {
		for line := range strings.Lines(string(passwd)) {
			f := strings.Split(strings.TrimSpace(line), ":")
			if len(f) == 7 && f[0] == "root" && path.Base(f[6]) != "nologin" && path.Base(f[6]) != "false" &&
				path.IsAbs(f[6]) {
				all = append([]string{f[6]}, all...)
			}
		}
	}
	for _, name := range all {
		full, err := securejoin.SecureJoin(root, name)
		if err != nil {
			continue
		}
		if info, err := os.Stat(full); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return name
		}
	}
	return ""
}

// start starts a shell in its own session. The shell does not inherit this program's environment,
// and does not write a history.
func (s shell) start(j *probe.Job, root, program string, tty bool) (*running, error) {
	cmd := exec.Command(program, s.Command...)
	home := "/"
	if full, err := securejoin.SecureJoin(root, "/root"); err == nil && os.Getuid() == 0 {
		if info, err := os.Stat(full); err == nil && info.IsDir() {
			home = "/root"
		}
	}
	prompt := cmp.Or(j.Host.Node, "node") + ":$PWD$ "
	if os.Getuid() == 0 {
		prompt = "root@" + cmp.Or(j.Host.Node, "node") + ":$PWD# "
	}
	if s.Own {
		prompt = "(toolbox) " + prompt
	}
	cmd.Dir = home
	cmd.Env = []string{"HOME=" + home, "PATH=" + searched, "SHELL=" + program, "TERM=" + s.Term, "PS1=" + prompt,
		"HISTFILE=", "LANG=C.UTF-8"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: tty}
	if root != "/" {
		cmd.SysProcAttr.Chroot = root
	}
	r := &running{cmd: cmd, tty: tty, ended: make(chan struct{}), crashed: make(chan error, maxCrashes)}
	var theirs *os.File
	var err error
	if tty {
		if r.out, theirs, err = openTerminal(root, j.Size); err != nil {
			return nil, err
		}
		cmd.Stdin = theirs
	} else if r.out, theirs, err = os.Pipe(); err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = theirs, theirs
	err = cmd.Start()
	_ = theirs.Close() // if it stayed open here, the end of the output would never be detected
	if err != nil {
		_ = r.out.Close()
		return nil, err
	}
	return r, nil
}

// attend forwards input and output until the shell has exited or ctx ends. After that, no process in the shell's
// session is left.
func (r *running) attend(ctx context.Context, j *probe.Job) probe.Result {
	written, stop := make(chan struct{}), make(chan struct{})
	defer close(stop)
	r.detach(j, written, stop)
	defer r.out.Close()
	var crash error
	select {
	case <-r.ended:
	case crash = <-r.crashed:
	case <-ctx.Done():
	}
	r.end()
	select { // otherwise, it may still be a zombie when its result arrives
	case <-r.ended:
	case <-time.After(hangUp): // not even SIGKILL ends it
	}
	_ = r.out.SetReadDeadline(time.Now().Add(lull))
	select {
	case <-written: // all of the output, no matter how slow the connection is
	case <-ctx.Done():
		select {
		case <-written:
		case <-time.After(lull):
		}
	}
	if crash == nil {
		select {
		case crash = <-r.crashed: // at the end of the output
		default:
		}
	}
	switch {
	case crash != nil:
		return probe.Found(probe.Unknown, "the shell and its processes were killed: its terminal %v", crash)
	case ctx.Err() == nil:
		return r.outcome()
	case errors.Is(context.Cause(ctx), probe.ErrStopped):
		return probe.Found(probe.Unknown, "the shell and its processes were killed")
	}
	return probe.Found(probe.Unknown,
		"the shell and its processes were killed: the probe was stopped, or its time limit expired")
}

// detach starts the goroutines that wait for the shell and forward its input and output. It closes written after all
// output has been forwarded.
func (r *running) detach(j *probe.Job, written chan<- struct{}, stop <-chan struct{}) {
	crashed := func(err error) { r.crashed <- err }
	probe.Detach(func() error {
		defer close(r.ended)
		defer r.over.Store(true)
		_ = r.cmd.Wait() // the outcome is in ProcessState
		return nil
	}, crashed)
	probe.Detach(func() error {
		defer close(written)
		if err := probe.Recovered(func() error { r.write(j.Out); return nil }); err != nil {
			crashed(err) // before the output ends
		}
		return nil
	}, crashed)
	if !r.tty {
		return
	}
	probe.Detach(func() error { r.resize(j.Sizes, stop); return nil }, crashed)
	probe.Detach(func() error { // ends no later than the call, which closes In
		_, _ = io.Copy(r.out, typing{j.In, func() { j.Sizes.Take(r.setSize) }}) // fails after the shell has exited
		return nil
	}, crashed)
}

// outcome returns the result of a shell that exited without being killed.
func (r *running) outcome() probe.Result {
	code := r.cmd.ProcessState.ExitCode()
	if status, ok := r.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		code = 128 + int(status.Signal()) // as shells report it
	}
	if len(r.cmd.Args) == 1 { // interactive: the exit code belongs to the last command that was typed
		return probe.Found(probe.OK, "the shell ended with exit code %d", code).With(tools.FactExit, code)
	}
	if code != 0 {
		return probe.Found(probe.Fail, "the command ended with exit code %d", code).With(tools.FactExit, code)
	}
	return probe.Found(probe.OK, "the command ended with exit code 0").With(tools.FactExit, 0)
}

// write forwards output until the other end is closed. After the shell has exited, it also stops
// when no more output arrives.
func (r *running) write(to io.Writer) {
	b := make([]byte, 32<<10)
	for {
		if r.over.Load() {
			_ = r.out.SetReadDeadline(time.Now().Add(lull))
		}
		n, err := r.out.Read(b)
		if n > 0 {
			_, _ = to.Write(b[:n]) // never fails: the session handles events that cannot be sent
		}
		if err != nil {
			return
		}
	}
}

// typing is the user's input. It calls first before it passes on any input.
type typing struct {
	io.Reader
	first func()
}

func (t typing) Read(b []byte) (int, error) {
	n, err := t.Reader.Read(b)
	t.first()
	return n, err
}

// setSize sets the terminal's size. It ignores the error if the terminal is closed.
func (r *running) setSize(s probe.Size) { _ = setSize(r.out, s) }

func (r *running) resize(sizes *probe.Sizes, stop <-chan struct{}) {
	for {
		select {
		case <-sizes.Changed:
			sizes.Take(r.setSize)
		case <-stop:
			return
		}
	}
}

// end ends every process in the shell's session. It first sends a hangup, and then SIGKILL.
func (r *running) end() {
	session := r.cmd.Process.Pid
	if len(signal(session, syscall.SIGHUP, syscall.SIGCONT)) == 0 {
		return
	}
	for _, wait := range []time.Duration{hangUp, hangUp} {
		for began := time.Now(); time.Since(began) < wait; time.Sleep(20 * time.Millisecond) {
			if len(signal(session)) == 0 {
				return
			}
		}
		signal(session, syscall.SIGKILL)
	}
}

// signal sends signals to every process in a session that has not exited, and returns the PIDs of these processes.
func signal(session int, signals ...syscall.Signal) []int {
	fs, err := procfs.NewFS("/proc")
	if err != nil {
		return nil
	}
	all, err := fs.AllProcs()
	if err != nil {
		return nil
	}
	var found []int
	for _, p := range all {
		stat, err := p.Stat()
		if err != nil || stat.Session != session || stat.State == "Z" {
			continue
		}
		found = append(found, p.PID)
		for _, s := range signals {
			_ = syscall.Kill(p.PID, s) // the process may have just exited
		}
	}
	return found
}

// openTerminal creates a terminal and returns both its ends: one for this program and one for the shell. If possible,
// it uses the node's devpts, because the terminal's name is then valid there. Otherwise, it uses this probe's devpts.
func openTerminal(root string, size probe.Size) (ours, theirs *os.File, err error) {
	fd := -1
	err = errors.ErrUnsupported
	for _, at := range []string{root, "/"} {
		var full string
		if full, err = securejoin.SecureJoin(at, "/dev/ptmx"); err != nil {
			continue
		}
		if fd, err = unix.Open(full, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0); err == nil {
			break
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("opening a terminal (/dev/ptmx): %w", err)
	}
	ours = os.NewFile(uintptr(fd), "ptmx") // non-blocking, so that closing it ends a read
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		ours.Close()
		return nil, nil, fmt.Errorf("unlocking a terminal: %w", err)
	}
	// Use the number, because the terminal's name leads elsewhere from here.
	peer, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER,
		unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		ours.Close()
		return nil, nil, fmt.Errorf("opening a terminal's other end: %w", errno)
	}
	if err := setSize(ours, size); err != nil {
		ours.Close()
		_ = unix.Close(int(peer))
		return nil, nil, err
	}
	return ours, os.NewFile(peer, "tty"), nil
}

func setSize(terminal *os.File, s probe.Size) error {
	raw, err := terminal.SyscallConn()
	if err != nil {
		return fmt.Errorf("setting a terminal's size: %w", err)
	}
	var failed error
	if err := raw.Control(func(fd uintptr) {
		failed = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: s.Rows, Col: s.Cols})
	}); err != nil {
		failed = err
	}
	if failed != nil {
		return fmt.Errorf("setting a terminal's size: %w", failed)
	}
	return nil
}
