package checks

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/prometheus/procfs"

	"github.com/calico-probe/calico-probe/probe"
)

// NodeSwap asks for what kills a kubelet at its next start: in the field, swap
// that came back with a reboot.
var NodeSwap = &probe.Check{
	ID: "node-swap", Asks: "is swap on?", From: probe.FromNode,
	Tags: []string{tagHost}, Access: []string{"proc", "var/lib/kubelet/config.yaml"}, Run: probe.Once(nodeSwap),
	Doc: `A kubelet that is not told otherwise (failSwapOn) ends at its start when swap is on: "running with swap on is not supported". A kubelet that runs already is not touched, so the fault shows at the next restart.
ok: no swap. fail: swap is on. info: swap is on and the kubelet's configuration accepts it.`,
}

// Facts of node-swap.
const (
	FactSwaps   probe.Fact = "swaps"   // file names of what is swapped to
	FactAllowed probe.Fact = "allowed" // the kubelet's configuration accepts swap
)

const kubeletConfig = "/var/lib/kubelet/config.yaml"

func nodeSwap(_ context.Context, h *probe.Host) probe.Result {
	proc, err := procfs.NewFS(h.Proc)
	if err != nil {
		return probe.Failed(fmt.Errorf("opening %s: %w", h.Proc, err))
	}
	swaps, err := proc.Swaps()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return probe.Found(probe.OK, "this kernel has no swap").With(FactSwaps, []string{})
	case err != nil:
		return probe.Failed(fmt.Errorf("reading /proc/swaps: %w", err))
	case len(swaps) == 0:
		return probe.Found(probe.OK, "no swap").With(FactSwaps, []string{})
	}
	var names, evidence []string
	for _, s := range swaps {
		names = append(names, s.Filename)
		evidence = append(evidence, fmt.Sprintf("%s %s size %d KiB, used %d KiB, priority %d", s.Filename, s.Type, s.Size, s.Used, s.Priority))
	}
	r := probe.Found(probe.Fail, "swap is on: %s", strings.Join(names, ", "))
	if allowsSwap(h) {
		r = probe.Found(probe.Info, "swap is on, and the kubelet is set to accept it (failSwapOn: false): %s", strings.Join(names, ", "))
	}
	return r.With(FactSwaps, names).With(FactAllowed, r.Status == probe.Info).Because(evidence...)
}

// allowsSwap tells whether the kubelet's configuration file says so. Without
// the file the kubelet's default holds, which does not.
func allowsSwap(h *probe.Host) bool {
	config, err := h.ReadFile(kubeletConfig)
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(config)) {
		if value, ok := strings.CutPrefix(line, "failSwapOn:"); ok {
			value, _, _ = strings.Cut(value, "#")
			return strings.TrimSpace(value) == "false"
		}
	}
	return false
}
