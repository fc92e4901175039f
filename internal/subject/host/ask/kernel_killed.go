package ask

import (
	"regexp"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/node"
)

// The kernel first logs the cgroup of the process that it will kill, and then the killed process (mm/oom_kill.c,
// from Linux 4.19). A process controls its own name, so toKill takes the cgroup from the text before the name.
var (
	toKill  = regexp.MustCompile(`^oom-kill:.*?,task_memcg=(/.*?),task=.*,pid=(\d+),uid=\d+$`)
	hasKill = regexp.MustCompile(`: Killed process (\d+) \(`)
)

// killings maps each process that the kernel killed to its cgroup, and lists the pods that belong
// to Kubernetes and Calico.
type killings struct {
	cgroups map[string]string // by PID
	pods    []string          // their UIDs
}

// killingsOf starts with the pods in the plan.
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

// add records the cgroup if a line names one.
func (k killings) add(text string) {
	if m := toKill.FindStringSubmatch(text); m != nil {
		k.cgroups[m[2]] = m[1]
	}
}

// ofNode reports whether the process in a line belonged to a known pod, or to the node itself outside all pods. A
// process in a tenant's pod may also be named kubelet.
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
