package ask

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
)

// Kernel settings to compare: the settings of each interface, and other settings.
var (
	confs4 = strings.Fields(`forwarding rp_filter proxy_arp arp_ignore arp_announce arp_filter send_redirects accept_redirects
		accept_local accept_source_route route_localnet log_martians disable_policy disable_xfrm src_valid_mark`)
	confs6 = strings.Fields(`forwarding disable_ipv6 accept_ra proxy_ndp accept_redirects accept_source_route accept_dad
		disable_policy addr_gen_mode`)
	sysctls = strings.Fields(`net/ipv4/ip_forward net/ipv4/ip_local_port_range net/ipv4/ip_local_reserved_ports
		net/ipv4/ip_nonlocal_bind net/ipv4/ip_no_pmtu_disc net/ipv4/icmp_echo_ignore_all net/ipv4/icmp_ratelimit
		net/ipv4/fib_multipath_hash_policy net/ipv4/tcp_mtu_probing net/ipv4/tcp_timestamps net/ipv4/tcp_tw_reuse
		net/ipv4/tcp_syncookies net/ipv4/tcp_keepalive_time net/ipv4/tcp_retries2 net/ipv4/tcp_congestion_control
		net/ipv4/neigh/default/gc_thresh1 net/ipv4/neigh/default/gc_thresh2 net/ipv4/neigh/default/gc_thresh3
		net/ipv4/tcp_l3mdev_accept net/ipv4/raw_l3mdev_accept
		net/ipv6/ip_nonlocal_bind net/ipv6/icmp/echo_ignore_all net/ipv6/route/max_size
		net/ipv6/neigh/default/gc_thresh1 net/ipv6/neigh/default/gc_thresh2 net/ipv6/neigh/default/gc_thresh3
		net/bridge/bridge-nf-call-iptables net/bridge/bridge-nf-call-ip6tables net/bridge/bridge-nf-call-arptables
		net/core/somaxconn net/core/netdev_max_backlog net/core/rmem_max net/core/wmem_max net/core/default_qdisc
		net/core/bpf_jit_enable net/core/bpf_jit_harden net/netfilter/nf_conntrack_max net/netfilter/nf_conntrack_buckets
		net/netfilter/nf_conntrack_tcp_be_liberal net/netfilter/nf_conntrack_tcp_loose net/netfilter/nf_conntrack_checksum
		net/netfilter/nf_conntrack_tcp_timeout_established net/netfilter/nf_conntrack_udp_timeout
		fs/file-max fs/nr_open fs/inotify/max_user_instances fs/inotify/max_user_watches
		kernel/pid_max kernel/threads-max kernel/modules_disabled kernel/unprivileged_bpf_disabled kernel/keys/root_maxkeys
		kernel/keys/maxkeys user/max_user_namespaces user/max_net_namespaces vm/max_map_count vm/overcommit_memory`)
)

// maxDevices is the maximum number of pod interfaces to read separately.
const maxDevices = 64

func sysctlState(l look) (items, error) {
	if _, err := kernel.ReadProc(l.h, "sys/net/ipv4/conf/all/forwarding"); err != nil {
		return nil, err
	}
	out := items{}
	folderSysctls(l.h, out, l.own)
	for _, name := range sysctls {
		if text, err := kernel.ReadProc(l.h, "sys/"+name); err == nil {
			out[name] = l.own.value(name, strings.Join(strings.Fields(text), " "))
		}
	}
	groups := map[string][]string{"all": {"all"}, "default": {"default"}}
	if l.out != "" {
		groups["<uplink>"] = []string{l.out}
	}
	for _, d := range l.links {
		if node.IsPods(d) && len(groups["cali*"]) < maxDevices {
			groups["cali*"] = append(groups["cali*"], d.Name)
		}
	}
	for group, devices := range groups {
		for _, of := range []struct {
			tree  string
			names []string
		}{{"net/ipv4/conf/", confs4}, {"net/ipv6/conf/", confs6}} {
			for _, name := range of.names {
				var values []string
				for _, device := range devices {
					if text, err := kernel.ReadProc(l.h, "sys/"+of.tree+device+"/"+name); err == nil {
						values = append(values, strings.TrimSpace(text))
					}
				}
				if value := commonest(values); value != "" {
					out[of.tree+group+"/"+name] = value
				}
			}
		}
	}
	return out, nil
}

// sysctlFolders lists folders in which all settings are compared, because a fault may be in a setting that no
// cause matches. These folders contain about 250 settings.
var sysctlFolders = []string{"net/ipv4", "net/ipv4/route", "net/ipv6", "net/ipv6/icmp", "net/core", "net/netfilter"}

// maxSysctls is the maximum number of settings to read from a folder.
const maxSysctls = 200

// incomparableSysctl matches secret settings, and counters and lists that differ between nodes.
var incomparableSysctl = regexp.MustCompile(`_key$|secret|_count$|available_|rps_sock_flow_entries|flow_limit_cpu_bitmap|netdev_rss_key|nf_log`)

