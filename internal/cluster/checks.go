package cluster

import (
	"context"
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// Checks lists the checks the API alone can answer, bound to a snapshot. With a
// nil snapshot they can be listed and explained, not run.
func Checks(s *Snapshot) []*probe.Check {
	bind := func(look look) func(context.Context, *probe.Pass) {
		return func(_ context.Context, p *probe.Pass) { look(s, p.Report) }
	}
	checks := slices.Concat(nodeChecks(bind), serviceChecks(bind), calicoChecks(bind), resourceChecks(bind),
		startChecks(bind))
	for _, c := range checks {
		c.From, c.Tags, c.Limit = probe.FromAPI, []string{"api"}, time.Second
	}
	return checks
}

// look answers a check out of a snapshot, and binder binds it to one.
type (
	look   func(*Snapshot, func(probe.Result))
	binder func(look) func(context.Context, *probe.Pass)
)

// nodeChecks are those of the node and its pods.
func nodeChecks(bind binder) []*probe.Check {
	return []*probe.Check{
		{
			ID: facts.CheckNodeReady, Asks: "what does the API say about the node's state?", Run: bind(nodeReady),
			Doc: `The kubelet reports the node's conditions; when it stops, the node controller sets Ready to Unknown after about 50 s.
ok: Ready is True and no other condition is out of order.
fail: Ready is False (the kubelet itself says so, and why) or Unknown (the kubelet stopped reporting: it is dead, frozen or cut off); or a pressure condition or NetworkUnavailable is set. warn: the kubelet has started three times or more in the last ten minutes, by its own events.
What usually breaks it: a container runtime that does not answer, swap that came back after a reboot, a dead network, CNI not ready.`,
		},
		{
			ID: facts.CheckNodeLease, Asks: "when did the kubelet last renew its lease?", Run: bind(nodeLease),
			Doc: `A living kubelet renews the node's Lease every 10 s. The lease goes stale long before the Ready condition changes, so this is the earliest sign of a dead kubelet that the API has.
ok: renewed within 20 s. warn: 20 to 40 s. fail: more than 40 s, the lease has run out; or there is none. Where a node that is Ready reports the same machine (its IDs and its address), that is named. info: there is none yet, on a node that registered less than 40 s ago.
Ages are taken by the API server's clock, not by the clock of the machine that asks.`,
		},
		{
			ID: facts.CheckNodeTaints, Asks: "which taints keep pods off the node?", Run: bind(nodeTaints),
			Doc: `Taints say what the control plane and people think of the node. Those of node.kubernetes.io/* with effect NoExecute evict pods.
ok: none. info: taints that somebody set, or the node is cordoned. warn: taints the control plane set because something is wrong (not-ready, unreachable, memory-pressure, ...); or one with which nodes are born, such as node.cloudprovider.kubernetes.io/uninitialized, that its controller has not taken away within two minutes. fail: one of an agent (node.cilium.io/agent-not-ready, ebs.csi.aws.com/agent-not-ready) that has no pod on the node, on a node of 30 seconds or more. Pods that wait for a node and do not tolerate it are named.`,
		},
		{
			ID: facts.CheckPodsStart, Asks: "do the pods that are bound to the node start?", Run: bind(podsStart),
			Doc: `A node whose new pods do not start is not healthy, however well those that run are. This looks at pods that are bound to the node and wait, without calico-node's own (see calico-pod), and puts those together that wait for the same: by the kubelet's state of their containers, and by the last event of the twelve that wait longest, without the names and IDs in it. A pod that has waited for less than 20 s, or for less than a minute where nothing is said, is no finding.
A pod that the kubelet has refused lately is told as well (refused): it ended as Failed with OutOfpods, OutOfcpu or the like, within ten minutes. fail: the node has as many pods as it may have, or two were refused because it has no room, and they are of two namespaces or of the cluster's own. warn: one was, or those of one tenant were. info: it asks for more than the node has; and a node that is full.
ok: none waits. fail: pods of two namespaces, or one of the cluster's own for more than two minutes (one of any namespace at once where the message names what no pod can cause, such as a token, a missing plugin or the pause image, and no pod of another namespace has started since; or where no pool or block has an address for the node), get no address (addresses), fail in the CNI plugin (cni), find no network configuration (network), get no sandbox or container from the runtime (sandbox, container), cannot have several images that are not of one tenant alone (image), or are not begun and nobody says why (unsaid).
warn: the same of one tenant's pods, whose annotations the CNI plugin repeats and whose events the tenant can write; of one pod within two minutes, or while calico-node itself has just come up; a volume that is not mounted (volume); images of one tenant that a registry refuses for a reason that is no image's, such as too many requests. info: the reason is the pods' own (own): no such image, ConfigMap or Secret, a program that ends; one tenant's images of one registry that does not answer; an image on its way (pulling).
Where pods get no address, IPAM is reckoned up: the pools for this node, its blocks and how many it may have, what is free in them and elsewhere, reservations, and addresses that are kept for pods that are gone.`,
		},
		{
			ID: facts.CheckPodsEnd, Asks: "do the pods of the node that shall end do so?", Run: bind(podsEnd),
			Doc: `A pod that is deleted gets its grace, is killed, loses its network, and goes when its volumes are unmounted. One that is there a minute after its grace is stuck: kubectl shows Terminating, and whatever waits for it (a drain, a StatefulSet, a rolling update) waits on. Pods with finalizers are left out: those wait for somebody else, and may have ended on the node long ago. What keeps them is told by the last event FailedKillPod of the six that are due longest, or by what of them still runs.
ok: none is late. fail: for two minutes or more the CNI plugin does not remove the network (cni), or the runtime does not stop containers (runtime), of pods of two namespaces or of the cluster's own. warn: the same of one tenant's, or earlier; nothing runs any more and the kubelet is not done with volumes or cgroups (clean), which only its log explains; or it says nothing (unsaid).
unknown: the kubelet is silent, so nothing ends and nobody says so; or the events that say why could not be read.`,
		},
	}
}

// serviceChecks are those of services and of who makes them work.
func serviceChecks(bind binder) []*probe.Check {
	return []*probe.Check{
		{
			ID: facts.CheckServiceClaims, Asks: "does a Service take an address and port that the node itself needs?", Run: bind(serviceClaims),
			Doc: `A Service whose externalIPs, or whose load balancer's address, is an address of a node gets every connection to that address and its port, before anything that listens on the node. That is how a node's address is used on purpose, with ports such as 80; with a port that the node itself needs it is a fault.
Asked about are TCP 10250 (or the kubelet's own port), 179 or Calico's listenPort with BGP, 22, 9099, 10256, UDP 4789 or Felix's vxlanPort where a pool is VXLAN, and where they are on this node the ports of the API server, Typha and etcd.
ok: no Service has one of them. fail: one has. warn: one has a port that people or the node alone ask: 22, 9099, 10256; or one of a tenant has it by externalIPs, which its owner chose: checks on the node show whether it is followed. unknown: the services could not be listed.`,
		},
		{
			ID: facts.CheckServiceEndpoints, Asks: "does a Service lead to addresses that no pod has?", Run: bind(serviceEndpoints),
			Doc: `Kubernetes makes the EndpointSlices of a Service with a selector, and takes out pods that go. One that something else made for the same Service (a tool for mirrors or migrations, a restored backup, a hand) is kept by nobody: kube-proxy sends it its share of all connections, also when nobody is there any more. Asked are up to four such EndpointSlices, with four ready endpoints of each: has a pod that address?
ok: there is no such endpoint. info: there is, and where: a machine outside the cluster may answer there, on purpose; service-clusterip says whether the Service does. unknown: they could not be listed.`,
		},
		{
			ID: facts.CheckServicePolicies, Asks: "for which Services does it matter how kube-proxy knows the node and whom it masquerades?",
			Run: bind(servicePolicies),
			Doc: `A Service whose internalTrafficPolicy or externalTrafficPolicy is Local is answered by endpoints of the node that is asked alone: kube-proxy has to know the node by its name in Kubernetes. Pods which a policy lets be reached by certain pods alone, by their labels, have to see those pods' addresses: kube-proxy must not masquerade them. Nothing of that is a fault; kubeproxy-health says how kube-proxy is set.
ok: there is neither. info: there are some, and which. Where a policy cannot be worked out, what it selects is left out.`,
		},
		{
			ID: facts.CheckPodPolicies, Asks: "which policies hold for pods of the node?", Run: bind(podPolicies),
			Doc: `A pod that a policy of Kubernetes' or Calico's selects receives or sends only what some policy allows. Where the node has other pods, those are tested from inside, since what a policy denies may be meant. So what a policy breaks for the pods that it selects is not seen by the other checks: this one names the policy and the pods.
ok: no policy selects a pod of the node. info: which policy holds for which pods, and whether it surely denies everything in a direction; or the policies could not be read.`,
		},
		{
			ID: facts.CheckDNSPolicies, Asks: "do policies keep pods from the cluster's DNS?",
			Run: bind(dnsPolicies),
			Doc: `A policy for what pods send (egress) denies all that it does not allow, and DNS has to be allowed like the rest, by UDP: a port that is named without a protocol is TCP's. Pods that may send to others and ask nobody for their names look as if the DNS were down, while it answers everybody else (projectcalico/calico#2199).
For each pod of the node that runs and asks the cluster's DNS (its dnsPolicy is ClusterFirst), the policies are evaluated in Calico's order, for UDP to each DNS server: what the pod may send, then what the server may receive. Network sets, labels of namespaces, named ports, notNets, notPorts, protocols and tiers are worked out; labels of service accounts are not. A rule that may let it out, because of something that is not known, counts as one that does.
fail: policies select the pods of the DNS itself and let no question in to any of them, or none of this node's pods; or a rule of a policy denies pods the DNS while they are let out of the cluster; or a rule for the DNS port reaches no server by UDP. warn: the first, for UDP alone, and a cache on the node may ask by TCP; or a policy denies pods all egress, or allows them some and none to the DNS. It may be meant, so it is no fault of the node. ok: there is no such pod. info: the DNS lets in certain pods alone; what policies come to is not known. skip: no pod of the cluster's DNS is known.`,
		},
		{
			ID: facts.CheckAPIPolicies, Asks: "do policies keep the cluster's own pods from the API server?",
			Run: bind(apiPolicies),
			Doc: `A policy for all pods of kube-system or of Calico's namespace also holds for CoreDNS, calico-kube-controllers, calico-apiserver and metrics-server. Each of them needs the API server: CoreDNS is never ready without it, addresses of pods that are gone are not freed. Nothing is seen as long as they run with the connections and answers that they have.
For each of them (the first two on every node) the policies are evaluated in Calico's order for TCP to the API server's endpoints, as for dns-policies.
ok: none is denied it. fail: a policy surely denies it, and which. info: what policies come to is not known. skip: no endpoint of the API server is known.`,
		},
		{
			ID: facts.CheckProxyRights, Asks: "may kube-proxy do what it needs?", Run: bind(proxyRights),
			Doc: `kube-proxy lists and watches Services and EndpointSlices. Where its ClusterRole system:node-proxier or the binding lacks one of these, rules stay as they are and newer Services do not answer, and kube-proxy calls itself healthy.
The API server is asked what the account of the DaemonSet's pod on this node may do, and where there is none, the user system:kube-proxy; who may not create subjectaccessreviews is answered from the roles and bindings.
ok: all that was asked about. fail: the account lacks something. warn: it does by the roles alone, beside which another authorizer may grant it; or the user system:kube-proxy does, and whether a kube-proxy is that user is not known. skip: you may read neither; or the node's version is before v1.22, whose kube-proxy may read endpoints instead.`,
		},
		{
			ID: facts.CheckDNSService, Asks: "is a server behind the cluster's DNS Service, and may CoreDNS read what it serves?", Run: bind(dnsService),
			Doc: `The Service of kube-system with the label k8s-app=kube-dns is what pods ask for names. Where it has no ready endpoint, this says why: its selector is one that no pod has (and what the pods most like it have), its targetPort names no port of theirs, its Deployment asks for no replica or can make no pod, its pods are not ready and for what, or nobody makes EndpointSlices.
zones: what the plugin kubernetes of CoreDNS answers for, by the Corefile in the ConfigMap that its pods mount.
account: CoreDNS lists and watches services, namespaces and endpointslices, and is not ready while it may not. Its account is asked about as that of kube-proxy is (proxy-rights).
ok: it has a ready endpoint; the account may do all of it. warn: there is none: on a cluster whose pods ask something else that may be wanted; or the account lacks something and CoreDNS is ready. fail: it lacks something, and none is ready. skip: there is no such Service, or no pod of CoreDNS; or you may not ask.`,
		},
	}
}

// calicoChecks are those of Calico's own pods, and of the node as Calico knows it.
func calicoChecks(bind binder) []*probe.Check {
	return []*probe.Check{
		{
			ID: facts.CheckCalicoKind, Asks: "how is Calico installed, and what of that does no check look at?", Run: bind(calicoKind),
			Doc: `Calico is installed in many ways, and not every check has something to ask in each: docs/kinds.md lists them. This says which one it is, by calico-node's pod and environment, Felix's settings and the API group that has Calico's resources.
ok: which kind it is. info, about a part of it: no check looks at that, so a healthy node says nothing about it. They are eBPF's programs and maps; what is in Calico's own etcd; flannel beside Calico, as in Canal; another plugin's pods, where Calico makes policy alone; another IPAM; WireGuard's peers; nodes with Windows. skip: there is no calico-node here, as on a virtual node or one with Windows.`,
		},
		{
			ID: facts.CheckCalicoPod, Asks: "how is the calico-node pod doing?", Run: bind(calicoPod),
			Doc: `Everything Calico does on a node is done by its calico-node pod: routes, policy, BGP. This looks at its init containers, restarts, last termination and readiness as the API has them.
Where there is none, the DaemonSet is read to say why: its nodeSelector, its node affinity, or a taint of the node that it does not tolerate; and a pod that it has made for this node and that the scheduler does not bind, with the scheduler's words.
Of one that is not ready the kubelet's events are read: why nothing of it has begun (a volume, the sandbox), or why its liveness or readiness probe failed last. An event from before the present not-ready period is history: it is shown with its age, as a result of its own, and is no evidence.
ok: running and ready, no restart in the last ten minutes. warn: restarted recently, or starting for less than two minutes. fail: no such pod, an init container or the pod stuck, crash-looping, not ready.
Anybody can give a pod the label of calico-node, so a pod is believed only if a DaemonSet controls it and it is in namespace kube-system or calico-system, or in the one that --calico-namespace names. info: another pod on the node has the label; it is ignored. unknown: two DaemonSets that may be Calico's claim the node, or only one in another namespace does; the line says what to name with --calico-namespace. skip: there is none, and none belongs here: the node is virtual or runs Windows, or a migration from flannel has not come to it yet.
Init containers run in the order upgrade-ipam, install-cni, then flexvol-driver, mount-bpffs or ebpf-bootstrap; Init:0/3 means the first has not finished.
What usually breaks it: the API's service address out of reach from the node, a container runtime that lost track of its containers, a node too loaded to start in time.`,
		},
		{
			ID: facts.CheckCalicoBudget, Asks: "how long may calico-node take to start before it is killed?",
			Run: bind(calicoBudget),
			Doc: `The kubelet kills a container whose liveness probe fails for its whole budget: initial delay + (failure threshold - 1) x period + one timeout. Felix opens its health port only after start-up has finished, so on a slow or far-away node a start that is longer than the budget never ends: the container is killed and starts again.
ok: no run was cut short. fail: the last run was ended from outside (exit 137 or 143; or 0, when start-up was over and runit had taken charge) at about the age the budget allows, and the present one is not ready, or nothing asks whether it is and it is not yet past that age. warn: it is, and has begun within ten minutes. info: there is no liveness probe, or the last run ended otherwise.`,
		},
		{
			ID: facts.CheckControllers, Asks: "how is calico-kube-controllers doing?", Run: bind(calicoControllers),
			Doc: `calico-kube-controllers frees the addresses of nodes and pods that are gone. fail: on this node, a liveness or startup probe whose command or flag does not exist has it killed again and again. It is a pod like others: where Calico does not work on its node it has no network, does not reach the API and restarts again and again. That is a consequence and seldom the fault.
ok: running and ready. warn: it waits, ended, is not ready or has restarted within ten minutes, and is on this node. info: the same, on another node. warn too: its Deployment has no pod at all, so nobody frees addresses. skip: the cluster has none where Calico is looked for: in namespace kube-system or calico-system, or in the one that --calico-namespace names.`,
		},
		{
			ID: facts.CheckIPRegistered, Asks: "is the address Calico registered the one its nodes use?",
			Run: bind(ipRegistered),
			Doc: `Calico registers one address per node and family (annotation projectcalico.org/IPv4Address and IPv6Address); peers open BGP sessions and tunnels to it. When autodetection picks another NIC or a bridge, peers get an address they cannot reach.
ok: registered and InternalIP are the same on all nodes. info: they differ on every node in the same manner, as on clusters with a network of its own for pods. fail: this node's differs and lies outside the peers' network, or two nodes registered the same address, or none is registered here and this node's InternalIP is for another one. warn: another node is odd, or nothing is registered, or another node that is Ready has the same InternalIP, so that the API server takes one kubelet for the other. skip: Calico registers nothing on Nodes here: its networking backend is none (from v3.26.2 on), or its data is in an etcd of its own.
What usually breaks it: a new NIC, a bridge made by docker network create, autodetection method first-found.`,
		},
		{
			ID: facts.CheckHostEndpoints, Asks: "does a HostEndpoint shut ports that Kubernetes needs?", Run: bind(hostEndpoints),
			Doc: `A HostEndpoint makes Calico's policies hold for an interface of a node itself. From then on all that no policy allows there is dropped, but for Felix's failsafe ports (ssh, BGP, etcd, Typha, the API server's 6443; not the kubelet's 10250): one that was made without a policy, or before it, cuts the node off at once.
For each HostEndpoint of the node the policies that select it are gone through in Calico's order, for TCP 10250, 6443, 179 and 22 towards the node, and for TCP 443 from the node itself: a policy of Ingress alone lets nothing out.
ok: there is none, or none of these ports is surely shut: a rule with conditions may let it in. warn: one or more is neither failsafe nor let in by any policy, or nothing is let out. info: there is one, and what policies come to is not known. unknown: the same, because a list failed. skip: you may not list HostEndpoints.`,
		},
	}
}

// resourceChecks are those of the rest that Calico reads from the API.
func resourceChecks(bind binder) []*probe.Check {
	return []*probe.Check{
		{
			ID: facts.CheckDatastoreReady, Asks: "does Calico call its datastore ready?", Run: bind(datastoreReady),
			Doc: `Calico's resource ClusterInformation has a switch, datastoreReady. While it is off, the CNI plugin makes no pod's network ("Calico is currently not ready to process requests"), and Felix programs nothing. A Ready calico-node says nothing about it: Felix calls itself live and ready while it waits for the switch, and a start of calico-node does not look at it.
ok: it is on. fail: it is off: a migration or an upgrade of the datastore is at work, or was left half done. warn: it is off and a DatastoreMigration is there, which keeps it off on purpose while it moves resources to the group projectcalico.org; that group is read where calico-node is configured to use it (CALICO_API_GROUP). skip: there is no such resource here, as with Calico's data in an etcd of its own, or before Calico has started for the first time.`,
		},
		{
			ID: facts.CheckRouteMakers, Asks: "who makes the routes to other nodes' pods: Felix or BIRD?", Run: bind(routeMakers),
			Doc: `Of pools with VXLAN it is Felix. Of the others two settings say it, which have to complement each other: programClusterRoutes of FelixConfiguration (from v3.31) and of BGPConfiguration (from v3.32). Where neither is set, BIRD makes them all before v3.33; from v3.33 on Felix makes those of pools with IPIP and BIRD those without encapsulation.
ok: each pool has one who makes its routes. warn: both make those of a pool and take each other's away, or nobody does. info: who makes them is another one from v3.33 on; where a setting that was made by hand clashes then, it is said that both will, or nobody. skip: no BIRD of Calico's runs here, or all pools have VXLAN.
What usually breaks it: one of the two settings changed alone; one set long ago that the defaults of a new version no longer complement.`,
		},
		{
			ID: facts.CheckBGPPeering, Asks: "do Calico's resources give this node a BGP peer?", Run: bind(bgpPeering),
			Doc: `Where BIRD makes the routes to other nodes' pods, the node has to have a peer to learn them from: the other nodes, by the mesh that is on unless nodeToNodeMeshEnabled is false, or a router or route reflector by a BGPPeer. With the mesh off and BGPPeers whose selectors take no node (a label that was never set, or went with a node that was made anew) BIRD runs, is ready, and has no session.
ok: how many sessions follow from the resources, whether they are up or not (bgp-session). info: none does; that is wanted where the network itself knows each node's pods. BGPPeers that make no session on any node are named. warn: the address or selector of one cannot be read. skip: no BIRD runs here, or Felix makes the routes.`,
		},
		{
			ID: facts.CheckIPPools, Asks: "do the IP pools overlap with nodes or services, and do pods keep their addresses outside?",
			Run: bind(ipPools),
			Doc: `A pool's range has to be nobody else's. Where a block of it has a node's address in it, other nodes send what is meant for that node to the owner of the block. Where cluster IPs are in it, IPAM gives a pod an address that kube-proxy takes for a Service. Where nodes are in it, pods that ask machines of that network do so by their own address, for Calico masquerades only what leaves its pools, and the machines send their answers elsewhere.
With natOutgoing false pods keep their address also outside of the cluster: there has to be a router that knows where they are, by BGP or by routes of its own. Calico's own BGP peers that are no nodes are counted as such.
ok: no overlap. fail: a block that a node has of the pool has a node's address or a cluster IP in it. warn: an API server that is no node has its address in the pool, be it disabled: what pods send there is not masqueraded; disableBGPExport is set in a pool whose routes BIRD makes; natOutgoing is false in a pool that is always in a tunnel (VXLAN or IPIP Always), and BGP tells no router. info: the pool has such addresses in it, and no block yet; or natOutgoing is false otherwise. Disabled pools are left out otherwise; cluster IPs are known of services that there are, the range itself is not. skip: no pool is known.`,
		},
		{
			ID: facts.CheckAccounts, Asks: "are the accounts of Calico's parts there?", Run: bind(calicoAccounts),
			Doc: `calico-node, the CNI plugin and calico-kube-controllers each show the API server a token of a ServiceAccount. A token holds the account's ID: where the account is deleted every token of it is refused ("Unauthorized") within seconds, and where it is made again under the same name the old tokens stay refused, until the kubelet (within the hour) or calico-node (within hours) gets others.
Each is named by its pod: calico-node's own, that of the CNI plugin (calico-cni-plugin from v3.26 on, or CALICO_CNI_SERVICE_ACCOUNT), and that of calico-kube-controllers.
ok: it is there. fail: that of calico-node is not. warn: that of the CNI plugin or of calico-kube-controllers is not; or calico-node's is younger than its pod and less than an hour old. skip: you may not read it, or no such pod is known here.
What usually breaks it: a chart or manifest that was deleted and applied again, a clean-up of unused accounts.`,
		},
		{
			ID: facts.CheckCalicoRights, Asks: "may calico-node and its CNI plugin do what they need, and does the API server know their kinds?",
			Run: bind(calicoRights),
			Doc: `calico-node and its install-cni read and write the API with a service account. Where its ClusterRole or the binding is gone, or a CustomResourceDefinition is, a start ends at once, while one that runs goes on for hours with what it knows. The API server is asked what that account may do (SubjectAccessReview, which stores nothing), and which of Calico's kinds it serves.
ok: all that was asked about. fail: something is missing and calico-node is not ready, or the account of the CNI plugin lacks what each new pod needs. warn: something is missing and calico-node is ready: it breaks at its next start. Who may not create subjectaccessreviews is answered from the roles and bindings, which is a warning at most, since another authorizer may grant more. skip: you may read neither, or Calico keeps its data in an etcd of its own.
What usually breaks it: an uninstalled chart that took cluster-wide objects with it, a clean-up of unused roles, a role that is older than the image, CRDs that a chart does not upgrade.`,
		},
	}
}

// unread is the result of a question whose part of the snapshot is missing.
func unread(err error) probe.Result {
	if apierrors.IsForbidden(err) && cannot.MatchString(err.Error()) {
		right := lacking(err)
		return probe.Found(probe.Unknown, "%s", right).With(facts.LacksRight, right)
	}
	if denied(err) {
		return probe.Found(probe.Unknown, "the API refuses to say: %v", err)
	}
	return probe.Failed(err)
}

// skipDenied is the result of an optional reading that failed: skipped where the user may not read it, else unknown.
func skipDenied(err error) probe.Result {
	r := unread(err)
	if denied(err) {
		r.Status = probe.Skip
	}
	return r
}

// unreadOf is the same as unread, or says of something of Calico's that it is in an etcd of its own.
func unreadOf(what string, err error) probe.Result {
	if errors.Is(err, errInEtcd) {
		return probe.Found(probe.Skip, "%s %v", what, err)
	}
	return unread(err)
}
