package node

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
)

// LockHeld reports whether a process holds the lock (flock) on a file. It also returns the PID from /proc/locks, or 0
// if that file does not list the process. To test this, it takes a shared lock and releases it immediately. If the
// file does not exist, no process holds the lock.
func LockHeld(h *probe.Host, file string) (held bool, holder int, err error) {
	f, err := h.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return false, 0, nil
	}
	if err != nil {
		return false, 0, err
	}
	defer f.Close()
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if err == nil {
		return false, 0, nil
	}
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return false, 0, fmt.Errorf("testing the lock: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return true, 0, nil
	}
	// 1: FLOCK  ADVISORY  WRITE 4711 08:01:131 0 EOF
	table, err := kernel.ReadProc(h, "locks")
	if err != nil {
		return true, 0, nil
	}
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) > 5 && f[1] == "FLOCK" && strings.HasSuffix(f[5], ":"+strconv.FormatUint(st.Ino, 10)) {
			holder, _ = strconv.Atoi(f[4])
		}
	}
	if name, _ := WhoIs(h, holder); name == "" {
		holder = cmp.Or(lockedBy(h, path.Base(file), st.Ino), holder)
	}
	return true, holder, nil
}

// lockedBy returns a process that has a locked file open together with its lock, or 0 if no such process is visible.
// /proc/locks names the process that took the lock. That process may have exited and left the lock to its parent or
// child.
func lockedBy(h *probe.Host, base string, inode uint64) int {
	proc, err := procfs.NewFS(h.Proc)
	if err != nil {
		return 0
	}
	all, _ := proc.AllProcs() // without them, no process is visible
	for _, p := range all {
		descriptors, err := p.FileDescriptors()
		targets, tErr := p.FileDescriptorTargets()
		if err != nil || tErr != nil || len(targets) != len(descriptors) { // it just opened or closed some files
			continue
		}
		for i, to := range targets {
			if path.Base(to) == base && holdsLock(h, p.PID, descriptors[i], inode) {
				return p.PID
			}
		}
	}
	return 0
}

// holdsLock reports whether a process holds the lock (flock) on a file through one of its descriptors.
func holdsLock(h *probe.Host, pid int, descriptor uintptr, inode uint64) bool {
	info, err := kernel.ReadProc(h, fmt.Sprintf("%d/fdinfo/%d", pid, descriptor))
	if err != nil {
		return false
	}
	for line := range strings.Lines(info) {
		// lock:	1: FLOCK  ADVISORY  WRITE 4711 08:01:131 0 EOF
		f := strings.Fields(line)
		if len(f) > 6 && f[0] == "lock:" && f[2] == "FLOCK" && strings.HasSuffix(f[6], ":"+strconv.FormatUint(inode, 10)) {
			return true
		}
	}
	return false
}

// listenerOnNode returns nil if the process that listens on a socket runs on the node. A pod that can write to the
// folder can put its own socket there. The kernel identifies the process by its PID in this probe's process
// namespace. The PID is therefore useful only with the proc file system of that namespace.
func listenerOnNode(h *probe.Host, conn net.Conn) error {
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		return nil
	}
	raw, err := unixConn.SyscallConn()
	if err != nil {
		return fmt.Errorf("looking up the listening process: %w", err)
	}
	var who *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		who,
			failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("looking up the listening process: %w", err)
	}
	if h.Proc == "/proc" && who.Pid > 0 {
		if same, seen := nodesNetwork(h, int(who.Pid)); same {
			return nil
		} else if seen {
			return fmt.Errorf("process %d listens there, in a network namespace that is not the node's: not this node's BIRD", who.Pid)
		}
	}
	if who.Uid != 0 && int(who.Uid) != os.Geteuid() {
		return fmt.Errorf("a process of user %d listens there, not root's: not accepted as BIRD", who.Uid)
	}
	return nil
}