// folderSysctls reads the settings in the folders. It skips settings that cannot be read.
func folderSysctls(h *probe.Host, into items, own neutral) {
	if h.Far != nil {
		return
	}
	for _, folder := range sysctlFolders {
		entries, err := os.ReadDir(filepath.Join(h.Proc, "sys", folder))
		if err != nil {
			continue // a kernel that lacks this feature
		}
		for _, e := range entries[:min(len(entries), maxSysctls)] {
			name := folder + "/" + e.Name()
			if !e.Type().IsRegular() || incomparableSysctl.MatchString(name) {
				continue
			}
			if text, err := kernel.ReadProc(h, "sys/"+name); err == nil {
				into[name] = own.value(name, strings.Join(strings.Fields(text), " "))
			}
		}
	}
}

// commonest returns the most frequent value in a group, and the other values.
func commonest(values []string) string {
	count := map[string]int{}
	var kinds []string
	for _, v := range values {
		if count[v]++; count[v] == 1 {
			kinds = append(kinds, v)
		}
	}
	slices.SortFunc(kinds, func(a, b string) int {
		if n := count[b] - count[a]; n != 0 {
			return n
		}
		return strings.Compare(a, b)
	})
	if len(kinds) < 2 {
		return strings.Join(kinds, "")
	}
	return kinds[0] + ", on some " + strings.Join(kinds[1:], " and ")
}

// linkState reads the interfaces that do not belong to pods. It reads only settings that should be
// the same on all nodes.
func linkState(l look) (items, error) {
	if len(l.links) == 0 {
		return nil, fmt.Errorf("interfaces of the node: %w", probe.ErrNotVisible)
	}
	out := items{}
	var mtus []string
	for _, d := range l.links {
		switch {
		case node.IsPods(d):
			mtus = append(mtus, fmt.Sprint(d.MTU))
			continue
		case d.Kind == "veth" || d.Loopback:
			continue
		}
		value := fmt.Sprintf("%s, MTU %d", d.Kind, d.MTU)
		if !d.Up {
			value += ", down"
		}
		if d.VXLAN != nil {
			value += fmt.Sprintf(", VNI %d, port %d", d.VXLAN.VNI, d.VXLAN.Port)
		}
		if d.Master != "" {
			value += ", part of " + d.Master
		}
		out[l.net.text(d.Name)] = value
	}
	if mtu := commonest(mtus); mtu != "" {
		out["cali*"] = "veth, MTU " + mtu
	}
	return out, nil
}

// routeState reads special routes. It also reads routes that daemons do not maintain on all nodes. It omits routes
// that lead to other nodes' pods through those nodes, because they differ on each node.
func routeState(l look) (items, error) {
	others := map[netip.Addr]bool{}
	for _, t := range l.p.Of(probe.KindNode, probe.KindPeer) {
		others[t.Addr] = true
	}
	pods := podDevices(l.links, l.out)
	out := items{}
	for _, f := range []int{4, 6} {
		routes, err := kernel.Routes(f, 0, 512, func(r kernel.Route) bool { return isOddRoute(r, others, pods) })
		if err != nil && len(routes) == 0 {
			return nil, err
		}
		for _, r := range routes {
			if r.To.Bits() == 0 && r.TypeName() == "" { // each rack has a different gateway
				for i := range r.Hops {
					r.Hops[i].Gateway = netip.Addr{}
				}
				r.Source, r.Metric = netip.Addr{}, 0
			}
			out[l.net.text(r.String())] = ""
		}
	}
	return out, nil
}

// podDevices returns the interfaces that lead to pods, by name. They are the interfaces of the node's pods (of any CNI
// plugin), and tunnels to other nodes. Their routes have Felix's protocol number or, as for VXLAN, no protocol. out is
// the node's uplink.
func podDevices(links []kernel.Link, out string) map[string]bool {
	pods := map[string]bool{}
	for _, d := range links {
		tunnel := d.VXLAN != nil || d.Kind == "ipip" || d.Name == "wireguard.cali" || d.Name == "wg-v6.cali"
		pods[d.Name] = tunnel || (d.Kind == "veth" || d.Kind == "netkit") && d.Name != out &&
			!slices.ContainsFunc(d.Addrs, func(a netip.Prefix) bool { return !a.IsSingleIP() && a.Addr().IsGlobalUnicast() })
	}
	return pods
}

// isOddRoute reports whether a route is worth comparing. This is the case if it leads neither to
// other nodes nor to this node's own pods.
func isOddRoute(r kernel.Route, others map[netip.Addr]bool, pods map[string]bool) bool {
	proto := kernel.ProtocolName(r.Proto)
	toOther := slices.ContainsFunc(r.Hops, func(h kernel.Hop) bool { return others[h.Gateway] })
	switch r.TypeName() {
	case "blackhole", "unreachable", "prohibit", "throw":
		// The kernel adds routes for IPv6. BIRD and Felix add blackhole routes for the unassigned addresses in a block.
		return proto != "bird" && proto != "felix" && proto != "kernel" && (r.Proto != 80)
	case "":
		return !toOther && proto != "kernel" && proto != "bird" && proto != "felix" && proto != "ra" &&
			(proto != "dhcp" || r.To.Bits() == 0) &&
			!slices.ContainsFunc(r.Hops, func(h kernel.Hop) bool { return pods[h.Device] })
	}
	return false
}

