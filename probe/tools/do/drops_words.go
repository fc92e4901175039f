package do

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/prometheus/procfs"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/drops"
	"github.com/calico-probe/calico-probe/probe/skbdrop"
)

// view describes places in the kernel in words.
type view struct {
	own, node uint32            // the sender's namespace and the node's namespace
	home      string            // the name of the node's namespace
	names     map[uint32]string // names of other namespaces
	processes func() procfs.Procs
	paths     []skbdrop.Path
	grew      []drops.Death // counters that grew in the meantime
}

// newView returns this process's view. It uses the same name for the node's namespace as the counters do. If a
// process was started inside a pod, its parent is on the node.
func newView(h *probe.Host, home string) *view {
	v := &view{home: home, names: map[uint32]string{}}
	fs, err := procfs.NewFS(h.Proc)
	if err != nil { // in that case, namespaces have only numbers
		return v
	}
	if own, err := fs.Self(); err == nil {
		v.own = namespace(own)
	}
	if parent, err := fs.Proc(os.Getppid()); err == nil {
		v.node = namespace(parent)
	}
	v.node = cmp.Or(v.node, v.own)
	v.processes = func() procfs.Procs { all, _ := fs.AllProcs(); return all } // on an error, the same applies
	return v
}

// namespace returns the number of a process's network namespace, or 0 if it is not visible.
func namespace(p procfs.Proc) uint32 {
	all, err := p.Namespaces()
	if err != nil {
		return 0
	}
	return all["net"].Inode
}

// where returns the name of a network namespace. Namespaces other than the node's and the pod's are
// named after a process in them.
func (v *view) where(n uint32) string {
	switch n {
	case 0:
		return "an unknown namespace"
	case v.node:
		return v.home
	case v.own:
		return thePod
	}
	if v.names[n] == "" {
		v.names[n] = v.holder(n)
	}
	return v.names[n]
}

func (v *view) holder(n uint32) string {
	if v.processes == nil {
		return fmt.Sprintf("namespace %d", n)
	}
	for _, p := range v.processes() {
		if namespace(p) != n {
			continue
		}
		if comm, err := p.Comm(); err == nil {
			return fmt.Sprintf("the namespace of %s, process %d", probe.OneLine(comm), p.PID)
		}
	}
	return fmt.Sprintf("namespace %d", n)
}

// step describes what happens to a packet at one place.
func step(e skbdrop.Event) string {
	at, wrapped := probe.OneLine(e.Interface), ""
	if e.Wrapped {
		wrapped = ", inside a tunnel packet"
	}
	switch e.Kind {
	case skbdrop.Left:
		return "left " + at + wrapped
	case skbdrop.Came:
		return "came in by " + at + wrapped
	}
	out := "dropped"
	if hook := e.Hook(); hook != "" {
		out += " in " + hook
	}
	if at != "" {
		out += " at " + at
	}
	out += wrapped + ": " + e.Reason
	if f := e.Function(); f != "" {
		out += ", " + f
	}
	return out
}

// end describes where a packet ended, and what that means.
func (v *view) end(g skbdrop.Group) string {
	e := g.End()
	last := step(e) + " in " + v.where(e.Namespace)
	switch e.Kind {
	case skbdrop.Dropped:
		last = "was " + strings.Replace(step(e), ": ", " in "+v.where(e.Namespace)+": ", 1)
		rule, says := v.rule(e), means(e)
		switch {
		case rule != "":
			return last + ", by " + rule
		case says != "":
			return last + ": " + says
		}
		return last
	case skbdrop.Left:
		return last + ", and was not seen again: it is lost in the driver, the NIC, or beyond this machine"
	}
	return last + ", and was not seen again: the kernel does not count this as a drop (a full socket queue, " +
		"XDP, a packet that waits)"
}

// rule describes the rule whose counter grew by the number of packets that were dropped. The rule must be in the
// namespace and at the hook of the drop. It returns "" if no rule or more than one rule matches, or if rules are not
// counted in that namespace. If a rule's counter grew by more, it also counted other packets and may not have
// counted ours.
func (v *view) rule(e skbdrop.Event) string {
	hook := e.Hook()
	if e.Kind != skbdrop.Dropped || hook == "" {
		return ""
	}
	other := "ip6"
	if e.Src.Addr().Is6() {
		other = "ip"
	}
	died := 0
	for _, p := range v.paths {
		if last := p.End(); last.Kind == skbdrop.Dropped && last.Namespace == e.Namespace && last.Hook() == hook {
			died++
		}
	}
	var exactly []drops.Death
	for _, d := range v.grew {
		switch r := d.Rule; {
		case r == nil, r.Family == other, d.Where != v.where(e.Namespace), d.Count != died:
		case r.Hook == "" || strings.EqualFold(r.Hook, hook):
			exactly = append(exactly, d)
		}
	}
	if len(exactly) != 1 {
		return ""
	}
	return exactly[0].Place
}

