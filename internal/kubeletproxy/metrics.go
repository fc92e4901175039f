package kubeletproxy

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// machineMetric is one of the metrics that tell of the machine, or of the cgroup that has all its processes.
var machineMetric = regexp.MustCompile(`(?m)^(machine_memory_bytes|machine_swap_bytes|container_memory_working_set_bytes|` +
	`container_fs_limit_bytes|container_fs_usage_bytes|container_fs_inodes_free|container_fs_inodes_total)` +
	`\{([^}\n]*)\} ([0-9.e+]{1,25})(?: |$)`)

// metricsDevice is the device that such a metric is of.
var metricsDevice = regexp.MustCompile(`,device="([\w/.-]{1,100})"`)

// maxDevices is of how many devices something is told.
const maxDevices = 32

// readMetrics reads what the summary has from the kubelet's metrics, for which it asks no container runtime.
func (k *Kubelet) readMetrics(ctx context.Context) (kubeletSummary, error) {
	a, err := k.get(ctx, "/metrics/cadvisor", "", summaryMost)
	if err != nil {
		return kubeletSummary{devices: map[string]*kubeletFs{}}, err
	}
	return summaryIn(string(a.body))
}

// summaryIn reads the summary from metrics.
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
		return out, errors.New("the kubelet's metrics do not tell of the machine")
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

// keepsFiles tells whether a device is one that fills up: what is in memory is small, and a loop device or a CD full
// by its nature.
func keepsFiles(device string) bool {
	name, is := strings.CutPrefix(device, "/dev/")
	begins := func(with string) bool { return strings.HasPrefix(name, with) }
	return is && !slices.ContainsFunc([]string{"shm", "loop", "sr", "mqueue"}, begins)
}
