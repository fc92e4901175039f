package ask

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"

	felixfacts "github.com/calico-probe/calico-probe/internal/subject/felix"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/felix"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
)

// felixProcess describes the running Felix process, as far as it is visible.
type felixProcess struct {
	listens    []netip.AddrPort // addresses on which it accepts connections, nil if not visible
	host, port string           // FELIX_HEALTHHOST and FELIX_HEALTHPORT from its environment
	known      bool             // true if its environment was read
}

// maxListeners is the maximum number of Felix's ports to query. Felix opens at most three.
const maxListeners = 8

// runningFelix finds Felix's process, its sockets and both variables. 'calico-node -felix-live', which the kubelet
// runs in the same container, has the same variables.
func runningFelix(h *probe.Host) felixProcess {
	var out felixProcess
	p, ok, err := node.CalicoProcess(h, "felix")
	if err != nil || !ok {
		return out
	}
	var set map[string]string
	set, out.known = node.EnvironmentOf(h, p.PID, "FELIX_HEALTHHOST", "FELIX_HEALTHPORT")
	out.host, out.port = set["FELIX_HEALTHHOST"], set["FELIX_HEALTHPORT"]
	inodes := node.SocketsOf(h, p.PID)
	if len(inodes) == 0 {
		return out
	}
	err = kernel.TCP(kernel.Listening, 0, 0, func(s kernel.Socket) {
		if inodes[s.Inode] && len(out.listens) < maxListeners {
			out.listens = append(out.listens, s.Near)
		}
	})
	if err != nil {
		out.listens = nil
	}
	return out
}

// probed returns the address that calico-node's own probe uses. That probe reads only the environment.
func (f felixProcess) probed(ctx context.Context, h *probe.Host) (netip.AddrPort, bool) {
	port, err := strconv.ParseUint(cmp.Or(f.port, strconv.Itoa(felix.DefaultPort)), 10, 16)
	if err != nil {
		return netip.AddrPort{}, false
	}
	addrs, err := node.Resolve(ctx, h, cmp.Or(f.host, felix.DefaultHost))
	if err != nil || len(addrs) == 0 {
		return netip.AddrPort{}, false
	}
	return netip.AddrPortFrom(addrs[0].Unmap(), uint16(port)), true
}

// next returns the address on which Felix will listen after its next start. The environment takes
// precedence over the configuration.
func (f felixProcess) next(at probe.Target) (host string, port int) {
	port, err := strconv.Atoi(f.port)
	if err != nil || port == 0 {
		port = at.Port
	}
	return cmp.Or(f.host, at.Host), port
}

// reachable returns an address at which a listener on this node can be reached.
func reachable(a netip.AddrPort) netip.AddrPort {
	switch addr := a.Addr().Unmap(); {
	case addr == netip.IPv4Unspecified(), addr == netip.IPv6Unspecified():
		return netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), a.Port())
	default:
		return netip.AddrPortFrom(addr, a.Port())
	}
}

// If the configured port is closed, queryListeners queries the running Felix on the port that it actually uses. The
// configuration may have changed since Felix started, and Felix keeps its port until a restart. The result is false if
// Felix does not answer.
func queryListeners(ctx context.Context, p *probe.Pass, at probe.Target, tried []netip.Addr, path string,
) (probe.Result, bool) {
	here := runningFelix(p.Host)
	probed, ok := here.probed(ctx, p.Host)
	if !ok {
		return probe.Result{}, false
	}
	candidates := []netip.AddrPort{probed}
	for _, l := range here.listens {
		if l = reachable(l); !slices.Contains(candidates, l) {
			candidates = append(candidates, l)
		}
	}
	for _, addr := range candidates {
		if int(addr.Port()) == at.Port && slices.Contains(tried, addr.Addr()) {
			continue
		}
		one, _, cancel := node.Part(ctx, 1)
		answer, err := felix.Get(one, addr, path)
		cancel()
		if err != nil || !answer.FromFelix() {
			continue
		}
		r := judgeAnswer(answer, addr, path)
		if addr == probed {
			return here.withNextStart(ctx, p.Host, r, at, probed), true
		}
		if here.known { // the kubelet sends its probes to the wrong address
			return probe.Found(probe.Fail, "calico-node's probe uses %s, but Felix answers at %s", probed, addr).
				With(probe.FactAddress, probed.String()).With(probe.FactListening, []string{addr.String()}).
				With(probe.FactReason, "refused"), true
		}
	}
	return probe.Result{}, false
}

// If Felix's address will change at its next start, withNextStart adds the new address to a good result.
func (f felixProcess) withNextStart(ctx context.Context, h *probe.Host, r probe.Result, at probe.Target,
	probed netip.AddrPort,
) probe.Result {
	host, port := f.next(at)
	addrs, err := node.Resolve(ctx, h, host)
	if err == nil && port == int(probed.Port()) && slices.Contains(addrs, probed.Addr()) {
		return r
	}
	next := net.JoinHostPort(host, strconv.Itoa(port))
	r.Saw += fmt.Sprintf("; FelixConfiguration moves Felix to %s at its next start, but calico-node's probe will keep using %s",
		next, probed)
	if r.Status == probe.OK {
		r.Status = probe.Warn
	}
	return r.With(felixfacts.FactNextStart, next)
}
