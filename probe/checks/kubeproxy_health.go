package checks

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/httpget"
	"github.com/calico-probe/calico-probe/probe/kernel"
)

// KubeProxyHealth asks kube-proxy on the ports it has on the node. In the field
// it was the first suspect, wrongly, and nobody could show that it was fine.
var KubeProxyHealth = &probe.Check{
	ID: "kubeproxy-health", Asks: "does kube-proxy run, and in which mode?", From: probe.FromNode,
	Tags: []string{tagNetwork, tagService}, Access: []string{"host network", "proc"}, Run: kubeProxyHealth,
	Doc: `kube-proxy answers 10256/livez (before Kubernetes 1.28: /healthz, which later also says 503 while the Node is being deleted), with 200 as long as it has updated its rules lately, and tells its mode and its settings on 127.0.0.1:10249.
ok: healthy, and the mode it says; about its services: what it has written into the kernel in this mode is there, and how much. info, of its services: some virtual services of ipvs have no destination, as a service without ready pods has; each of its NodePorts is one of them, and a dead one shows here. fail, 503: it has not updated its rules for a while: it cannot reach the API server, or rules take too long. fail, no answer: it is frozen. fail, of its services: it calls itself healthy, and the kernel has nothing of it, or no destination for any service: somebody flushed the rules (a restart of nftables or firewalld does), and no service works from this node until it writes them again: in the mode iptables it notices within a minute, in the others perhaps not before some service changes.
warn: nothing listens, and rules of kube-proxy's are in the kernel: it has died, and they send to pods as they were then; or it was removed and they were left; or it is set to answer elsewhere. warn: it runs for more than 20 s and listens on no port at all: it does not get through its start, and rules of the run before are in the kernel. info: the same, with a process of that name on the node, or with the eBPF data plane.
warn, of its settings: hostnameOverride is not the node's name, so no endpoint is local to it and what comes to a Service with policy Local is dropped. info, of its settings: masqueradeAll is on, or clusterCIDR does not have the pods' addresses, so that a policy which lets pods in by their labels does not know those that come through a Service.
info, of its services: it runs, and Felix's eBPF data plane takes its rules away (bpfKubeProxyIptablesCleanupEnabled): that is meant so.
skip: nothing listens, and no rules are seen: there is no kube-proxy on this node, as with Calico's eBPF data plane, k3s, or another replacement. Rules of iptables and nftables are seen only with the capability NET_ADMIN; virtual services of ipvs always. Whether services work is for datastore-latency and dns-cluster to say.`,
}

// Facts of kubeproxy-health.
const (
	FactMode      probe.Fact = "mode"       // iptables, nftables, ipvs
	FactPublished probe.Fact = "services"   // count of services in the kernel, by their virtual services or chains
	FactEmpty     probe.Fact = "empty"      // count of virtual services without a destination
	FactEmptyList probe.Fact = "empty_list" // the first of these
)

// ReasonNotUp is a kube-proxy that runs and listens nowhere.
const ReasonNotUp = "not-up"

// TargetServices is kubeproxy-health's answer about what it has written.
const TargetServices = "services"

func kubeProxyHealth(ctx context.Context, p *probe.Pass) {
	const health, metrics = "127.0.0.1:10256", "127.0.0.1:10249"
	one, limit, cancel := part(ctx, 3)
	defer cancel()
	answer, err := httpget.Get(one, "http://"+health+"/livez", httpget.Way{})
	if err == nil && answer.Code == http.StatusNotFound {
		answer, err = httpget.Get(one, "http://"+health+"/healthz", httpget.Way{})
	}
	if r, cut := cutShort(ctx, err); err != nil && cut {
		p.Report(r)
		return
	}
	if err != nil {
		r := noAnswer(err, health, limit)
		if r.Facts.Str(probe.FactReason) == "refused" {
			r = left(p, health)
		}
		p.Report(r.With(FactAddress, health))
		return
	}
	r := probe.Found(probe.Fail, "%d from %s: it has not updated its rules lately: %.200s", answer.Code, health,
		answer.Body)
	if answer.Code == http.StatusOK {
		r = probe.Found(probe.OK, "%d from %s", answer.Code, health)
	}
	mode := ""
	if answer, err := httpget.Get(one, fmt.Sprintf("http://%s/proxyMode", metrics), httpget.Way{}); err == nil &&
		answer.Code == http.StatusOK {
		mode = strings.TrimSpace(string(answer.Body[:min(len(answer.Body), 20)]))
		r.Saw += ", mode " + mode
		r = r.With(FactMode, mode)
	}
	p.Report(r.With(FactAddress, health).With(FactCode, answer.Code))
	if r.Status != probe.OK {
		return
	}
	if set, ok := readProxySettings(one, metrics); ok {
		p.Report(set.judge(p.Host.Node, poolsOf(p)).On(TargetProxySettings))
	}
	if r, seen := published(p.Host, mode); seen {
		links, _ := kernel.Links() // without them the setting alone tells
		if r.Status == probe.Fail && ebpf(p, links) {
			r = r.With(FactPublished, 0)
			r.Status = probe.Info
			r.Saw = "kube-proxy runs in mode " + mode + " beside the eBPF data plane, which does its work; Felix takes its rules away (bpfKubeProxyIptablesCleanupEnabled), so nothing of it is in the kernel"
		}
		p.Report(r.On(TargetServices).With(FactMode, mode))
	}
}

