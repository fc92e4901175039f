package checks

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/prometheus/procfs"

	"github.com/calico-probe/calico-probe/probe"
)

// NodeSwap asks for what kills a kubelet at its next start: in the field, swap
// that was turned off by hand and came back with a reboot.
var NodeSwap = &probe.Check{
	ID: probe.CheckNodeSwap, Asks: "is swap on, or will it be after a reboot?", From: probe.FromNode,
	Tags: []string{tagHost}, Access: []string{"proc", "etc/fstab", "etc/systemd", "var/lib/kubelet/config.yaml"},
	Run: probe.Once(nodeSwap),
	Doc: `A kubelet that is not told otherwise (failSwapOn) ends at its start when swap is on: "running with swap on is not supported". A kubelet that runs already is not touched, so the fault shows at the next restart.
ok: no swap, and nothing that would bring it back. fail: swap is on. warn: swap is on, and how the kubelet is set is not visible; or swap is off now, and a line of /etc/fstab, a systemd swap unit or a zram generator brings it back at the next reboot. info: the kubelet is set to accept swap; or no swap now, and the files that would bring it back are not visible by this access method.`,
}

// Facts of node-swap.
const (
	FactSwaps   probe.Fact = "swaps"   // file names of what is swapped to now
	FactReturns probe.Fact = "returns" // what turns swap on at the next boot: file, and line in it
	FactAllowed probe.Fact = "allowed" // the kubelet's configuration accepts swap
)

func nodeSwap(_ context.Context, h *probe.Host) probe.Result {
	proc, err := procfs.NewFS(h.Proc)
	if err != nil {
		return probe.Failed(fmt.Errorf("opening %s: %w", h.Proc, err))
	}
	swaps, err := proc.Swaps()
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a kernel without swap has no such file
		return probe.Failed(fmt.Errorf("reading /proc/swaps: %w", err))
	}
	k, err := readKubelet(h)
	if err != nil {
		return probe.Failed(err)
	}
	names, evidence := []string{}, []string{}
	for _, s := range swaps {
		names = append(names, s.Filename)
		evidence = append(evidence,
			fmt.Sprintf("%s %s size %d KiB, used %d KiB, priority %d", s.Filename, s.Type, s.Size, s.Used, s.Priority))
	}
	back, err := swapAtBoot(h)
	if err != nil {
		return probe.Failed(err)
	}
	_, fstab := h.Stat("/etc/fstab")
	return judgeSwap(names, back, errors.Is(fstab, probe.ErrNotVisible), k).Because(evidence...)
}

// judgeSwap judges what is swapped to now and what turns swap on at the next boot, which may be hidden.
func judgeSwap(names, back []string, hidden bool, k kubelet) probe.Result {
	r := probe.Found(probe.OK, "no swap")
	switch {
	case len(names) > 0 && k.takesSwap():
		r = probe.Found(probe.Info, "swap is on, and the kubelet is set to accept it (failSwapOn: false): %s",
			strings.Join(names, ", "))
	case len(names) > 0 && !k.seen():
		r = probe.Found(probe.Warn, "swap is on, and whether the kubelet starts with it is not visible: %s",
			strings.Join(names, ", "))
	case len(names) > 0:
		r = probe.Found(probe.Fail, "swap is on, and the kubelet does not start with it: %s", strings.Join(names, ", "))
	case len(back) > 0 && k.takesSwap():
		r = probe.Found(probe.Info,
			"swap is off now, comes back at the next reboot, and the kubelet is set to accept it: %s",
			strings.Join(back, ", "))
	case hidden && len(names) == 0:
		r = probe.Found(probe.Info, "no swap now; whether a reboot brings it back is not visible by this access method")
	case len(back) > 0:
		r = probe.Found(probe.Warn,
			"swap is off now and comes back at the next reboot, when the kubelet will not start with it: %s",
			strings.Join(back, ", "))
	}
	return r.With(FactSwaps, names).With(FactReturns, back).With(FactAllowed, k.takesSwap())
}

// swapAtBoot lists what turns swap on when the node boots. Places that this way
// onto the node does not show are left out.
func swapAtBoot(h *probe.Host) ([]string, error) {
	back := []string{}
	fstab, err := h.ReadFile("/etc/fstab")
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, probe.ErrNotVisible):
	case err != nil:
		return nil, err
	default:
		n := 0
		for line := range strings.Lines(string(fstab)) {
			n++
			f := strings.Fields(line)
			if len(f) < 3 || strings.HasPrefix(f[0], "#") || f[2] != "swap" {
				continue
			}
			if len(f) > 3 && slices.Contains(strings.Split(f[3], ","), "noauto") {
				continue
			}
			back = append(back, fmt.Sprintf("/etc/fstab line %d (%s)", n, f[0]))
		}
	}
	// Units made by hand or by an installer; one linked to /dev/null is masked.
	for _, dir := range []string{"/etc/systemd/system", "/usr/lib/systemd/system"} {
		names, err := h.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, name := range names {
			if strings.HasSuffix(name, ".swap") && !masked(h, name) {
				back = append(back, path.Join(dir, name))
			}
		}
	}
	for _, name := range []string{"/etc/systemd/zram-generator.conf", "/usr/lib/systemd/zram-generator.conf"} {
		if text, err := h.ReadFile(name); err == nil && strings.Contains(string(text), "[zram") {
			back = append(back, name)
			break // the first one found is the one that counts
		}
	}
	return back, nil
}

// masked tells whether systemd is told to leave a unit alone.
func masked(h *probe.Host, unit string) bool {
	to, err := h.Readlink(path.Join("/etc/systemd/system", unit))
	return err == nil && to == "/dev/null"
}
