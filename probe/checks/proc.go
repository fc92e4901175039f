package checks

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"

	"github.com/calico-probe/calico-probe/probe"
)

// readProc reads a small file of the proc file system.
func readProc(h *probe.Host, name string) (string, error) {
	f, err := os.Open(filepath.Join(h.Proc, name))
	if err != nil {
		return "", fmt.Errorf("reading /proc/%s: %w", name, err)
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

// running is one of the node's.
type running struct {
	procfs.Proc
	args []string // its command line, never empty
}

// processesOf lists those of the node's processes whose name in the kernel, which
// has at most 15 letters, is wanted. Of the others the command line is not read:
// that waits for a lock which a process that hangs in the kernel may hold for ever.
func processesOf(h *probe.Host, wanted func(comm string) bool) ([]running, error) {
	proc, err := procfs.NewFS(h.Proc)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", h.Proc, err)
	}
	all, err := proc.AllProcs()
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	var out []running
	for _, p := range all {
		if comm, err := p.Comm(); err != nil || !wanted(comm) {
			continue // gone, or another
		}
		if args, err := p.CmdLine(); err == nil && len(args) > 0 {
			out = append(out, running{p, args})
		}
	}
	return out, nil
}

// noProcesses is the result of a check that needs them.
var noProcesses = probe.Found(probe.Skip, "this way onto the node does not show its processes")

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

// sharesNetwork tells whether a process is in the network namespace this probe is
// in: another node may live in a container on this machine. What cannot be read is
// taken for this node's.
func sharesNetwork(h *probe.Host, pid int) bool {
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return true
	}
	its, err := os.Readlink(filepath.Join(h.Proc, strconv.Itoa(pid), "ns/net"))
	return err != nil || its == own
}
