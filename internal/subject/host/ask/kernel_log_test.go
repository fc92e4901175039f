package ask

import (
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/logs"
	"github.com/calico-probe/calico-probe/probe/podlog"
)

// TestKernelKilled trusts the name of a killed process only with its cgroup: one of the node, or of a pod that the plan
// lists as Calico's or Kubernetes' own.
func TestKernelKilled(t *testing.T) {
	t.Parallel()
	const (
		head = "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=cri-containerd-0a.scope,mems_allowed=0,oom_memcg=/x,task_memcg="
		ours = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0e1f2a3b_1111_2222_3333_444455556666.slice/cri-containerd-0a.scope"
		own  = "0e1f2a3b-1111-2222-3333-444455556666"
	)
	now := time.Date(2026, 11, 23, 15, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		cgroup, task, killed string
		id                   string
	}{
		"Calico's":                 {ours, "bird", "bird", logs.KernelKilled},
		"Calico's, by cgroupfs":    {"/kubepods/burstable/pod" + own + "/0a", "bird", "bird", logs.KernelKilled},
		"the node's":               {"/system.slice/kubelet.service", "kubelet", "kubelet", logs.KernelKilled},
		"a tenant's":               {strings.Replace(ours, "0e1f", "ffff", 1), "bird", "bird", logs.KernelKilledPod},
		"a tenant's kubelet":       {"/kubepods/pod0e1f2a3b-1111-2222-3333-444455556667/0a", "kubelet", "kubelet", logs.KernelKilledPod},
		"a tenant's that forges":   {"/kubepods/pod0e1f2a3b-1111-2222-3333-444455556667/0a", ",task_memcg=/a", "kubelet", logs.KernelKilledPod},
		"without an oom-kill line": {"", "kubelet", "kubelet", logs.KernelKilledPod},
		"another program":          {"/system.slice/java.service", "java", "java", logs.KernelKilledPod},
	} {
		lines := []podlog.Line{{Time: now, Text: head + c.cgroup + ",task=" + c.task + ",pid=77,uid=0"},
			{Time: now, Text: "Memory cgroup out of memory: Killed process 77 (" + c.killed + ") total-vm:123kB, anon-rss:1kB"}}
		if c.cgroup == "" {
			lines = lines[1:]
		}
		calico := map[string]string{probe.AttrLogs: "kube-system_calico-node-x_" + own}
		got := judgeKernel(lines, killingsOf([]probe.Target{{Kind: probe.KindCalico, Attrs: calico}}), now, "x")
		if len(got) != 1 || got[0].Facts.Str(logs.FactSignature) != c.id || got[0].Facts.Str(probe.FactKernelOf) != c.killed {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestKernelLog reads lines of the kernel that report a fault, and lines that only look like them.
func TestKernelLog(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 23, 15, 0, 0, 0, time.UTC)
	for text, c := range map[string]struct {
		status  probe.Status
		id, sub string
	}{
		"nf_conntrack: nf_conntrack: table full, dropping packet":                                               {probe.Warn, logs.KernelConntrack, ""},
		"nf_conntrack: table full in netns 4026531840, dropping packet":                                         {probe.Warn, logs.KernelConntrack, ""},
		"neighbour: arp_cache: neighbor table overflow!":                                                        {probe.Warn, logs.KernelNeighbours, "arp_cache"},
		"Out of memory: Killed process 2345 (calico-node) total-vm:123kB":                                       {probe.Info, logs.KernelKilledPod, "calico-node"},
		"Out of memory: Killed process 2345 (java) total-vm:123kB":                                              {probe.Info, logs.KernelKilledPod, "java"},
		"NETDEV WATCHDOG: eth0 (virtio_net): transmit queue 0 timed out":                                        {probe.Warn, logs.KernelQueue, "eth0"},
		"virtio_net virtio1 eth0: NETDEV WATCHDOG: CPU: 3: eth0: transmit queue 0 timed out 5002 ms":            {probe.Warn, logs.KernelQueue, "eth0"},
		"EXT4-fs error (device sda1): ext4_find_entry:1455: inode #2: comm kubelet: reading directory lblock 0": {probe.Warn, logs.KernelDisk, "sda1"},
		"EXT4-fs (nvme0n1p1): Remounting filesystem read-only":                                                  {probe.Warn, logs.KernelDisk, "nvme0n1p1"},
		"I/O error, dev sdb, sector 2048 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2":                       {probe.Warn, logs.KernelDisk, "sdb"},
		"XFS (dm-0): log I/O error -5; Shutting down filesystem. Please unmount":                                {probe.Warn, logs.KernelDisk, "dm-0"},
		"watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [bird:123]":                                          {probe.Warn, logs.KernelStuck, "CPU#1"},
		"rcu: INFO: rcu_sched self-detected stall on CPU":                                                       {probe.Warn, logs.KernelStuck, "rcu_sched"},
		"INFO: task containerd:812 blocked for more than 120 seconds.":                                          {probe.Warn, logs.KernelBlocked, "containerd"},
		"unregister_netdevice: waiting for cali123 to become free. Usage count = 1":                             {probe.Warn, logs.KernelDevice, "cali123"},
		"IPv4: martian source 10.244.1.1 from 10.0.0.5, on dev eth1":                                            {probe.Info, logs.KernelMartian, "eth1"},
		"INFO: task mysqld:99 blocked for more than 120 seconds.":                                               {probe.OK, "", ""},
		"audit: neighbour: arp_cache: neighbor table overflow!":                                                 {probe.OK, "", ""},
		"calico: Out of memory: Killed process 1 (bird)":                                                        {probe.OK, "", ""},
		"EXT4-fs (sda1): mounted filesystem with ordered data mode. Opts: (null)":                               {probe.OK, "", ""},
	} {
		got := judgeKernel([]podlog.Line{{Time: now.Add(-time.Minute), Text: text}}, killings{}, now, "x")
		if len(got) != 1 || got[0].Status != c.status || got[0].Facts.Str(logs.FactSignature) != c.id ||
			got[0].Facts.Str(probe.FactKernelOf) != c.sub {
			t.Errorf("%s: %+v", text, got)
		}
		old := judgeKernel([]podlog.Line{{Time: now.Add(-time.Hour), Text: text}, {Text: text}}, killings{}, now, "x")
		if len(old) != 1 || old[0].Status != probe.OK {
			t.Errorf("an hour ago: %s: %+v", text, old)
		}
	}
	many := strings.Repeat("<4>[  100.000000][  T12] nf_conntrack: nf_conntrack: table full, dropping packet\n", 3) +
		"<12>[  100.000000] Out of memory: Killed process 1 (bird)\n<4>no time\n"
	got := judgeKernel(ringOf(many, now.Add(-2*time.Minute)), killings{}, now, "x")
	checktest.Want(t, got, logs.KernelConntrack, probe.Warn, "3 times, most recently 20s ago")
	if len(got) != 1 {
		t.Errorf("a line that a program wrote is trusted: %+v", got)
	}
	// Without an uptime, the ring has no times. There is no journal either.
	machine := checktest.Node(t, map[string]string{"proc/2/comm": "kthreadd\n"})
	checktest.Want(t, checktest.Run(t, kernelLogCheck, machine), "", probe.Skip, "neither the kernel's ring")
	checktest.Want(t, checktest.Run(t, kernelLogCheck, checktest.Node(t, map[string]string{"proc/2/comm": "sh\n"})), "",
		probe.Skip, "other nodes")
}
