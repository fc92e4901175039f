package ask

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/node"
)

// ipamFilesCheck binds cni.IPAMFiles to the function that runs it.
var ipamFilesCheck = answers.To(cni.IPAMFiles, ipamFiles)

const hostLocal = "/var/lib/cni/networks/k8s-pod-network"

// lockPause is the time between two looks at a lock. host-local holds its lock only while it assigns one address. If
// a process still holds the lock after the pause, it hangs. For the plugin's lock, the age of the process that holds
// it also matters.
const lockPause = time.Second

// pluginLock returns the lock that calico-ipam holds while it assigns or releases an address
// (cni-plugin, ipam_lock_linux.go).
func pluginLock(h *probe.Host) string {
	set, _ := node.PluginSettings(h)
	return cmp.Or(set.LockFile, "/run/calico/ipam.lock")
}

// maxPluginCall is the maximum time that one call of the plugin may hold its lock. Its own requests
// to the API take seconds at most.
const maxPluginCall = 10 * time.Second

func ipamFiles(ctx context.Context, p *probe.Pass) {
	p.Report(hostLocalResult(ctx, p))
	if r, is := pluginLockResult(ctx, p.Host); is {
		p.Report(r.On(cni.TargetPluginLock))
	}
}

// pluginLockResult evaluates whether a single process holds the plugin's lock for longer than lockPause. It returns
// false if the lock does not exist, or if the kernel does not report which process holds it.
func pluginLockResult(ctx context.Context, h *probe.Host) (probe.Result, bool) {
	lock := pluginLock(h)
	held, first, err := node.LockHeld(h, lock)
	if err != nil {
		return probe.Result{}, false
	}
	if !held {
		_, err := h.Stat(lock)
		return probe.Found(probe.OK, "%s is free", lock), err == nil
	}
	select {
	case <-ctx.Done():
		return probe.Result{}, false
	case <-time.After(lockPause):
	}
	held, holder, err := node.LockHeld(h, lock)
	if err != nil || !held || holder != first {
		return probe.Found(probe.OK, "%s is held only briefly, by one process after another", lock), err == nil
	}
	name, age := node.WhoIs(h, holder)
	r := probe.Found(probe.Warn, "%s is held%s: new pods wait for it to get an address", lock, holderText(h, holder)).
		With(cni.FactHolder, holder)
	switch {
	case name == "":
	case name != "calico" && name != "calico-ipam":
		r.Status = probe.Fail
	case age < maxPluginCall:
		r.Status = probe.OK
	}
	return r, true
}

func hostLocalResult(ctx context.Context, p *probe.Pass) probe.Result {
	h := p.Host
	names, err := h.ReadDir(hostLocal)
	if errors.Is(err, fs.ErrNotExist) {
		return probe.Found(probe.OK, "no %s: upgrade-ipam has nothing to do", hostLocal).With(cni.FactAddresses, 0)
	}
	if err != nil {
		return node.Unseen(err)
	}
	addresses := 0
	for _, name := range names {
		if _, err := netip.ParseAddr(name); err == nil {
			addresses++
		}
	}
	if slices.ContainsFunc(node.CNIPlaces,
		func(at node.CNIPlace) bool { return slices.Contains(pluginsAt(h, at), "host-local") }) {
		return probe.Found(probe.Info, "%d addresses in %s: host-local is in use on this node, as with Canal",
			addresses, hostLocal).With(cni.FactAddresses, addresses)
	}
	const lock = hostLocal + "/lock"
	held, holder, err := node.LockHeld(h, lock)
	if held {
		select {
		case <-ctx.Done():
			return probe.Failed(fmt.Errorf("checking the lock of %s again: %w", hostLocal, ctx.Err()))
		case <-time.After(lockPause):
			held, holder, err = node.LockHeld(h, lock)
		}
	}
	reason, why := migrationObstacle(p)
	r := probe.Found(probe.Info, "%s exists, but contains no address", hostLocal)
	switch {
	case err != nil:
		r = probe.Failed(err)
	case held:
		r = probe.Found(probe.Fail, "the lock of %s is held%s: upgrade-ipam waits for it", hostLocal,
			holderText(h, holder)).With(cni.FactHolder, holder).With(probe.FactReason, cni.IPAMLocked)
	case addresses > 0 && reason != "":
		r = probe.Found(probe.Fail, "%d addresses in %s, left by host-local, which upgrade-ipam cannot migrate: %s",
			addresses, hostLocal, why).With(probe.FactReason, reason)
	case addresses > 0:
		r = probe.Found(probe.Warn,
			"%d addresses in %s, left by host-local: upgrade-ipam migrates them at calico-node's next start",
			addresses, hostLocal)
	}
	return r.With(cni.FactAddresses, addresses)
}

// pluginsAt lists the plugins of the pods' network at a place. They come from the first file, or from the file that
// Multus uses.
func pluginsAt(h *probe.Host, place node.CNIPlace) []string {
	networks, _ := node.NetworksIn(h, place.Config) // cni-config reports errors
	for _, n := range networks {
		if !isMultus(n) {
			return n.Plugins
		}
	}
	return nil
}

// migrationObstacle returns the reason why upgrade-ipam always fails, as a word and a sentence. If no obstacle is
// known, it returns "". upgrade-ipam uses the first address in the Node's podCIDR for the node's tunnel, so a pool
// must contain that address (migrate.go). This does not apply to nodes that already have a tunnel address.
func migrationObstacle(p *probe.Pass) (reason, why string) {
	calico, pools := p.Of(probe.KindCalico), p.Of(probe.KindPool)
	if len(calico) == 0 || len(pools) == 0 || slices.ContainsFunc(p.Of(probe.KindTunnel), func(t probe.Target) bool {
		return t.Attrs[probe.AttrOwn] != "" && t.Attrs[probe.AttrDevice] == "tunl0"
	}) {
		return "", ""
	}
	text, _, _ := strings.Cut(calico[0].Attrs[probe.AttrPodCIDRs], ",")
	cidr, err := netip.ParsePrefix(text)
	if err != nil {
		return cni.IPAMNoPodCIDR, "the Kubernetes Node has no podCIDR"
	}
	if slices.ContainsFunc(pools, func(t probe.Target) bool {
		pool, err := netip.ParsePrefix(t.Name)
		return err == nil && t.Attrs[probe.AttrDisabled] == "" && pool.Contains(cidr.Addr())
	}) {
		return "", ""
	}
	return cni.IPAMOutsidePool, fmt.Sprintf("no enabled IP pool contains the Node's podCIDR %s", cidr)
}

// holderText names a process on the node and its age. A lock is held for milliseconds, but a backup runs for an hour.
func holderText(h *probe.Host, pid int) string {
	if pid == 0 {
		return ""
	}
	name, age := node.WhoIs(h, pid)
	if name == "" { // the process has exited in the meantime
		return fmt.Sprintf(" by process %d", pid)
	}
	return fmt.Sprintf(" by process %d (%s, %v old)", pid, name, age)
}
