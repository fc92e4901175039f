// Package cni names the checks of CNI: plugins, their configuration, credentials and addresses, and the facts they
// report. Both binaries link it.
package cni

import (
	"github.com/calico-probe/calico-probe/probe"
)

// CNIConfig asks which network plugin the runtime would call: it takes the first
// file by name, so what another network left behind may come before Calico's.
var CNIConfig = &probe.Check{
	ID: "cni-config", Asks: "does the container runtime use Calico's network configuration, and are its plugins there?", From: probe.FromNode,
	Tags: []string{probe.TagCNI}, Access: []string{"etc/cni/net.d", "opt/cni/bin", "run", "uid 0"},
	Doc: `The runtime reads /etc/cni/net.d in the order of names and uses the first file with a network in it. install-cni writes 10-calico.conflist there and puts the plugins into /opt/cni/bin.
ok: the first file is Calico's (or Canal's), and every plugin it names is there. fail: there is none where the runtime says it reads, or in the usual places of containerd and docker, so no pod gets a network and the node is NotReady; or another plugin's file comes first, or is alone there because Calico's was renamed, as Cilium does; or the file cannot be understood; or a plugin it names is missing from /opt/cni/bin; or that folder is mounted noexec, so that none of them can be started; or a plugin is for another CPU, empty, cut short, or no program (the kernel: exec format error), or its mode forbids to execute it; or the plugin loopback, which containerd runs for every pod, is not there; or it requests addresses of a family without an enabled IP pool; or containerd says that it found no file there, and has no network, while the file is older than that. info: Multus comes first and calls others; or no file names Calico, as where it does policy alone.
unknown: there is none in the usual places, and the runtime, which is another or not known, does not say where it reads; or the first file is not read: it is a named pipe or too long, or this probe may not. skip: not visible by this access method. Where containerd says that it reads these files elsewhere, or else in the usual places of distributions that keep them elsewhere (k3s, RKE2, MicroK8s, OpenShift), they are looked at there.`,
}

// Facts of cni-config.
const (
	FactPlugins probe.Fact = "plugins" // types it names, in order

	FactBehind   probe.Fact = "behind"   // Calico's file, when another comes first
	FactFolder   probe.Fact = "folder"   // that of the plugins, if mounted noexec; that the runtime reads, if not Calico's
	FactAlien    probe.Fact = "alien"    // of these, what cannot run on this CPU, each with why
	FactBinaries probe.Fact = "found_in" // where the missing plugins are, and the runtime does not look
	FactAssigns  probe.Fact = "assigns"  // list of the families that Calico's IPAM assigns a pod: IPv4, IPv6
	FactLacking  probe.Fact = "lacking"  // of these, without an enabled pool
)

// Why Calico's network configuration is not used.
const (
	CNINone = "none" // there is no file at all
	// there is no file where the runtime reads, and Calico's is in another folder
	CNIElsewhere = "elsewhere"
	CNIUnusable  = "unusable" // the first file cannot be understood
	CNIShadowed  = "shadowed" // another network's file comes first
	CNIPlugins   = "plugins"  // a program that it names is not there
	CNINoExec    = "noexec"   // none of its programs may be executed
	CNIAlien     = "alien"    // a program that it names is for another CPU, or is no program
	CNIFamily    = "family"   // it requests addresses of a family without a pool
	CNIUnread    = "unread"   // it is there, and the runtime says that it found none
)

