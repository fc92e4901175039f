package diagnose

import (
	"slices"

	"github.com/calico-probe/calico-probe/internal/subject/link"
)

// ordered has every rule. Explain sorts causes by confidence, being a reason, evidence, what they explain, and layer.
// Where two are equal in all of that, the earlier one in this list comes first. The comment of each group gives the
// reason for its place.
var ordered = []*Rule{
	// Objects of the API that block the node itself: read without a probe, and they cut off the kubelet too.
	hostEndpointBlocks, hostEndpointIsolates, serviceTakesPort,
	// The kubelet and the way to it: while it is down or unreachable, nearly everything below fails as well.
	swapOn, kubeletCertificate, kubeletDead, kubeletFrozen, kubeletRenamed, kubeletAuthority, kubeletCutOff,
	mtuNodeSmall, familyCutOff, mainRuleMissing, nodeUnreachable, kubeletServing, internalShared, nodeTurnsAway,
	kubeletPortBlocked,
	// The last log lines of a kubelet or runtime that exited: after the rules above, which know the reason.
	kubeletEnds, kubeletStateDiffers, runtimeEnds,
	// Container runtimes: two daemons that disagree before one that fails.
	dockerLostContainerd, containerdHangs, containerdDead, containerdWithoutCRI, dockerHangs, runtimeHangs,
	shimHangs, containerGhosts, runtimeStuck,
	// The pod of calico-node before its main container, and the CNI files that its init containers write.
	upgradePodCIDR, upgradeLocked, upgradeNoAPI, upgradeStuck, installCNIFails, calicoImage, calicoPodMissing,
	cniConfigUnread, cniConfigMissing, cniConfigShadowed, cniPluginMissing, cniNoExec, nodenameWrong,
	// Disks and memory: they fail what is above, which then has a message of its own. The clock is with the load.
	diskReadOnly, diskFull, evictionThreshold, memoryShort,
	// The kernel's own log: after disk and memory, which it often reports too.
	queueHung, calicoKilled, componentKilled, kernelStuck,
	// The rest about the kubelet: silent for no known reason, at risk at its next start, out of room for pods.
	kubeletRestarts, kubeletSilent, swapReturns, nodeFull, nodeCordoned,
	// What keeps the probe off a healthy node: after every reason that lies in the node.
	probeImage, probePolicy, probeQuota, probeRights, probeNamespace, probeRejected,
	// What keeps a node or calico-node from starting while the node is fine: scheduler, volumes, webhooks, taints.
	webhookDead, kubeletRefused, nodeUninitialized, calicoPodWaits, calicoLimit, typhaMissing,
	// Messages of the kubelet, calico-node and its init containers: before what fails because of them.
	containerNotStarted, probeBroken, settingRefused, calicoForbidden, resourceMissing, nextStartRefused,
	calicoEnds,
	// Pods that are bound to the node and do not start: limits and CNI before the runtime's general failures.
	limitReached, cniConfigElsewhere, snapshotterMissing, ipamFamilyMissing, ipamExhausted, ipamLockHeld,
	runtimeProxy, podAddressHeld, cniPluginForbidden, cniKubeconfigWrong, cniPluginFails, pauseImageMissing,
	cgroupDriversDiffer, cgroupsExhausted, systemdUnanswering, resolvConfMissing, imageStoreBroken,
	ociRuntimeBroken, sandboxFails, volumeNotMounted, nodeDNSDown, registryRefuses, podsDoNotEnd,
	// What two nodes must not share, or must: address, router ID, tunnel settings.
	addressUnanswered, bgpRouterID, tunnelSettings,
	// The start of calico-node: before Felix and the datastore, which such a start leaves unready.
	startUnderLoad, startFarDatastore, calicoNoToken, calicoUnprivileged, calicoOutOfMemory, calicoCPULimit,
	startOutlastsBudget, calicoStarting,
	// What calico-node logs repeatedly while it runs.
	kernelLacks, tablesUnreadable, bpfRefused, typhaCertificate, typhaStale, cniTokenUnrenewed, controllersEnd,
	// The datastore, the API and Typha: without them Felix and kube-proxy do not work either.
	datastoreNotReady, apiAddressWrong, apiCutOff, apiEndpointDead, strayEndpoints, apiUnhealthy, apiSlow,
	etcdRefuses, typhaUnreachable, accountGone, cniTokenExpired,
	// The health port of Felix: causes of an odd answer before the answer itself.
	loopbackDropped, localhostForeign, localhostMissing, felixElsewhere, felixHealthOff, felixWaits,
	felixDataplaneLate, felixStuck, felixDown, breaksAtNextStart,
	// Services: kube-proxy's reasons, then that it is down, then a Service that fails without one.
	proxyForbidden, kubeProxyCutOff, kubeProxyRefused, kubeProxyOtherNode, masqueradedPods, kubeProxyEnds, dnsEnds,
	coreDNSCutOff, kubeProxyRulesLost, kubeProxyStuck, kubeProxyDead, servicePathBroken,
	// Who serves cluster DNS, and what pods are configured with.
	dnsForbidden, dnsUnserved, clusterDNSWrong, clusterDomainWrong,
	// DNS that fails: after the reasons in CoreDNS and kube-proxy.
	dnsZoneShadowed, dnsDown, dnsNoUpstream,
	// The machine at work: routing settings, kernel tables, clock, load. Load is last because it fits almost anything.
	defaultRouteMissing, forwardingOff, noPortsLeft, conntrackFull, conntrackIdle, neighboursFull, neighbourWrong,
	interfaceOverlapsNodes, addressTwice, clockWrong, rpFilterLoose, networkStorageDead, nodeOverloaded,
	// What the kernel of this node does with packets: read here, so no guess from what does not work.
	podInterfaceSetting, routeDrops, ipsecTakes, untrackedService, serviceHijacked, portWalled,
	// Where packets were counted as dropped (packet-drops): only where no rule above has the place.
	ruleDrops, sourceUnexpected, droppedHere,
	// What others left on this node: a cause here, before anything that blames a peer.
	duplicateAddress, foreignRoutingRule, foreignTunnel, firewallRejects,
	// The node's address: while it is wrong, BGP and tunnels go wrong with it.
	addressTaken, addressGone, addressBridge, addressSecondNIC, peerAddress, addressWillChange, detectionFindsNone,
	// BIRD itself: before its sessions.
	birdConfigRejected, birdUnfed, birdPortTaken, birdOldPort, birdSocketGone, birdDead, birdProbe, bgpRestartHold,
	bgpPeersMissing,
	// BGP sessions by what the peer answered, then the peer that fails as a whole.
	bgpRejected, bgpFiltered, bgpWrongAS, bgpPassword, peerBirdDead, bgpUnknownPeer, bgpOneWay, bgpWaits,
	bgpPeerSilent, bgpNoPeers, bgpRoutesFiltered, peerDown, nodeCutOff, podsFiltered, peerPods, nodesApart,
	peerWalled, peerDiffers, peerFault,
	// Routes: after the sessions that bring them.
	networkCondition, blockOwnedTwice, interfaceOverlaps, routeSwallowed, routeElsewhere, routeNotInKernel,
	podRouteMissing, podNetworkBroken, fragmentsDropped, routeMakersClash, routeNotMade,
	// Tunnels: the device, its peers, what filters it, then packet sizes.
	portTaken, tunnelDevice, tunnelPeers, tunnelSourceUnknown, tunnelRefused, tunnelFiltered, vxlanOffload,
	mtuTooBig, mtuPathSmall,
	// Firewalls and policies: the uplink and foreign rules before policies, which may well be intended.
	uplinkDown, firewallRewritten, firewallTwice, firewallUnhooked, firewallForwardDrop, foreignMasquerade,
	policyWithoutAPI, dnsClosed, policyWithoutDNS, policyForbids,
	// Settings of pools and Felix that hold for every node, and NodePorts of peers: after what only this node has.
	hostActionDrops, podsNotMasqueraded, poolNotExported, poolOverlaps, peerNodePorts,
	// Last: a difference to a healthy node, which fits where nothing else does.
	nodeDiffers,
}

// All returns all rules in their order, and what the engine has to know of the subjects.
func All() Suite {
	return Suite{Rules: slices.Clone(ordered), Lost: lostTowards, Paths: pathChecks, Whole: link.NodeUplink.ID, Implies: closes}
}
