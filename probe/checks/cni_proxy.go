package checks

import (
	"net/url"

	"golang.org/x/net/http/httpproxy"

	"github.com/calico-probe/calico-probe/probe"
)

// TargetRuntimeProxy is what the CNI plugin is told to ask the API server through.
const TargetRuntimeProxy = "proxy"

// factProxy is the host and port of a proxy, without what may be a password in front of it.
const factProxy probe.Fact = "proxy"

// reportProxy tells, without judging it, of a proxy that the CNI plugin would ask for the API server's address: it
// inherits the environment of the runtime that starts it, and asks as Go's programs do (projectcalico/calico#2941).
func reportProxy(p *probe.Pass, server string) {
	at, err := url.Parse(server)
	if err != nil {
		return
	}
	for _, name := range []string{"containerd", "crio", "dockerd"} {
		pid, _, err := nodesDaemon(p.Host, name)
		if err != nil || pid == 0 {
			continue
		}
		set, known := environmentOf(p.Host, pid, "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy")
		if !known {
			continue
		}
		either := func(upper, lower string) string {
			if set[upper] != "" {
				return set[upper]
			}
			return set[lower]
		}
		config := httpproxy.Config{HTTPSProxy: either("HTTPS_PROXY", "https_proxy"), NoProxy: either("NO_PROXY", "no_proxy")}
		proxy, err := config.ProxyFunc()(at)
		if err != nil || proxy == nil {
			continue
		}
		p.Report(probe.Found(probe.Info, "%s has a proxy in its environment (%s), and NO_PROXY there does not hold the API server's %s: the CNI plugin asks the proxy for it", name, proxy.Host, at.Hostname()).
			On(TargetRuntimeProxy).With(factProxy, proxy.Host).With(FactServer, at.Host))
		return
	}
}
