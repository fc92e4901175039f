package probe

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// find returns a handle (O_PATH) of the file at name inside the root. Opening with O_PATH has no side effects. If the
// path ends with a link, find follows it, or returns the link itself.
func (h *Host) find(name string, follow bool) (*os.File, error) {
	root, err := steady(func() (int,
		error) {
		return unix.Open(h.Root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, err
	}
	defer unix.Close(root)
	fd, err := lookUp(root, name, follow)
	if err != nil {
		return nil, err
	}
	found, err := realPath(root, fd)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), found), nil
}

// lookUp asks the kernel to resolve the path (openat2, Linux 5.6). Some container runtimes forbid that (EPERM,
// ENOSYS). If another process moves folders at the same time, the kernel gives up (EAGAIN, EXDEV).
func lookUp(root int, name string, follow bool) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	if !follow {
		how.Flags |= unix.O_NOFOLLOW
	}
	fd, err := steady(func() (int, error) { return unix.Openat2(root, name, &how) })
	switch {
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM),
		errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EXDEV):
		return walk(root, name, follow)
	case err != nil:
		return -1, err
	}
	return fd, nil
}

// maxLinks is the maximum number of links that the kernel follows on one path.
const maxLinks = 40

// maxDepth is the maximum number of nested folders that are open for one path, so the node's links cannot
// exhaust this process's file descriptors.
const maxDepth = 256

// walk does the same as lookUp, but step by step. It opens each folder from within the folder before it. So ".."
// returns to a folder that was reached from the root, even if that folder has moved since.
func walk(root int, name string, follow bool) (int, error) {
	reached := []int{root}
	leave := func(from int) {
		for _, fd := range reached[from:] {
			unix.Close(fd)
		}
		reached = reached[:from]
	}
	defer func() { leave(1) }()
	links := 0
	for rest := strings.Split(name, "/"); len(rest) > 0; {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			leave(max(len(reached)-1, 1))
			continue
		}
		if len(reached) > maxDepth {
			return -1, unix.ENAMETOOLONG
		}
		fd, err := steady(func() (int, error) {
			return unix.Openat(reached[len(reached)-1], part, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		})
		if err != nil {
			return -1, err
		}
		reached = append(reached, fd)
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return -1, err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFLNK || !follow && len(rest) == 0 {
			continue
		}
		text, err := readlink(fd, "")
		if links++; err == nil && links > maxLinks {
			err = unix.ELOOP
		}
		if err != nil {
			return -1, err
		}
		leave(len(reached) - 1)
		if strings.HasPrefix(text, "/") {
			leave(1)
		}
		rest = slices.Concat(strings.Split(text, "/"), rest)
	}
	return unix.FcntlInt(uintptr(reached[len(reached)-1]), unix.F_DUPFD_CLOEXEC, 0)
}

// steady repeats a call if a signal interrupted it.
func steady(open func() (int, error)) (fd int, err error) {
	for {
		if fd, err = open(); !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

func readlink(dir int, name string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(dir, name, buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// realPath returns a handle's path, relative to the root.
func realPath(root, fd int) (string, error) {
	top, err := readlink(unix.AT_FDCWD, procPath(root))
	if err != nil {
		return "", err
	}
	at, err := readlink(unix.AT_FDCWD, procPath(fd))
	if err != nil {
		return "", err
	}
	return path.Clean("/" + strings.TrimPrefix(at, strings.TrimSuffix(top, "/"))), nil
}

func procPath(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// pathOf returns a path at which this process can open exactly the file of the handle.
func pathOf(f *os.File) string { return procPath(int(f.Fd())) }

func textOf(link *os.File) (string, error) { return readlink(int(link.Fd()), "") }

// errKernels reports that the kernel generates a file, so the file is not stored on a disk.
var errKernels = errors.New("it is not stored, the kernel generates it when it is read")

// reopen opens a handle's file for reading. It rejects files in kernel file systems. Reading some of them blocks and
// consumes data that other readers expect (/proc/kmsg, trace_pipe). Checks read /proc through Host.Proc.
func reopen(found *os.File) (*os.File, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(found.Fd()), &st); err != nil {
		return nil, err
	}
	switch int64(st.Type) {
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC:
		return nil, errKernels
	}
	fd, err := steady(func() (int, error) {
		return unix.Open(pathOf(found), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), found.Name()), nil
}
