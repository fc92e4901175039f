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

// How long a shell's processes may take to exit after a hangup before they are killed. And how long after the shell's
// exit other processes may hold its output open without writing.
const (
	hangUp = 400 * time.Millisecond
	lull   = 500 * time.Millisecond
)

// running is a started shell.
type running struct {
	cmd   *exec.Cmd
	out   *os.File // its output; on a terminal also the echo of its input
	tty   bool
	ended chan struct{} // closed when it has exited
	over  atomic.Bool   // the same, without waiting
	// of the goroutines that forward input and output: without them the shell is of no use
	crashed chan error
}

// maxCrashes is how many goroutines of a shell may crash.
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
		return probe.Found(probe.Skip, "this probe may not start a shell %s: %v", where, err).
			With(probe.FactReason, tools.ReasonNoRoot)
	case err != nil:
		return probe.Failed(fmt.Errorf("starting %s %s: %w", program, where, err))
	}
	if !s.Quiet && s.Command == nil {
		// \r, because the user's terminal is raw.
		_, _ = fmt.Fprintf(j.Out,
			"you are %s %s: your commands are not read-only; exit or Ctrl-D returns, Enter ~ . leaves a hung shell\r\n",
			user(), where)
	}
	return r.attend(ctx, j)
}

// place returns the root directory of the requested shell and its name for the user.
func (s shell) place(h *probe.Host) (root, where string, refused *probe.Result) {
	node := cmp.Or(h.Node, "this machine")
	switch {
	case s.Own && h.Root != "/":
		return "/", fmt.Sprintf("in the toolbox on %s, whose files are below %s", node, h.Root), nil
	case s.Own:
		return "/", "in the toolbox on " + node, nil
	case h.Only == nil:
		return h.Root, "on " + node, nil
	case h.Root == "/": // uploaded into a container that has shown it has a shell
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

// shellIn returns root's shell from the passwd file below a root directory if it is executable, otherwise one of the
// usual shells; "" if there is none.
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

// start starts a shell in its own session. The shell inherits no environment of this program, and writes no history.
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
	_ = theirs.Close() // if it stayed open here, the end of output would never be detected
	if err != nil {
		_ = r.out.Close()
		return nil, err
	}
	return r, nil
}

// attend forwards input and output until the shell has exited, or ctx ends. After that, no process of its session is
// left.
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
	select { // otherwise it may still be a zombie when its result arrives
	case <-r.ended:
	case <-time.After(hangUp): // not even SIGKILL ends it
	}
	_ = r.out.SetReadDeadline(time.Now().Add(lull))
	select {
	case <-written: // all of it, however slow the connection
	case <-ctx.Done():
		select {
		case <-written:
		case <-time.After(lull):
		}
	}
	if crash == nil {
		select {
		case crash = <-r.crashed: // at its end
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
// output is forwarded.
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
	probe.Detach(func() error { // ends at the latest with the call, which closes In
		_, _ = io.Copy(r.out, typing{j.In, func() { j.Sizes.Take(r.setSize) }}) // fails once the shell has exited
		return nil
	}, crashed)
}

// outcome is the result of a shell that exited on its own.
func (r *running) outcome() probe.Result {
	code := r.cmd.ProcessState.ExitCode()
	if status, ok := r.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		code = 128 + int(status.Signal()) // as shells report it
	}
	if len(r.cmd.Args) == 1 { // interactive: the exit code is that of the last typed command
		return probe.Found(probe.OK, "the shell ended with exit code %d", code).With(tools.FactExit, code)
	}
	if code != 0 {
		return probe.Found(probe.Fail, "the command ended with exit code %d", code).With(tools.FactExit, code)
	}
	return probe.Found(probe.OK, "the command ended with exit code 0").With(tools.FactExit, 0)
}

// write forwards output until the other end is closed, or until output stops after the shell's exit.
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

// typing is the user's input. It calls first before it passes on any of it.
type typing struct {
	io.Reader
	first func()
}

func (t typing) Read(b []byte) (int, error) {
	n, err := t.Reader.Read(b)
	t.first()
	return n, err
}

// setSize sets the size of the terminal. It ignores errors of a closed one.
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

// end ends every process of the shell's session: first with a hangup, then with SIGKILL.
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

// signal sends signals to every process of a session that has not exited, and returns their PIDs.
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
			_ = syscall.Kill(p.PID, s) // it may have just exited
		}
	}
	return found
}

// openTerminal creates a terminal and returns this end and the shell's. It uses the node's devpts, so that the
// terminal's name is valid there, or else this probe's.
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
	ours = os.NewFile(uintptr(fd), "ptmx") // non-blocking: closing it ends a read
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		ours.Close()
		return nil, nil, fmt.Errorf("unlocking a terminal: %w", err)
	}
	// By number, because its name leads elsewhere from here.
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
