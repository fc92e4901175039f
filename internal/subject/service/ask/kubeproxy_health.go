package ask

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

	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/httpget"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/logs"
	"github.com/calico-probe/calico-probe/probe/node"
)

// kubeProxyHealthCheck binds service.KubeProxyHealth to the function that runs it.
var kubeProxyHealthCheck = answers.To(service.KubeProxyHealth, kubeProxyHealth)

// Facts of kubeproxy-health.
const (
	factMode probe.Fact = "mode" // iptables, nftables, ipvs

	factEmpty     probe.Fact = "empty"      // number of virtual services that have no destination
	factEmptyList probe.Fact = "empty_list" // the first of these virtual services
)

func kubeProxyHealth(ctx context.Context, p *probe.Pass) {
	if r, ok := proxyCertificate(p.Host, time.Now()); ok && r.Status != probe.OK {
		p.Report(r.On(service.TargetProxyCertificate))
	}
	const health = "127.0.0.1:10256"
	one, limit, cancel := node.Part(ctx, 3)
	defer cancel()
	answer, err := httpget.Get(one, "http://"+health+"/livez", httpget.Options{})
	if err == nil && answer.Code == http.StatusNotFound {
		answer, err = httpget.Get(one, "http://"+health+"/healthz", httpget.Options{})
	}
	if r, cut := node.CutShort(ctx, err); err != nil && cut {
		p.Report(r)
		return
	}
	if err != nil {
		r := node.NoAnswer(err, health, limit)
		if r.Facts.Str(probe.FactReason) == "refused" {
			r = judgeAbsent(p, health)
		}
		p.Report(r.With(probe.FactAddress, health))
		return
	}
	r := probe.Found(probe.Fail, "%d from %s: kube-proxy has not updated its rules recently: %.200s", answer.Code, health,
		answer.Body)
	if answer.Code == http.StatusOK {
		r = probe.Found(probe.OK, "%d from %s", answer.Code, health)
	}
	mode := proxyMode(one)
	if mode != "" {
		r.Saw += ", mode " + mode
		r = r.With(factMode, mode)
	}
	p.Report(r.With(probe.FactAddress, health).With(probe.FactCode, answer.Code))
	if r.Status != probe.OK {
		return
	}
	if set, ok := readProxySettings(one, metrics); ok {
		p.Report(set.judge(p.Host.Node, poolsOf(p)).On(service.TargetProxySettings))
	}
	if r, seen := published(p.Host, mode); seen {
		links, _ := kernel.Links() // without interfaces, only the setting decides
		if r.Status == probe.Fail && node.EBPF(p, links) {
			r = r.With(service.FactPublished, 0)
			r.Status = probe.Info
			r.Saw = "kube-proxy runs in mode " + mode + " beside the eBPF data plane, which replaces it; Felix removes its rules (bpfKubeProxyIptablesCleanupEnabled), so the kernel has none"
		}
		p.Report(r.On(service.TargetServices).With(factMode, mode))
	}
}

// metrics is where kube-proxy serves its mode and settings, unless its configuration says otherwise.
const metrics = "127.0.0.1:10249"

// proxyMode returns the mode of this node's kube-proxy: iptables, nftables, ipvs, or "" if it is unknown.
func proxyMode(ctx context.Context) string {
	answer, err := httpget.Get(ctx, "http://"+metrics+"/proxyMode", httpget.Options{})
	if err != nil || answer.Code != http.StatusOK {
		return ""
	}
	return strings.TrimSpace(string(answer.Body[:min(len(answer.Body), 20)]))
}

