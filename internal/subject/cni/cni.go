// Package cni declares the checks of CNI and the facts they report: plugins, their configuration, credentials and
// addresses. Both binaries link it. Checks is the entry point. The package reads nothing itself: package ask beside it
// reads the node's CNI files, and package cause draws the conclusions. Package suite draws the whole flow.
package cni

import (
	"github.com/calico-probe/calico-probe/probe"
)

// Checks returns the checks of this subject in display order.
func Checks() []*probe.Check {
	return []*probe.Check{CNIMTU, IPAMFiles, CNIConfig, CNINodename, CNIToken, CNIServer}
}

// CNIConfig finds the network plugin that the runtime would call. The runtime uses the first file by name, so another
// network's leftover file can precede Calico's file.
var CNIConfig = &probe.Check{
	ID: "cni-config", From: probe.FromNode,
	Tags: []string{probe.TagCNI}, Access: []string{"etc/cni/net.d", "opt/cni/bin", "run", "uid 0"},
}

// Facts of cni-config.
const (
	FactPlugins probe.Fact = "plugins" // types of plugins in the file, in order

	FactBehind   probe.Fact = "behind"   // Calico's file, if another file precedes it
	FactFolder   probe.Fact = "folder"   // of plugins mounted noexec, or that the runtime reads instead of Calico's
	FactAlien    probe.Fact = "alien"    // plugins that cannot run on this CPU, each with the reason
	FactBinaries probe.Fact = "found_in" // where the missing plugins are, outside the runtime's folders
	FactAssigns  probe.Fact = "assigns"  // list of the families that Calico's IPAM assigns to a pod: IPv4, IPv6
	FactLacking  probe.Fact = "lacking"  // the assigned families without an enabled pool
)

// Reasons why the runtime does not use Calico's network configuration.
const (
	CNINone = "none" // no file exists
	// the folder that the runtime reads is empty, and Calico's file is in another folder
	CNIElsewhere = "elsewhere"
	CNIUnusable  = "unusable" // the first file cannot be parsed
	CNIShadowed  = "shadowed" // another network's file comes first
	CNIPlugins   = "plugins"  // a plugin in the file is missing
	CNINoExec    = "noexec"   // its plugins are on a file system that is mounted noexec
	CNIAlien     = "alien"    // a plugin in the file is built for another CPU, or not executable
	CNIFamily    = "family"   // it requests addresses of a family without a pool
	CNIUnread    = "unread"   // the file exists, but the runtime reports that it found none
)

// CNIMTU compares the MTUs along a pod's path. If they differ, small requests pass and large answers hang.
var CNIMTU = &probe.Check{
	ID:     "cni-mtu",
	From:   probe.FromNode,
	Tags:   []string{probe.TagCNI, probe.TagNetwork},
	Access: []string{"host network", "netlink", "etc/cni/net.d", "var/lib/calico"},
}

// Facts of cni-mtu, all in bytes.
const (
	FactRoom    probe.Fact = "room"     // the largest pod packet that fits everywhere
	FactPodsMTU probe.Fact = "pods_mtu" // map of MTU to the number of pods' interfaces that have it
)

// CNINodename reads the file from which Calico's plugin takes its node's name. The file's modification time shows when
// calico-node last finished its start-up.
var CNINodename = &probe.Check{
	ID: "cni-nodename", From: probe.FromNode,
	Tags: []string{probe.TagCNI}, Access: []string{"var/lib/calico", "etc/cni/net.d", "proc"},
}

// TargetRuntimeProxy is the target of cni-server's result about the HTTP proxy in the CNI plugin's environment.
const TargetRuntimeProxy = "proxy"

// CNIServer connects to the API server in the CNI plugin's kubeconfig. The runtime starts the plugin on the host for
// each new pod, with the address and credentials in that file. So the plugin can fail while calico-node and the kubelet
// work.
var CNIServer = &probe.Check{
	ID: "cni-server", From: probe.FromNode,
	Tags: []string{probe.TagCNI, probe.TagDatastore}, Access: []string{"etc/cni/net.d", "run", "proc", "uid 0",
		"host network"},
	Needs: []string{probe.CheckNodeUplink},
}

// FactActive is true if the runtime reports that it uses Calico's network from the file's folder.
const FactActive probe.Fact = "active"

// Reasons of cni-server, besides those of a failed connection.
const (
	ReasonAuthority  = "authority"   // the file's CA did not sign the server's certificate
	ReasonName       = "name"        // the certificate is for other names
	ReasonExpired    = "expired"     // the certificate is expired or not valid yet
	ReasonInvalid    = "invalid"     // the certificate is not valid for another reason
	ReasonNotTLS     = "not-tls"     // the server does not speak TLS
	ReasonNoName     = "no-name"     // the server's name does not resolve
	ReasonNoResolver = "no-resolver" // the resolver did not answer
)

// CNIToken checks whether the credentials of Calico's plugin are still valid. With invalid credentials, new pods get no
// network, and the error message mentions ClusterInformation instead of a token.
var CNIToken = &probe.Check{
	ID: "cni-token", From: probe.FromNode,
	Tags: []string{probe.TagCNI}, Access: []string{"etc/cni/net.d", "run", "proc", "uid 0"},
}

// Facts of cni-token.
const (
	FactSubject probe.Fact = "subject"
	FactServer  probe.Fact = "server" // the API server in the file: scheme, host and port
	// FactAccountUID is the UID of the token's service account, "" if the token has none
	FactAccountUID probe.Fact = "account_uid"
)

// IPAMFiles finds what keeps the init container upgrade-ipam busy or waiting forever. In the field, a node was in
// Init:0/3 for half an hour.
var IPAMFiles = &probe.Check{
	ID:   "ipam-files",
	From: probe.FromNode,
	Tags: []string{probe.TagCNI}, Access: []string{"var/lib/cni/networks", "run/calico", "proc"},
}

// Facts of ipam-files.
const (
	FactAddresses probe.Fact = "addresses" // number of files that are named after an address
	FactHolder    probe.Fact = "holder"    // PID of the process that holds the lock, 0 if the kernel does not report it
)

// Reasons why upgrade-ipam cannot finish.
const (
	IPAMLocked      = "lock"
	IPAMNoPodCIDR   = "pod-cidr-missing"
	IPAMOutsidePool = "pod-cidr-outside"
)

// TargetPluginLock is the target of ipam-files' result about the lock that the CNI plugin takes.
const TargetPluginLock = "lock"