// CNIMTU compares the sizes of packet that the parts of a pod's path take: small
// requests pass and large answers hang where they do not agree.
var CNIMTU = &probe.Check{
	ID: "cni-mtu", Asks: "do pods send packets that fit through the tunnels and the node's interface?",
	From:   probe.FromNode,
	Tags:   []string{probe.TagCNI, probe.TagNetwork},
	Access: []string{"host network", "netlink", "etc/cni/net.d", "var/lib/calico"},
	Doc: `A pod's packet grows on its way: IPIP adds 20 bytes, VXLAN 50 (70 outside IPv6), WireGuard 60 (80). Pods get their MTU when they are made: from "mtu" in the CNI configuration, or else from /var/lib/calico/mtu, where Felix writes what fits. Compared are that setting, the interfaces of the pods that are there (cali*), the tunnel devices in use and the interface with the node's address.
ok: what pods send fits everywhere. fail: with the tunnel's overhead, packets at the pods' MTU exceed the MTU of the node's interface: they are fragmented or lost, and large transfers hang. warn: pods send larger packets than the tunnel or the interface carries: this works only as far as path MTU discovery does; or pods were made at an older, larger MTU and not since.
info: the MTU is far smaller than could be, which costs throughput; or a tunnel device is larger than fits, which hurts only what the node itself sends; or pods have an older MTU that still fits. A CrossSubnet tunnel counts only when some other node is in another subnet.
skip: Calico made no pod's interface here and has no MTU for them. unknown: which address Calico registered for the node could not be read; or pods send larger packets than a tunnel device takes, and whether anything uses that could not be read. Nothing is said of the network between the nodes: that may take less than the node's interface does.
What breaks it: a changed MTU of the network without new pods; an interface that Felix does not look at (bond*, br*, vlan*: mtuIfacePattern), for which it assumes 1460; a fixed "mtu" or veth_mtu that came from a guide.`,
}

// Facts of cni-mtu, all in bytes.
const (
	FactRoom    probe.Fact = "room"     // the largest packet of a pod that fits everywhere
	FactPodsMTU probe.Fact = "pods_mtu" // map of MTU to how many pods' interfaces have it
)

// CNINodename asks for the file by which Calico's plugin knows on which node it
// is; it also tells when calico-node last got through its start-up.
var CNINodename = &probe.Check{
	ID: "cni-nodename", Asks: "does Calico know this node by the name Kubernetes has for it?", From: probe.FromNode,
	Tags: []string{probe.TagCNI}, Access: []string{"var/lib/calico", "etc/cni/net.d", "proc"},
	Doc: `calico-node writes the node's name to /var/lib/calico/nodename at the end of its start-up; Calico's CNI plugin reads it for every pod.
ok: the file has the name Kubernetes uses. fail: it is missing ("check that the calico/node container is running and has mounted /var/lib/calico/"), so no pod gets a network; or it has another name, so addresses are allocated to a node that does not exist.
The plugin prefers the nodename of its own configuration, and reads the file that nodename_file there names, as MicroK8s sets it.
info: the name is another one, and calico-node is set to that (CALICO_K8S_NODE_REF names the Node of Kubernetes); or the node's name in Kubernetes is not known here. skip: not visible by this access method.`,
}

// TargetRuntimeProxy is the proxy through which the CNI plugin is configured to reach the API server.
const TargetRuntimeProxy = "proxy"

// CNIServer connects to the API server of the CNI plugin's kubeconfig. The plugin runs on the host for each new pod,
// by an address of its own: it can fail where calico-node and the kubelet work.
var CNIServer = &probe.Check{
	ID: "cni-server", Asks: "does the API server in the kubeconfig of Calico's CNI plugin answer?", From: probe.FromNode,
	Tags: []string{probe.TagCNI, probe.TagDatastore}, Access: []string{"etc/cni/net.d", "run", "proc", "uid 0",
		"host network"},
	Needs: []string{probe.CheckNodeUplink},
	Doc: `calico-node writes the API server's URL and authority into calico-kubeconfig (cni-token). A file that a backup or another cluster's tools restored names an old server, or an authority that did not sign its certificate: then no new pod gets a network, and everything else works. The node connects to that server and verifies its certificate as the plugin does. No token is sent.
ok: one address of the server answers, with a certificate of that authority; or without TLS, where the file has an http URL. fail: no address answers, or the answer is not TLS, or the certificate is not of that authority, not for that name or not valid now. info: it does not answer, and it is one of the servers that datastore-latency reports.
skip: no such file, or not visible by this access method; or the runtime's first network configuration does not name Calico's plugin; or the plugin connects through a proxy (cni-token). unknown: the file or its authority cannot be read.`,
}

// FactActive is true where the runtime reports the folder of the file, and uses Calico's network from there.
const FactActive probe.Fact = "active"

