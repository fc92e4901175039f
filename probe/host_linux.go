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

// find gives a handle (O_PATH) of what name leads to inside the root. To get it nothing
// is opened that could notice. A link at the end is followed, or is what is found.
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

// lookUp lets the kernel walk the path, where it can (openat2, Linux 5.6). Some container
// runtimes forbid that (EPERM, ENOSYS), and beside somebody who moves folders around it
// gives up (EAGAIN, EXDEV).
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

// mostLinks is how many links the kernel follows on one path.
const mostLinks = 40

// mostDeep is how many folders below each other are held open on one path: the node's links
// must not take all file numbers that this process may have.
const mostDeep = 256

// walk does the same step by step. Each folder is opened in the one before, so ".." goes
// back to a folder that was reached from the root, wherever it has been moved since.
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
		if len(reached) > mostDeep {
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
		if links++; err == nil && links > mostLinks {
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

// steady asks the kernel again when a signal came between.
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

// realPath is where a handle lies, seen from the root.
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

// pathOf is a path by which this process reaches what a handle is of, and nothing else.
func pathOf(f *os.File) string { return procPath(int(f.Fd())) }

func textOf(link *os.File) (string, error) { return readlink(int(link.Fd()), "") }

// errKernels says that a file is no file of a disk.
var errKernels = errors.New("it is not stored, the kernel makes it as it is read")

// reopen makes of a handle a file to be read. Files of these file systems of the kernel's
// are none: to read some of them waits for something to happen, and takes it away from
// another reader of it too (/proc/kmsg, trace_pipe). What checks want of /proc they read
// in Host.Proc.
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
