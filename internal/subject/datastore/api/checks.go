// Package api answers the checks of what calico-node needs of the API and of its datastore that the API alone can
// answer, out of a cluster.Snapshot. The client alone links it. It reads nothing: what is not in the Snapshot,
// internal/cluster has to read.
package api

import (
	"github.com/calico-probe/calico-probe/internal/apicheck"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// Checks lists them, bound to a Snapshot. With a nil Snapshot they can be listed and explained, not run.
func Checks(s *cluster.Snapshot) []*probe.Check {
	return apicheck.Of([]*probe.Check{
		{
			ID: facts.CheckDatastoreReady, Asks: "does Calico call its datastore ready?", Run: apicheck.Run(s, datastoreReady),
			Doc: `Calico's resource ClusterInformation has a switch, datastoreReady. While it is off, the CNI plugin makes no pod's network ("Calico is currently not ready to process requests"), and Felix programs nothing. A Ready calico-node says nothing about it: Felix calls itself live and ready while it waits for the switch, and a start of calico-node does not look at it.
ok: it is on. fail: it is off: a migration or an upgrade of the datastore is at work, or was left half done. warn: it is off and a DatastoreMigration is there, which keeps it off on purpose while it moves resources to the group projectcalico.org; that group is read where calico-node is configured to use it (CALICO_API_GROUP). skip: there is no such resource here, as with Calico's data in an etcd of its own, or before Calico has started for the first time.`,
		},
		{
			ID: facts.CheckAccounts, Asks: "are the accounts of Calico's parts there?", Run: apicheck.Run(s, calicoAccounts),
			Doc: `calico-node, the CNI plugin and calico-kube-controllers each show the API server a token of a ServiceAccount. A token holds the account's ID: where the account is deleted every token of it is refused ("Unauthorized") within seconds, and where it is made again under the same name the old tokens stay refused, until the kubelet (within the hour) or calico-node (within hours) gets others.
Each is named by its pod: calico-node's own, that of the CNI plugin (calico-cni-plugin from v3.26 on, or CALICO_CNI_SERVICE_ACCOUNT), and that of calico-kube-controllers.
ok: it is there. fail: that of calico-node is not. warn: that of the CNI plugin or of calico-kube-controllers is not; or calico-node's is younger than its pod and less than an hour old. skip: you may not read it, or no such pod is known here.
What usually breaks it: a chart or manifest that was deleted and applied again, a clean-up of unused accounts.`,
		},
		{
			ID: facts.CheckCalicoRights, Asks: "may calico-node and its CNI plugin do what they need, and does the API server know their kinds?",
			Run: apicheck.Run(s, calicoRights),
			Doc: `calico-node and its install-cni read and write the API with a service account. Where its ClusterRole or the binding is gone, or a CustomResourceDefinition is, a start ends at once, while one that runs goes on for hours with what it knows. The API server is asked what that account may do (SubjectAccessReview, which stores nothing), and which of Calico's kinds it serves.
ok: all that was asked about. fail: something is missing and calico-node is not ready, or the account of the CNI plugin lacks what each new pod needs. warn: something is missing and calico-node is ready: it breaks at its next start. Who may not create subjectaccessreviews is answered from the roles and bindings, which is a warning at most, since another authorizer may grant more. skip: you may read neither, or Calico keeps its data in an etcd of its own.
What usually breaks it: an uninstalled chart that took cluster-wide objects with it, a clean-up of unused roles, a role that is older than the image, CRDs that a chart does not upgrade.`,
		},
		{
			ID: facts.CheckWebhooks, Asks: "does a webhook that nobody answers for keep the node or Calico from writing?",
			Run: apicheck.Run(s, deadWebhooks),
			Doc: `A webhook with failurePolicy Fail refuses whatever it is not asked about: where its Service is gone or has no ready endpoint, all that its rules match cannot be written. One that matches leases, nodes or their status makes every node NotReady, though its kubelet is well and reaches the API server; one that matches pods keeps calico-node's from being made; one that matches Calico's resources stops IPAM.
Asked about are leases in kube-node-lease, nodes and their status, pods in the namespaces of calico-node, pods in namespace default, IPAM's blocks and ClusterInformation. Of a namespace only the label with its name is known, of a pod the label of calico-node: a selector of other labels is taken not to match.
ok: none does. fail: one blocks new pods of ordinary namespaces; or one does, and the node's lease has run out, or the node has no calico-node. warn: one does. info: one may, it has matchConditions, which are not looked at. unknown: it could not be read whether somebody answers for one. skip: you may not list webhooks.
Webhooks by URL, and those that somebody answers for, are not looked at.`,
		},
		{
			ID: facts.CheckTyphaService, Asks: "is there a Typha where calico-node is configured to look for it?",
			Run: apicheck.Run(s, typhaService),
			Doc: `calico-node finds Typha by the Service that FELIX_TYPHAK8SSERVICENAME and FELIX_TYPHAK8SNAMESPACE name (by default in kube-system), and in it by the port named calico-typha. Without one Felix ends at once ("Typha discovery enabled but discovery failed"), confd writes no configuration for BIRD, and calico-node never becomes ready.
ok: it has a ready endpoint. fail: there is no such Service, it has no ready endpoint, or no port of that name. skip: calico-node is not configured to look for one.
What usually breaks it: a manifest for Typha that was applied in part, the variable copied from another cluster, Typha scaled to none, its Deployment without room.`,
		},
	})
}
