package checks

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// IPAMFiles asks for what makes the init container upgrade-ipam do anything at
// all, and wait for ever: in the field, a node stood in Init:0/3 for half an hour.
var IPAMFiles = &probe.Check{
	ID: "ipam-files", Asks: "has another network plugin left addresses that upgrade-ipam has to migrate?", From: probe.FromNode,
	Tags: []string{tagCNI}, Access: []string{"var/lib/cni/networks"}, Run: probe.Once(ipamFiles),
	Doc: `upgrade-ipam looks for /var/lib/cni/networks/k8s-pod-network, where host-local keeps one file for each address. Without that directory it ends at once. With it, it waits for a lock, migrates every address and, when that fails, tries again every second for ever.
ok: no such directory. info: it is there and empty, which upgrade-ipam removes; or host-local is what this node uses, as with Canal. warn: there are addresses in it, and nobody holds the lock: upgrade-ipam has work at calico-node's next start, and sets the datastore not ready for the whole cluster meanwhile. fail: somebody holds the lock, so upgrade-ipam waits; the facts name the process.
skip: not visible this way onto the node.`,
}

// Facts of ipam-files.
const (
	FactAddresses probe.Fact = "addresses" // count of files named after an address
	FactHolder    probe.Fact = "holder"    // PID of who holds the lock, 0 when the kernel does not tell
)

const hostLocal = "/var/lib/cni/networks/k8s-pod-network"

func ipamFiles(_ context.Context, h *probe.Host) probe.Result {
	dir, err := h.Path(hostLocal)
	if err != nil {
		return unseen(err)
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return probe.Found(probe.OK, "no %s: upgrade-ipam has nothing to do", hostLocal).With(FactAddresses, 0)
	}
	if err != nil {
		return probe.Failed(fmt.Errorf("reading %s: %w", hostLocal, errors.Unwrap(err)))
	}
	addresses := 0
	for _, e := range entries {
		if _, err := netip.ParseAddr(e.Name()); err == nil {
			addresses++
		}
	}
	if networks, err := networksIn(h, cniPlaces[0].config); err == nil && len(networks) > 0 && slices.Contains(networks[0].plugins, "host-local") {
		return probe.Found(probe.Info, "%d addresses in %s: host-local is in use on this node, as with Canal", addresses, hostLocal).With(FactAddresses, addresses)
	}
	held, holder, err := lockHeld(h, filepath.Join(dir, "lock"))
	r := probe.Found(probe.Info, "%s is there and holds no address", hostLocal)
	switch {
	case err != nil:
		r = probe.Failed(err)
	case held:
		r = probe.Found(probe.Fail, "the lock of %s is held%s: upgrade-ipam waits for it", hostLocal, byWhom(h, holder)).With(FactHolder, holder)
	case addresses > 0:
		r = probe.Found(probe.Warn, "%d addresses in %s, left by host-local: upgrade-ipam migrates them at calico-node's next start", addresses, hostLocal)
	}
	return r.With(FactAddresses, addresses)
}

// byWhom names a process of the node.
func byWhom(h *probe.Host, pid int) string {
	if pid == 0 {
		return ""
	}
	comm, err := readProc(h, fmt.Sprintf("%d/comm", pid))
	if err != nil {
		return fmt.Sprintf(" by process %d", pid)
	}
	return fmt.Sprintf(" by process %d (%s)", pid, strings.TrimSpace(comm))
}
