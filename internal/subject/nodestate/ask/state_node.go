package ask

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
)

// modules lists kernel modules that Calico and Kubernetes use, or that conflict with them.
var modules = strings.Fields(`br_netfilter overlay vxlan ipip wireguard nf_conntrack ip_tables ip6_tables nf_tables ip_set
	ip_vs iptable_nat iptable_raw`)

// systemState reads the kernel's version, command line and loaded modules, and the name of the operating system.
func systemState(l look) (items, error) {
	release, err := kernel.ReadProc(l.h, "sys/kernel/osrelease")
	if err != nil {
		return nil, err
	}
	out := items{"kernel": strings.TrimSpace(release)}
	if text, err := l.h.ReadFile("/etc/os-release"); err == nil {
		if _, rest, ok := strings.Cut(string(text), "PRETTY_NAME="); ok {
			name, _, _ := strings.Cut(rest, "\n")
			out["os"] = l.own.text(strings.Trim(name, `"`))
		}
	}
	line, _ := kernel.ReadProc(l.h, "cmdline")
	for word := range strings.FieldsSeq(line) {
		name, _, _ := strings.Cut(word, "=")
		if slices.Contains([]string{"ipv6.disable", "systemd.unified_cgroup_hierarchy", "selinux", "apparmor", "lsm",
			"net.ifnames", "cgroup_no_v1", "cgroup_enable", "cgroup_disable", "lockdown", "module.sig_enforce"}, name) {
			out["boot option "+name] = strings.TrimPrefix(word, name+"=")
		}
	}
	if text, err := kernel.ReadProc(l.h, "modules"); err == nil {
		for line := range strings.Lines(text) {
			if name, _, _ := strings.Cut(line, " "); slices.Contains(modules, name) {
				out["module "+name] = "loaded"
			}
		}
	}
	names, _ := l.h.ReadDir("/etc/modprobe.d") // often not visible
	for _, name := range names[:min(len(names), 50)] {
		text, err := l.h.ReadFile("/etc/modprobe.d/" + name)
		if err != nil {
			continue
		}
		for _, m := range modules {
			if regexp.MustCompile(`(?m)^\s*(blacklist|install)\s+` + m + `\b`).Match(text) {
				out["module "+m+" in modprobe.d"] = "blacklisted"
			}
		}
	}
	return out, nil
}

// limitedProcesses lists the processes whose limits are compared: a display name, the name in the
// kernel, and an argument.
var limitedProcesses = []struct{ name, comm, arg string }{
	{"kubelet", "kubelet", ""}, {"containerd", "containerd", ""}, {"dockerd", "dockerd", ""}, {"crio", "crio", ""},
	{"calico-node", "calico-node", "felix"}, {"bird", "bird", ""}, {"kube-proxy", "kube-proxy", ""},
}

// limitLine matches a line in /proc/PID/limits: "Max open files            1024                 524288
// files".
var limitLine = regexp.MustCompile(`(?m)^Max (open files|processes|locked memory|address space)\s+(\S+)\s+(\S+)`)

func limitState(l look) (items, error) {
	if !node.SeesProcesses(l.h) {
		return nil, fmt.Errorf("the node's processes: %w", probe.ErrNotVisible)
	}
	out := items{}
	for _, d := range limitedProcesses {
		at := node.OnNode
		if d.name == "calico-node" || d.name == "bird" || d.name == "kube-proxy" {
			at = node.InNodesNetwork
		}
		all, err := node.ProcessesOf(l.h, at, func(comm string) bool { return comm == d.comm })
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(all, func(p node.Running) bool { return d.arg == "" || isCalled(p.Args, d.arg) })
		if i < 0 {
			continue
		}
		text, err := kernel.ReadProc(l.h, strconv.Itoa(all[i].PID)+"/limits")
		if err != nil {
			continue
		}
		for _, m := range limitLine.FindAllStringSubmatch(text, -1) {
			out[d.name+" "+m[1]] = m[2] + " soft, " + m[3] + " hard"
		}
		if most := pidsMax(l.h, all[i].Proc); most != "" {
			out[d.name+" pids.max"] = most
		}
	}
	return out, nil
}

