package cause

import (
	"fmt"
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// ofAPI are the signatures of what a client says of the API server.
var ofAPI = []string{logs.SaysNoAPI, logs.SaysUnauthorized, logs.SaysCertificate, logs.SaysForbidden}

// apiWords are what a client of the API server says of it, by the signature.
var apiWords = map[string]string{
	logs.SaysNoAPI:        "does not reach the API server",
	logs.SaysUnauthorized: "is not known to the API server: its token or certificate is refused",
	logs.SaysCertificate:  "does not trust the API server's certificate, or the server not its own",
	logs.SaysForbidden:    "may not read what it needs",
}

// fromAPI is what a component that goes on says of the API server, and how much of a proof that is. What does not
// reach an address that answers this node now is past, or another's trouble.
func fromAPI(f diagnose.Findings, component string) (lines []diagnose.Finding, weight int) {
	lines = evidence.KubeSays(f, component, ofAPI...)
	if len(lines) == 0 {
		return nil, 0
	}
	if lines[0].Facts.Str(logs.FactSignature) != logs.SaysNoAPI {
		return lines, diagnose.Strong
	}
	server := lines[0].Facts.Str(logs.FactOfServer)
	answers := diagnose.Keep(f.Of(datastore.DatastoreLatency.ID), func(r diagnose.Finding) bool {
		return r.Status == probe.OK || r.Status == probe.Warn
	})
	switch {
	case slices.ContainsFunc(answers, func(r diagnose.Finding) bool { return r.Facts.Str(probe.FactAddress) == server }):
		return nil, 0
	case server == "" || len(answers) == 0:
		return lines, diagnose.Hint
	}
	return lines, diagnose.Strong
}

// kubeProxyCutOff is a kube-proxy that runs and hears nothing from the API server.
func kubeProxyCutOff(f diagnose.Findings) []diagnose.Case {
	lines, weight := fromAPI(f, "kube-proxy")
	if len(lines) == 0 {
		return connectsInVain(f)
	}
	ill := slices.Concat(f.With(service.KubeProxyHealth.ID, probe.FactReason, service.ReasonNotUp),
		f.Failed(service.KubeProxyHealth.ID))
	broken, _ := brokenPath(f)
	r := lines[0]
	what := apiWords[r.Facts.Str(logs.FactSignature)]
	if may := r.Facts.Str(logs.FactMay); may != "" {
		what = "may not " + may
	} else if server := r.Facts.Str(logs.FactOfServer); server != "" {
		what += fmt.Sprintf(" at %s", server)
	}
	return []diagnose.Case{{
		Says:   fmt.Sprintf("kube-proxy on {node} hears of no change, for it %s: %s", what, r.Facts.Str(logs.FactLine)),
		For:    slices.Concat(diagnose.Clues(weight, lines), diagnose.Hints(ill), diagnose.Shows(broken)),
		Covers: evidence.Serviceless,
	}}
}

// connectsInVain is the case of a kube-proxy in its start that tries an address at which the API server, which
// answers this node, is not.
func connectsInVain(f diagnose.Findings) []diagnose.Case {
	answers := diagnose.Keep(f.Of(datastore.DatastoreLatency.ID),
		func(r diagnose.Finding) bool { return r.Status == probe.OK })
	for _, r := range f.With(service.KubeProxyHealth.ID, probe.FactReason, service.ReasonNotUp) {
		server := r.Facts.Str(logs.FactOfServer)
		known := func(a diagnose.Finding) bool { return a.Facts.Str(probe.FactAddress) == server }
		if server != "" && len(answers) > 0 && !slices.ContainsFunc(f.Of(datastore.DatastoreLatency.ID), known) {
			return []diagnose.Case{{
				Says: fmt.Sprintf("kube-proxy on {node} does not get through its start, for it tries to connect to %s, which does not "+
					"answer it; the API server is at %s", server, answers[0].Facts.Str(probe.FactAddress)),
				For: append(diagnose.Suggests([]diagnose.Finding{r}), diagnose.Shows(answers[:1])...), Covers: evidence.Serviceless,
			}}
		}
	}
	return nil
}

// kubeProxyRefused is a kube-proxy whose rules the kernel does not take.
func kubeProxyRefused(f diagnose.Findings) []diagnose.Case {
	lines := evidence.KubeSays(f, "kube-proxy", logs.SaysSync)
	if len(lines) == 0 {
		return nil
	}
	broken, _ := brokenPath(f)
	return []diagnose.Case{{
		Says: "kube-proxy on {node} cannot write its rules: " + lines[0].Facts.Str(logs.FactLine),
		For: slices.Concat(diagnose.Suggests(lines), diagnose.Hints(f.Failed(service.KubeProxyHealth.ID)),
			diagnose.Shows(broken)),
		Covers: evidence.Serviceless,
	}}
}

// coreDNSCutOff is a CoreDNS that runs and hears nothing from the API server.
func coreDNSCutOff(f diagnose.Findings) []diagnose.Case {
	lines, where := evidence.KubeSays(f, "coredns", ofAPI...), "{node}"
	for _, node := range f.Others() {
		if len(lines) == 0 {
			lines, where = evidence.KubeSays(f.At(node), "coredns", ofAPI...), node
		}
	}
	failed := f.Failed(dns.DNSCluster.ID)
	if len(lines) == 0 || len(failed) == 0 { // it goes on with what it knows
		return nil
	}
	return []diagnose.Case{{
		Says: fmt.Sprintf("CoreDNS on %s %s: %s", where, apiWords[lines[0].Facts.Str(logs.FactSignature)],
			lines[0].Facts.Str(logs.FactLine)),
		For:    slices.Concat(diagnose.Suggests(lines), diagnose.Shows(failed)),
		Covers: append(diagnose.Covers(logs.KubeLog.ID), evidence.NamesFail...),
	}}
}
