package ask

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"

	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
)

// nodeLimitsCheck binds host.NodeLimits to the function that runs it.
var nodeLimitsCheck = answers.To(host.NodeLimits, nodeLimits)

// Facts of node-limits.
const (
	factLimit probe.Fact = "limit" // the kind of limit: open-files, processes, inotify-instances

	factUsedOf probe.Fact = "used_n"
)

// Values of the fact limit.
const (
	limitOpenFiles = "open-files"
	limitProcesses = "processes"
	limitInotify   = "inotify-instances"
)

// fewFiles is the number of files that a program needs to start another program: pipes and sockets.
const fewFiles = 4

// limitUse holds one limit, and how much of it is in use.
type limitUse struct {
	what, holder, words string
	used, most          uint64
	few                 uint64 // if this much or less is left, the limit counts as exhausted
}

func nodeLimits(ctx context.Context, p *probe.Pass) {
	found := append(limitsOfKernel(p.Host), limitsOfPrograms(p.Host)...)
	frozen := frozenPrograms(ctx, p.Host)
	for _, r := range frozen {
		p.Report(r)
	}
	if len(found) == 0 && len(frozen) == 0 {
		p.Report(node.Unseen(fmt.Errorf("the node's limits: %w", probe.ErrNotVisible)))
		return
	}
	reported := len(frozen) > 0
	for _, l := range found {
		if r := l.result(); r.Status != probe.OK {
			p.Report(r)
			reported = true
		}
	}
	if !reported {
		p.Report(probe.Found(probe.OK, "all %d limits are less than 90 %% used", len(found)))
	}
}

func (l limitUse) result() probe.Result {
	r := probe.Found(probe.OK, "%d of %d %s", l.used, l.most, l.words)
	switch {
	case l.used+l.few >= l.most:
		r.Status = probe.Fail
		r.Saw += ": limit reached"
		if l.used < l.most {
			r.Saw = fmt.Sprintf("%d of %d %s: too few left to start a process", l.used, l.most, l.words)
		}
	case l.used*100 >= l.most*90:
		r.Status = probe.Warn
	}
	return r.On(l.what+" of "+l.holder).With(factLimit, l.what).With(host.FactLimitOf, l.holder).
		With(factUsedOf, int(l.used)).With(probe.FactMax, int(l.most))
}

// limitsOfKernel returns the limits that apply to the whole machine.
func limitsOfKernel(h *probe.Host) []limitUse {
	var out []limitUse
	if text, err := kernel.ReadProc(h, "loadavg"); err == nil {
		// In 0.20 0.18 0.12 1/80 11206, the fourth field counts the running threads and all threads.
		if f := strings.Fields(text); len(f) > 3 {
			_, all, _ := strings.Cut(f[3], "/")
			used, err := strconv.ParseUint(all, 10, 63)
			for _, name := range []string{"pid_max", "threads-max"} {
				most, other := kernel.Sysctl(h, "kernel/"+name)
				if err == nil && other == nil && most > 0 {
					out = append(out, limitUse{limitProcesses, "kernel." + name, "processes and threads", used, uint64(most), 0})
				}
			}
		}
	}
	if text, err := kernel.ReadProc(h, "sys/fs/file-nr"); err == nil {
		if f := strings.Fields(text); len(f) == 3 {
			used, err := strconv.ParseUint(f[0], 10, 63)
			most, other := strconv.ParseUint(f[2], 10, 63)
			if err == nil && other == nil && most > 0 {
				out = append(out, limitUse{limitOpenFiles, "fs.file-max", "open files on the node", used, most, 0})
			}
		}
	}
	if most, err := kernel.Sysctl(h, "fs/inotify/max_user_instances"); err == nil && most > 0 {
		if used, err := inotifyOfRoot(h); err == nil {
			out = append(out, limitUse{limitInotify, "fs.inotify.max_user_instances", "inotify instances of root", used,
				uint64(most), 0})
		}
	}
	return out
}

