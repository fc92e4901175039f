package api

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/calico-probe/calico-probe/internal/apicheck"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/netpolicy"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// hostPort is a port that the node itself needs.
type hostPort struct {
	number int
	whose  string
	from   netip.Addr // the client that needs it, if known
}

// hostPorts are the TCP ports to the node that the check judges. By default, all but the kubelet's are among Felix's
// failsafe ports.
func hostPorts() []hostPort {
	return []hostPort{{number: 10250, whose: "the kubelet's"}, {number: 6443, whose: "the API server's"},
		{number: 179, whose: "BGP's"}, {number: 22, whose: "ssh's"}}
}

// loopbackPort represents connections of the node to itself over the loopback. A HostEndpoint of all interfaces also
// applies to them. The kubelet probes Felix that way, and fetches the output of exec and attach from the container
// runtime.
func loopbackPort(s *cluster.Snapshot) hostPort {
	return hostPort{number: cmp.Or(cluster.FelixTarget(s).Port, 9099), whose: "Felix's",
		from: netip.AddrFrom4([4]byte{127, 0, 0, 1})}
}

// failsafeIn are Felix's default failsafe ports to the node (felix/config).
var failsafeIn = []int{22, 179, 2379, 2380, 5473, 6443, 6666, 6667}

// failsafe are the TCP ports that Felix accepts regardless of HostEndpoints' policies. It returns false if some ports
// apply only to certain networks.
func failsafe(s *cluster.Snapshot) (ports []int, whole bool) {
	if text := s.CalicoEnv("FELIX_FAILSAFEINBOUNDHOSTPORTS"); text != "" {
		return failsafeOf(text)
	}
	list, set := s.Felix.Value["failsafeInboundHostPorts"].([]any)
	if !set {
		return failsafeIn, true
	}
	whole = true
	for _, item := range list {
		one, _ := item.(map[string]any)
		if protocol, _ := one["protocol"].(string); protocol != "" && !strings.EqualFold(protocol, "tcp") {
			continue
		}
		port, _ := strconv.Atoi(fmt.Sprint(one["port"])) // a number from JSON, integer or float
		ports = append(ports, port)
		whole = whole && one["net"] == nil
	}
	return ports, whole
}

// failsafeOf parses Felix's variable: tcp:0.0.0.0/0:22,udp:68,9000 or none.
func failsafeOf(text string) (ports []int, whole bool) {
	whole = true
	for part := range strings.SplitSeq(text, ",") {
		fields := strings.Split(strings.TrimSpace(part), ":")
		port, err := strconv.Atoi(fields[len(fields)-1])
		if err != nil || len(fields) > 1 && !strings.EqualFold(fields[0], "tcp") {
			continue
		}
		ports = append(ports, port)
		whole = whole && len(fields) < 3
	}
	return ports, whole
}

// hostEndpoints judges the HostEndpoints of this node.
func hostEndpoints(s *cluster.Snapshot, report func(probe.Result)) {
	own := slices.DeleteFunc(slices.Clone(s.HostEndpoints.Value),
		func(h cluster.HostEndpoint) bool { return h.Node != s.Node.Name })
	slices.SortFunc(own, func(a, b cluster.HostEndpoint) int { return cmp.Compare(a.Name, b.Name) })
	switch unknown := errors.Join(s.HostEndpoints.Err, s.Felix.Err, s.Policies.Unread, s.Policies.Other); {
	case s.HostEndpoints.Err != nil && cluster.Denied(s.HostEndpoints.Err):
		report(probe.Found(probe.Skip, "you lack permission to list HostEndpoints"))
	case s.HostEndpoints.Err != nil:
		report(apicheck.Unread(s.HostEndpoints.Err))
	case len(own) == 0:
		report(probe.Found(probe.OK, "no HostEndpoint applies to this node"))
	case unknown != nil:
		r := probe.Found(probe.Info, "%s for this node; the effect of policies is unknown: %s",
			cluster.Plural(len(own), "HostEndpoint"), probe.OneLine(unknown.Error()))
		if apicheck.Failed(unknown) {
			r.Status = probe.Unknown
		}
		report(r)
	default:
		for _, h := range own[:min(len(own), 20)] { // one for each interface
			report(judgeHost(s, h).On(h.Name))
		}
	}
}

