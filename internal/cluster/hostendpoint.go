package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/calico-probe/calico-probe/internal/netpolicy"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// hostEndpoint is one of Calico's HostEndpoints: an interface of a node that policies hold for. What no
// policy allows there is dropped, but for the failsafe ports.
type hostEndpoint struct {
	name, node, device string
	labels             map[string]string
	addrs              []string // expectedIPs
	profiles           []string
}

// readHostEndpoints lists the HostEndpoints of all nodes: whose they are is in their specs.
func (c *Client) readHostEndpoints(ctx context.Context) ([]hostEndpoint, error) {
	items, _, err := c.list(ctx, "hostendpoints", 0)
	var out []hostEndpoint
	for _, item := range items {
		text := func(key string) string { s, _, _ := unstructured.NestedString(item.Object, "spec", key); return s }
		list := func(key string) []string {
			l, _, _ := unstructured.NestedStringSlice(item.Object, "spec", key)
			return l
		}
		out = append(out, hostEndpoint{name: item.GetName(), node: text("node"), device: text("interfaceName"),
			labels: item.GetLabels(), addrs: list("expectedIPs"), profiles: list("profiles")})
	}
	return out, err
}

// hostPort is a port of the node that something needs.
type hostPort struct {
	number int
	whose  string
	from   netip.Addr // who needs it, where that is known
}

// hostPorts are those that are asked about, of TCP and towards the node. The kubelet's alone is not among
// Felix's failsafe ports where nobody chose others.
func hostPorts() []hostPort {
	return []hostPort{{number: 10250, whose: "the kubelet's"}, {number: 6443, whose: "the API server's"},
		{number: 179, whose: "BGP's"}, {number: 22, whose: "ssh's"}}
}

// atHome stands for what the node asks itself by the loopback, which a HostEndpoint of every interface is about
// too: the kubelet asks Felix there, and has from the container runtime what exec and attach say.
func (s *Snapshot) atHome() hostPort {
	return hostPort{number: cmp.Or(felixTarget(s).Port, 9099), whose: "Felix's",
		from: netip.AddrFrom4([4]byte{127, 0, 0, 1})}
}

// failsafeIn are Felix's failsafe ports towards the node where nobody chose others (felix/config).
var failsafeIn = []int{22, 179, 2379, 2380, 5473, 6443, 6666, 6667}

// failsafe are the ports of TCP that Felix lets in whatever the policies of HostEndpoints say; false where
// some of them are for certain networks alone.
func (s *Snapshot) failsafe() (ports []int, whole bool) {
	if text := s.calicoEnv("FELIX_FAILSAFEINBOUNDHOSTPORTS"); text != "" {
		return failsafeOf(text)
	}
	list, set := s.felix.Value["failsafeInboundHostPorts"].([]any)
	if !set {
		return failsafeIn, true
	}
	whole = true
	for _, item := range list {
		one, _ := item.(map[string]any)
		if protocol, _ := one["protocol"].(string); protocol != "" && !strings.EqualFold(protocol, "tcp") {
			continue
		}
		port, _ := strconv.Atoi(fmt.Sprint(one["port"])) // JSON's, so whole or not
		ports = append(ports, port)
		whole = whole && one["net"] == nil
	}
	return ports, whole
}

// failsafeOf reads Felix's variable: tcp:0.0.0.0/0:22,udp:68,9000 or none.
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
func hostEndpoints(s *Snapshot, report func(probe.Result)) {
	own := slices.DeleteFunc(slices.Clone(s.hostEndpoints.Value),
		func(h hostEndpoint) bool { return h.node != s.Node.Name })
	slices.SortFunc(own, func(a, b hostEndpoint) int { return cmp.Compare(a.name, b.name) })
	switch unknown := errors.Join(s.hostEndpoints.Err, s.felix.Err, s.policies.Unread, s.policies.Other); {
	case s.hostEndpoints.Err != nil && denied(s.hostEndpoints.Err):
		report(probe.Found(probe.Skip, "you may not list HostEndpoints"))
	case s.hostEndpoints.Err != nil:
		report(unread(s.hostEndpoints.Err))
	case len(own) == 0:
		report(probe.Found(probe.OK, "no HostEndpoint is about this node"))
	case unknown != nil:
		r := probe.Found(probe.Info, "%s about this node; what policies do there is not known: %s",
			plural(len(own), "HostEndpoint"), probe.OneLine(unknown.Error()))
		if failed(unknown) {
			r.Status = probe.Unknown
		}
		report(r)
	default:
		for _, h := range own[:min(len(own), 20)] { // one for each interface
			report(s.judgeHost(h).On(h.name))
		}
	}
}

