package netns

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/procfs"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
)

// Run answers a plan or a call from the network namespace of a KindLocal pod. If this probe does not see the node's
// processes, or is not allowed to enter their namespaces, the error wraps probe.ErrNotVisible.
func (e Entry) Run(ctx context.Context, pod probe.Target, request probe.Request, emit func(probe.Event)) error {
	ns, err := e.find(pod)
	if err != nil {
		return err
	}
	defer ns.Close()
	return e.session(ctx, ns, request, emit)
}

// find opens a pod's network namespace through any of the pod's processes. Whatever the runtime, these processes have
// the pod's UID in their cgroup. If a namespace does not have the pod's address, it is not the pod's namespace.
func (e Entry) find(pod probe.Target) (netns.NsHandle, error) {
	none := netns.None()
	uid := pod.Attrs[probe.AttrUID]
	if uid == "" {
		return none, fmt.Errorf("pod %s has no UID in the plan", pod.Name)
	}
	fs, err := procfs.NewFS(e.Host.Proc)
	if err != nil {
		return none, fmt.Errorf("opening %s: %w", e.Host.Proc, err)
	}
	all, err := fs.AllProcs()
	if err != nil {
		return none, fmt.Errorf("listing processes: %w", err)
	}
	var wrong error
	for _, p := range all {
		if !belongs(p, uid) {
			continue
		}
		ns, err := netns.GetFromPath(filepath.Join(e.Host.Proc, strconv.Itoa(p.PID), "ns/net"))
		switch {
		case errors.Is(err, os.ErrPermission):
			return none, fmt.Errorf("cannot find pod %s's network namespace: CAP_SYS_PTRACE is missing, or AppArmor denies it: %w", pod.Name, probe.ErrNotVisible)
		case err != nil: // the process just exited
			continue
		}
		if wrong = ours(ns); wrong != nil {
			ns.Close()
			continue
		}
		if wrong = has(ns, pod.Addr); wrong == nil {
			wrong = unproxied(ns)
		}
		if wrong == nil {
			return ns, nil
		}
		ns.Close() // a process may have created its own namespace; the next one is in the pod's namespace
		if errors.Is(wrong, probe.ErrNotVisible) || errors.Is(wrong, errors.ErrUnsupported) {
			break
		}
	}
	switch {
	case wrong != nil:
		return none, wrong
	case e.Host.Only != nil:
		return none, fmt.Errorf("the node's processes: %w", probe.ErrNotVisible)
	}
	return none, fmt.Errorf("no process of pod %s is visible on this node", pod.Name)
}

// belongs reports whether a process is in a pod's cgroup. The systemd driver writes the UID with underscores.
func belongs(p procfs.Proc, uid string) bool {
	groups, err := p.Cgroups()
	if err != nil { // the process just exited
		return false
	}
	return slices.ContainsFunc(groups, func(g procfs.Cgroup) bool {
		return strings.Contains(g.Path, "pod"+uid) || strings.Contains(g.Path, "pod"+strings.ReplaceAll(uid, "-", "_"))
	})
}

// ours returns nil if a network namespace belongs to this program's user namespace, as namespaces created by the
// runtime do. An unprivileged process in a pod can create other namespaces and give them any address. That process
// controls everything that is visible in them.
func ours(ns netns.NsHandle) error {
	fd, err := unix.IoctlRetInt(int(ns), unix.NS_GET_USERNS)
	if errors.Is(err, unix.EPERM) { // this program is inside that user namespace
		return errForeign
	}
	if err != nil {
		return fmt.Errorf("looking up the owner of a pod's network namespace: %w", err)
	}
	defer unix.Close(fd)
	var owner, own unix.Stat_t
	if err := unix.Fstat(fd, &owner); err != nil {
		return fmt.Errorf("looking up the owner of a pod's network namespace: %w", err)
	}
	if err := unix.Stat("/proc/self/ns/user", &own); err != nil {
		return fmt.Errorf("looking up the probe's own user namespace: %w", err)
	}
	if owner.Dev != own.Dev || owner.Ino != own.Ino {
		return errForeign
	}
	return nil
}

// errForeign reports a network namespace that a process in a pod may have created.
const errForeign = unfit("the pod's network namespace belongs to another user namespace (hostUsers: false?): " +
	"a process in the pod controls what it shows")

// has returns nil if an interface in a namespace has the address.
func has(ns netns.NsHandle, want netip.Addr) error {
	return within(ns, func() error {
		links, err := kernel.Links()
		if err != nil {
			return fmt.Errorf("in a pod: %w", err)
		}
		if !slices.ContainsFunc(links, func(l kernel.Link) bool { return l.Has(want.Unmap()) }) {
			return fmt.Errorf("the pod's network namespace has no address %s", want)
		}
		if slices.ContainsFunc(links, func(l kernel.Link) bool { return strings.HasSuffix(l.Name, "_kata") }) {
			return unfit("the pod is a virtual machine (Kata), so its guest would get the answers")
		}
		return nil
	})
}

