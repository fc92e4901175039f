package ask

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/journal"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/logs"
	"github.com/calico-probe/calico-probe/probe/node"
	"github.com/calico-probe/calico-probe/probe/podlog"
)

// kernelLogCheck binds host.KernelLog to the function that runs it.
var kernelLogCheck = answers.To(host.KernelLog, kernelLog)

const (
	kernelSince     = 30 * time.Minute
	kernelLines     = 400       // maximum number of lines from the journal
	kernelRing      = 128 << 10 // number of bytes to read from the end of the ring buffer
	maxKernelFaults = 12        // maximum number of subjects to report
)

// components lists processes that break the node if they exit or hang. The names are those that the kernel shows.
var components = strings.Fields("calico-node bird bird6 confd calico-typha kubelet containerd containerd-shim dockerd crio " +
	"kube-proxy coredns systemd runc k3s-server k3s-agent rke2 conmon")

// kernelFault counts the kernel messages of one kind about one subject.
type kernelFault struct {
	logs.Kernel
	subject string
	times   int
	last    podlog.Line
}

func kernelLog(ctx context.Context, p *probe.Pass) {
	now := time.Now()
	// On a machine, process 2 is the parent of the kernel threads. A container that acts as a node
	// does not have such a process.
	if comm, err := kernel.ReadProc(p.Host, "2/comm"); err != nil || strings.TrimSpace(comm) != "kthreadd" {
		p.Report(probe.Found(probe.Skip, "the machine's own processes are not visible, so the kernel's log may cover other nodes as well"))
		return
	}
	lines, where := ringLines(p.Host, now), "the kernel's ring buffer"
	if lines == nil {
		where = "the journal"
		entries, err := logs.JournalEntries(ctx, p.Host, journal.Want{Units: []string{journal.Kernel},
			Since: now.Add(-kernelSince), Most: kernelLines})
		if err != nil {
			r := node.Unseen(err)
			if r.Status == probe.Unknown { // a noisy journal does not go back that far, and daemon-log evaluates it
				r.Status = probe.Info
			}
			p.Report(r)
			return
		}
		if entries == nil {
			p.Report(probe.Found(probe.Skip, "neither the kernel's ring buffer (needs the capability SYSLOG) nor a journal with kernel lines is readable here"))
			return
		}
		for _, e := range entries {
			lines = append(lines, podlog.Line{Time: e.Time, Text: e.Text})
		}
	}
	killed := killingsOf(slices.Concat(p.Of(probe.KindCalico), p.Of(probe.KindLogs)))
	for _, r := range judgeKernel(lines, killed, now, where) {
		p.Report(r)
	}
}

// ringLine matches a line in the kernel's ring buffer in the format of syslog(2): "<6>[ 1234.567890] text". Depending
// on the kernel configuration, the thread or CPU follows the time. The number is facility*8 + level. Programs can write
// to the ring buffer (/dev/kmsg), but not with facility 0. A number below 8 therefore proves that the kernel wrote the
// line.
var ringLine = regexp.MustCompile(`^<([0-7])>\[ *(\d+)\.(\d{6})\](?:\[ *[CT]\d+\])? (.*)$`)

// ringLines returns the kernel's own lines from the end of its ring buffer. It returns nil if the
// buffer is not readable or its lines have no times.
func ringLines(h *probe.Host, now time.Time) []podlog.Line {
	up, err := kernel.ReadProc(h, "uptime")
	first, _, _ := strings.Cut(up, " ")
	seconds, parseErr := strconv.ParseFloat(first, 64)
	text, ringErr := readRing(kernelRing)
	if err != nil || parseErr != nil || ringErr != nil {
		return nil
	}
	return ringOf(string(text), now.Add(-time.Duration(seconds*float64(time.Second))))
}

func ringOf(text string, boot time.Time) []podlog.Line {
	var out []podlog.Line
	for line := range strings.Lines(text) {
		m := ringLine.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m == nil {
			continue
		}
		at, err := time.ParseDuration(m[2] + "." + m[3] + "s")
		if err == nil {
			out = append(out, podlog.Line{Time: boot.Add(at), Text: m[4]})
		}
	}
	return out
}

// classifyKernelLine recognises a line and its subject. It returns false for a harmless line. A message about a process
// is a fault only if the process is a component. Otherwise, the message is information, or is dropped (ID "-").
func classifyKernelLine(text string, killed killings) (logs.Kernel, string, bool) {
	s, subject, ok := logs.OfKernel(text)
	if !ok {
		return logs.Kernel{}, "", false
	}
	if s.Other != "" && (!slices.Contains(components, subject) || s.ID == logs.KernelKilled && !killed.ofNode(text)) {
		s.ID, s.Info = s.Other, true
	}
	return s, subject, s.ID != "-"
}

// judgeKernel reports faults in the kernel's lines. It reports each subject only once.
func judgeKernel(lines []podlog.Line, killed killings, now time.Time, where string) []probe.Result {
	var faults []*kernelFault
	read := 0
	for _, l := range lines {
		if l.Time.IsZero() || now.Sub(l.Time) > kernelSince {
			continue
		}
		read++
		killed.add(l.Text)
		s, subject, ok := classifyKernelLine(l.Text, killed)
		if !ok {
			continue
		}
		i := slices.IndexFunc(faults, func(f *kernelFault) bool { return f.ID == s.ID && f.subject == subject })
		if i < 0 {
			faults = append(faults, &kernelFault{Kernel: s, subject: subject})
			i = len(faults) - 1
		}
		faults[i].times++
		faults[i].last = l
	}
	if len(faults) == 0 {
		return []probe.Result{probe.Found(probe.OK, "no faults in %d kernel lines of the last %s (source: %s)", read, probe.Age(kernelSince), where)}
	}
	slices.SortStableFunc(faults, func(a, b *kernelFault) int { return cmp.Compare(a.rank(), b.rank()) })
	var out []probe.Result
	for _, f := range faults[:min(len(faults), maxKernelFaults)] {
		out = append(out, f.result(now))
	}
	return out
}

// rank sorts faults before information.
func (f *kernelFault) rank() int {
	if f.Info {
		return 1
	}
	return 0
}

func (f *kernelFault) result(now time.Time) probe.Result {
	status := probe.Warn
	if f.Info {
		status = probe.Info
	}
	ago := max(0, now.Sub(f.last.Time))
	line := probe.Quoted(f.last.Text)
	times := ""
	if f.times > 1 {
		times = fmt.Sprintf("%d times, most recently ", f.times)
	}
	return probe.Found(status, "the kernel logged %s%s ago: %s", times, probe.Age(ago), line).
		On(strings.TrimSpace(f.ID+" "+probe.OneLine(f.subject))).With(logs.FactSignature, f.ID).
		With(probe.FactKernelOf, probe.OneLine(f.subject)).With(probe.FactTimes, f.times).
		With(host.FactAgo, int(ago.Seconds())).With(logs.FactLine, line)
}