// reasons explains the kernel's names for drop reasons (include/net/dropreason-core.h).
var reasons = map[string]string{
	"NO_SOCKET":           "nothing listens at that port",
	"NETFILTER_DROP":      "a firewall rule, but no counter shows which",
	"OTHERHOST":           "the frame was for another MAC address: the sender has a wrong neighbour entry",
	"IP_CSUM":             "the IP checksum is wrong",
	"ICMP_CSUM":           "the ICMP checksum is wrong",
	"TCP_CSUM":            "the TCP checksum is wrong",
	"UDP_CSUM":            "the UDP checksum is wrong",
	"SKB_CSUM":            "the checksum could not be computed",
	"IP_RPFILTER":         "rp_filter: the route back to its source uses another interface",
	"IP_INNOROUTES":       "no route",
	"IP_OUTNOROUTES":      "no route",
	"IP_INADDRERRORS":     "this namespace does not forward, or not to such an address",
	"IP_LOCAL_SOURCE":     "it came from outside with an address of this machine",
	"IP_INHDR":            "its TTL expired, or its header is wrong",
	"PKT_TOO_BIG":         "larger than the MTU of the next interface",
	"NEIGH_FAILED":        "the next hop does not answer ARP or neighbour discovery",
	"NEIGH_QUEUEFULL":     "too many packets wait for the next hop's MAC address",
	"QDISC_DROP":          "the interface's queue (tc), or it has no carrier",
	"QDISC_OVERLIMIT":     "the interface's queue (tc) is full",
	"TC_INGRESS":          "a tc program or filter, ingress",
	"TC_EGRESS":           "a tc program or filter, egress",
	"XDP":                 "an XDP program",
	"BPF_CGROUP_EGRESS":   "a cgroup program, egress",
	"CPU_BACKLOG":         "the CPU's backlog is full (softnet)",
	"FULL_RING":           "the interface's ring is full",
	"DEV_READY":           "the interface is down",
	"SOCKET_RCVBUFF":      "the socket's receive buffer is full",
	"SOCKET_FILTER":       "a socket filter",
	"SOCKET_BACKLOG":      "the socket's backlog is full",
	"TCP_LISTEN_OVERFLOW": "the listener's queue is full",
	"TCP_MD5NOTFOUND":     "the packet lacks the password that the other side has for this peer (TCP MD5)",
	"TCP_MD5UNEXPECTED":   "the packet has a password (TCP MD5), but the other side has none for this peer",
	"TCP_MD5FAILURE":      "the two sides have different passwords (TCP MD5)",
	"TCP_AUTH_HDR":        "the packet's authentication (TCP MD5 or AO) is wrong",
	"XFRM_POLICY":         "an IPsec policy",
	"UNHANDLED_PROTO":     "nothing here handles that protocol",
	"VXLAN_VNI_NOT_FOUND": "no VXLAN interface here has that VNI",
	"VXLAN_INVALID_HDR":   "the VXLAN header is wrong",
	"NO_TX_TARGET":        "the tunnel has no entry for the destination host",
	"MAC_INVALID_SOURCE":  "the source's MAC address is wrong",
	"IPV6DISABLED":        "IPv6 is switched off",
	"FRAG_REASM_TIMEOUT":  "a fragment of it did not arrive",
	"SECURITY_HOOK":       "a security module",
}

// functions explains what it means if one of these functions drops a packet without giving its own reason.
var functions = map[string]string{
	"ip_error":           "a blackhole or prohibit route",
	"dst_discard":        "a blackhole route",
	"neigh_invalidate":   reasons["NEIGH_FAILED"],
	"arp_error_report":   reasons["NEIGH_FAILED"],
	"ndisc_error_report": reasons["NEIGH_FAILED"],
	"do_xdp_generic":     reasons["XDP"],
	"__dev_forward_skb2": "larger than the MTU of the other end, or the other end is down",
	"vxlan_xmit":         reasons["NO_TX_TARGET"],
}

// means explains a drop, or returns "" if only the kernel's words are available.
func means(e skbdrop.Event) string {
	if says := reasons[e.Reason]; says != "" {
		return says
	}
	return functions[e.Function()]
}