// neighbourState reads the permanent neighbour entries, which were added manually. It omits the entries of
// tunnels, because Felix or another network plugin writes these.
func neighbourState(l look) (items, error) {
	out := items{}
	for _, f := range []int{4, 6} {
		all, err := kernel.Neighbours(f)
		if err != nil {
			return nil, err
		}
		for _, n := range all {
			at := slices.IndexFunc(l.links, func(d kernel.Link) bool { return d.Name == n.Device })
			if n.State != "permanent" || n.Addr.IsMulticast() || at < 0 || l.links[at].VXLAN != nil ||
				slices.Contains([]string{"wireguard", "ipip", "tun", "vxlan"}, l.links[at].Kind) {
				continue
			}
			out[l.net.text(fmt.Sprintf("%s dev %s", n.Addr, n.Device))] = "permanent " + l.net.text(n.MAC)
		}
	}
	return out, nil
}

func ruleState(l look) (items, error) {
	out := items{}
	for _, f := range []int{4, 6} {
		rules, err := kernel.Rules(f)
		if err != nil && f == 6 {
			continue // a kernel without IPv6
		}
		if err != nil {
			return nil, err
		}
		for _, r := range rules {
			if !r.Own() {
				name := l.net.text(r.String())
				if f == 6 {
					name = "IPv6 " + name
				}
				out[name] = ""
			}
		}
	}
	return out, nil
}

// policyState reads IPsec policies. In a mesh, each node has policies for all other nodes, so
// policyState replaces the addresses.
func policyState(l look) (items, error) {
	hide := l.net
	for _, t := range l.p.Of(probe.KindNode, probe.KindPeer) {
		if t.Addr.IsValid() {
			hide = hide.with(t.Addr.String(), "<other node>")
		}
	}
	out := items{}
	all, err := kernel.XFRMPolicies()
	for _, p := range all {
		out[hide.text(p.String())] = ""
	}
	return out, err
}

// maxRules is the maximum number of rules in a chain that are listed one by one.
const maxRules = 12

func wallState(l look) (items, error) {
	walls, err := kernel.Walls(l.h, node.ForeignChain)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	out := items{}
	for _, w := range walls {
		name := fmt.Sprintf("%s %s %s", w.Family, w.Table, w.Name)
		if w.Legacy {
			name = "legacy " + name
		}
		if w.Hook == "" {
			out[name] = "chain: " + verdictsOf(w.Rules)
		} else if w.Policy != "accept" || len(w.Rules) > 0 || w.Table != "filter" && !isUsual(w.Table) {
			out[name] = fmt.Sprintf("hook %s, policy %s, %s", w.Hook, w.Policy, verdictsOf(w.Rules))
		}
		if w.Hook == "" && !slices.Contains(w.Rules, "notrack") && len(w.Rules) > maxRules {
			continue
		}
		for i, rule := range w.Rules {
			if i < maxRules || strings.Contains(rule, "notrack") {
				out[name+": "+l.net.text(rule)] = ""
			}
		}
	}
	return out, nil
}

// isUsual reports whether iptables-nft creates this table when it lists rules.
func isUsual(table string) bool {
	return slices.Contains([]string{"nat", "mangle", "raw", "security"}, table)
}

// verdictsOf returns the verdicts of a chain's rules, without duplicates.
func verdictsOf(rules []string) string {
	var out []string
	for _, rule := range rules {
		words := strings.Fields(rule)
		for _, verdict := range []string{"accept", "drop", "reject", "notrack", "return", "jump", "goto", "queue",
			"dnat", "snat",
			"masquerade", "redirect", "nat", "tproxy"} {
			if slices.Contains(words, verdict) && !slices.Contains(out, verdict) {
				out = append(out, verdict)
			}
		}
	}
	slices.Sort(out)
	if len(out) == 0 {
		return "no verdicts"
	}
	return strings.Join(out, " ")
}

// queueState reads the queues of the uplink, of tunnels and of pods' interfaces, and the programs attached to them.
func queueState(l look) (items, error) {
	wanted := slices.DeleteFunc(slices.Clone(l.links), func(d kernel.Link) bool {
		return d.Name != l.out && !node.IsPods(d) && !slices.ContainsFunc(node.Encapsulations,
			func(e node.Encapsulation) bool { return e.Device == d.Name })
	})
	queues, err := kernel.Queues(wanted[:min(len(wanted), maxDevices)])
	if err != nil {
		return nil, err
	}
	values := map[string][]string{}
	for _, q := range queues {
		name := l.net.text(q.Device)
		values[name+" queue"] = append(values[name+" queue"], strings.Join(q.Kinds, " "))
		for _, f := range q.Filters {
			values[name+" filter "+f] = []string{"there"}
		}
		if q.XDP {
			values[name+" XDP program"] = []string{"there"}
		}
	}
	out := items{}
	for name, of := range values {
		out[name] = commonest(of)
	}
	return out, nil
}
