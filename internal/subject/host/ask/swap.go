package ask

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/prometheus/procfs"

	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/node"
)

// nodeSwapCheck binds host.NodeSwap to the function that runs it.
var nodeSwapCheck = answers.To(host.NodeSwap, probe.Once(nodeSwap))

func nodeSwap(_ context.Context, h *probe.Host) probe.Result {
	proc, err := procfs.NewFS(h.Proc)
	if err != nil {
		return probe.Failed(fmt.Errorf("opening %s: %w", h.Proc, err))
	}
	swaps, err := proc.Swaps()
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a kernel that does not support swap has no such file
		return probe.Failed(fmt.Errorf("reading /proc/swaps: %w", err))
	}
	k, err := node.ReadKubelet(h)
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
	return host.JudgeSwap(names, back, errors.Is(fstab, probe.ErrNotVisible), k).Because(evidence...)
}

// swapAtBoot lists the settings that enable swap at boot. It omits places that this access method does not show.
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
	// Units that an administrator or an installer wrote. A link to /dev/null masks a unit.
	for _, dir := range []string{"/etc/systemd/system", "/usr/lib/systemd/system"} {
		names, err := h.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, name := range names {
			if strings.HasSuffix(name, ".swap") && !isMasked(h, name) {
				back = append(back, path.Join(dir, name))
			}
		}
	}
	for _, name := range []string{"/etc/systemd/zram-generator.conf", "/usr/lib/systemd/zram-generator.conf"} {
		if text, err := h.ReadFile(name); err == nil && strings.Contains(string(text), "[zram") {
			back = append(back, name)
			break // systemd uses the first one
		}
	}
	return back, nil
}

// isMasked reports whether a systemd unit is masked.
func isMasked(h *probe.Host, unit string) bool {
	to, err := h.Readlink(path.Join("/etc/systemd/system", unit))
	return err == nil && to == "/dev/null"
}
