//go:build e2e

package ask

import (
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// TestRealServiceChains flushes what kube-proxy has written.
func TestRealServiceChains(t *testing.T) {
	if !nstest.Enter(t, checktest.Furniture+`
iptables-nft -t nat -N KUBE-SERVICES
iptables-nft -t nat -N KUBE-SVC-AAAA
nft add table ip kube-proxy
nft add chain ip kube-proxy services
nft add chain ip kube-proxy service-AAAA-default/kubernetes/tcp/https
`) {
		return
	}
	h := &probe.Host{Root: "/", Proc: "/proc"}
	kubeProxyIn(t, "iptables")
	checktest.Want(t, checktest.Run(t, kubeProxyHealthCheck, h), "services", probe.OK, "1 Service ports have chains in iptables")
	checktest.Do(t, "iptables-nft -t nat -F", "iptables-nft -t nat -X", "iptables-legacy -t nat -N KUBE-SERVICES",
		"iptables-legacy -t nat -N KUBE-SVC-A", "iptables-legacy -t nat -N KUBE-SVC-B")
	checktest.Want(t, checktest.Run(t, kubeProxyHealthCheck, h), "services", probe.OK, "2 Service ports")
	checktest.Do(t, "iptables-legacy -t nat -X")
	checktest.Want(t, checktest.Run(t, kubeProxyHealthCheck, h), "services", probe.Fail,
		"mode iptables, but there is no chain KUBE-SERVICES in iptables: no service works from this node")
}

func TestRealServiceTable(t *testing.T) {
	if !nstest.Enter(t, checktest.Furniture+`
nft add table ip6 kube-proxy
nft add chain ip6 kube-proxy services
nft add chain ip6 kube-proxy service-AAAA-default/kubernetes/tcp/https
`) {
		return
	}
	h := &probe.Host{Root: "/", Proc: "/proc"}
	kubeProxyIn(t, "nftables")
	checktest.Want(t, checktest.Run(t, kubeProxyHealthCheck, h), "services", probe.OK, "1 Service ports have chains in nftables")
	if r := judgeAbsent(&probe.Pass{Host: &probe.Host{Proc: t.TempDir()}}, "its port"); r.Status != probe.Warn ||
		!strings.Contains(r.Saw, "rules for 1 services are still in the kernel (nftables)") {
		t.Errorf("%+v", r)
	}
	checktest.Do(t, "nft flush ruleset")
	checktest.Want(t, checktest.Run(t, kubeProxyHealthCheck, h), "services", probe.Fail, "no table kube-proxy in nftables")
}

// TestRealServicesWithoutNetAdmin expects no result about kube-proxy's rules if they cannot be read.
func TestRealServicesWithoutNetAdmin(t *testing.T) {
	if !checktest.WithoutNetAdmin(t) {
		return
	}
	for _, mode := range []string{"iptables", "nftables"} {
		if r, seen := published(&probe.Host{Root: "/", Proc: "/proc"}, mode); seen {
			t.Errorf("%s: %+v", mode, r)
		}
	}
}