// isCalled reports whether one of a process's arguments is the given word, with or without dashes.
func isCalled(args []string, word string) bool {
	return slices.ContainsFunc(args[1:], func(a string) bool { return strings.TrimLeft(a, "-") == word })
}

// pidsMax returns the process limit of a process's cgroup, or "" if the limit is not visible.
func pidsMax(h *probe.Host, p procfs.Proc) string {
	groups, err := p.Cgroups()
	if err != nil {
		return ""
	}
	for _, g := range groups {
		for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/pids"} {
			if text, err := h.ReadFile(path.Join(root, g.Path, "pids.max")); err == nil {
				return strings.TrimSpace(string(text))
			}
		}
	}
	return ""
}

// statePaths lists the node's files that Calico, the kubelet and the runtime need.
var statePaths = []string{"/run/xtables.lock", "/opt/cni/bin", "/etc/cni/net.d", "/var/lib/calico", "/var/run/calico",
	"/run/containerd/containerd.sock", "/var/lib/kubelet", "/var/lib/cni", "/var/log/calico/cni", "/lib/modules",
	"/sys/fs/bpf", "/sys/fs/cgroup", "/var/run/nodeagent", "/etc/resolv.conf", "/etc/hosts", "/tmp"}

func pathState(l look) (items, error) {
	mounts, _ := kernel.ReadProc(l.h, "1/mountinfo")
	out := items{}
	for _, name := range statePaths {
		info, err := l.h.Stat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			out[name] = "missing"
		case err == nil:
			out[name] = strings.TrimSpace(fmt.Sprintf("%s %04o %s", kindName(info.Mode()), info.Mode().Perm(),
				mountProblems(mounts, name)))
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: %w", statePaths[0], probe.ErrNotVisible)
	}
	const plugins, networks = "/opt/cni/bin", "/etc/cni/net.d"
	names, _ := l.h.ReadDir(plugins)
	for _, name := range names[:min(len(names), 60)] {
		if l.ctx.Err() == nil {
			out[plugins+"/"+name] = fileSum(l.h, plugins+"/"+name)
		}
	}
	names, _ = l.h.ReadDir(networks)
	for _, name := range names[:min(len(names), 30)] {
		out[networks+"/"+name] = "there"
		if text, err := l.h.ReadFile(networks + "/" + name); err == nil && strings.Contains(path.Ext(name), "conf") {
			out[networks+"/"+name] = "sum " + sumOf([]byte(l.own.text(string(text))))
			networkItems(out, l.own, networks+"/"+name, text)
		}
	}
	return out, nil
}

// networkItems puts the content of a network configuration into a map. The settings of each plugin are under the
// plugin's type: "/etc/cni/net.d/10-calico.conflist calico.ipam.type" → "calico-ipam". These items replace the
// file's checksum.
func networkItems(into items, n neutral, file string, text []byte) {
	var list map[string]any
	if json.Unmarshal(text, &list) != nil {
		return
	}
	into[file] = "there"
	plugins, _ := list["plugins"].([]any)
	delete(list, "plugins")
	var types []string
	for _, one := range plugins {
		settings, _ := one.(map[string]any)
		kind, _ := settings["type"].(string)
		types = append(types, kind)
		delete(settings, "type")
		flat(into, n, file+" "+kind, settings)
	}
	if len(types) > 0 {
		into[file+" plugins"] = n.value("plugins", strings.Join(types, ", "))
	}
	for key, value := range list {
		flat(into, n, file+" "+key, value)
	}
}

func kindName(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "folder"
	case m.IsRegular():
		return "file"
	case m&fs.ModeSocket != 0:
		return "socket"
	}
	return "special file"
}

// mountProblems returns the mount options of a path that prevent programs from using the path.
func mountProblems(table, name string) string {
	at, options := "", ""
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 6 || f[4] != "/" && f[4] != name && !strings.HasPrefix(name, f[4]+"/") || len(f[4]) < len(at) {
			continue
		}
		at, options = f[4], f[5]
	}
	var out []string
	for _, option := range []string{"ro", "noexec"} {
		if slices.Contains(strings.Split(options, ","), option) {
			out = append(out, option)
		}
	}
	return strings.Join(out, " ")
}

// sumHead is the number of bytes of a plugin that its checksum covers. These bytes contain the build ID. Reading
// whole plugins would take too long.
const sumHead = 64 << 10