// judgeAbsent evaluates a node on which no kube-proxy listens. It uses the rules in the kernel, because kube-proxy
// leaves all its rules when it exits.
func judgeAbsent(p *probe.Pass, health string) probe.Result {
	nothing := true // kube-proxy's rules are not visible; a kernel without IPVS does not have its list
	for _, mode := range []string{"ipvs", "nftables", "iptables"} {
		rules, seen := published(p.Host, mode)
		nothing = nothing && (seen || mode == "ipvs")
		n, _ := rules.Facts.Num(service.FactPublished)
		if n == 0 {
			continue
		}
		r := probe.Found(probe.Warn,
			"no kube-proxy listens on %s, but its rules for %.0f services are still in the kernel (%s), and no longer updated", health, n, mode)
		links, _ := kernel.Links() // without interfaces, only the setting decides
		proxies, _ := node.ProcessesOf(p.Host, node.InNodesNetwork, func(comm string) bool { return comm == "kube-proxy" })
		if len(proxies) > 0 {
			r = probe.Found(probe.Info,
				"kube-proxy runs (process %d) but does not listen on %s: it is starting, or configured for another address; its rules for %.0f services are here (%s)", proxies[0].PID, health, n, mode)
			if age, stuck := isStuck(p.Host, proxies); stuck {
				r = probe.Found(probe.Warn, "kube-proxy has run for %s (process %d) without listening on a port: its startup hangs, "+
					"for example without the API server, or both its ports are disabled; its rules for %.0f services are from the previous run (%s)",
					probe.Age(age), proxies[0].PID, n, mode).With(probe.FactReason, service.ReasonNotUp)
				if at := connectingTo(p.Host, proxies[0].PID); at != "" {
					r.Saw += "; it tries to connect to " + at + ", which does not answer"
					r = r.With(logs.FactOfServer, at)
				}
			}
		} else if node.EBPF(p, links) {
			r = probe.Found(probe.Info,
				"no kube-proxy listens on %s, because the data plane is eBPF; its rules for %.0f services are still in the kernel (%s)", health, n, mode)
		}
		return r.With(factMode, mode).With(service.FactPublished, int(n))
	}
	r := probe.Found(probe.Skip, "no kube-proxy listens on %s", health)
	if links, _ := kernel.Links(); nothing && !node.EBPF(p, links) {
		r.Saw += ", and the kernel has no kube-proxy rules"
		r = r.With(service.FactPublished, 0)
	}
	return r
}

// maxStart is the maximum time that kube-proxy may take to start.
const maxStart = 20 * time.Second

// isStuck reports whether there is only one kube-proxy, and it has run for longer than a start
// takes but does not listen on any TCP port.
func isStuck(h *probe.Host, proxies []node.Running) (time.Duration, bool) {
	if len(proxies) != 1 {
		return 0, false
	}
	_, age, err := node.AgeOf(proxies[0].Proc)
	inodes := node.SocketsOf(h, proxies[0].PID)
	listens := false
	if err != nil || age < maxStart || len(inodes) == 0 {
		return age, false
	}
	err = kernel.TCP(kernel.Listening, 0, 0, func(s kernel.Socket) { listens = listens || inodes[s.Inode] })
	return age, err == nil && !listens
}

// connectingTo returns the address to which a process is opening a TCP connection that has not been
// answered yet, or "".
func connectingTo(h *probe.Host, pid int) string {
	inodes, at := node.SocketsOf(h, pid), ""
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

// published evaluates the rules that kube-proxy has written to the kernel. If they are not visible, it returns false.
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
		chains, err := kernel.NFTChains(node.WorthKeeping, func(kernel.Chain) bool { return false })
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
			With(service.FactPublished, 0)
	}
	return probe.Found(probe.OK, "%d Service ports have chains in %s", services, mode).With(service.FactPublished, services)
}

// virtual holds the contents of IPVS.
type virtual struct {
	services int
	empty    int      // of these, the number without a destination
	first    []string // some of those without a destination
}

// readIPVS counts the entries in /proc/net/ip_vs, which any process may read. The Go library for the netlink
// interface of IPVS would load kernel modules.
func readIPVS(r io.Reader) (virtual, error) {
	var v virtual
	last, destinations := "", 0
	done := func() {
		if last == "" || destinations > 0 {
			return
		}
		v.empty++
		if len(v.first) < node.Listed {
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

// ipvsAddress converts 0A600001:01BB to 10.96.0.1:443. In [2001:...]:01BB, only the port is hexadecimal. Other
// forms are returned unchanged.
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
		// The API server's Service has a destination if kube-proxy has ever reached the API server.
		r = probe.Found(probe.Fail, "all %d ipvs virtual services lack a destination", v.services)
	case v.empty > 0:
		r = probe.Found(probe.Info, "%d of %d ipvs virtual services have no destination, such as %s", v.empty,
			v.services, strings.Join(v.first[:min(len(v.first), 3)], ", "))
	default:
		r = probe.Found(probe.OK, "all %d ipvs virtual services have a destination", v.services)
	}
	return r.With(service.FactPublished, v.services).With(factEmpty, v.empty).With(factEmptyList, v.first)
}
