package probe

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/calico-probe/calico-probe/probe/must"
)

// soon runs a function that must not block.
func soon(t *testing.T, name string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(30 * time.Second): // for work of microseconds
		t.Fatalf("%s: still waits", name)
	}
}

// TestOnlyFilesAreRead replaces a file with everything else that a pod can create.
func TestOnlyFilesAreRead(t *testing.T) {
	many := map[string]string{"f": "text", "d/x": "", "zero": "-> /dev/zero", "tty": "-> /dev/ptmx",
		"kmsg":   "-> /proc/kmsg",
		"status": "-> /proc/self/status", "sys": "-> /sys/kernel/uevent_seqnum", "a": "-> b", "b": "-> a", "l0": "-> f"}
	for i := range 60 {
		many[fmt.Sprintf("l%d", i+1)] = fmt.Sprintf("-> l%d", i)
	}
	dir := lay(t, many)
	at := func(name string) string { return filepath.Join(dir, name) }
	must.Do(t, unix.Mkfifo(at("pipe"), 0o600))
	sparse := must.Get(os.Create(at("sparse")))(t)
	must.Do(t, sparse.Truncate(10<<30))
	sparse.Close()
	short := must.Get(os.MkdirTemp("", "s"))(t)
	t.Cleanup(func() { os.RemoveAll(short) })
	l := must.Get(net.Listen("unix", filepath.Join(short, "s")))(t)
	t.Cleanup(func() { l.Close() })
	must.Do(t, os.Symlink(filepath.Join(short, "s"), at("socket")))
	h := &Host{Root: "/"}
	for name, want := range map[string]string{
		"pipe": "is a named pipe and not a file: not read", "zero": "is a device and not",
		"tty": "is a device and not", "socket": "is a socket and not",
		"d": "is a folder and not", "sparse": "is longer than 1048576 bytes: not read",
		"kmsg": "the kernel generates it", "status": "the kernel generates it", "sys": "the kernel generates it",
		"a": "too many levels of symbolic links", "l60": "too many levels of symbolic links",
		"f/x": "not a directory", "none": "no such file",
	} {
		soon(t, name, func() {
			if b, err := h.ReadFile(at(name)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %d bytes, %v, want %q", name, len(b), err, want)
			}
		})
	}
	for _, name := range []string{"f", "l9"} {
		if b, err := h.ReadFile(at(name)); err != nil || string(b) != "text" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	for _, name := range []string{"pipe", "zero", "f"} {
		soon(t, name, func() {
			if names, err := h.ReadDir(at(name)); err == nil || !strings.Contains(err.Error(), "and not a folder") {
				t.Errorf("%s: %q, %v", name, names, err)
			}
		})
	}
}

// TestLinkRace reads files while folders on their path are swapped with links that lead out of the root, and are moved
// out of it.
func TestLinkRace(t *testing.T) {
	out := lay(t, map[string]string{"f": "outside", "moved/x": ""})
	root := lay(t, map[string]string{"d/f": "inside", "secret": "inside", "deep/d/x": "",
		"up": "-> deep/d/../../secret"})
	must.Do(t, os.Rename(out, filepath.Join(root, "..", "out")))
	out = filepath.Join(root, "..", "out")
	// Two folders up from deep/d once that is moved to out/moved.
	must.Do(t, os.WriteFile(filepath.Join(root, "..", "secret"), []byte("outside"), 0o600))
	must.Do(t, os.Symlink(out, filepath.Join(root, "evil")))
	stop, swapped := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		defer func() { swapped <- n }()
		for ; ; n++ {
			for _, pair := range [][2]string{{"d", "evil"}, {"deep/d", "../out/moved"}} {
				one, other := filepath.Join(root, pair[0]), filepath.Join(root, pair[1])
				if err := unix.Renameat2(unix.AT_FDCWD, one, unix.AT_FDCWD, other, unix.RENAME_EXCHANGE); err != nil {
					t.Error(err)
					return
				}
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	h := &Host{Root: root}
	read := 0
	for range 6_000 {
		for _, name := range []string{"d/f", "up"} {
			b, err := h.ReadFile(name)
			if err == nil && string(b) != "inside" {
				t.Errorf("%s is %q", name, b)
			}
			if err == nil {
				read++
			}
		}
	}
	close(stop)
	if n := <-swapped; n < 100 || read < 100 {
		t.Errorf("%d rounds, %d reads: nothing was tried", n, read)
	}
}

// TestWithoutOpenat2 runs the tests of this file without openat2, as before Linux 5.6 and under the seccomp profiles of
// that time.
func TestWithoutOpenat2(t *testing.T) {
	const child = "WITHOUT_OPENAT2"
	if os.Getenv(child) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v",
			"-test.run", "^(TestOnlyFilesAreRead|TestLinkRace|TestPathsStayInsideTheNode|TestDial|TestWithoutOpenat2)$")
		cmd.Env = append(os.Environ(), child+"=1")
		if out, err := cmd.CombinedOutput(); err != nil || strings.Count(string(out), "--- PASS: ") != 5 {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	if _, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH}); !errors.Is(err, unix.ENOSYS) {
		t.Errorf("openat2 is there: %v", err)
	}
}

// TestMain blocks openat2 in the child of TestWithoutOpenat2.
func TestMain(m *testing.M) {
	if os.Getenv("WITHOUT_OPENAT2") != "" {
		filter := []unix.SockFilter{
			{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the call
			{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_OPENAT2, Jf: 1},
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		}
		program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
		runtime.LockOSThread() // the other threads inherit both
		err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
			unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
		if err != nil || errno != 0 {
			fmt.Fprintln(os.Stderr, "taking openat2 away:", err, errno)
			os.Exit(1)
		}
		runtime.UnlockOSThread()
	}
	os.Exit(m.Run())
}

// TestDeepWalk has links deeper than a process may have files open.
func TestDeepWalk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must.Do(t, os.MkdirAll(filepath.Join(dir, strings.Repeat("d/", 1000)), 0o700))
	must.Do(t, os.Symlink(strings.Repeat("d/", 200), filepath.Join(dir, "link")))
	root := must.Get(unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0))(t)
	defer unix.Close(root)
	for name, want := range map[string]error{
		strings.Repeat("d/", maxDepth):          nil,
		strings.Repeat("d/../", 1000) + "d":     nil,
		"link/" + strings.Repeat("d/", 50):      nil,
		strings.Repeat("d/", maxDepth+1):        unix.ENAMETOOLONG,
		"link/" + strings.Repeat("d/", 100):     unix.ENAMETOOLONG,
		strings.Repeat("d/", maxDepth) + "../d": nil,
	} {
		fd, err := walk(root, name, true)
		if !errors.Is(err, want) {
			t.Errorf("%.20s... (%d letters): %v, want %v", name, len(name), err, want)
		}
		if err == nil {
			unix.Close(fd)
		}
	}
}