// left judges a node where nothing listens by what kube-proxy may have left in the
// kernel: one that has died leaves everything.
func left(p *probe.Pass, health string) probe.Result {
	nothing := true // of kube-proxy's, where that is to be seen; a kernel without IPVS has no list of it
	for _, mode := range []string{"ipvs", "nftables", "iptables"} {
		rules, seen := published(p.Host, mode)
		nothing = nothing && (seen || mode == "ipvs")
		n, _ := rules.Facts.Num(FactPublished)
		if n == 0 {
			continue
		}
		r := probe.Found(probe.Warn,
			"nothing listens on %s, but kube-proxy's rules for %.0f services are still here (%s): nothing updates them", health, n, mode)
		links, _ := kernel.Links() // without them the setting alone tells
		proxies, _ := processesOf(p.Host, inNodesNetwork, func(comm string) bool { return comm == "kube-proxy" })
		if len(proxies) > 0 {
			r = probe.Found(probe.Info,
				"kube-proxy runs (process %d) but does not listen on %s: it is starting, or configured for another address; its rules for %.0f services are here (%s)", proxies[0].PID, health, n, mode)
			if age, stuck := notUp(p.Host, proxies); stuck {
				r = probe.Found(probe.Warn, "kube-proxy runs for %s (process %d) and listens nowhere yet: it does not get through its start, "+
					"as where it does not reach the API server, or both its ports are switched off; its rules for %.0f services are those of the run before (%s)",
					probe.Age(age), proxies[0].PID, n, mode).With(probe.FactReason, ReasonNotUp)
				if at := connectingTo(p.Host, proxies[0].PID); at != "" {
					r.Saw += "; it tries to connect to " + at + ", which does not answer"
					r = r.With(FactOfServer, at)
				}
			}
		} else if ebpf(p, links) {
			r = probe.Found(probe.Info,
				"no kube-proxy listens on %s, because the data plane is eBPF; its rules for %.0f services are still here (%s)", health, n, mode)
		}
		return r.With(FactMode, mode).With(FactPublished, int(n))
	}
	r := probe.Found(probe.Skip, "no kube-proxy listens on %s", health)
	if links, _ := kernel.Links(); nothing && !ebpf(p, links) {
		r.Saw += ", and the kernel has no rules of one"
		r = r.With(FactPublished, 0)
	}
	return r
}

// inStart is how long a kube-proxy may take to get through its start.
const inStart = 20 * time.Second

// notUp tells whether the one kube-proxy there is runs for longer than its start takes and listens on no TCP port.
func notUp(h *probe.Host, proxies []running) (time.Duration, bool) {
	if len(proxies) != 1 {
		return 0, false
	}
	_, age, err := ageOf(proxies[0].Proc)
	inodes := socketsOf(h, proxies[0].PID)
	listens := false
	if err != nil || age < inStart || len(inodes) == 0 {
		return age, false
	}
	err = kernel.TCP(kernel.Listening, 0, 0, func(s kernel.Socket) { listens = listens || inodes[s.Inode] })
	return age, err == nil && !listens
}

// connectingTo is where a process tries to open a TCP connection without an answer yet, "" where that is nowhere.
func connectingTo(h *probe.Host, pid int) string {
	inodes, at := socketsOf(h, pid), ""
	err := kernel.TCP(kernel.Connecting, 0, 0, func(s kernel.Socket) {
		if inodes[s.Inode] {
			at = s.Far.String()
		}
	})
	if err != nil {
		return ""
	}
	return at
}