// maxProcesses is the maximum number of processes whose open files are read.
const maxProcesses = 3000

// inotifyOfRoot counts the inotify instances of root's processes.
func inotifyOfRoot(h *probe.Host) (uint64, error) {
	proc, err := procfs.NewFS(h.Proc)
	if err != nil {
		return 0, err
	}
	all, err := proc.AllProcs()
	if err != nil {
		return 0, err
	}
	used, seen := uint64(0), false
	for _, p := range all[:min(len(all), maxProcesses)] {
		if uid, err := node.UserOf(p); err != nil || uid != 0 {
			continue
		}
		files, err := p.FileDescriptorTargets()
		if err != nil {
			continue
		}
		seen = true
		for _, name := range files {
			if strings.HasPrefix(name, "anon_inode:inotify") || name == "inotify" {
				used++
			}
		}
	}
	if !seen {
		return 0, errors.New("no process's open files are visible")
	}
	return used, nil
}

// neededPrograms returns the processes of the programs that a node with Calico needs.
func neededPrograms(h *probe.Host) []node.Running {
	daemons := []string{"kubelet", "containerd", "dockerd", "crio", "k3s-server", "k3s-agent"}
	pods := []string{"calico-node", "kube-proxy"}
	all, _ := node.ProcessesOf(h, node.OutsidePods, func(comm string) bool { return slices.Contains(daemons, comm) })
	inPods, _ := node.ProcessesOf(h, node.InNodesNetwork, func(comm string) bool { return slices.Contains(pods, comm) })
	return append(all, inPods...)
}

// limitsOfPrograms returns the limits of these programs and of their cgroups.
func limitsOfPrograms(h *probe.Host) []limitUse {
	var out []limitUse
	groups := map[string]bool{}
	for _, p := range neededPrograms(h) {
		comm, err := p.Comm()
		if err != nil {
			continue
		}
		holder := fmt.Sprintf("%s (process %d)", comm, p.PID)
		most, err := p.Limits()
		used, other := p.FileDescriptorsLen()
		if err == nil && other == nil && most.OpenFiles > 0 && most.OpenFiles < 1<<40 {
			out = append(out, limitUse{limitOpenFiles, holder, "open files", uint64(used), most.OpenFiles, fewFiles})
		}
		text, err := kernel.ReadProc(h, strconv.Itoa(p.PID)+"/cgroup")
		if err != nil {
			continue
		}
		for _, dir := range groupsOf("pids", text) {
			if l, is := groupLimit(h, dir, comm); is && !groups[dir] {
				groups[dir] = true
				out = append(out, l)
			}
		}
	}
	return out
}

// groupsOf returns the folders of a process's cgroup and the cgroup's parents. They are for one controller in version
// 1, or for version 2. The limit of a parent also applies.
func groupsOf(controller, text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 || strings.Contains(f[2], "..") || f[1] != "" && f[1] != controller {
			continue
		}
		root := "/sys/fs/cgroup"
		if f[1] == controller {
			root += "/" + controller
		}
		for dir := path.Clean(f[2]); dir != "/" && dir != "."; dir = path.Dir(dir) {
			out = append(out, root+dir)
		}
	}
	return out
}

// groupLimit reads the limit of one cgroup. It returns false without a limit, or if the limit is not visible.
func groupLimit(h *probe.Host, dir, comm string) (limitUse, bool) {
	most, err := h.ReadFile(dir + "/pids.max")
	if err != nil || strings.TrimSpace(string(most)) == "max" {
		return limitUse{}, false
	}
	used, err := h.ReadFile(dir + "/pids.current")
	if err != nil {
		return limitUse{}, false
	}
	m, err := strconv.ParseUint(strings.TrimSpace(string(most)), 10, 63)
	u, other := strconv.ParseUint(strings.TrimSpace(string(used)), 10, 63)
	if err != nil || other != nil || m == 0 {
		return limitUse{}, false
	}
	return limitUse{limitProcesses, "the cgroup of " + comm, "processes and threads in " + dir, u, m, 0}, true
}
