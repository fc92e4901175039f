package probe

// Tags are the families that a check can belong to. --checks and --skip accept them, so a family contains only what
// its name promises: BGP is BIRD's sessions and configuration, not what a cluster without BGP needs too. A check that
// needs a probe on another node has no family, because a family must not create a second pod unexpectedly. You select
// it by its ID or its profile.
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

// Facts that several subjects report.
const (
	FactAddress Fact = "address" // where a daemon was contacted, "127.0.0.1:9099"
	// the firewalls with Calico chains, as a list: legacy, iptables-nft, nftables
	FactBackends Fact = "backends"
	FactChain    Fact = "chain"      // of the firewall
	FactCode     Fact = "code"       // HTTP status
	FactConnect  Fact = "connect_ms" // of TCP, median, milliseconds
	FactEntries  Fact = "entries"    // in a table of the kernel
	FactExpires  Fact = "expires"    // RFC 3339, "" for a token that does not expire
	FactFamily   Fact = "family"     // 4 or 6
	FactFaults   Fact = "faults"     // what is wrong, as words: missing, down, address, vni, port, local, mac, mtu
	FactFile     Fact = "file"       // that was read, or that is wrong
	FactHeldBy   Fact = "held_by"    // the process: "NAME (PID)"
	FactHeldPort Fact = "held_port"  // "UDP 4789"
	// FactICMPFrom is the host that answered with ICMP in place of the target.
	FactICMPFrom    Fact = "icmp_from"
	FactInterface   Fact = "interface"
	FactKernelOf    Fact = "subject"    // the process, device or table in question
	FactLasts       Fact = "lasts_s"    // how long it has reported this, in seconds
	FactLinkMTU     Fact = "link_mtu"   // bytes
	FactLinkState   Fact = "link_state" // up, down, lower-layer-down, unknown, ... (RFC 2863), or off
	FactListening   Fact = "listening"  // addresses that listen on the port
	FactLives       Fact = "lives"      // true: no ping came back, but the machine answers on TCP
	FactMTU         Fact = "mtu"        // bytes, of the interface
	FactMax         Fact = "max"        // entries that the table can hold
	FactMissing     Fact = "missing"    // what should exist and does not
	FactOfContainer Fact = "container"  // the container of the log
	FactPID         Fact = "pid"        // of the process
	FactPasses      Fact = "passes"     // size of the largest packet that came back
	// true: a session there has a password, and a kernel with a password ignores connections without one
	FactPassword   Fact = "password"
	FactPort       Fact = "port"       // TCP
	FactProgram    Fact = "program"    // of a process: upgrade-ipam, install-cni, bird
	FactPromised   Fact = "promised"   // the MTU that the interface or the route claims
	FactRTT        Fact = "rtt_ms"     // mean, milliseconds
	FactRawTable   Fact = "in_table"   // of the firewall, with the chain
	FactRcode      Fact = "rcode"      // of the answer: NOERROR, SERVFAIL, NXDOMAIN, REFUSED
	FactReceived   Fact = "received"   // packets
	FactRegistered Fact = "registered" // the address Calico registered for this node
	FactRole       Fact = "role"       // what was queried: the service's address, a server behind it, or another word
	FactRule       Fact = "rule"       // the rule that makes the difference, as 'ip rule' shows it
	FactPlaceIn    Fact = "place_in"   // the network namespace where packets are dropped: InNode, or a pod
	FactRules      Fact = "rules"      // number of rules by others
	FactSent       Fact = "sent"       // packets
	FactServersOn  Fact = "servers_on" // the node that runs all servers of a service, none of which is ready
	// true: no connection was tried, because the two have a session
	FactSessionUp Fact = "session_up"
	FactSocket    Fact = "socket" // path on the node
	FactSource    Fact = "source" // local address of the connection
	FactSysctl    Fact = "sysctl" // a setting that is wrong, with slashes
	// FactTaken is false if the connection was not accepted in time. The kernel accepts connections even for a frozen
	// daemon, so packets are lost, or the daemon has been frozen for long.
	FactTaken Fact = "taken"
	FactTimes Fact = "times" // how often it occurred
	// FactTook is how long it took until a connection was accepted or refused, in milliseconds.
	FactTook      Fact = "took_ms"
	FactTransport Fact = "transport" // udp or tcp
	FactVersion   Fact = "version"   // of a daemon
)

// Values that several subjects use: roles of what is queried, a target, a reason.
const (
	RoleService  = "service"
	RoleEndpoint = "endpoint"
	RoleNode     = "resolv.conf" // a name server of the node's own
	// RoleGiven is the role of a name server that the kubelet configures in pods and that is not the Service of the
	// cluster's DNS.
	RoleGiven = "clusterDNS"
	// TargetRuntime is the target of a result for which a kubelet must query its container runtime.
	TargetRuntime = "container runtime"
	// InNode is the FactPlaceIn of the node's own network namespace.
	InNode = "the node"
	// ReasonFragments is the reason of a path that loses only fragments.
	ReasonFragments = "fragments"
)
