package cause

import (
	"fmt"
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/link"
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
var kubeProxyCutOff = &diagnose.Rule{
	ID: "kube-proxy-cut-off", Layer: diagnose.LayerDatastore, Open: true,
	Title: "kube-proxy receives no updates from the API server, and logs why",
	Doc: `kube-proxy has a way to the API server of its own: the kubeconfig of its ConfigMap or file, mostly with the address of a load balancer or of the first API server. Where that is an address of before, its token or certificate is refused, or the authority in it is not the cluster's any more, kube-proxy does not get through its start, or goes on with what it knows: Services that were there work until their pods move, new ones never do, and nothing else on the node is wrong.
Told from an API server that is down by its answer to this node; from a kube-proxy that is stuck by what it writes into its log, again and again.`,
	Fix: probe.Fix{
		Says: "Put right what the line names: the address, the authority or the credentials in kube-proxy's kubeconfig, or its role.",
		Manifest: []string{"kubectl -n kube-system get configmap kube-proxy -o yaml | grep -n -e server: -e kubeconfig",
			"kubectl get endpointslices -n default -l kubernetes.io/service-name=kubernetes  # where the API servers are",
			"ssh {node} 'ps -o args= -C kube-proxy'  # where it is no pod: the files that it was given"},
		OnlyIf: []probe.Conditional{{If: "the file or the ConfigMap is right now, and it is a pod",
			Manifest: []string{"kubectl -n kube-system delete pod -l k8s-app=kube-proxy --field-selector spec.nodeName={node}"}}},
		Radius: kubeProxyRadius,
	},
	RuledOut: []string{link.NodeUplink.ID, datastore.DatastoreLatency.ID},
	Explains: []string{"kube-proxy-stuck", "service-path-broken", "kube-proxy-rules-lost"},
	Match: func(f diagnose.Findings) []diagnose.Case {
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
	},
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
var kubeProxyRefused = &diagnose.Rule{
	ID: "kube-proxy-sync-fails", Layer: diagnose.LayerDatastore,
	Title: "kube-proxy cannot write its rules: the kernel rejects them",
	Doc: `kube-proxy writes all its rules at once (iptables-restore, nft, netlink for ipvs). Where that fails, for a module that the kernel lacks, a lock that another program holds, a rule that this version of iptables does not know, or a set that is too large, it tries again and again and nothing of it holds: services stay as they were, and its health says 503 after a while.
Told from a kube-proxy that hears nothing by its log.`,
	Fix: probe.Fix{
		Says: "Correct what the quoted line names: load the module of a match or target that cannot be loaded, end what holds the lock, or run a kube-proxy whose iptables this kernel supports.",
		Manifest: []string{
			"kubectl -n kube-system get pods -l k8s-app=kube-proxy -o wide --field-selector spec.nodeName={node}",
			"kubectl -n kube-system logs -l k8s-app=kube-proxy --prefix --tail=30",
			"ssh {node} 'uname -r; lsmod | grep -e ^ip_vs -e ^nf_tables -e ^ip_tables'",
		},
		OnlyIf: []probe.Conditional{
			{If: "the line says that a match or target cannot be loaded: its module is xt_NAME",
				Manifest: []string{"ssh {node} sudo modprobe xt_NAME"}},
			{If: "the line says that another program holds the lock", Manifest: []string{"ssh {node} sudo fuser -v /run/xtables.lock"}},
		},
		Radius: "reading changes nothing; a module that is loaded changes nothing of what runs, and kube-proxy tries again by itself",
	},
	Explains: []string{"kube-proxy-stuck", "service-path-broken"},
	Match: func(f diagnose.Findings) []diagnose.Case {
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
	},
}

// coreDNSCutOff is a CoreDNS that runs and hears nothing from the API server.
var coreDNSCutOff = &diagnose.Rule{
	ID: "coredns-cut-off", Layer: diagnose.LayerServices,
	Title: "CoreDNS receives no updates from the API server, and logs why",
	Doc: `CoreDNS asks the API server for Services and EndpointSlices by the address of the Service kubernetes, out of its pod. Where that does not answer its pod, or its account is refused, it is not ready ("plugins not ready: kubernetes") or answers SERVFAIL, and names of the cluster resolve nowhere. One that ran before goes on with what it knows.
Told from a CoreDNS that lacks a right by what the API server answers, which it writes into its log.`,
	Fix: probe.Fix{
		Says: "Restore CoreDNS's connection to the API server: check services on its node, policies in kube-system, and its token, in this order.",
		Manifest: []string{"kubectl -n kube-system logs -l k8s-app=kube-dns --prefix --tail=20",
			"kubectl -n kube-system get pods -l k8s-app=kube-dns -o wide  # the nodes they are on: calico-probe run --node NODE",
			"kubectl -n kube-system get networkpolicies.networking.k8s.io,networkpolicies.crd.projectcalico.org"},
		Radius: evidence.OnlyReads,
	},
	RuledOut: []string{datastore.DatastoreLatency.ID},
	Explains: []string{"dns-down", "dns-no-upstream"},
	Match: func(f diagnose.Findings) []diagnose.Case {
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
	},
}
