package ask

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/calico-probe/calico-probe/internal/subject/host"
)

// usageAt returns the usage of the file system that contains the given file.
func usageAt(at *os.File) (host.Disk, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(at.Fd()), &st); err != nil {
		return host.Disk{}, fmt.Errorf("reading the usage of %s: %w", at.Name(), err)
	}
	d := host.Disk{Id: uint64(uint32(st.Fsid.Val[0]))<<32 | uint64(uint32(st.Fsid.Val[1])), Free: 100, FreeInodes: 100,
		Total: st.Blocks * uint64(st.Bsize)}
	if st.Blocks > 0 {
		d.Free = float64(st.Bavail) * 100 / float64(st.Blocks-st.Bfree+st.Bavail)
	}
	if st.Files > 0 {
		d.FreeInodes = float64(st.Ffree) * 100 / float64(st.Files)
	}
	return d, nil
}

// isSynchronised reports whether the kernel's clock is synchronised.
func isSynchronised() (bool, error) {
	var t unix.Timex
	if _, err := unix.Adjtimex(&t); err != nil { // modes 0: only read
		return false, fmt.Errorf("reading the state of the clock: %w", err)
	}
	return t.Status&unix.STA_UNSYNC == 0, nil
}

// readRing returns the end of the kernel's ring buffer. It does not clear the buffer.
func readRing(most int) ([]byte, error) {
	b := make([]byte, most)
	n, err := unix.Klogctl(unix.SYSLOG_ACTION_READ_ALL, b)
	if err != nil {
		return nil, fmt.Errorf("reading the kernel's log: %w", err)
	}
	return b[:n], nil
}
