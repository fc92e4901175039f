package kubeletproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/node"
)

// kubeletSummary is the part of /stats/summary that is read (k8s.io/kubelet, stats/v1alpha1). A kubelet omits unknown
// values.
type kubeletSummary struct {
	Node struct {
		Memory  *memoryStats
		Swap    *swapStats
		Fs      *kubeletFs
		Runtime struct{ ImageFs *kubeletFs }
	}

	devices map[string]*kubeletFs // replaces Fs and ImageFs: mounted file systems by device
	hung    bool                  // the kubelet answers only requests that do not need the container runtime
	failed  string                // its error for such requests
}

// memoryStats is the memory of the node.
type memoryStats struct{ AvailableBytes, WorkingSetBytes *uint64 }

// swapStats is the swap of the node.
type swapStats struct{ SwapAvailableBytes, SwapUsageBytes *uint64 }

// kubeletFs is a file system.
type kubeletFs struct {
	AvailableBytes, CapacityBytes *uint64
	InodesFree, Inodes            *uint64
}

// readSummary requests the size of the node and its usage.
func (k *Kubelet) readSummary(ctx context.Context) (kubeletSummary, error) {
	var out kubeletSummary
	a, err := k.get(ctx, "/stats/summary", "", maxSummary)
	refused, answered := errors.AsType[*KubeletError](err)
	switch {
	case answered && !refused.ByAPI && refused.Code == http.StatusInternalServerError:
		if out, bad := k.readMetrics(ctx); bad == nil {
			out.failed = refused.Text
			return out, nil
		}
		return out, err
	case errors.Is(err, context.DeadlineExceeded):
		if out, bad := k.readMetrics(ctx); bad == nil {
			out.hung = true
			return out, nil
		}
		return out, fmt.Errorf("%w; the kubelet needs the container runtime for it, which may hang", err)
	case err != nil:
		return out, err
	case a.cut:
		return out, fmt.Errorf("/stats/summary is longer than %d MiB: not read", maxSummary>>20)
	}
	if err := json.Unmarshal(a.body, &out); err != nil {
		return out, fmt.Errorf("reading /stats/summary: %w", err)
	}
	return out, nil
}

// maxSummary is the maximum length in bytes. Both the summary and the metrics list each container on the node.
const maxSummary = 8 << 20

// configured returns the configuration that the kubelet reports.
func (k *Kubelet) configured(ctx context.Context) (node.Kubelet, error) {
	var out struct {
		Kubelet struct {
			FailSwapOn *bool `json:"failSwapOn"`
		} `json:"kubeletconfig"`
	}
	a, err := k.get(ctx, "/configz", "", maxText)
	if err == nil {
		err = json.Unmarshal(a.body, &out)
	}
	if err != nil {
		return node.Kubelet{}, fmt.Errorf("reading /configz: %w", err)
	}
	return node.Kubelet{Config: "/configz", FailSwapOn: out.Kubelet.FailSwapOn}, nil
}

// swap runs node-swap. The kubelet cannot report what enables swap at the next boot.
func (k *Kubelet) swap(ctx context.Context, p *probe.Pass) {
	s, err := k.summary(ctx)
	if err != nil {
		p.Report(node.Unseen(err))
		return
	}
	swap := s.Node.Swap
	if swap == nil || swap.SwapUsageBytes == nil || swap.SwapAvailableBytes == nil {
		p.Report(probe.Found(probe.Skip, "this kubelet does not report swap"))
		return
	}
	set, err := k.configured(ctx)
	names := []string{}
	if all := *swap.SwapUsageBytes + *swap.SwapAvailableBytes; all > 0 {
		names = append(names, fmt.Sprintf("%.1f GB of swap", float64(all)/1e9))
	}
	r := host.JudgeSwap(names, []string{}, true, set)
	if err != nil && len(names) > 0 {
		r.Saw += "; " + err.Error()
	}
	p.Report(r)
}

// memory runs node-memory, without the part about OOM-killed processes.
func (k *Kubelet) memory(ctx context.Context, p *probe.Pass) {
	s, err := k.summary(ctx)
	m := s.Node.Memory
	switch {
	case err != nil:
		p.Report(node.Unseen(err))
	case m == nil || m.AvailableBytes == nil || m.WorkingSetBytes == nil:
		p.Report(probe.Found(probe.Unknown, "the kubelet does not report available memory"))
	default:
		p.Report(host.JudgeMemory(*m.AvailableBytes, *m.AvailableBytes+*m.WorkingSetBytes))
	}
}

// disk runs node-disk for the file systems that the kubelet watches: its own and the images' file system.
func (k *Kubelet) disk(ctx context.Context, p *probe.Pass) {
	s, err := k.summary(ctx)
	if err != nil {
		p.Report(node.Unseen(err))
		return
	}
	for _, name := range slices.Sorted(maps.Keys(s.devices)) {
		if d, known := s.devices[name].disk(); known {
			r := host.Roomy(d, name, false)
			if r.Status == probe.Fail { // the kubelet may not need this file system
				r.Status = probe.Warn
			}
			p.Report(r.On(name))
		}
	}
	if s.devices != nil {
		return
	}
	var seen *host.Disk
	for _, it := range []struct {
		name string
		fs   *kubeletFs
	}{{node.KubeletRoot, s.Node.Fs}, {imagesOf(p.Of(probe.KindRuntime)), s.Node.Runtime.ImageFs}} {
		d, known := it.fs.disk()
		switch {
		case !known:
			p.Report(probe.Found(probe.Unknown, "the kubelet does not report free space").On(it.name))
		case seen == nil || *seen != d:
			p.Report(host.Roomy(d, it.name, false).On(it.name))
			seen = &d
		}
	}
}

