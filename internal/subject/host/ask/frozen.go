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

// freezePause is longer than the few milliseconds for which runc and systemd freeze a cgroup to change its devices.
const freezePause = time.Second

// frozenPrograms returns results about programs that the node needs and whose cgroup is frozen both before
// and after a pause (kubernetes/kubernetes#104280).
func frozenPrograms(ctx context.Context, h *probe.Host) []probe.Result {
	if len(frozenGroups(h)) == 0 {
		return nil
	}
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(freezePause):
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

// frozenGroup returns the cgroup that was requested to freeze and is now frozen. It is the
// process's cgroup or one of its parents.
func frozenGroup(h *probe.Host, text string) string {
	for _, dir := range groupsOf("freezer", text) {
		switch {
		case hasLine(h, dir+"/cgroup.freeze", "1") && hasLine(h, dir+"/cgroup.events", "frozen 1"),
			hasLine(h, dir+"/freezer.self_freezing", "1") && hasLine(h, dir+"/freezer.state", "FROZEN"):
			return dir
		}
	}
	return ""
}

// hasLine reports whether a file contains the given line.
func hasLine(h *probe.Host, name, line string) bool {
	text, err := h.ReadFile(name)
	return err == nil && slices.Contains(strings.Split(string(text), "\n"), line)
}
