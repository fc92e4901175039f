package netns

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"

	"github.com/prometheus/procfs"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/calico-probe/calico-probe/probe"
)

// A View looks into a network namespace without starting this program again. It suits reads or sends on one goroutine,
// such as reading a kernel table.
type View struct {
	ns   netns.NsHandle
	proc string
}

// View opens the network namespace of a KindLocal pod. If a target has no UID, it opens the namespace that has the
// target's address. It returns the same errors as Run.
func (e Entry) View(pod probe.Target) (*View, error) {
	find := e.find
	if pod.Attrs[probe.AttrUID] == "" {
		find = func(pod probe.Target) (netns.NsHandle, error) { return e.holding(pod.Addr) }
	}
	ns, err := find(pod)
	if err != nil {
		return nil, err
	}
	return &View{ns, e.Host.Proc}, nil
}

// OfProcess opens a process's network namespace. If the process is the parent of a program that was started inside a
// pod, this is the node's namespace. It returns nil if this process is in the same namespace.
func OfProcess(h *probe.Host, pid int) (*View, error) {
	path := filepath.Join(h.Proc, strconv.Itoa(pid), "ns/net")
	var own, other unix.Stat_t
	err := errors.Join(unix.Stat(filepath.Join(h.Proc, "thread-self/ns/net"), &own), unix.Stat(path, &other))
	if err == nil && own.Ino == other.Ino && own.Dev == other.Dev {
		return nil, nil
	}
	var ns netns.NsHandle
	if err == nil {
		ns, err = netns.GetFromPath(path)
	}
	if err != nil {
		return nil, fmt.Errorf("opening another network namespace: %w", err)
	}
	return &View{ns, h.Proc}, nil
}

// Do runs f inside the namespace, on a separate thread. f must not open sockets or files on another goroutine. Its
// Host reads below /proc what that thread sees.
func (v *View) Do(f func(h *probe.Host) error) error {
	return within(v.ns, func() error { return f(&probe.Host{Proc: filepath.Join(v.proc, "thread-self")}) })
}

// Close releases the namespace.
func (v *View) Close() { v.ns.Close() }

// maxNamespaces is the maximum number of namespaces that are searched for an address.
const maxNamespaces = 1_000

// holding opens the only network namespace that has an address.
func (e Entry) holding(addr netip.Addr) (netns.NsHandle, error) {
	none := netns.None()
	fs, err := procfs.NewFS(e.Host.Proc)
	if err != nil {
		return none, fmt.Errorf("opening %s: %w", e.Host.Proc, err)
	}
	all, err := fs.AllProcs()
	if err != nil {
		return none, fmt.Errorf("listing processes: %w", err)
	}
	found, several := none, false
	seen := map[string]bool{}
	for _, p := range all {
		path := filepath.Join(e.Host.Proc, strconv.Itoa(p.PID), "ns/net")
		name, err := os.Readlink(path)
		if err != nil || seen[name] || len(seen) >= maxNamespaces { // it just exited, is inaccessible, or was searched
			continue
		}
		seen[name] = true
		ns, err := netns.GetFromPath(path)
		if err != nil {
			continue
		}
		if ours(ns) != nil || has(ns, addr) != nil {
			ns.Close()
			continue
		}
		several = found.IsOpen()
		if several {
			ns.Close()
			break
		}
		found = ns
	}
	switch {
	case several:
		found.Close()
		return none, fmt.Errorf("more than one network namespace of this node has the address %s", addr)
	case !found.IsOpen():
		return none, fmt.Errorf("no network namespace that can be entered has the address %s: %w", addr, probe.ErrNotVisible)
	}
	return found, nil
}