// judgeHost reports which ports of the node one HostEndpoint surely blocks.
func judgeHost(s *cluster.Snapshot, h cluster.HostEndpoint) probe.Result {
	open, whole := failsafe(s)
	where := cmp.Or(h.Device, strings.Join(h.Addrs, ", "))
	by := ""
	var shut []string
	numbers := []int{}
	for _, port := range hostPorts() {
		if slices.Contains(open, port.number) || !whole {
			continue
		}
		if policy, denied := blocks(s, h, probe.DeniesIngress, port); denied {
			by = cmp.Or(by, policy)
			shut = append(shut, fmt.Sprintf("%d (%s)", port.number, port.whose))
			numbers = append(numbers, port.number)
		}
	}
	felix := loopbackPort(s)
	policy, home := blocks(s, h, probe.DeniesIngress, felix)
	home = home && h.Device == "*" && whole && !slices.Contains(open, felix.number)
	if home {
		by = cmp.Or(by, policy)
	}
	policy, out := blocks(s, h, probe.DeniesEgress, hostPort{number: netpolicy.HTTPSPort})
	if _, chosen := s.Felix.Value["failsafeOutboundHostPorts"]; chosen || s.CalicoEnv("FELIX_FAILSAFEOUTBOUNDHOSTPORTS") != "" {
		out = false // the client may be among them
	}
	if out {
		by = cmp.Or(by, policy)
	}
	var says []string
	if len(shut) > 0 {
		says = append(says, fmt.Sprintf("no policy allows TCP %s to the node, and they are not failsafe ports", strings.Join(shut, ", ")))
	}
	if home {
		says = append(says, fmt.Sprintf("no policy allows traffic from %v, such as to Felix's port %d", felix.from, felix.number))
	}
	if out {
		says = append(says, "no policy allows the node's own outgoing traffic, such as HTTPS, except to failsafe ports")
	}
	if len(says) == 0 {
		return probe.Found(probe.OK, "on %s; no policy clearly blocks a port that Kubernetes or Calico needs", where)
	}
	none := "no policy selects this HostEndpoint"
	if len(shut) == 0 && !home {
		none = "no egress policy selects this HostEndpoint"
	}
	r := probe.Found(probe.Warn, "on %s: %s; %s", where, strings.Join(says, ", and "), cmp.Or(by, none))
	return r.With(facts.HostEndpoint, h.Name).With(facts.ShutPorts, numbers).With(facts.ShutOut, out).
		With(facts.ShutLoopback, home).With(facts.ShutBy, by).
		With(facts.OnAddress, appliesToNode(s, h)).With(facts.OnDevice, h.Device)
}

// appliesToNode reports whether a HostEndpoint surely applies to the node's InternalIP: by its address, or because it
// applies to all interfaces.
func appliesToNode(s *cluster.Snapshot, h cluster.HostEndpoint) bool {
	return h.Device == "*" || slices.ContainsFunc(cluster.InternalIPs(s.Node), func(a netip.Addr) bool {
		return slices.Contains(h.Addrs, a.String())
	})
}

// blocks reports whether a HostEndpoint certainly blocks a TCP port of a node (with DeniesEgress, of other machines),
// and returns the policy. Without a policy for the HostEndpoint the name is "": it then denies all traffic unless a
// profile allows it.
func blocks(s *cluster.Snapshot, h cluster.HostEndpoint, direction string, port hostPort) (by string, denied bool) {
	by, held := s.Policies.AtHost(h.Labels, direction, port.number, port.from)
	return by, by != "" || !held && len(h.Profiles) == 0
}
