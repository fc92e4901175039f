package ask

import (
	"regexp"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/node"
)

// These are the kernel's lines about the process that it is about to kill, which have its cgroup, and about the one
// that it has killed. What a process calls itself stands behind its cgroup (mm/oom_kill.c, from Linux 4.19).
var (
	toKill  = regexp.MustCompile(`^oom-kill:.*?,task_memcg=(/.*?),task=.*,pid=(\d+),uid=\d+$`)
	hasKill = regexp.MustCompile(`: Killed process (\d+) \(`)
)

// killings knows in which cgroup each process was that the kernel killed, and which pods are Kubernetes' or
// Calico's own.
type killings struct {
	cgroups map[string]string // by the process's number
	pods    []string          // their UIDs
}

// killingsOf begins with the pods that the plan names.
func killingsOf(pods []probe.Target) killings {
	k := killings{cgroups: map[string]string{}}
	for _, t := range pods {
		folder := t.Attrs[probe.AttrLogs]
		if i := strings.LastIndexByte(folder, '_'); i >= 0 && len(folder)-i > 30 {
			k.pods = append(k.pods, folder[i+1:])
		}
	}
	return k
}

// hear takes in a line.
func (k killings) hear(text string) {
	if m := toKill.FindStringSubmatch(text); m != nil {
		k.cgroups[m[2]] = m[1]
	}
}

// ofNode reports whether the process of such a line was the node's own, in no pod, or in one of the known pods. Any pod
// may call a process kubelet.
func (k killings) ofNode(text string) bool {
	m := hasKill.FindStringSubmatch(text)
	if m == nil {
		return false
	}
	cgroup, known := k.cgroups[m[1]]
	if !known || !node.PodCgroup.MatchString(cgroup) {
		return known
	}
	return slices.ContainsFunc(k.pods, func(uid string) bool {
		return strings.Contains(strings.ReplaceAll(cgroup, "_", "-"), "pod"+uid)
	})
}
