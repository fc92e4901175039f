package cause

import (
	"fmt"
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// internalShared is kubernetes/kubernetes#60835.
var internalShared = &diagnose.Rule{
	ID: "internal-address-shared", Layer: diagnose.LayerKernel, Title: "two nodes report the same InternalIP",
	Doc: `The kubelet reports the address of the default route's interface where --node-ip does not say another. Virtual machines of Vagrant and VirtualBox all have 10.0.2.15 there, machines behind NAT often 192.168.1.x. The API server dials the InternalIP, and reaches one kubelet for both: exec, logs and port-forward fail with "NotFound" or a certificate of the other's name, metrics are the other's. Leases and pods are well, for these go the other way. Calico takes the same address where its method is first-found or kubernetes-internal-ip.
Told from an old Node of the same machine, which is not Ready. Where each kubelet is reached by a tunnel of its own (k3s' and konnectivity's agents), this does no harm by itself.`,
	Fix: probe.Fix{
		Says: "Give each kubelet the address by which the other nodes and the API server reach it.",
		Manifest: []string{"kubectl get nodes -o wide", "ssh {node} ip -br addr",
			"ssh {node} sudo grep -r -e --node-ip /var/lib/kubelet/kubeadm-flags.env /etc/default/kubelet /etc/sysconfig/kubelet"},
		OnlyIf: []probe.Conditional{{If: "--node-ip=ADDRESS is in KUBELET_EXTRA_ARGS of /etc/default/kubelet (/etc/sysconfig/kubelet on Red Hat's)",
			Manifest: []string{"ssh {node} sudo systemctl restart {kubelet}"}}},
		Radius: "this node only; a kubelet that starts does not restart running pods{together}; with the method kubernetes-internal-ip calico-node takes the new address too",
	},
	Explains: []string{"kubelet-port-blocked", "kubelet-serving-certificate", "address-taken", "address-second-nic"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		shared := f.With(facts.CheckIPRegistered, probe.FactReason, facts.ReasonShared)
		if len(shared) == 0 {
			return nil
		}
		address := shared[0].Facts.Str(facts.Internal)
		taken := diagnose.Keep(f.With(facts.CheckIPRegistered, probe.FactReason, facts.ReasonTaken),
			func(r diagnose.Finding) bool { return r.Facts.Str(facts.Registered) == address })
		return []diagnose.Case{{
			Says: fmt.Sprintf("%s is the InternalIP of {node} and of %s: the API server cannot reach both kubelets there", address, shared[0].Facts.Str(probe.FactNode)),
			For: slices.Concat(diagnose.Suggests(shared), diagnose.Hints(taken),
				diagnose.Hints(evidence.NotPlaced(f, facts.ReasonAttach))),
			Covers: []diagnose.Cover{{Check: facts.CheckIPRegistered, About: "InternalIP"}},
		}}
	},
}
