package checks

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
)

func TestLinksSet(t *testing.T) {
	t.Parallel()
	conf := "proc/sys/net/ipv4/conf/"
	well := map[string]string{"proc/sys/net/ipv4/ip_forward": "1\n", conf + "all/proxy_arp": "0\n",
		conf + "cali1/proxy_arp": "1\n", conf + "cali1/forwarding": "1\n", conf + "eth0/forwarding": "1\n",
		"proc/sys/net/ipv6/conf/cali1/disable_ipv6": "0\n", "proc/sys/net/ipv6/conf/eth0/disable_ipv6": "0\n"}
	for name, c := range map[string]struct {
		set  map[string]string
		want string // target, "" = well
	}{
		"well":             {nil, ""},
		"no ARP":           {map[string]string{conf + "cali1/proxy_arp": "0\n"}, "proxy_arp of cali*"},
		"ARP by all":       {map[string]string{conf + "cali1/proxy_arp": "0\n", conf + "all/proxy_arp": "1\n"}, ""},
		"no way on":        {map[string]string{conf + "cali1/forwarding": "0\n"}, "forwarding of cali*"},
		"no way in":        {map[string]string{conf + "eth0/forwarding": "0\n"}, "forwarding of eth0"},
		"forwards nothing": {map[string]string{conf + "eth0/forwarding": "0\n", "proc/sys/net/ipv4/ip_forward": "0\n"}, ""},
		"no IPv6":          {map[string]string{"proc/sys/net/ipv6/conf/cali1/disable_ipv6": "1\n"}, "disable_ipv6 of cali*"},
	} {
		files := maps.Clone(well)
		maps.Copy(files, c.set)
		got := linksSet(node(t, files), []string{"cali1"}, []string{"eth0"}, true)
		if len(got) != 1 || (got[0].Status == probe.OK) != (c.want == "") || got[0].Target != c.want {
			t.Errorf("%s: %v, want %q", name, got, c.want)
		}
	}
}

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func TestXFRMMatched(t *testing.T) {
	t.Parallel()
	pods := flow{netip.MustParseAddr("10.244.1.2"), netip.MustParseAddr("10.244.2.3"), "from a to b", "out"}
	tunnel := kernel.XFRMPolicy{From: prefix("10.244.0.0/16"), To: prefix("10.244.0.0/16"), Direction: "out",
		Priority: 10, Required: true, Template: "esp tunnel"}
	with := func(change func(*kernel.XFRMPolicy)) kernel.XFRMPolicy { p := tunnel; change(&p); return p }
	bypass := with(func(p *kernel.XFRMPolicy) { p.Required, p.Priority = false, 1 })
	for name, c := range map[string]struct {
		policies []kernel.XFRMPolicy
		want     probe.Status
	}{
		"no association": {[]kernel.XFRMPolicy{tunnel}, probe.Warn},
		"associated":     {[]kernel.XFRMPolicy{with(func(p *kernel.XFRMPolicy) { p.Associated = true })}, probe.Info},
		"blocked":        {[]kernel.XFRMPolicy{with(func(p *kernel.XFRMPolicy) { p.Blocks = true })}, probe.Fail},
		"bypassed":       {[]kernel.XFRMPolicy{tunnel, bypass}, ""},
		"other way":      {[]kernel.XFRMPolicy{with(func(p *kernel.XFRMPolicy) { p.Direction = "in" })}, ""},
		"other range":    {[]kernel.XFRMPolicy{with(func(p *kernel.XFRMPolicy) { p.To = prefix("192.168.0.0/16") })}, ""},
		"other ports":    {[]kernel.XFRMPolicy{with(func(p *kernel.XFRMPolicy) { p.ToPort = 1701 })}, ""},
	} {
		got := matched(c.policies, []flow{pods, pods})
		if len(got) == 0 && c.want == "" {
			continue
		}
		if len(got) != 1 || got[0].Status != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
}

func TestUntrackedFor(t *testing.T) {
	t.Parallel()
	dns := []addressed{
		{"service 10.96.0.10", "service", netip.MustParseAddrPort("10.96.0.10:53"), []int{protoUDP, protoTCP}},
		{"default/web 10.244.1.2", "pod", netip.MustParseAddrPort("10.244.1.2:8080"), []int{protoTCP}},
	}
	local := []netip.Addr{netip.MustParseAddr("10.244.1.2")}
	rule := kernel.PacketRule{Family: 4, Table: "raw", Chain: "PREROUTING", To: prefix("10.96.0.10/32"),
		Proto:   protoUDP,
		ToPorts: [2]int{53, 53}}
	with := func(change func(*kernel.PacketRule)) kernel.PacketRule { r := rule; change(&r); return r }
	for name, c := range map[string]struct {
		rule kernel.PacketRule
		want probe.Status
	}{
		"the Service":   {rule, probe.Fail},
		"all UDP":       {kernel.PacketRule{Proto: protoUDP}, probe.Fail},
		"from pods":     {kernel.PacketRule{From: prefix("10.244.0.0/16")}, probe.Fail},
		"from others":   {with(func(r *kernel.PacketRule) { r.From = prefix("192.168.0.0/16") }), ""},
		"another port":  {with(func(r *kernel.PacketRule) { r.ToPorts = [2]int{123, 123} }), ""},
		"a pod":         {kernel.PacketRule{To: prefix("10.244.1.0/24")}, probe.Warn},
		"IPv6":          {with(func(r *kernel.PacketRule) { r.Family, r.To = 6, netip.Prefix{} }), ""},
		"on conditions": {with(func(r *kernel.PacketRule) { r.Partly = true }), probe.Info},
	} {
		got := untrackedFor([]kernel.PacketRule{c.rule, c.rule}, dns, local)
		if len(got) == 0 && c.want == "" {
			continue
		}
		if len(got) != 1 || got[0].Status != c.want {
			t.Errorf("%s: %v, want %q", name, got, c.want)
		}
	}
}

func TestNarrowest(t *testing.T) {
	t.Parallel()
	routes := []kernel.Route{{To: prefix("10.0.0.0/8"), Type: kernel.Blackhole, Proto: 4},
		{To: prefix("10.88.0.12/32"), Type: kernel.Blackhole, Proto: 3}, {To: prefix("10.88.0.13/32"), Type: 7, Proto: 3}}
	got := narrowest(routes, netip.MustParseAddr("10.88.0.12"))
	if got == nil || got.To != routes[1].To {
		t.Errorf("%v, want the host route", got)
	}
	r := misled{route: *got, hits: []string{"node-b 10.88.0.12"}, kinds: []string{"node"},
		nodes: []string{"node-b"}}.result()
	if r.Status != probe.Fail || !strings.Contains(r.Saw, "blackhole 10.88.0.12") ||
		r.Facts.Str(FactRouteProto) != "boot" {
		t.Errorf("%v: the route and who made it are to be named", r)
	}
	for _, made := range []int{2, 12, 80} {
		if isSpecial(kernel.Route{To: routes[0].To, Type: kernel.Blackhole, Proto: made}) {
			t.Errorf("a route of %s is taken for others'", kernel.ProtocolName(made))
		}
	}
}

func TestAstray(t *testing.T) {
	t.Parallel()
	links := []kernel.Link{{Name: "eth0", Up: true, Addrs: []netip.Prefix{prefix("10.88.0.11/24")}}}
	to := netip.MustParseAddr("10.88.0.12")
	by := func(device, gateway string) kernel.Route {
		h := kernel.Hop{Device: device}
		if gateway != "" {
			h.Gateway = netip.MustParseAddr(gateway)
		}
		return kernel.Route{To: prefix("10.88.0.12/32"), Proto: 4, Hops: []kernel.Hop{h}}
	}
	for name, c := range map[string]struct {
		way  kernel.Route
		want bool
	}{
		"gateway": {by("eth0", "10.88.0.1"), true}, "device": {by("wg0", ""), true}, "on the link": {by("eth0", ""), false},
	} {
		if got := astray(links, to, c.way, c.way); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	wide := by("eth0", "10.88.0.1")
	wide.To = prefix("0.0.0.0/0")
	if astray(links, to, wide, wide) {
		t.Error("the default route is nobody's detour")
	}
}

func TestNodeLimits(t *testing.T) {
	t.Parallel()
	h := node(t, map[string]string{
		"proc/loadavg": "0.20 0.18 0.12 1/990 11206\n", "proc/sys/kernel/pid_max": "32768\n",
		"proc/sys/kernel/threads-max":          "1000\n",
		"proc/sys/fs/file-nr":                  "1000\t0\t1000\n",
		"sys/fs/cgroup/kubepods/pod1/pids.max": "20\n", "sys/fs/cgroup/kubepods/pod1/pids.current": "19\n",
		"sys/fs/cgroup/kubepods/pids.max": "max\n", "sys/fs/cgroup/kubepods/pids.current": "19\n",
	})
	want := map[string]probe.Status{"kernel.pid_max": probe.OK, "kernel.threads-max": probe.Warn,
		"fs.file-max": probe.Fail}
	for _, l := range limitsOfKernel(h) {
		if status, is := want[l.holder]; is && l.result().Status != status {
			t.Errorf("%s: %v, want %s", l.holder, l.result(), status)
		}
		delete(want, l.holder)
	}
	if len(want) > 0 {
		t.Errorf("not told: %v", want)
	}
	groups := pidsGroups("0::/kubepods/pod1/abc\n")
	if !slices.Equal(groups, []string{"/sys/fs/cgroup/kubepods/pod1/abc", "/sys/fs/cgroup/kubepods/pod1", "/sys/fs/cgroup/kubepods"}) {
		t.Errorf("the cgroups above it are %v", groups)
	}
	l, is := groupLimit(h, groups[1], "calico-node")
	if !is || l.result().Status != probe.Warn {
		t.Errorf("%v, want a warning for 19 of 20", l)
	}
	if _, is := groupLimit(h, groups[2], "calico-node"); is {
		t.Error("a cgroup without a limit has one")
	}
	few := bounded{LimitOpenFiles, "containerd", "open files", 62, 64, fewFiles}
	if r := few.result(); r.Status != probe.Fail {
		t.Errorf("%v: two files are too few", r)
	}
}

func TestCNIConfigElsewhere(t *testing.T) {
	t.Parallel()
	const conflist = `{"plugins":[{"type":"calico","ipam":{"type":"calico-ipam"}}]}`
	told := cniPlace{config: "/var/lib/rancher/k3s/agent/etc/cni/net.d", plugins: []string{"/opt/cni/bin"}}
	h := node(t, map[string]string{"etc/cni/net.d/10-calico.conflist": conflist, "opt/cni/bin/calico": "#!", "opt/cni/bin/calico-ipam": "#!",
		"var/lib/rancher/k3s/agent/etc/cni/net.d/.keep": ""})
	r := foundElsewhere(h, networksAt(h, []cniPlace{told}, true), told)
	if r.Facts.Str(probe.FactReason) != CNIElsewhere || !strings.Contains(r.Saw, told.config) ||
		r.Facts.Str(FactBehind) != "/etc/cni/net.d/10-calico.conflist" {
		t.Errorf("%v: both folders are to be named", r)
	}
	gone := node(t, map[string]string{"var/lib/rancher/k3s/agent/etc/cni/net.d/.keep": "", "etc/cni/net.d/05-bridge.conf": `{"type":"bridge"}`})
	if r := foundElsewhere(gone, networksAt(gone, []cniPlace{told}, true), told); pathReason(r) != CNINone {
		t.Errorf("%v: Calico's file is nowhere", r)
	}
	bins := cniPlace{config: "/etc/cni/net.d", plugins: []string{"/usr/lib/cni"}}
	h = node(t, map[string]string{"etc/cni/net.d/10-calico.conflist": conflist, "opt/cni/bin/calico": "#!", "opt/cni/bin/calico-ipam": "#!",
		"usr/lib/cni/loopback": ""})
	if r := foundElsewhere(h, networksAt(h, []cniPlace{bins}, true), bins); r.Facts.Str(FactBinaries) != "/opt/cni/bin" {
		t.Errorf("%v: the folder with the plugins is to be named", r)
	}
}

func pathReason(r probe.Result) string { return r.Facts.Str(probe.FactReason) }