// disk converts the values to the kernel's form. Two file systems with equal values count as one.
func (f *kubeletFs) disk() (host.Disk, bool) {
	if f == nil || f.AvailableBytes == nil || f.CapacityBytes == nil || *f.CapacityBytes == 0 {
		return host.Disk{}, false
	}
	share := func(part, of uint64) float64 { return 100 * float64(part) / float64(of) }
	d := host.Disk{Free: share(*f.AvailableBytes, *f.CapacityBytes), FreeInodes: 100, Total: *f.CapacityBytes}
	if f.InodesFree != nil && f.Inodes != nil && *f.Inodes > 0 {
		d.FreeInodes = share(*f.InodesFree, *f.Inodes)
	}
	return d, true
}

// imagesOf returns the folder in which a container runtime stores images.
func imagesOf(runtime []probe.Target) string {
	for _, t := range runtime {
		switch name, _, _ := strings.Cut(t.Name, "://"); name {
		case "docker":
			return "/var/lib/docker"
		case "cri-o":
			return "/var/lib/containers"
		}
	}
	return "/var/lib/containerd"
}

// machineMetric matches metrics of the machine, or of the root cgroup, which contains all processes.
var machineMetric = regexp.MustCompile(`(?m)^(machine_memory_bytes|machine_swap_bytes|container_memory_working_set_bytes|` +
	`container_fs_limit_bytes|container_fs_usage_bytes|container_fs_inodes_free|container_fs_inodes_total)` +
	`\{([^}\n]*)\} ([0-9.e+]{1,25})(?: |$)`)

// metricsDevice matches the device of such a metric.
var metricsDevice = regexp.MustCompile(`,device="([\w/.-]{1,100})"`)

// maxDevices is the maximum number of devices in a report.
const maxDevices = 32

// readMetrics reads the summary's values from the kubelet's metrics, which do not need an answer from the container
// runtime.
func (k *Kubelet) readMetrics(ctx context.Context) (kubeletSummary, error) {
	a, err := k.get(ctx, "/metrics/cadvisor", "", maxSummary)
	if err != nil {
		return kubeletSummary{devices: map[string]*kubeletFs{}}, err
	}
	return summaryIn(string(a.body))
}

// summaryIn parses the metrics into a summary.
func summaryIn(metrics string) (kubeletSummary, error) {
	out := kubeletSummary{devices: map[string]*kubeletFs{}}
	whole, used := map[string]uint64{}, map[string]uint64{}
	for _, m := range machineMetric.FindAllStringSubmatch(metrics, -1) {
		name := m[1]
		number, err := strconv.ParseFloat(m[3], 64)
		if err != nil || number >= 1<<62 {
			continue
		}
		ofAll, device := strings.Contains(m[2], `,id="/",`), metricsDevice.FindStringSubmatch(m[2])
		switch value := uint64(number); {
		case strings.HasPrefix(name, "machine_"), name == "container_memory_working_set_bytes" && ofAll:
			whole[name] = value
		case !ofAll || device == nil || !keepsFiles(device[1]):
		case len(out.devices) == maxDevices && out.devices[device[1]] == nil:
		default:
			if out.devices[device[1]] == nil {
				out.devices[device[1]] = &kubeletFs{}
			}
			switch f := out.devices[device[1]]; name {
			case "container_fs_limit_bytes":
				f.CapacityBytes = &value
			case "container_fs_usage_bytes":
				used[device[1]] = value
			case "container_fs_inodes_free":
				f.InodesFree = &value
			case "container_fs_inodes_total":
				f.Inodes = &value
			}
		}
	}
	total, working := whole["machine_memory_bytes"], whole["container_memory_working_set_bytes"]
	if total == 0 || working == 0 || working > total {
		return out, errors.New("the kubelet's metrics lack those of the machine")
	}
	for device, f := range out.devices {
		if bytes, known := used[device]; known && f.CapacityBytes != nil {
			f.AvailableBytes = new(*f.CapacityBytes - min(bytes, *f.CapacityBytes))
		}
	}
	out.Node.Memory = &memoryStats{AvailableBytes: new(total - working), WorkingSetBytes: &working}
	if swap, known := whole["machine_swap_bytes"]; known {
		out.Node.Swap = &swapStats{SwapAvailableBytes: &swap, SwapUsageBytes: new(uint64(0))}
	}
	return out, nil
}

// keepsFiles reports whether a device can fill up with files. File systems in memory are small, and a loop device or a
// CD is always full.
func keepsFiles(device string) bool {
	name, is := strings.CutPrefix(device, "/dev/")
	begins := func(with string) bool { return strings.HasPrefix(name, with) }
	return is && !slices.ContainsFunc([]string{"shm", "loop", "sr", "mqueue"}, begins)
}
