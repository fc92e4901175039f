package ask

import (
	"slices"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
)

// targetRedirect is the target of pod-uplink's results about the rules in a pod's own network namespace.
const targetRedirect = "redirect"

// reportRedirects reports rules in a pod's network namespace that redirect its connections to a closed port.
// This happens if a service mesh's proxy is gone but its rules remain. If a proxy is running, such rules are
// intended.
func reportRedirects(p *probe.Pass) {
	rules, err := kernel.Diversions(p.Host, kernel.Foreign)
	if err != nil && len(rules) == 0 {
		return // the checks that connect from the pod show the effect of the rules
	}
	var dead []kernel.PacketRule
	for _, r := range rules {
		port := r.Sends.Port()
		local := r.Does == kernel.DoesRedirect || r.Does == kernel.DoesTProxy || r.Sends.Addr().IsLoopback()
		if !local || port == 0 || r.Proto == node.ProtoUDP {
			continue
		}
		if at, err := node.Listening(port); err == nil && len(at) == 0 {
			dead = append(dead, r)
		}
	}
	if len(dead) == 0 {
		return
	}
	var texts []string
	for _, r := range dead {
		texts = append(texts, probe.OneLine(r.TableFamily+" "+r.String()))
	}
	slices.Sort(texts)
	texts = slices.Compact(texts)
	p.Report(probe.Found(probe.Warn, "a rule in the pod's network namespace redirects its connections to port %d, where nothing listens: %s",
		dead[0].Sends.Port(), node.Some(texts)).On(targetRedirect).With(probe.FactRule, texts[0]).
		With(probe.FactPort, int(dead[0].Sends.Port())))
}
