package checks

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/bird"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/logs"
	"github.com/calico-probe/calico-probe/probe/podlog"
)

// TestInTheWay names the device of another CNI that has what Calico's needs.
func TestInTheWay(t *testing.T) {
	t.Parallel()
	none := probe.Found(probe.Fail, "there is no interface vxlan.calico")
	for name, c := range map[string]struct {
		link kernel.Link
		set  tunnelSettings
		want string
	}{
		"recorded": {kernel.Link{Name: "flannel.1", VXLAN: &kernel.VXLAN{VNI: 4096, Port: 4789}},
			tunnelSettings{vni: 4096, port: 4789}, "flannel.1"},
		"settings unknown": {kernel.Link{Name: "flannel.1", VXLAN: &kernel.VXLAN{VNI: 4096, Port: 4789}},
			tunnelSettings{}, "flannel.1"},
		"every VNI": {kernel.Link{Name: "cilium_vxlan", VXLAN: &kernel.VXLAN{Port: 4789, External: true}},
			tunnelSettings{}, "cilium_vxlan"},
		"near: another VNI": {kernel.Link{Name: "flannel.1", VXLAN: &kernel.VXLAN{VNI: 1, Port: 4789}},
			tunnelSettings{}, ""},
		"near: another port": {kernel.Link{Name: "flannel.1", VXLAN: &kernel.VXLAN{VNI: 4096, Port: 8472}},
			tunnelSettings{}, ""},
		"near: Calico's own": {kernel.Link{Name: "vxlan.calico", VXLAN: &kernel.VXLAN{VNI: 4096, Port: 4789}},
			tunnelSettings{}, ""},
		"near: no VXLAN": {kernel.Link{Name: "eth0"}, tunnelSettings{}, ""},
	} {
		r := inTheWay(none, encapsulations[1], c.set, []kernel.Link{c.link})
		if r.Facts.Str(FactForeign) != c.want {
			t.Errorf("%s: %v", name, r)
		}
	}
}

// TestOwnedBy finds another node's address on this one, and no pod's.
func TestOwnedBy(t *testing.T) {
	t.Parallel()
	links := []kernel.Link{{Name: "eth0", Addrs: []netip.Prefix{netip.MustParsePrefix("10.0.0.2/32")}}}
	at := func(kind, addr string) probe.Target { return probe.Target{Kind: kind, Addr: netip.MustParseAddr(addr)} }
	for want, target := range map[string]probe.Target{"eth0": at(probe.KindNode, "10.0.0.2"),
		"": at(probe.KindNode, "10.0.0.3")} {
		if got := ownedBy(links, target); got != want {
			t.Errorf("%v: %q", target, got)
		}
	}
	if got := ownedBy(links, at(probe.KindPod, "10.0.0.2")); got != "" {
		t.Errorf("a pod: %q", got)
	}
}

