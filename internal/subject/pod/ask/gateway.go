package ask

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
)

// podGatewayCheck binds pod.PodGateway to the function that runs it.
var podGatewayCheck = answers.To(pod.PodGateway, podGateway)

// Facts of pod-gateway.
const (
	factLooked probe.Fact = "interface_n" // number of interfaces that were examined
	factOfPods probe.Fact = "of_pods"     // true if these are pods' interfaces
)

// linkSetting is a kernel setting of an interface, and the effect of a wrong value.
type linkSetting struct {
	family int
	name   string
	wanted int
	byAll  bool // the kernel also applies the value of "all" (proxy_arp is on if either is on)
	pods   bool // true for pods' interfaces; false for the uplink and tunnels, where packets for pods arrive
	effect string
}

var linkSettings = []linkSetting{
	{4, "proxy_arp", 1, true, true, "pods get no ARP reply for their gateway 169.254.1.1"},
	{4, "forwarding", 1, false, true, "packets from their pods are not forwarded"},
	{4, "forwarding", 1, false, false, "packets to pods that arrive there are not forwarded"},
	{6, "disable_ipv6", 0, false, true, "their pods have no IPv6 gateway"},
	{6, "disable_ipv6", 0, false, false, "no IPv6 packets enter or leave there"},
}

func podGateway(ctx context.Context, p *probe.Pass) {
	all, err := kernel.Links()
	if err != nil {
		p.Report(node.Unseen(err))
		return
	}
	var pods, inbound []string
	for _, d := range all {
		tunnel := slices.ContainsFunc(node.Encapsulations,
			func(e node.Encapsulation) bool { return e.Device == d.Name && e.Family == 4 })
		switch {
		case node.IsPods(d) && d.Up && d.Carrier:
			pods = append(pods, d.Name)
		case d.Up && (tunnel || d.Name == node.UplinkName(p)):
			inbound = append(inbound, d.Name)
		}
	}
	if len(pods) == 0 {
		p.Report(probe.Found(probe.Skip, "no pod interface (cali*) is up on this node"))
		return
	}
	six := slices.ContainsFunc(p.Of(probe.KindSelf), func(t probe.Target) bool { return node.Family(t.Addr) == 6 })
	read := func() []probe.Result { return checkLinks(p.Host, pods, inbound, six) }
	found := read()
	// A new pod's interface may not have its settings yet, so a wrong value counts only if it persists.
	if slices.ContainsFunc(found, func(r probe.Result) bool { return r.Status == probe.Fail }) {
		select {
		case <-ctx.Done():
		case <-time.After(500 * time.Millisecond):
			found = read()
		}
	}
	for _, r := range found {
		p.Report(r)
	}
}

// checkLinks reads each setting. It reads those for pods from pods' interfaces (pods), and the
// others from the uplink and tunnels (inbound).
func checkLinks(h *probe.Host, pods, inbound []string, six bool) []probe.Result {
	var out []probe.Result
	forwards, err := kernel.Sysctl(h, "net/ipv4/ip_forward")
	for _, s := range linkSettings {
		names := inbound
		if s.pods {
			names = pods
		}
		if s.family == 6 && !six || s.name == "forwarding" && (err != nil || forwards == 0) {
			continue
		}
		if r, wrong := wrongSetting(h, s, names); wrong {
			out = append(out, r)
		}
	}
	if len(out) == 0 {
		r := probe.Found(probe.OK, "%d pod interfaces have Felix's settings", len(pods))
		if _, err := kernel.Sysctl(h, "net/ipv4/conf/"+pods[0]+"/proxy_arp"); err != nil {
			r = node.Unseen(err)
		}
		out = append(out, r)
	}
	return out
}

// wrongSetting returns the result for one setting, or false if no interface has a wrong value.
func wrongSetting(h *probe.Host, s linkSetting, names []string) (probe.Result, bool) {
	of := func(name string) string { return fmt.Sprintf("net/ipv%d/conf/%s/%s", s.family, name, s.name) }
	if value, err := kernel.Sysctl(h, of("all")); s.byAll && err == nil && value == s.wanted {
		return probe.Result{}, false
	}
	var wrong []string
	for _, name := range names {
		if value, err := kernel.Sysctl(h, of(name)); err == nil && value != s.wanted {
			wrong = append(wrong, name)
		}
	}
	if len(wrong) == 0 {
		return probe.Result{}, false
	}
	slices.Sort(wrong)
	about := strings.Join(names, ", ")
	if s.pods {
		about = "cali*"
	}
	return probe.Found(probe.Fail, "%s is %d on %d of %d interfaces (%s): %s", s.name, 1-s.wanted, len(wrong), len(names),
		node.Some(wrong), s.effect).On(fmt.Sprintf("%s of %s", s.name, about)).
		With(probe.FactSysctl, of(wrong[0])).With(pod.FactSetting, s.name).With(pod.FactWanted,
		s.wanted).With(probe.FactFamily, s.family).
		With(pod.FactWrongOn, node.First(wrong)).With(factLooked, len(names)).With(factOfPods, s.pods), true
}
