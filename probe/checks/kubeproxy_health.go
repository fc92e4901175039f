package checks

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/httpget"
)

// KubeProxyHealth asks kube-proxy on the ports it has on the node. In the field
// it was the first suspect, wrongly, and nobody could show that it was fine.
var KubeProxyHealth = &probe.Check{
	ID: "kubeproxy-health", Asks: "does kube-proxy live, and in which mode does it work?", From: probe.FromNode,
	Tags: []string{tagNetwork}, Access: []string{"host network"}, Run: kubeProxyHealth,
	Doc: `kube-proxy answers 10256/healthz, with 200 as long as it has updated its rules lately, and tells its mode on 127.0.0.1:10249.
ok: healthy, and the mode it says. fail, 503: it has not updated its rules for a while: it cannot reach the API server, or rules take too long. fail, no answer: it is frozen.
skip: nothing listens: there is no kube-proxy on this node, as with Calico's eBPF data plane, k3s, or another replacement; whether services work is for datastore-latency and dns-cluster to say.`,
}

// FactMode is kube-proxy's mode: iptables, nftables, ipvs.
const FactMode probe.Fact = "mode"

func kubeProxyHealth(ctx context.Context, p *probe.Pass) {
	const health, metrics = "127.0.0.1:10256", "127.0.0.1:10249"
	one, limit, cancel := part(ctx, 3)
	defer cancel()
	answer, err := httpget.Get(one, "http://"+health+"/healthz", httpget.Way{})
	if r, cut := cutShort(ctx, err); err != nil && cut {
		p.Report(r)
		return
	}
	if err != nil {
		r := noAnswer(err, health, limit)
		if r.Facts.Str(probe.FactReason) == "refused" {
			r = probe.Found(probe.Skip, "no kube-proxy listens on %s", health)
		}
		p.Report(r.With(FactAddress, health))
		return
	}
	r := probe.Found(probe.Fail, "%d from %s: it has not updated its rules lately: %.200s", answer.Code, health, answer.Body)
	if answer.Code == http.StatusOK {
		r = probe.Found(probe.OK, "%d from %s", answer.Code, health)
	}
	if mode, err := httpget.Get(one, fmt.Sprintf("http://%s/proxyMode", metrics), httpget.Way{}); err == nil && mode.Code == http.StatusOK {
		name := strings.TrimSpace(string(mode.Body[:min(len(mode.Body), 20)]))
		r.Saw += ", mode " + name
		r = r.With(FactMode, name)
	}
	p.Report(r.With(FactAddress, health).With(FactCode, answer.Code))
}