// TestDiverted wants the rule named that sends packets another way, by the kernel's own answers.
func TestDiverted(t *testing.T) {
	t.Parallel()
	own := netip.MustParseAddr("10.88.0.11")
	pod := probe.Target{Kind: probe.KindLocal, Name: "default/w", Addr: netip.MustParseAddr("10.244.0.1")}
	rules := []kernel.Rule{{Priority: 30400, Table: 30400, From: netip.PrefixFrom(own, 32)}}
	gateway := netip.MustParseAddr("10.88.0.1")
	for name, c := range map[string]struct {
		with leads
		want probe.Status
		saw  string
	}{
		"recorded":                {leads{device: "eth0", gateway: gateway, table: 30400, calicos: false}, probe.Fail, `leave by eth0 through 10.88.0.1, for the rule "30400: from 10.88.0.11/32 lookup 30400"`},
		"near: the same way":      {leads{device: "cali1", gateway: netip.Addr{}, table: 30400, calicos: true}, probe.OK, "none of which"},
		"near: by the main table": {leads{device: "eth1", gateway: netip.Addr{}, table: kernel.TableMain, calicos: false}, probe.OK, "none of which"},
	} {
		// The rule catches the second of the node's addresses.
		node := []probe.Target{{Addr: own.Next()}, {Addr: own}}
		ask := func(_, from netip.Addr, _ string) (leads, bool) {
			if from == own {
				return c.with, true
			}
			return leads{device: "cali1", table: kernel.TableMain, calicos: true}, true
		}
		got, err := divertedBy(t.Context(), rules, node, []probe.Target{pod}, asker{ask, noWay})
		if err != nil {
			t.Fatal(err)
		}
		if got.Status != c.want || !strings.Contains(got.Saw, c.saw) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestDivertedByACloud has rules of a cloud's CNI, which sends its own pods by them: Calico makes no routes there.
func TestDivertedByACloud(t *testing.T) {
	t.Parallel()
	own := netip.MustParseAddr("10.0.0.1")
	node, pods := []probe.Target{{Addr: own}}, []probe.Target{{Kind: probe.KindPod, Addr: own.Next()}}
	rules := []kernel.Rule{{Priority: 1536, Table: 2}}
	ask := func(_, from netip.Addr, _ string) (leads, bool) {
		if from.IsValid() {
			return leads{device: "eth1", table: 2}, true
		}
		return leads{device: "eth0", table: kernel.TableMain}, true
	}
	if got, err := divertedBy(t.Context(), rules, node, pods, asker{ask, noWay}); err != nil || got.Status != probe.OK {
		t.Error(got, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	pods[0].Kind = probe.KindLocal
	always := func(netip.Addr, netip.Addr, string) (leads, bool) { return leads{device: "cali1", calicos: true}, true }
	if _, err := divertedBy(ended, rules, node, pods, asker{always, noWay}); err == nil {
		t.Error("what was not asked is called fine")
	}
}

// TestExchanged wants to hear of a session that stands and carries nothing, of another node and with pools
// that go by BGP.
func TestExchanged(t *testing.T) {
	t.Parallel()
	bgp := map[string]string{probe.AttrIPIP: "Never", probe.AttrVXLAN: "Never"}
	block := func(name, node string, own bool) probe.Target {
		b := probe.Target{Kind: probe.KindBlock, Name: name, Node: node, Attrs: map[string]string{}}
		if own {
			b.Attrs[probe.AttrOwn] = "true"
		}
		return b
	}
	peer := probe.Target{Kind: probe.KindSession, Name: "p", Node: "b",
		Attrs: map[string]string{probe.AttrFilters: "tor-out"}}
	up := bird.Protocol{Proto: "BGP", BGP: "Established", Details: []string{"x"}}
	for name, c := range map[string]struct {
		attrs              map[string]string
		imported, exported int
		received           int
		age                time.Duration
		peer               probe.Target
		saw                string // "" = nothing
	}{
		"recorded: none exported":  {bgp, 1, 0, 1, time.Minute, peer, "none of this node's 1 blocks is exported to it; its BGPPeer names BGPFilter tor-out"},
		"none imported, none sent": {bgp, 0, 1, 0, time.Minute, peer, "its own side keeps them back"},
		"none imported, some sent": {bgp, 0, 1, 3, time.Minute, peer, "it has sent 3 routes: this side's filter"},
		"near: both":               {bgp, 1, 1, 1, time.Minute, peer, ""},
		"near: just established":   {bgp, 0, 0, 0, time.Second, peer, ""},
		"near: VXLAN":              {map[string]string{probe.AttrVXLAN: "Always"}, 0, 0, 0, time.Minute, peer, ""},
		"near: not to be exported": {map[string]string{probe.AttrVXLAN: "Never", probe.AttrNoExport: "true"}, 0, 0, 0,
			time.Minute, peer, ""},
		"near: a switch": {bgp, 0, 0, 0, time.Minute, probe.Target{Kind: probe.KindSession, Name: "tor"}, ""},
	} {
		p := &probe.Pass{Targets: []probe.Target{block("10.244.0.0/26", "a", true), block("10.244.1.0/26", "b", false),
			{Kind: probe.KindPool, Name: "10.244.0.0/16", Attrs: c.attrs}}}
		of := up
		of.Imported, of.Exported, of.Received = c.imported, c.exported, c.received
		r, ok := exchanged(daemons()[0], p, of, c.peer, c.age)
		if ok != (c.saw != "") || !strings.Contains(r.Saw, c.saw) {
			t.Errorf("%s: %v %v", name, ok, r)
		}
	}
}

// TestKubeLog has the lines with which kube-proxy and CoreDNS end, and such as look like them.
func TestKubeLog(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 21, 19, 30, 0, time.UTC)
	conntrack := `E1122 21:19:11.123456       1 server.go:560] "Error running ProxyServer" err="open /proc/sys/net/netfilter/nf_conntrack_max: permission denied"`
	loop := `[FATAL] plugin/loop: Loop (127.0.0.1:44333 -> :53) detected for zone ".", see https://coredns.io/plugins/loop#troubleshooting.`
	for name, c := range map[string]struct {
		of, text  string
		ago       time.Duration
		status    probe.Status
		signature string
	}{
		"recorded: conntrack":  {"kube-proxy", conntrack, time.Second, probe.Fail, logs.SaysConntrack},
		"recorded: loop":       {"coredns", ".:53\n" + loop, time.Second, probe.Fail, logs.SaysLoop},
		"a Corefile":           {"coredns", "maxprocs: Leaving GOMAXPROCS=2\n/etc/coredns/Corefile:3 - Error during parsing: Unknown directive 'proxy'", time.Second, probe.Fail, logs.SaysCorefile},
		"a Corefile's syntax":  {"coredns", "/etc/coredns/Corefile:2 - Syntax error: Unexpected token 'errors', expecting '}'", time.Second, probe.Fail, logs.SaysCorefile},
		"a plugin":             {"coredns", "plugin/forward: /etc/coredns/Corefile:3 - Error during parsing: Wrong argument count or unexpected line ending after '.'", time.Second, probe.Fail, logs.SaysCorefile},
		"a plugin it lacks":    {"coredns", "no action found for directive 'reload' with server type 'dns' (missing a plugin?)\nmaxprocs: Leaving GOMAXPROCS=2: CPU quota undefined", time.Second, probe.Fail, logs.SaysCorefile},
		"no Corefile":          {"coredns", "loading Caddyfile via flag: open /etc/coredns/Corefile: no such file or directory", time.Second, probe.Fail, logs.SaysCorefile},
		"Calico's controllers": {"calico-kube-controllers", "2026-11-22 21:19:11.123 [FATAL][1] kube-controllers/main.go 111: Failed to parse config", time.Second, probe.Fail, ""},
		"near: they go on":     {"calico-kube-controllers", "2026-11-22 21:19:11.123 [FATAL][1] kube-controllers/main.go 111: x\n2026-11-22 21:19:12.123 [INFO][1] kube-controllers/main.go 90: Loaded configuration", time.Second, probe.OK, ""},
		"Typha":                {"calico-typha", "2026-11-22 21:19:11.123 [FATAL][1] typha/daemon.go 166: Failed to load TLS certificate error=open /etc/typha/tls.crt: no such file or directory", time.Second, probe.Fail, ""},
		"no IPVS":              {"kube-proxy", `E1122 21:19:11.1       1 server.go:564] "Error running ProxyServer" err="can't use the IPVS proxier: ipvs not supported by the kernel"`, time.Second, probe.Fail, logs.SaysMode},
		"no API server":        {"kube-proxy", `E1122 21:19:11.1       1 run.go:74] "command failed" err="dial tcp 10.96.0.1:443: connect: connection refused"`, time.Second, probe.Fail, logs.SaysNoAPI},
		"near: long ago":       {"kube-proxy", conntrack, time.Hour, probe.OK, ""},
		"near: started anew":   {"kube-proxy", conntrack + "\n" + `I1122 21:19:20.1       1 server.go:677] "Version info" version="v1.36.4"`, time.Second, probe.OK, ""},
		"near: a tenant's":     {"coredns", `[ERROR] plugin/errors: 2 [FATAL] plugin/loop: Loop (x) detected for zone. A: read udp: i/o timeout`, time.Second, probe.OK, ""},
		"near: of the other":   {"coredns", conntrack, time.Second, probe.OK, ""},
		"near: an error alone": {"kube-proxy", `E1122 21:19:11.1       1 proxier.go:1] "Failed to sync" err="nf_conntrack_max"`, time.Second, probe.OK, ""},
	} {
		var lines []podlog.Line
		for text := range strings.Lines(c.text) {
			lines = append(lines, podlog.Line{Time: now.Add(-c.ago), Text: strings.TrimSuffix(text, "\n")})
		}
		r := ended(c.of, lines, now)
		if r.Status != c.status || r.Facts.Str(FactSignature) != c.signature {
			t.Errorf("%s: %v", name, r)
		}
	}
}

// TestKubeLogFiles reads the last two runs of a pod's container, and the file of a kube-proxy without a pod.
func TestKubeLogFiles(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write := func(name, text string) {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	at := time.Now().UTC().Format(time.RFC3339Nano)
	write("/var/log/pods/kube-system_coredns-x_1/coredns/1.log", at+" stdout F [FATAL] plugin/loop: Loop (127.0.0.1:1 -> :53) detected for zone \".\"\n")
	write("/var/log/pods/kube-system_coredns-x_1/coredns/2.log", at+" stdout F .:53\n")
	write("/var/log/kube-proxy.log", `E1122 21:19:11.1       1 server.go:560] "Error running ProxyServer" err="open nf_conntrack_max: permission denied token=abcdefgh"`+"\n")
	target := probe.Target{Kind: probe.KindLogs, Name: "coredns", Host: "coredns-x",
		Attrs: map[string]string{probe.AttrLogs: "kube-system_coredns-x_1"}}
	var got []probe.Result
	r := probe.Runner{Suite: []*probe.Check{KubeLog}, Host: &probe.Host{Root: root}}
	r.Run(t.Context(), probe.Plan{Checks: []string{KubeLog.ID}, Targets: []probe.Target{target}}, func(ev probe.Event) {
		if ev.Type == probe.EventResult {
			got = append(got, *ev.Result)
		}
	})
	want(t, got, "coredns coredns-x", probe.Warn, "another run has just begun")
	want(t, got, kubeProxyFile, probe.Fail, "nf_conntrack_max")
	for _, r := range got {
		if strings.Contains(r.Saw, "abcdefgh") {
			t.Errorf("a secret is shown: %s", r.Saw)
		}
	}
}

// noWay is a main table without a route of Calico's.
func noWay(netip.Addr) (leads, bool) { return leads{}, false }

// TestClosest wants no way told by the blackhole of the node's own block.
func TestClosest(t *testing.T) {
	t.Parallel()
	routes := []kernel.Route{
		{To: netip.MustParsePrefix("10.244.1.0/26"), Hops: []kernel.Hop{{}}},
		{To: netip.MustParsePrefix("10.244.1.3/32"), Hops: []kernel.Hop{{Device: "cali1"}}},
		{To: netip.MustParsePrefix("10.244.0.0/16"), Hops: []kernel.Hop{{Device: "eth0"}}},
	}
	for addr, want := range map[string]string{
		"10.244.1.3": "cali1", "10.244.1.4": "", "10.244.2.1": "eth0", "10.1.1.1": "",
	} {
		if got, ok := closest(routes, netip.MustParseAddr(addr)); got.device != want || ok != (want != "") {
			t.Errorf("%s: %+v %v", addr, got, ok)
		}
	}
}

// TestDivertedWhoeverSends wants a rule named that catches every sender, as a VPN's, where Calico has a route.
func TestDivertedWhoeverSends(t *testing.T) {
	t.Parallel()
	node := []probe.Target{{Addr: netip.MustParseAddr("10.88.0.11")}}
	pods := []probe.Target{{Kind: probe.KindPod, Name: "default/w", Addr: netip.MustParseAddr("10.244.2.1")}}
	rules := []kernel.Rule{{Priority: 5270, Table: 52}}
	ask := func(netip.Addr, netip.Addr, string) (leads, bool) {
		return leads{device: "tailscale0", table: 52}, true
	}
	calicos := func(netip.Addr) (leads, bool) {
		return leads{device: "eth0", gateway: netip.MustParseAddr("10.88.0.12"), table: kernel.TableMain, calicos: true}, true
	}
	for name, c := range map[string]struct {
		calicos func(netip.Addr) (leads, bool)
		want    probe.Status
		saw     string
	}{
		"recorded": {calicos, probe.Fail, "leave by tailscale0, for the rule \"5270: from all lookup 52\"; without it they would by eth0 through 10.88.0.12"},
		"recorded: no route now": {func(netip.Addr) (leads, bool) { return leads{}, true }, probe.Fail,
			"for the rule \"5270: from all lookup 52\", and Calico, of whose blocks the address is, has no route to it now"},
		"near: no route of Calico": {noWay, probe.OK, "none of which"},
	} {
		got, err := divertedBy(t.Context(), rules, node, pods, asker{ask, c.calicos})
		if err != nil || got.Status != c.want || !strings.Contains(got.Saw, c.saw) {
			t.Errorf("%s: %v %v", name, got, err)
		}
	}
}
