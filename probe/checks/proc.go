package checks

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// openProc opens a file of the proc file system. It is the kernel's: nobody lays links or
// pipes there.
func openProc(h *probe.Host, name string) (*os.File, error) {
	f, err := os.Open(filepath.Join(h.Proc, name))
	if err != nil {
		return nil, fmt.Errorf("reading /proc/%s: %w", name, err)
	}
	return f, nil
}

// readProc reads a small one.
func readProc(h *probe.Host, name string) (string, error) {
	f, err := openProc(h, name)
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

// seesProcesses tells whether the proc file system shows the node's processes:
// in a process namespace of its own the probe is the first one, or hidden.
func seesProcesses(h *probe.Host) bool {
	comm, err := readProc(h, "1/comm")
	return err == nil && strings.TrimSpace(comm) != "probe"
}

// noProcesses is the result of a check that needs them.
var noProcesses = probe.Found(probe.Skip, "the node's processes are not visible by this access method")

// sysctl reads a setting that is a number: "net/ipv4/ip_forward".
func sysctl(h *probe.Host, name string) (int, error) {
	text, err := readProc(h, "sys/"+name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		return 0, fmt.Errorf("reading /proc/sys/%s: %w", name, err)
	}
	return n, nil
}
