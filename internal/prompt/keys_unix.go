//go:build !windows

package prompt

import (
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// keys passes on only the keys that are typed at the prompt: while a command runs, the terminal belongs to the command.
// Without keys, liner would continue to read, could not be interrupted, and would not report that the user is typing.
type keys struct {
	typed chan struct{} // receives when a key was typed
	from  int
	into  *os.File
	begun chan struct{}

	mu sync.Mutex
	on bool
}

// watchKeys starts to read the terminal on stdin. The returned file has the keys.
func watchKeys() (*keys, *os.File, error) {
	out, into, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	k := &keys{typed: make(chan struct{}, 1), from: int(os.Stdin.Fd()), into: into, begun: make(chan struct{}, 1)}
	go k.pass()
	return k, out, nil
}

// pass runs until the terminal closes.
func (k *keys) pass() {
	defer k.into.Close()
	buf := make([]byte, 256)
	for range k.begun {
		for {
			n, err := k.next(buf)
			if err == nil && n == 0 {
				break
			}
			if err != nil {
				return
			}
			select {
			case k.typed <- struct{}{}:
			default:
			}
			if _, err := k.into.Write(buf[:n]); err != nil {
				return
			}
		}
	}
}

// next waits for keys. If no prompt wants keys, it returns without any.
func (k *keys) next(buf []byte) (int, error) {
	for {
		ready, err := unix.Poll([]unix.PollFd{{Fd: int32(k.from), Events: unix.POLLIN}}, 1000)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return 0, err
		}
		n, err := k.take(buf, ready > 0)
		if n > 0 || err != nil || !k.wanted() {
			return n, err
		}
	}
}

func (k *keys) wanted() bool { k.mu.Lock(); defer k.mu.Unlock(); return k.on }

// take reads the available keys if a prompt wants them. Otherwise they belong to the running command.
func (k *keys) take(buf []byte, ready bool) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.on || !ready {
		return 0, nil
	}
	n, err := unix.Read(k.from, buf)
	switch {
	case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
		return 0, nil
	case err != nil: // EIO: the terminal is gone
		return 0, err
	case n == 0:
		return 0, os.ErrClosed
	}
	return n, nil
}

// start begins to pass on keys, until stop is called.
func (k *keys) start() {
	k.mu.Lock()
	k.on = true
	k.mu.Unlock()
	select {
	case k.begun <- struct{}{}:
	default:
	}
}

func (k *keys) stop() { k.mu.Lock(); defer k.mu.Unlock(); k.on = false }

// press adds keys as if the user had typed them.
func (k *keys) press(text string) { _, _ = k.into.WriteString(text) }

// close closes liner's input, which ends liner's prompt.
func (k *keys) close() { k.into.Close() }

// redraw causes liner to redraw the line, as after a change of the window size.
func redraw() { _ = unix.Kill(unix.Getpid(), unix.SIGWINCH) }

// continued calls f whenever the program continues after a stop, because the user's shell may have changed the
// terminal's mode. The returned function ends this.
func continued(f func()) func() {
	again := make(chan os.Signal, 1)
	signal.Notify(again, syscall.SIGCONT)
	go func() {
		for range again {
			f()
		}
	}()
	return func() { signal.Stop(again); close(again) }
}
