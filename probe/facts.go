package probe

// Tags are the families that a check can belong to. --checks and --skip take them, so a family holds
// what its name says and nothing else: BGP is BIRD's sessions and configuration, not what a cluster
// without BGP needs too. A check that takes a probe on another node has no family: nobody who asks for
// a family expects a second pod. It is chosen by its ID, or by its profile.
const (
	TagFelix   = "felix"
	TagBGP     = "bgp"
	TagNetwork = "network"
	TagRuntime = "runtime"
	TagHost    = "host"
	TagCNI     = "cni"
	TagOverlay = "overlay"

	TagDatastore = "datastore"
	TagDNS       = "dns"
	TagService   = "service"
)

// Facts that several checks use.
const FactFamily Fact = "family" // 4 or 6

// Facts of bgp-port.
const (
	FactPort Fact = "port" // TCP

	// true: a session there has a password, and a kernel that wants it answers no connection without
	FactPassword Fact = "password"
	// true: nobody was dialled, as the two have a session
	FactSessionUp Fact = "session_up"
)

// Facts of the BIRD checks.
const (
	FactVersion Fact = "version" // of BIRD

	FactSource Fact = "source" // address this side uses
)

// Facts of calico-log.
const FactOfContainer Fact = "container" // whose log it is

// Facts of cni-config.
const (
	FactFile Fact = "file" // the one the runtime uses

	FactMissing Fact = "missing" // of these, not in the plugin directory
)

// Facts of cni-token.
const FactExpires Fact = "expires" // RFC 3339, "" for a token without an end

// Facts of the runtime check.
const FactSocket Fact = "socket" // path on the node

// Facts of datastore-latency.
const (
	FactConnect Fact = "connect_ms" // TCP, median

	FactRole Fact = "role" // what was asked: the service's address, a server behind it, or another word
)

// Roles of what datastore-latency, dns-cluster and dns-external ask.
const (
	RoleService  = "service"
	RoleEndpoint = "endpoint"
	RoleNode     = "resolv.conf" // a name server of the node's own
)

// Facts of the DNS checks.
const (
	FactRcode Fact = "rcode" // of the answer: NOERROR, SERVFAIL, NXDOMAIN, REFUSED

	FactTransport Fact = "transport" // udp or tcp
)

// RoleGiven is the role of a name server that the kubelet gives to pods and that is not the Service of the
// cluster's DNS.
const RoleGiven = "clusterDNS"

// Facts of the Felix checks.
const (
	FactAddress Fact = "address" // where Felix was asked, "127.0.0.1:9099"
	FactCode    Fact = "code"    // HTTP status

	FactListening Fact = "listening" // addresses that listen on Felix's port
)

// Facts of init-stall.
const (
	FactProgram Fact = "program" // upgrade-ipam, install-cni, mount-bpffs
	FactPID     Fact = "pid"
)

// Facts of kernel-log, besides those of calico-log.
const (
	FactKernelOf Fact = "subject" // the process, device or table that it is about
	FactTimes    Fact = "times"   // how often it was said
)

// Facts of kube-log about a run that goes on.
const FactLasts Fact = "lasts_s" // for how long it has said so, in seconds

// TargetRuntime is what the result is about for which a kubelet that is asked itself has to ask its container runtime.
const TargetRuntime = "container runtime"

// FactTaken is false where not even the connection was taken within the time: the
// kernel takes it for a daemon that is frozen, so packets get lost, or the daemon has
// been frozen for long.
const FactTaken Fact = "taken"

// Facts of node-conntrack.
const (
	FactEntries Fact = "entries"
	FactMax     Fact = "max"
)

// Facts of node-firewall.
const (
	// list of the firewalls with chains of Calico's: legacy, iptables-nft, nftables
	FactBackends Fact = "backends"
)

// Facts of node-uplink.
const (
	FactLinkState Fact = "link_state" // up, down, lower-layer-down, unknown, ... (RFC 2863), or off
	FactLinkMTU   Fact = "link_mtu"   // bytes
)

// Facts of overlay-tunnels.
const (
	FactMTU Fact = "mtu" // bytes, of the interface

	FactFaults Fact = "faults" // what is wrong, as words: missing, down, address, vni, port, local, mac, mtu
)

// Facts of the ping checks.
const (
	FactSent     Fact = "sent"     // packets
	FactReceived Fact = "received" // packets
	FactRTT      Fact = "rtt_ms"   // mean, milliseconds

	FactLives Fact = "lives" // true: no ping came back and the machine answers by TCP
)

// Facts of pod-gateway.
const FactSysctl Fact = "sysctl" // the setting on the first interface that has it wrong, with slashes

// Facts of pod-mtu, all in bytes of a whole IP packet.
const (
	FactPromised Fact = "promised" // what the interface or the route promises
	FactPasses   Fact = "passes"   // the biggest packet that came back
)

// ReasonFragments is the reason of a path that loses fragments alone.
const ReasonFragments = "fragments"

// Facts of a port that Calico needs and another process has.
const (
	FactHeldBy   Fact = "held_by"   // the process: "NAME (PID)"
	FactHeldPort Fact = "held_port" // "UDP 4789"
)

// Facts of the route check.
const (
	FactInterface Fact = "interface"

	FactRegistered Fact = "registered" // the address Calico registered for this node
)

// Facts of route-rules.
const (
	FactRules Fact = "rules" // count of rules of others
	FactRule  Fact = "rule"  // the one that makes the difference, as 'ip rule' shows it
)

// FactTook is how long it took until a connection was taken or refused, in milliseconds.
const FactTook Fact = "took_ms"

// FactICMPFrom is who answered by ICMP in place of the target.
const FactICMPFrom Fact = "icmp_from"

// Facts of untracked-rules, beside the rule and what it matches.
const (
	FactChain    Fact = "chain"
	FactRawTable Fact = "in_table"
)