// Reasons of cni-server, besides those of a connection.
const (
	ReasonAuthority  = "authority"   // the file's authority did not sign the server's certificate
	ReasonName       = "name"        // the certificate is for other names
	ReasonExpired    = "expired"     // the certificate is not valid at this time
	ReasonInvalid    = "invalid"     // the certificate is not valid for another reason
	ReasonNotTLS     = "not-tls"     // the server answers in another protocol
	ReasonNoName     = "no-name"     // the resolver does not know the server's name
	ReasonNoResolver = "no-resolver" // the resolver did not answer
)

// CNIToken asks whether the credentials of Calico's plugin are still good: when
// they are not, no pod gets a network and the message speaks of
// ClusterInformation.
var CNIToken = &probe.Check{
	ID: "cni-token", Asks: "has the token of Calico's CNI plugin expired?", From: probe.FromNode,
	Tags: []string{probe.TagCNI}, Access: []string{"etc/cni/net.d", "run", "proc", "uid 0"},
	Doc: `calico-node writes a token into calico-kubeconfig, beside the network's configuration (cni-config: /etc/cni/net.d or where the runtime reads), and renews it (from v3.24 every few hours, for a day). Only its dates, issuer and subject are looked at; the token does not leave the node.
ok: valid for a while. warn: it expires within an hour, so nothing renews it. fail: it has expired, or is not valid yet by this node's clock: "connection is unauthorized". info on proxy: the runtime was started with HTTPS_PROXY, which the plugin inherits, and NO_PROXY does not except the API server's address in the file (of the proxy only host and port are told). info: a token that does not expire, as before v3.11.
skip: no such file, or not visible by this access method. unknown: the file holds no token that can be read.`,
}

// Facts of cni-token.
const (
	FactSubject probe.Fact = "subject"
	FactServer  probe.Fact = "server" // the API server in the file: scheme, host and port
	// FactAccountUID is the ID of the account of which the token is, "" where the token does not say
	FactAccountUID probe.Fact = "account_uid"
)

// IPAMFiles asks for what makes the init container upgrade-ipam do anything at
// all, and wait for ever: in the field, a node stood in Init:0/3 for half an hour.
var IPAMFiles = &probe.Check{
	ID: "ipam-files", Asks: "has another network plugin left addresses that upgrade-ipam has to migrate?",
	From: probe.FromNode,
	Tags: []string{probe.TagCNI}, Access: []string{"var/lib/cni/networks", "run/calico", "proc"},
	Doc: `upgrade-ipam looks for /var/lib/cni/networks/k8s-pod-network, where host-local keeps one file for each address. Without that directory it ends at once. With it, it waits for a lock, migrates every address and, when that fails, tries again every second for ever.
ok: no such directory. info: it is there and empty, which upgrade-ipam removes; or host-local is what this node uses, as with Canal. warn: there are addresses in it, and nobody holds the lock: upgrade-ipam has work at calico-node's next start, and sets the datastore not ready for the whole cluster meanwhile. fail: somebody holds the lock, and still does a second later, so upgrade-ipam waits; the facts name the process. fail: there are addresses, and upgrade-ipam cannot migrate them however often it tries: the Kubernetes Node has no podCIDR, or one that is in no IP pool of Calico's.
skip: not visible by this access method.
lock, where calico-ipam has made its lock /var/run/calico/ipam.lock, which one call of the plugin after the other holds while it asks for an address. ok: nobody holds it, or not the same process a second later. fail: another program than the plugin does, so every new pod waits for an address. warn: one call of the plugin does, for more than ten seconds, or it is not seen who.`,
}

// Facts of ipam-files.
const (
	FactAddresses probe.Fact = "addresses" // count of files named after an address
	FactHolder    probe.Fact = "holder"    // PID of who holds the lock, 0 when the kernel does not tell
)

// Why upgrade-ipam cannot get done.
const (
	IPAMLocked      = "lock"
	IPAMNoPodCIDR   = "pod-cidr-missing"
	IPAMOutsidePool = "pod-cidr-outside"
)

// TargetPluginLock is the target of ipam-files about the lock that the CNI plugin takes.
const TargetPluginLock = "lock"
