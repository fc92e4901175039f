package probe

// Tags are the families that a check can belong to. --checks and --skip accept them, so a family contains only what its
// name promises. For example, BGP covers BIRD's sessions and configuration, but nothing that a cluster without BGP also
// needs. A check that needs a probe on another node has no family. Otherwise, selecting a family could unexpectedly
// create a second pod. You select such a check by its ID or by a profile.
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
	FactAddress Fact = "address" // the address at which a daemon was contacted, "127.0.0.1:9099"
	// the firewalls that contain Calico chains, as a list: legacy, iptables-nft, nftables
	FactBackends Fact = "backends"
	FactChain    Fact = "chain"      // of the firewall
	FactCode     Fact = "code"       // HTTP status
	FactConnect  Fact = "connect_ms" // TCP round trip, median, in milliseconds
	FactEntries  Fact = "entries"    // entries in a table of the kernel
	FactExpires  Fact = "expires"    // RFC 3339; "" if a token does not expire
	FactFamily   Fact = "family"     // 4 or 6
	FactFaults   Fact = "faults"     // what is wrong, in one word: missing, down, address, vni, port, local, mac, mtu
	FactFile     Fact = "file"       // the file that was read, or that is wrong
	FactHeldBy   Fact = "held_by"    // the process: "NAME (PID)"
	FactHeldPort Fact = "held_port"  // "UDP 4789"
	// FactICMPFrom is the host that answered with ICMP instead of the target.
	FactICMPFrom    Fact = "icmp_from"
	FactInterface   Fact = "interface"
	FactKernelOf    Fact = "subject"    // the process, device or table in question
	FactLasts       Fact = "lasts_s"    // how long the state has lasted, in seconds
	FactLinkMTU     Fact = "link_mtu"   // in bytes
	FactLinkState   Fact = "link_state" // up, down, lower-layer-down, unknown, ... (RFC 2863), or off
	FactListening   Fact = "listening"  // addresses on which a process listens on the port
	FactLives       Fact = "lives"      // true if the machine answers over TCP but does not answer pings
	FactMTU         Fact = "mtu"        // the interface's MTU in bytes
	FactMax         Fact = "max"        // number of entries that the table can hold
	FactMissing     Fact = "missing"    // objects that should exist but are missing
	FactOfContainer Fact = "container"  // the container whose log was read
	FactPID         Fact = "pid"        // of the process
	FactPasses      Fact = "passes"     // size of the largest packet that was returned
	// true if a session there has a password, so the kernel ignores connections without a password
	FactPassword   Fact = "password"
	FactPort       Fact = "port"       // TCP port
	FactProgram    Fact = "program"    // of a process: upgrade-ipam, install-cni, bird
	FactPromised   Fact = "promised"   // the MTU that the interface or route specifies
	FactRTT        Fact = "rtt_ms"     // mean, in milliseconds
	FactRawTable   Fact = "in_table"   // firewall rule, with its chain
	FactRcode      Fact = "rcode"      // response code: NOERROR, SERVFAIL, NXDOMAIN, REFUSED
	FactReceived   Fact = "received"   // packets
	FactRegistered Fact = "registered" // the address that Calico registered for this node
	FactRole       Fact = "role"       // what was queried: the service's address, a server behind it, or another word
	FactRule       Fact = "rule"       // the rule that decided, as 'ip rule' shows it
	FactPlaceIn    Fact = "place_in"   // the network namespace that drops the packets: InNode, or a pod
	FactRules      Fact = "rules"      // number of rules that belong to other owners
	FactSent       Fact = "sent"       // packets
	FactServersOn  Fact = "servers_on" // the node that runs all of a service's servers, if all are unready
	// true if no connection was tested, because the two nodes have a session
	FactSessionUp Fact = "session_up"
	FactSocket    Fact = "socket" // a path on the node
	FactSource    Fact = "source" // the connection's local address
	FactSysctl    Fact = "sysctl" // the name of the wrong setting, with slashes
	// FactTaken is false if the daemon did not accept the connection in time. The kernel completes connections even
	// for a frozen daemon. So either packets are lost, or the daemon has been frozen for a long time.
	FactTaken Fact = "taken"
	FactTimes Fact = "times" // number of times that it occurred
	// FactTook is the time in milliseconds until a connection was accepted or refused.
	FactTook      Fact = "took_ms"
	FactTransport Fact = "transport" // udp or tcp
	FactVersion   Fact = "version"   // a daemon's version
)

// Values that several subjects use: roles of the servers that are queried, a target, a reason.
const (
	RoleService  = "service"
	RoleEndpoint = "endpoint"
	RoleNode     = "resolv.conf" // a name server of the node
	// RoleGiven is the role of a name server that the kubelet configures in pods but that is not
	// the cluster DNS Service.
	RoleGiven = "clusterDNS"
	// TargetRuntime is the target of a result that needs a kubelet to query its container runtime.
	TargetRuntime = "container runtime"
	// InNode is the value of FactPlaceIn for the node's own network namespace.
	InNode = "the node"
	// ReasonFragments is the reason if a path loses only fragments.
	ReasonFragments = "fragments"
)
