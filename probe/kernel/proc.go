package kernel

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// OpenProc opens a file of the proc file system. Only the kernel creates files there, so the file system cannot
// contain hostile links or pipes.
func OpenProc(h *probe.Host, name string) (*os.File, error) {
	if h.Far != nil { // this machine's files are not the node's files
		return nil, fmt.Errorf("/proc/%s: %w", name, probe.ErrNotVisible)
	}
	f, err := os.Open(filepath.Join(h.Proc, name))
	if err != nil {
		return nil, fmt.Errorf("reading /proc/%s: %w", name, err)
	}
	return f, nil
}

// ReadProc reads a small file.
func ReadProc(h *probe.Host, name string) (string, error) {
	f, err := OpenProc(h, name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 1<<20))
	if err != nil {
		return "", fmt.Errorf("reading /proc/%s: %w", name, err)
	}
	return string(b), nil
}

// Sysctl reads a numeric setting: "net/ipv4/ip_forward".
func Sysctl(h *probe.Host, name string) (int, error) {
	text, err := ReadProc(h, "sys/"+name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		return 0, fmt.Errorf("reading /proc/sys/%s: %w", name, err)
	}
	return n, nil
}