// published judges what kube-proxy has written into the kernel; false when that is
// not to be seen from here.
func published(h *probe.Host, mode string) (probe.Result, bool) {
	switch mode {
	case "ipvs":
		f, err := kernel.OpenProc(h, "net/ip_vs")
		if err != nil {
			return probe.Result{}, false
		}
		defer f.Close()
		v, err := readIPVS(f)
		if err != nil {
			return probe.Failed(fmt.Errorf("reading /proc/net/ip_vs: %w", err)), true
		}
		return judgeIPVS(v), true
	case "iptables", "nftables":
		chains, err := kernel.NFTChains(worthKeeping, func(kernel.Chain) bool { return false })
		if err != nil {
			return probe.Result{}, false
		}
		if mode == "iptables" {
			legacy, err := kernel.LegacyChains(h, "nat")
			if err != nil {
				return probe.Result{}, false
			}
			chains = append(chains, legacy...)
		}
		return judgeServiceChains(mode, chains), true
	}
	return probe.Result{}, false
}

// judgeServiceChains counts kube-proxy's chains.
func judgeServiceChains(mode string, chains []kernel.Chain) probe.Result {
	there, services := false, 0
	for _, c := range chains {
		switch {
		case mode == "nftables" && c.Table == "kube-proxy":
			there = true
			if strings.HasPrefix(c.Name, "service-") {
				services++
			}
		case mode == "iptables" && c.Table == "nat":
			there = there || c.Name == "KUBE-SERVICES"
			if strings.HasPrefix(c.Name, "KUBE-SVC-") {
				services++
			}
		}
	}
	what := map[string]string{"nftables": "no table kube-proxy in nftables",
		"iptables": "no chain KUBE-SERVICES in iptables"}[mode]
	if !there {
		return probe.Found(probe.Fail,
			"kube-proxy reports healthy in mode %s, but there is %s: no service works from this node", mode, what).
			With(FactPublished, 0)
	}
	return probe.Found(probe.OK, "%d ports of services have chains in %s", services, mode).With(FactPublished, services)
}

// virtual is what IPVS has.
type virtual struct {
	services int
	empty    int      // of these, without a destination
	first    []string // some of the empty ones
}

// readIPVS counts what the kernel lists in /proc/net/ip_vs, which any process may
// read, unlike its netlink interface, whose Go library would load modules.
func readIPVS(r io.Reader) (virtual, error) {
	var v virtual
	last, destinations := "", 0
	done := func() {
		if last == "" || destinations > 0 {
			return
		}
		v.empty++
		if len(v.first) < listed {
			v.first = append(v.first, last)
		}
	}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		switch {
		case len(f) < 2:
		case f[0] == "->":
			destinations++
		case slices.Contains([]string{"TCP", "UDP", "SCTP", "FWM"}, f[0]):
			done()
			last, destinations = f[0]+" "+ipvsAddress(f[1]), 0
			v.services++
		}
	}
	done()
	return v, lines.Err()
}

// ipvsAddress makes 10.96.0.1:443 of 0A600001:01BB; [2001:...]:01BB has only its
// port in hexadecimal. What has another form stays as it is.
func ipvsAddress(text string) string {
	i := strings.LastIndexByte(text, ':')
	if i < 0 || len(text) > 64 {
		return text[:min(len(text), 64)]
	}
	port, err := strconv.ParseUint(text[i+1:], 16, 16)
	if err != nil {
		return text
	}
	if a, err := netip.ParseAddr(strings.Trim(text[:i], "[]")); err == nil {
		return netip.AddrPortFrom(a, uint16(port)).String()
	}
	if raw, err := hex.DecodeString(text[:i]); err == nil && len(raw) == 4 {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(raw)), uint16(port)).String()
	}
	return text
}

func judgeIPVS(v virtual) probe.Result {
	var r probe.Result
	switch {
	case v.services == 0:
		r = probe.Found(probe.Fail,
			"kube-proxy reports healthy in mode ipvs, but the kernel has no virtual service: no service works from this node")
	case v.empty == v.services:
		// That of the API server has one wherever kube-proxy has ever reached it.
		r = probe.Found(probe.Fail, "none of the %d virtual services of ipvs has a destination", v.services)
	case v.empty > 0:
		r = probe.Found(probe.Info, "%d of %d virtual services of ipvs have no destination, such as %s", v.empty,
			v.services, strings.Join(v.first[:min(len(v.first), 3)], ", "))
	default:
		r = probe.Found(probe.OK, "all %d virtual services of ipvs have a destination", v.services)
	}
	return r.With(FactPublished, v.services).With(FactEmpty, v.empty).With(FactEmptyList, v.first)
}
