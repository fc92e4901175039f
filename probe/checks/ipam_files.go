package checks

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

	"github.com/prometheus/procfs"

	"github.com/calico-probe/calico-probe/probe"
)

// IPAMFiles asks for what makes the init container upgrade-ipam do anything at
// all, and wait for ever: in the field, a node stood in Init:0/3 for half an hour.
var IPAMFiles = &probe.Check{
	ID: "ipam-files", Asks: "has another network plugin left addresses that upgrade-ipam has to migrate?",
	From: probe.FromNode,
	Tags: []string{tagCNI}, Access: []string{"var/lib/cni/networks", "run/calico", "proc"}, Run: ipamFiles,
	Doc: `upgrade-ipam looks for /var/lib/cni/networks/k8s-pod-network, where host-local keeps one file for each address. Without that directory it ends at once. With it, it waits for a lock, migrates every address and, when that fails, tries again every second for ever.
ok: no such directory. info: it is there and empty, which upgrade-ipam removes; or host-local is what this node uses, as with Canal. warn: there are addresses in it, and nobody holds the lock: upgrade-ipam has work at calico-node's next start, and sets the datastore not ready for the whole cluster meanwhile. fail: somebody holds the lock, and still does a second later, so upgrade-ipam waits; the facts name the process. fail: there are addresses, and upgrade-ipam cannot migrate them however often it tries: the Kubernetes Node has no podCIDR, or one that is in no IP pool of Calico's.
skip: not visible by this access method.
lock, where calico-ipam has made its lock /var/run/calico/ipam.lock, which one call of the plugin after the other holds while it asks for an address. ok: nobody holds it, or not the same process a second later. fail: another program than the plugin does, so every new pod waits for an address. warn: one call of the plugin does, for more than ten seconds, or it is not seen who.`,
}

// Facts of ipam-files.
const (
	FactAddresses probe.Fact = "addresses" // count of files named after an address
	FactHolder    probe.Fact = "holder"    // PID of who holds the lock, 0 when the kernel does not tell
)

// Why upgrade-ipam cannot get done.
const (
	IPAMLocked      = "lock"
	IPAMNoPodCIDR   = "pod-cidr-missing"
	IPAMOutsidePool = "pod-cidr-outside"
)

const hostLocal = "/var/lib/cni/networks/k8s-pod-network"

// lockPause is longer than host-local keeps the lock for one address.
const lockPause = time.Second

// TargetPluginLock is the target of ipam-files about the lock that the CNI plugin takes.
const TargetPluginLock = "lock"

// pluginLock returns the lock that calico-ipam holds while it assigns or frees an address (cni-plugin,
// ipam_lock_linux.go).
func pluginLock(h *probe.Host) string {
	set, _ := pluginSettings(h)
	return cmp.Or(set.LockFile, "/run/calico/ipam.lock")
}

// pluginSlow is how long one call of the plugin may hold its lock: its own calls to the API take seconds at most.
const pluginSlow = 10 * time.Second

func ipamFiles(ctx context.Context, p *probe.Pass) {
	p.Report(leftAddresses(ctx, p))
	if r, is := heldByOne(ctx, p.Host); is {
		p.Report(r.On(TargetPluginLock))
	}
}

// heldByOne tells whether one process keeps the plugin's lock; false where there is none, or it cannot be asked for.
func heldByOne(ctx context.Context, h *probe.Host) (probe.Result, bool) {
	lock := pluginLock(h)
	held, first, err := lockHeld(h, lock)
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
	held, holder, err := lockHeld(h, lock)
	if err != nil || !held || holder != first {
		return probe.Found(probe.OK, "%s is held for a moment by one after the other", lock), err == nil
	}
	name, age := whoIs(h, holder)
	r := probe.Found(probe.Warn, "%s is held%s: new pods wait for it to get an address", lock, byWhom(h, holder)).
		With(FactHolder, holder)
	switch {
	case name == "":
	case name != "calico" && name != "calico-ipam":
		r.Status = probe.Fail
	case age < pluginSlow:
		r.Status = probe.OK
	}
	return r, true
}

// whoIs is the name of a process and how long it has run; "" where it is not seen.
func whoIs(h *probe.Host, pid int) (string, time.Duration) {
	proc, err := procfs.NewFS(h.Proc)
	if err != nil || pid == 0 {
		return "", 0
	}
	p, err := proc.Proc(pid)
	if err != nil {
		return "", 0
	}
	stat, age, err := ageOf(p)
	if err != nil {
		return "", 0
	}
	return stat.Comm, age
}

