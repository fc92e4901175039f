package probe

// Tags are the families that a check can belong to. --checks and --skip accept them, so a family contains only what its
// name promises: BGP means BIRD's sessions and configuration, but nothing that a cluster without BGP also needs. A
// check that needs a probe on another node has no family, because a family must not create a second pod unexpectedly.
// You select such a check by ID or profile.
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
	FactFile     Fact = "file"       // file that was read or is wrong
	FactHeldBy   Fact = "held_by"    // the process: "NAME (PID)"
	FactHeldPort Fact = "held_port"  // "UDP 4789"
	// FactICMPFrom is the host that answered with ICMP in place of the target.
	FactICMPFrom    Fact = "icmp_from"
	FactInterface   Fact = "interface"
	FactKernelOf    Fact = "subject"    // the process, device or table in question
	FactLasts       Fact = "lasts_s"    // how long the state has lasted, in seconds
	FactLinkMTU     Fact = "link_mtu"   // bytes
	FactLinkState   Fact = "link_state" // up, down, lower-layer-down, unknown, ... (RFC 2863), or off
	FactListening   Fact = "listening"  // addresses that listen on the port
	FactLives       Fact = "lives"      // true: the machine answers on TCP, but not to pings
	FactMTU         Fact = "mtu"        // bytes, of the interface
	FactMax         Fact = "max"        // entries that the table can hold
	FactMissing     Fact = "missing"    // objects that should exist but are missing
	FactOfContainer Fact = "container"  // the container whose log was read
	FactPID         Fact = "pid"        // of the process
	FactPasses      Fact = "passes"     // size of the largest packet that came back
	// true: a session there has a password, so the kernel ignores connections without it
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
	FactRule       Fact = "rule"       // the decisive rule, as 'ip rule' shows it
	FactPlaceIn    Fact = "place_in"   // the network namespace where packets are dropped: InNode, or a pod
	FactRules      Fact = "rules"      // number of other owners' rules
	FactSent       Fact = "sent"       // packets
	FactServersOn  Fact = "servers_on" // the node that runs all servers of a service, all unready
	// true: not tested with a connection, because the two have a session
	FactSessionUp Fact = "session_up"
	FactSocket    Fact = "socket" // path on the node
	FactSource    Fact = "source" // local address of the connection
	FactSysctl    Fact = "sysctl" // the wrong setting, with slashes
	// FactTaken is false if the connection was not accepted in time. The kernel accepts connections even for a frozen
	// daemon. So packets are lost, or the daemon has been frozen for long.
	FactTaken Fact = "taken"
	FactTimes Fact = "times" // how often it occurred
	// FactTook is the time until a connection was accepted or refused, in milliseconds.
	FactTook      Fact = "took_ms"
	FactTransport Fact = "transport" // udp or tcp
	FactVersion   Fact = "version"   // of a daemon
)

// Values that several subjects use: roles of queried servers, a target, a reason.
const (
	RoleService  = "service"
	RoleEndpoint = "endpoint"
	RoleNode     = "resolv.conf" // a name server of the node
	// RoleGiven is the role of a name server that the kubelet configures in pods, other than the cluster DNS Service.
	RoleGiven = "clusterDNS"
	// TargetRuntime is the target of a result for which a kubelet must query its container runtime.
	TargetRuntime = "container runtime"
	// InNode is the FactPlaceIn of the node's own network namespace.
	InNode = "the node"
	// ReasonFragments is the reason for a path that loses only fragments.
	ReasonFragments = "fragments"
)
