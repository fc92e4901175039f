package ask

import (
	"cmp"
	"net/url"

	"golang.org/x/net/http/httpproxy"

	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/node"
)

// factProxy is the host and port of a proxy. It omits the user information before the host, which
// may contain a password.
const factProxy probe.Fact = "proxy"

// reportProxy reports the proxy that the CNI plugin would use for the API server's address. It does not judge it.
func reportProxy(p *probe.Pass, server string) {
	name, proxy := pluginProxy(p.Host, server)
	at, err := url.Parse(server)
	if proxy == "" || err != nil {
		return
	}
	p.Report(probe.Found(probe.Info, "%s has a proxy in its environment (%s), and NO_PROXY there lacks the API server's %s: the CNI plugin connects through the proxy", name, proxy, at.Hostname()).
		On(cni.TargetRuntimeProxy).With(factProxy, proxy).With(cni.FactServer, at.Host))
}

// pluginProxy returns the proxy that the CNI plugin would use for a URL, and the runtime that has the proxy in its
// environment. The plugin inherits that environment, and Go programs use the proxy settings in it
// (projectcalico/calico#2941). Without a proxy, both are "".
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