// judgeHost says which ports of the node one HostEndpoint surely shuts.
func (s *Snapshot) judgeHost(h hostEndpoint) probe.Result {
	open, whole := s.failsafe()
	where := cmp.Or(h.device, strings.Join(h.addrs, ", "))
	by := ""
	var shut []string
	numbers := []int{}
	for _, port := range hostPorts() {
		if slices.Contains(open, port.number) || !whole {
			continue
		}
		if policy, denied := s.shuts(h, probe.DeniesIngress, port); denied {
			by = cmp.Or(by, policy)
			shut = append(shut, fmt.Sprintf("%d (%s)", port.number, port.whose))
			numbers = append(numbers, port.number)
		}
	}
	felix := s.atHome()
	policy, home := s.shuts(h, probe.DeniesIngress, felix)
	home = home && h.device == "*" && whole && !slices.Contains(open, felix.number)
	if home {
		by = cmp.Or(by, policy)
	}
	policy, out := s.shuts(h, probe.DeniesEgress, hostPort{number: netpolicy.HTTPSPort})
	if _, chosen := s.felix.Value["failsafeOutboundHostPorts"]; chosen || s.calicoEnv("FELIX_FAILSAFEOUTBOUNDHOSTPORTS") != "" {
		out = false // it may be among them
	}
	if out {
		by = cmp.Or(by, policy)
	}
	var says []string
	if len(shut) > 0 {
		says = append(says, fmt.Sprintf("nothing lets TCP %s in to the node, nor are they failsafe ports", strings.Join(shut, ", ")))
	}
	if home {
		says = append(says, fmt.Sprintf("nothing lets in what comes from %v, as to Felix's port %d", felix.from, felix.number))
	}
	if out {
		says = append(says, "nothing lets out what the node itself sends, such as HTTPS, but to failsafe ports")
	}
	if len(says) == 0 {
		return probe.Found(probe.OK, "on %s; of no port that Kubernetes and Calico need is it sure that it is shut", where)
	}
	none := "no policy selects it"
	if len(shut) == 0 && !home {
		none = "no policy of Egress selects it"
	}
	r := probe.Found(probe.Warn, "on %s: %s; %s", where, strings.Join(says, ", and "), cmp.Or(by, none))
	return r.With(facts.HostEndpoint, h.name).With(facts.ShutPorts, numbers).With(facts.ShutOut, out).
		With(facts.ShutLoopback, home).With(facts.ShutBy, by).With(facts.OnAddress, s.about(h)).With(facts.OnDevice, h.device)
}

// about tells whether a HostEndpoint is surely about the InternalIP of the node: by its address, or because
// it is about every interface.
func (s *Snapshot) about(h hostEndpoint) bool {
	return h.device == "*" || slices.ContainsFunc(InternalIPs(s.Node), func(a netip.Addr) bool {
		return slices.Contains(h.addrs, a.String())
	})
}

// shuts reports whether a TCP port of a node, or with DeniesEgress of others, is surely shut at a HostEndpoint, and the
// policy that does it, "" where none selects it: then all is denied, unless a profile allows it.
func (s *Snapshot) shuts(h hostEndpoint, direction string, port hostPort) (by string, denied bool) {
	by, held := s.policies.AtHost(h.labels, direction, port.number, port.from)
	return by, by != "" || !held && len(h.profiles) == 0
}
