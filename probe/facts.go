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

// Facts that several subjects report.
const (
	FactAddress Fact = "address" // where a daemon was asked, "127.0.0.1:9099"
	// list of the firewalls with chains of Calico's: legacy, iptables-nft, nftables
	FactBackends Fact = "backends"
	FactChain    Fact = "chain"      // of the firewall
	FactCode     Fact = "code"       // HTTP status
	FactConnect  Fact = "connect_ms" // of TCP, median, milliseconds
	FactEntries  Fact = "entries"    // in a table of the kernel
	FactExpires  Fact = "expires"    // RFC 3339, "" for a token without an end
	FactFamily   Fact = "family"     // 4 or 6
	FactFaults   Fact = "faults"     // what is wrong, as words: missing, down, address, vni, port, local, mac, mtu
	FactFile     Fact = "file"       // that was read, or is wrong
	FactHeldBy   Fact = "held_by"    // the process: "NAME (PID)"
	FactHeldPort Fact = "held_port"  // "UDP 4789"
	// FactICMPFrom is who answered by ICMP in place of the target.
	FactICMPFrom    Fact = "icmp_from"
	FactInterface   Fact = "interface"
	FactKernelOf    Fact = "subject"    // the process, device or table that it is about
	FactLasts       Fact = "lasts_s"    // for how long it has said so, in seconds
	FactLinkMTU     Fact = "link_mtu"   // bytes
	FactLinkState   Fact = "link_state" // up, down, lower-layer-down, unknown, ... (RFC 2863), or off
	FactListening   Fact = "listening"  // addresses that listen on the port
	FactLives       Fact = "lives"      // true: no ping came back and the machine answers by TCP
	FactMTU         Fact = "mtu"        // bytes, of the interface
	FactMax         Fact = "max"        // entries that the table takes
	FactMissing     Fact = "missing"    // what should be there and is not
	FactOfContainer Fact = "container"  // whose log it is
	FactPID         Fact = "pid"        // of the process
	FactPasses      Fact = "passes"     // the biggest packet that came back
	// true: a session there has a password, and a kernel that wants it answers no connection without
	FactPassword   Fact = "password"
	FactPort       Fact = "port"       // TCP
	FactProgram    Fact = "program"    // of a process: upgrade-ipam, install-cni, bird
	FactPromised   Fact = "promised"   // what the interface or the route promises
	FactRTT        Fact = "rtt_ms"     // mean, milliseconds
	FactRawTable   Fact = "in_table"   // of the firewall, with the chain
	FactRcode      Fact = "rcode"      // of the answer: NOERROR, SERVFAIL, NXDOMAIN, REFUSED
	FactReceived   Fact = "received"   // packets
	FactRegistered Fact = "registered" // the address Calico registered for this node
	FactRole       Fact = "role"       // what was asked: the service's address, a server behind it, or another word
	FactRule       Fact = "rule"       // the one that makes the difference, as 'ip rule' shows it
	FactPlaceIn    Fact = "place_in"   // the network namespace in which packets die: InNode, or a pod
	FactRules      Fact = "rules"      // count of rules of others
	FactSent       Fact = "sent"       // packets
	FactServersOn  Fact = "servers_on" // the node that all servers of a service run on, none of which is ready
	// true: no connection was tried, as the two have a session
	FactSessionUp Fact = "session_up"
	FactSocket    Fact = "socket" // path on the node
	FactSource    Fact = "source" // address this side uses
	FactSysctl    Fact = "sysctl" // a setting that is wrong, with slashes
	// FactTaken is false where not even the connection was accepted within the time. The kernel accepts it for a daemon
	// that is frozen, so packets are lost, or the daemon has been frozen for long.
	FactTaken Fact = "taken"
	FactTimes Fact = "times" // how often it was said
	// FactTook is how long it took until a connection was accepted or refused, in milliseconds.
	FactTook      Fact = "took_ms"
	FactTransport Fact = "transport" // udp or tcp
	FactVersion   Fact = "version"   // of a daemon
)

// Words that several subjects use: roles of what is asked, a target, a reason.
const (
	RoleService  = "service"
	RoleEndpoint = "endpoint"
	RoleNode     = "resolv.conf" // a name server of the node's own
	// RoleGiven is the role of a name server that the kubelet gives to pods and that is not the Service of the
	// cluster's DNS.
	RoleGiven = "clusterDNS"
	// TargetRuntime is what a result is about for which a kubelet has to ask its container runtime.
	TargetRuntime = "container runtime"
	// InNode is the FactPlaceIn of the node's own network namespace.
	InNode = "the node"
	// ReasonFragments is the reason of a path that loses fragments alone.
	ReasonFragments = "fragments"
)
