// Package cni names the checks of CNI: plugins, their configuration, credentials and addresses, and the facts they
// report. Both binaries link it.
package cni

import (
	"github.com/calico-probe/calico-probe/probe"
)

// Checks are the checks of this subject, in the order in which they are shown.
func Checks() []*probe.Check {
	return []*probe.Check{CNIMTU, IPAMFiles, CNIConfig, CNINodename, CNIToken, CNIServer}
}

// CNIConfig asks which network plugin the runtime would call: it takes the first
// file by name, so what another network left behind may come before Calico's.
var CNIConfig = &probe.Check{
	ID: "cni-config", From: probe.FromNode,
	Tags: []string{probe.TagCNI}, Access: []string{"etc/cni/net.d", "opt/cni/bin", "run", "uid 0"},
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
	ID:     "cni-mtu",
	From:   probe.FromNode,
	Tags:   []string{probe.TagCNI, probe.TagNetwork},
	Access: []string{"host network", "netlink", "etc/cni/net.d", "var/lib/calico"},
}

// Facts of cni-mtu, all in bytes.
const (
	FactRoom    probe.Fact = "room"     // the largest packet of a pod that fits everywhere
	FactPodsMTU probe.Fact = "pods_mtu" // map of MTU to how many pods' interfaces have it
)

// CNINodename asks for the file by which Calico's plugin knows on which node it
// is; it also tells when calico-node last got through its start-up.
var CNINodename = &probe.Check{
	ID: "cni-nodename", From: probe.FromNode,
	Tags: []string{probe.TagCNI}, Access: []string{"var/lib/calico", "etc/cni/net.d", "proc"},
}

// TargetRuntimeProxy is the proxy through which the CNI plugin is configured to reach the API server.
const TargetRuntimeProxy = "proxy"

// CNIServer connects to the API server of the CNI plugin's kubeconfig. The plugin runs on the host for each new pod,
// by an address of its own: it can fail where calico-node and the kubelet work.
var CNIServer = &probe.Check{
	ID: "cni-server", From: probe.FromNode,
	Tags: []string{probe.TagCNI, probe.TagDatastore}, Access: []string{"etc/cni/net.d", "run", "proc", "uid 0",
		"host network"},
	Needs: []string{probe.CheckNodeUplink},
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
	ID: "cni-token", From: probe.FromNode,
	Tags: []string{probe.TagCNI}, Access: []string{"etc/cni/net.d", "run", "proc", "uid 0"},
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
	ID:   "ipam-files",
	From: probe.FromNode,
	Tags: []string{probe.TagCNI}, Access: []string{"var/lib/cni/networks", "run/calico", "proc"},
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
