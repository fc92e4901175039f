package ask

import (
	"cmp"
	"net/url"

	"golang.org/x/net/http/httpproxy"

	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/node"
)

// factProxy is the host and port of a proxy, without what may be a password in front of it.
const factProxy probe.Fact = "proxy"

// reportProxy tells, without judging it, of a proxy that the CNI plugin would ask for the API server's address.
func reportProxy(p *probe.Pass, server string) {
	name, proxy := pluginProxy(p.Host, server)
	at, err := url.Parse(server)
	if proxy == "" || err != nil {
		return
	}
	p.Report(probe.Found(probe.Info, "%s has a proxy in its environment (%s), and NO_PROXY there does not hold the API server's %s: the CNI plugin asks the proxy for it", name, proxy, at.Hostname()).
		On(cni.TargetRuntimeProxy).With(factProxy, proxy).With(cni.FactServer, at.Host))
}

// pluginProxy returns the proxy by which the CNI plugin would connect to a URL, and the runtime that has it in its
// environment: the plugin inherits it, and Go's programs use it (projectcalico/calico#2941). Both are "" without one.
func pluginProxy(h *probe.Host, server string) (runtime, proxy string) {
	at, err := url.Parse(server)
	if err != nil {
		return "", ""
	}
	for _, name := range []string{"containerd", "crio", "dockerd"} {
		pid, _, err := node.NodesDaemon(h, name)
		if err != nil || pid == 0 {
			continue
		}
		set, known := node.EnvironmentOf(h, pid, "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy")
		if !known {
			continue
		}
		either := func(upper, lower string) string { return cmp.Or(set[upper], set[lower]) }
		config := httpproxy.Config{HTTPSProxy: either("HTTPS_PROXY", "https_proxy"), NoProxy: either("NO_PROXY", "no_proxy")}
		if proxy, err := config.ProxyFunc()(at); err == nil && proxy != nil {
			return name, proxy.Host
		}
	}
	return "", ""
}
