package netns

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/calico-probe/calico-probe/probe"
)

// Run answers a plan out of the network namespace of a KindLocal pod. The error
// wraps probe.ErrNotVisible when this probe sees no processes of the node or may
// not enter their namespaces.
func (e Entry) Run(ctx context.Context, pod probe.Target, plan probe.Plan, emit func(probe.Event)) error {
	ns, err := e.find(pod)
	if err != nil {
		return err
	}
	defer ns.Close()
	return e.session(ctx, ns, plan, emit)
}

// find opens the network namespace of a pod: that of any of its processes, which
// bear its UID in their cgroup, whatever the runtime. A namespace without the
// pod's address is not the pod's.
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
	for _, p := range all {
		if !belongs(p, uid) {
			continue
		}
		ns, err := netns.GetFromPath(filepath.Join(e.Host.Proc, strconv.Itoa(p.PID), "ns/net"))
		switch {
		case errors.Is(err, os.ErrPermission):
			return none, fmt.Errorf("finding pod %s's network namespace takes the capability SYS_PTRACE: %w", pod.Name, probe.ErrNotVisible)
		case err != nil: // it has just ended
			continue
		}
		if err := has(ns, pod.Addr); err != nil {
			return none, errors.Join(err, ns.Close())
		}
		return ns, nil
	}
	if e.Host.Only != nil {
		return none, fmt.Errorf("the node's processes: %w", probe.ErrNotVisible)
	}
	return none, fmt.Errorf("no process of pod %s is to be seen on this node", pod.Name)
}

// belongs tells whether a process is in the cgroup of a pod. The systemd driver
// writes underscores.
func belongs(p procfs.Proc, uid string) bool {
	groups, err := p.Cgroups()
	if err != nil { // it has just ended
		return false
	}
	return slices.ContainsFunc(groups, func(g procfs.Cgroup) bool {
		return strings.Contains(g.Path, "pod"+uid) || strings.Contains(g.Path, "pod"+strings.ReplaceAll(uid, "-", "_"))
	})
}

// has is nil when an address is on an interface of a namespace.
func has(ns netns.NsHandle, want netip.Addr) error {
	in, err := netlink.NewHandleAt(ns)
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("entering pods takes the capability SYS_ADMIN: %w", probe.ErrNotVisible)
	}
	if err != nil {
		return fmt.Errorf("looking into a pod's network namespace: %w", err)
	}
	defer in.Close()
	addrs, err := in.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("listing a pod's addresses: %w", err)
	}
	if !slices.ContainsFunc(addrs, func(a netlink.Addr) bool {
		ip, ok := netip.AddrFromSlice(a.IP)
		return ok && ip.Unmap() == want
	}) {
		return fmt.Errorf("the pod's network namespace has no address %s", want)
	}
	return nil
}

// session starts the child, sends it the plan, and passes its events on.
func (e Entry) session(ctx context.Context, ns netns.NsHandle, plan probe.Plan, emit func(probe.Event)) error {
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, "/proc/self/exe", e.Args...)
	cmd.WaitDelay = time.Second
	cmd.Stderr = &said
	request, err := requests(plan)
	if err != nil {
		return err
	}
	cmd.Stdin = request
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("starting a probe in a pod: %w", err)
	}
	if err := start(cmd, ns); err != nil {
		return err
	}
	ended := false
	events := probe.NewDecoder(out)
	for {
		ev, err := events.Next()
		if err != nil {
			break // io.EOF, or the pipe broke: what counts is whether the end was seen
		}
		ended = ended || ev.Type == probe.EventEnd
		emit(ev)
	}
	if err := cmd.Wait(); err != nil && !ended {
		return fmt.Errorf("the probe in the pod ended early: %w: %s", err, bytes.TrimSpace(said.Bytes()))
	}
	if !ended {
		return errors.New("the probe in the pod ended without finishing its answer")
	}
	return nil
}

// requests is a whole session with one plan.
func requests(plan probe.Plan) (*bytes.Buffer, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for _, r := range []probe.Request{{Type: probe.RequestPlan, Plan: &plan}, {Type: probe.RequestEnd}} {
		if err := enc.Encode(r); err != nil {
			return nil, fmt.Errorf("encoding the plan: %w", err)
		}
	}
	return &b, nil
}

// start starts a program from a thread inside the namespace. The thread is not
// given back: it ends with its goroutine.
func start(cmd *exec.Cmd, ns netns.NsHandle) error {
	failed := make(chan error)
	go func() {
		runtime.LockOSThread()
		if err := netns.Set(ns); err != nil {
			failed <- fmt.Errorf("entering pods takes the capability SYS_ADMIN (%w): %w", err, probe.ErrNotVisible)
			return
		}
		failed <- cmd.Start()
	}()
	if err := <-failed; err != nil {
		return fmt.Errorf("starting a probe in a pod: %w", err)
	}
	return nil
}
