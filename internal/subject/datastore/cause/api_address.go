package cause

import (
	"fmt"
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
)

// apiAddressWrong is projectcalico/calico#8645.
var apiAddressWrong = &diagnose.Rule{
	ID: "api-address-wrong", Layer: diagnose.LayerDatastore, Title: "calico-node is configured with a dead API server address",
	Doc: `calico-node reaches the API server by its service, unless something tells it another address: the ConfigMap kubernetes-services-endpoint, which installations with eBPF need and others may have left over, or KUBERNETES_SERVICE_HOST in its own environment. Where no API server is there (any more), its init containers and calico-node end at every start, on each node that starts anew, while every other pod reaches the API server well.
Told from a node that is cut off by the API server's own addresses, which answer this node.`,
	Fix: probe.Fix{
		Says: "Write the address there at which the API servers answer, or delete the ConfigMap where nothing needs it; then start calico-node anew.",
		Manifest: []string{
			"kubectl get configmaps -A --field-selector metadata.name=kubernetes-services-endpoint -o yaml",
			"kubectl get endpointslices -n default -l kubernetes.io/service-name=kubernetes  # where they are",
			"kubectl -n {namespace} set env ds/{daemonset} --list | grep KUBERNETES_SERVICE",
		},
		OnlyIf: []probe.Conditional{{If: "the address is right again", Manifest: []string{evidence.RestartCalico}}},
		Radius: "reading changes nothing; a ConfigMap that is changed acts at the next start of each calico-node",
	},
	RuledOut: []string{service.ServiceClusterIP.ID},
	Explains: append([]string{"calico-ends", "felix-waits"}, evidence.AfterLog...),
	Match: func(f diagnose.Findings) []diagnose.Case {
		told := evidence.InRole(f.Failed(datastore.DatastoreLatency.ID), datastore.RoleConfigured)
		others := diagnose.Keep(evidence.ToServers(f.Of(datastore.DatastoreLatency.ID)), func(r diagnose.Finding) bool {
			return r.Status != probe.Fail && diagnose.IsAnswered(r.Status)
		})
		if len(told) == 0 || len(others) == 0 {
			return nil
		}
		r := told[0]
		return []diagnose.Case{{
			Says: fmt.Sprintf("%s tells calico-node on {node} that the API server is at %s, where none answers (%s); it answers at %s",
				r.Facts.Str(datastore.FactSetBy), r.Facts.Str(probe.FactAddress), diagnose.ReasonOf(r),
				others[0].Facts.Str(probe.FactAddress)),
			For:    append(diagnose.Proves(told), diagnose.Shows(others[:1])...),
			Covers: slices.Concat(evidence.WithoutDatastore, evidence.NotStarted),
		}}
	},
}