func fileSum(h *probe.Host, name string) string {
	f, err := h.Open(name)
	if err != nil {
		return "unreadable"
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "unreadable"
	}
	var head bytes.Buffer
	if _, err := io.Copy(&head, io.LimitReader(f, sumHead)); err != nil {
		return "unreadable"
	}
	return fmt.Sprintf("%04o, %d bytes, sum %s", info.Mode().Perm(), info.Size(), sumOf(head.Bytes()))
}

// meddlers lists programs that are not part of Calico but change a node's network, by their names in the kernel.
var meddlers = strings.Fields(`NetworkManager systemd-network firewalld ufw nftables keepalived charon charon-systemd pluto starter
	flanneld cilium-agent weaver kube-router dockerd antrea-agent ovs-vswitchd ovnkube ovn-controller kube-ovn-daemon
	fail2ban-server crowdsec tailscaled openvpn wg-quick zerotier-one dhclient dhcpcd netplan wicked zebra bgpd frr
	gobgpd speaker kube-vip ip-masq-agent istio-cni linkerd-cni aws-k8s-agent azure-vnet haproxy dnsmasq node-cache
	systemd-resolve auditd falcon-sensor ds_agent conntrackd nm-cloud-setup irqbalance tuned`)

func processState(l look) (items, error) {
	if !node.SeesProcesses(l.h) {
		return nil, fmt.Errorf("the node's processes: %w", probe.ErrNotVisible)
	}
	const longest = 15 // length of a name in the kernel (TASK_COMM_LEN minus one)
	all, err := node.ProcessesOf(l.h, node.InNodesNetwork, func(comm string) bool {
		return slices.ContainsFunc(meddlers, func(m string) bool { return m[:min(len(m), longest)] == comm })
	})
	if err != nil {
		return nil, err
	}
	out := items{}
	for _, p := range all {
		if comm, err := p.Comm(); err == nil {
			out[comm] = "runs"
		}
	}
	return out, nil
}

// calicoNames lists the environment variables that configure calico-node.
var calicoNames = regexp.MustCompile(`^(FELIX_|IP|CALICO_|CLUSTER_TYPE$|BGP_|TYPHA_|CONFD_|BIRD_|ETCD_|KUBECONFIG$|KUBERNETES_SERVICE_(HOST|PORT)$|` +
	`DATASTORE_TYPE$|WAIT_FOR_DATASTORE$|NO_DEFAULT_POOLS$|AS$|USE_POD_CIDR$|MULTI_INTERFACE_MODE$|FELIXHOSTNAME$|NODENAME$|` +
	`(HTTP|HTTPS|NO|http|https|no)_(PROXY|proxy)$|GOMEMLIMIT$|GOMAXPROCS$)`)

func calicoState(l look) (items, error) {
	all, err := node.ProcessesOf(l.h, node.InNodesNetwork, func(comm string) bool { return comm == "calico-node" })
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(p node.Running) bool { return isCalled(p.Args, "felix") })
	if i < 0 && len(all) > 0 {
		i = 0
	}
	if i < 0 {
		return nil, fmt.Errorf("a process of calico-node: %w", probe.ErrNotVisible)
	}
	text, err := kernel.ReadProc(l.h, strconv.Itoa(all[i].PID)+"/environ")
	if err != nil || text == "" {
		return nil, fmt.Errorf("the environment of calico-node: %w", probe.ErrNotVisible)
	}
	out := items{}
	for variable := range strings.SplitSeq(text, "\x00") {
		if name, value, _ := strings.Cut(variable, "="); calicoNames.MatchString(name) && len(out) < maxSettings {
			out[name] = l.own.value(name, value)
		}
	}
	return out, nil
}

func resolverState(l look) (items, error) {
	text, err := l.h.ReadFile("/etc/resolv.conf")
	if err != nil {
		return nil, err
	}
	out := items{}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) > 1 && slices.Contains([]string{"nameserver", "search", "options", "domain"}, f[0]) {
			value := l.own.text(strings.Join(f[1:], " "))
			if out[f[0]] != "" {
				value = out[f[0]] + ", " + value
			}
			out[f[0]] = value
		}
	}
	return out, nil
}