func leftAddresses(ctx context.Context, p *probe.Pass) probe.Result {
	h := p.Host
	names, err := h.ReadDir(hostLocal)
	if errors.Is(err, fs.ErrNotExist) {
		return probe.Found(probe.OK, "no %s: upgrade-ipam has nothing to do", hostLocal).With(FactAddresses, 0)
	}
	if err != nil {
		return unseen(err)
	}
	addresses := 0
	for _, name := range names {
		if _, err := netip.ParseAddr(name); err == nil {
			addresses++
		}
	}
	if slices.ContainsFunc(cniPlaces,
		func(at cniPlace) bool { return slices.Contains(pluginsAt(h, at), "host-local") }) {
		return probe.Found(probe.Info, "%d addresses in %s: host-local is in use on this node, as with Canal",
			addresses, hostLocal).With(FactAddresses, addresses)
	}
	const lock = hostLocal + "/lock"
	held, holder, err := lockHeld(h, lock)
	if held {
		select {
		case <-ctx.Done():
			return probe.Failed(fmt.Errorf("asking again for the lock of %s: %w", hostLocal, ctx.Err()))
		case <-time.After(lockPause):
			held, holder, err = lockHeld(h, lock)
		}
	}
	reason, why := unmovable(p)
	r := probe.Found(probe.Info, "%s exists and has no address in it", hostLocal)
	switch {
	case err != nil:
		r = probe.Failed(err)
	case held:
		r = probe.Found(probe.Fail, "the lock of %s is held%s: upgrade-ipam waits for it", hostLocal,
			byWhom(h, holder)).With(FactHolder, holder).With(probe.FactReason, IPAMLocked)
	case addresses > 0 && reason != "":
		r = probe.Found(probe.Fail, "%d addresses in %s, left by host-local, which upgrade-ipam cannot migrate: %s",
			addresses, hostLocal, why).With(probe.FactReason, reason)
	case addresses > 0:
		r = probe.Found(probe.Warn,
			"%d addresses in %s, left by host-local: upgrade-ipam migrates them at calico-node's next start",
			addresses, hostLocal)
	}
	return r.With(FactAddresses, addresses)
}

// pluginsAt lists the plugins of the network that pods get by the files of a place:
// the first one's, or that behind Multus.
func pluginsAt(h *probe.Host, place cniPlace) []string {
	networks, _ := networksIn(h, place.config) // for cni-config to say
	for _, n := range networks {
		if !isMultus(n) {
			return n.plugins
		}
	}
	return nil
}

// unmovable says why upgrade-ipam fails for ever, in a word and in a sentence, "" when
// nothing known stands in its way. It takes the first address of the Node's podCIDR for the node's tunnel, so
// that has to be in a pool (migrate.go; nodes that have a tunnel address are spared).
func unmovable(p *probe.Pass) (reason, why string) {
	calico, pools := p.Of(probe.KindCalico), p.Of(probe.KindPool)
	if len(calico) == 0 || len(pools) == 0 || slices.ContainsFunc(p.Of(probe.KindTunnel), func(t probe.Target) bool {
		return t.Attrs[probe.AttrOwn] != "" && t.Attrs[probe.AttrDevice] == "tunl0"
	}) {
		return "", ""
	}
	text, _, _ := strings.Cut(calico[0].Attrs[probe.AttrPodCIDRs], ",")
	cidr, err := netip.ParsePrefix(text)
	if err != nil {
		return IPAMNoPodCIDR, "the Kubernetes Node has no podCIDR"
	}
	if slices.ContainsFunc(pools, func(t probe.Target) bool {
		pool, err := netip.ParsePrefix(t.Name)
		return err == nil && t.Attrs[probe.AttrDisabled] == "" && pool.Contains(cidr.Addr())
	}) {
		return "", ""
	}
	return IPAMOutsidePool, fmt.Sprintf("the Node's podCIDR %s is in no enabled IP pool of Calico's", cidr)
}

// byWhom names a process of the node, and says how old it is: a lock is held for
// milliseconds, a backup runs for an hour.
func byWhom(h *probe.Host, pid int) string {
	if pid == 0 {
		return ""
	}
	name, age := whoIs(h, pid)
	if name == "" { // it has ended since
		return fmt.Sprintf(" by process %d", pid)
	}
	return fmt.Sprintf(" by process %d (%s, %v old)", pid, name, age)
}