// unfit is the reason why a pod is not representative of other pods, although it can be entered. It is not a fault.
type unfit string

func (u unfit) Error() string { return string(u) }

// Is causes the runner to skip the pod.
func (unfit) Is(target error) bool { return target == errors.ErrUnsupported }

// proxies lists the ports on which a service mesh intercepts all of a pod's connections, whether or not the
// destination accepts them. They are the ports of Envoy (Istio with and without sidecars, Consul, Kuma) and Linkerd.
var proxies = []uint16{15001, 4140}

// unproxied returns nil if a network namespace has no proxy that would answer the checks.
func unproxied(ns netns.NsHandle) error {
	return within(ns, func() error {
		var found error
		err := kernel.TCP(kernel.Listening, 0, 0, func(s kernel.Socket) {
			if port := s.Near.Port(); slices.Contains(proxies, port) {
				found = unfit(fmt.Sprintf("a service mesh proxy handles the pod's connections (port %d)", port))
			}
		})
		if err != nil { // the kernel does not list sockets, so a proxy may answer there
			return unfit("unknown whether a service mesh proxy handles the pod's connections: " + err.Error())
		}
		return found
	})
}

// within runs f on a thread inside a namespace. The thread exits when f returns. It never uses the main thread,
// because the whole program reads /proc/net in the main thread's namespace.
func within(ns netns.NsHandle, f func() error) error {
	return <-probe.Async(func() error {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			defer runtime.UnlockOSThread()
			return within(ns, f) // on another thread, because this is the main thread
		}
		switch err := netns.Set(ns); {
		case errors.Is(err, os.ErrPermission):
			return fmt.Errorf("entering pods requires the capability SYS_ADMIN: %w", probe.ErrNotVisible)
		case err != nil:
			return fmt.Errorf("entering a pod's network namespace: %w", err)
		}
		return f()
	})
}

// session starts the child process, sends the request to it, and forwards its events.
func (e Entry) session(ctx context.Context, ns netns.NsHandle, request probe.Request, emit func(probe.Event)) error {
	var stderr bytes.Buffer
	args := e.Args
	if end, ok := ctx.Deadline(); ok { // the parent's deadline, not the child's own default
		args = slices.Concat(args, []string{"--life", max(time.Until(end), time.Millisecond).String()})
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe", args...)
	cmd.WaitDelay = time.Second
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) } // the child reports its partial results
	cmd.Stderr = &stderr
	feed, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("starting a probe in a pod: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("starting a probe in a pod: %w", err)
	}
	if err := within(ns, cmd.Start); err != nil {
		return fmt.Errorf("starting a probe in a pod: %w", err)
	}
	done := make(chan struct{})
	over := sync.OnceFunc(func() { close(done) })
	defer over()
	sent := probe.Async(func() error { sendRequest(feed, request, done); return nil })
	ended := false
	events := probe.NewDecoder(out)
	for {
		ev, err := events.Next()
		if err != nil {
			break // io.EOF, or the pipe broke: only the end event counts
		}
		ended = ended || ev.Type == probe.EventEnd
		emit(ev)
	}
	err = cmd.Wait()
	over()
	crash := <-sent // without its request or its beats, the child exits early
	first, _, _ := strings.Cut(stderr.String(), "\n")
	switch {
	case ended:
		return nil
	case crash != nil:
		return fmt.Errorf("querying the probe in the pod: %w", crash)
	case err != nil && first != "":
		return fmt.Errorf("the probe in the pod exited early: %w: %s", err, first)
	case err != nil:
		return fmt.Errorf("the probe in the pod exited early: %w", err)
	}
	return errors.New("the probe in the pod exited before its answer was complete")
}

// sendRequest runs a whole session with a single request. It sends beats until done, even if the answer is not read,
// for example while the user is in a pager.
func sendRequest(feed io.WriteCloser, request probe.Request, done <-chan struct{}) {
	defer feed.Close()
	enc := json.NewEncoder(feed)
	for _, r := range []probe.Request{request, {Type: probe.RequestEnd}} {
		if enc.Encode(r) != nil { // the child exited, and reports why
			return
		}
	}
	beat := time.NewTicker(probe.BeatEvery)
	defer beat.Stop()
	for {
		select {
		case <-done:
			return
		case <-beat.C:
			if enc.Encode(probe.Request{Type: probe.RequestBeat}) != nil {
				return
			}
		}
	}
}
