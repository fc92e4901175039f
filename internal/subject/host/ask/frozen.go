package ask

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
)

// freezesFor is longer than runc and systemd freeze a cgroup to change its devices, which takes some milliseconds.
const freezesFor = time.Second

// frozenPrograms are the cgroups of needed programs that are frozen, and still are after a pause
// (kubernetes/kubernetes#104280).
func frozenPrograms(ctx context.Context, h *probe.Host) []probe.Result {
	if len(frozenGroups(h)) == 0 {
		return nil
	}
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(freezesFor):
	}
	return frozenGroups(h)
}

func frozenGroups(h *probe.Host) []probe.Result {
	var out []probe.Result
	seen := map[string]bool{}
	for _, p := range neededPrograms(h) {
		comm, err := p.Comm()
		text, other := kernel.ReadProc(h, strconv.Itoa(p.PID)+"/cgroup")
		if err != nil || other != nil {
			continue
		}
		dir := frozenGroup(h, text)
		if dir == "" || seen[comm+dir] {
			continue
		}
		seen[comm+dir] = true
		out = append(out, probe.Found(probe.Fail, "%s (process %d) is stopped: its cgroup %s is frozen", comm, p.PID, dir).
			On("frozen "+comm).With(host.FactFrozen, dir).With(host.FactProgram, comm))
	}
	return out
}

// frozenGroup is the cgroup of a process, or the parent of that, for which a freeze was requested and completed.
func frozenGroup(h *probe.Host, text string) string {
	for _, dir := range groupsOf("freezer", text) {
		switch {
		case reads(h, dir+"/cgroup.freeze", "1") && reads(h, dir+"/cgroup.events", "frozen 1"),
			reads(h, dir+"/freezer.self_freezing", "1") && reads(h, dir+"/freezer.state", "FROZEN"):
			return dir
		}
	}
	return ""
}

// reads reports whether a file contains this line.
func reads(h *probe.Host, name, line string) bool {
	text, err := h.ReadFile(name)
	return err == nil && slices.Contains(strings.Split(string(text), "\n"), line)
}
