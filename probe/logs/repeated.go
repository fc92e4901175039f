package logs

import (
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe/lazy"
)

// A repeated is a fault that a component logs while it continues to run.
type repeated struct {
	signature
	level  int                      // minimum log level of the line
	Over   *lazy.Regexp             // a line that shows that the fault is over, nil = no such line
	Least  int                      // minimum number of times that one component must have logged it
	Spread time.Duration            // minimum time between the first and the last line
	Lasts  bool                     // it is logged only once, and the fault lasts until Over
	module func(text string) string // the kernel module that a line names
}

// Signatures of the lines that calico-errors recognises.
const (
	faultKernelLacks      = "kernel"            // a module or feature of the kernel is missing
	faultBPFOff           = "bpf-off"           // eBPF is configured, but Felix runs without it
	faultBPFFailed        = "bpf-failed"        // Felix exits because the kernel rejects its maps or programs
	faultBPFVerifier      = "bpf-verifier"      // the kernel rejects a program
	faultTyphaCertificate = "typha-certificate" // Felix or confd and Typha reject each other's certificates
	faultTyphaOld         = "typha-old"         // Typha is too old for calico-node
	faultTyphaDrops       = "typha-drops"       // Typha closes connections repeatedly
	faultTyphaRefuses     = "typha-refuses"     // Typha itself: Typha and its clients reject each other's certificates
	faultTyphaSheds       = "typha-sheds"       // Typha itself: Typha closes the connections of slow clients
	faultCNIToken         = "cni-token"         // the CNI plugin gets no new token
	FaultTunnelAddress    = "tunnel-address"    // IPAM has no address for the node's tunnel
	faultTables           = "tables"            // the tables contain rules of other owners that iptables cannot read
)

// ofAny matches the component and a source file at the start of a line. Versions before v3.32 do not name the
// component.
func ofAny(files string) []*lazy.Regexp {
	return []*lazy.Regexp{lazy.New(`^(?:[a-z][\w-]*/)?(?:` + files + `)\.go \d+: `)}
}

var (
	noTyphaFile = lazy.New(`\.go \d+: Failed to (?:load certificate and key|read CA data|add CA data)`)
	remoteAlert = lazy.New(`remote error: tls: `)
	greetTypha  = lazy.New(`^(?:[a-z][\w-]*/)?sync_client\.go \d+: ServerHello message received`)
	felixStarts = lazy.New(`^(?:felix/)?daemon\.go \d+: Felix starting up`)
)

// Fits reports whether a line matches, and returns the kernel module that the line names.
func (s *repeated) Fits(level int, line string) (module string, ok bool) {
	at := s.By[0].FindStringIndex(line)
	if at == nil || level < s.level || !s.Match.MatchString(line[at[1]:]) {
		return "", false
	}
	if s.module == nil {
		return "", true
	}
	module = s.module(line[at[1]:])
	return module, module != ""
}

const refusedCertificate = `x509: |tls: (?:bad|unknown|expired|revoked|unsupported) certificate|tls: certificate required|` +
	`tls: unknown certificate authority|tls: handshake failure|peer certificate does not have required`

// birdRejects matches BIRD's error about its configuration. The error contains FILE:LINE:COLUMN and the problem at that
// place (unix_read_config in sysdep/unix/main.c). If BIRD cannot start, it logs this error every second, because runit
// restarts it.
func birdRejects(program string) *repeated {
	by := []*lazy.Regexp{lazy.New(`^` + program + `: `)}
	return &repeated{signature: signature{faultBIRDConfig, "bird, sysdep/unix/main.c; seen: krt_tunnel of Calico's templates before v3.29", by,
		inBIRDFile}, Least: 1, Over: lazy.New(`^` + program + `: (?:Started|Reconfigured)$`)}
}

// inBIRDFile captures the place that BIRD names, and matches the problem that follows.
var inBIRDFile = lazy.New(`^(\S+\.(?:cfg|conf)):(\d+):\d+ \S`)

// calicoRepeats are tried in order, and the first match wins.
var calicoRepeats = []*repeated{
	birdRejects("bird"), birdRejects("bird6"),
	{signature: signature{faultTyphaCertificate, "typha, sync_client.go and tlsutils.go; crypto/tls", ofAny("sync_client"),
		lazy.New(`^(?:Failed to connect to typha endpoint|Failed to (?:send hello to server|read from server|write))[^=]*.*(?:` + refusedCertificate + `)`)},
		level: levelWarning, Over: greetTypha, Least: 1},
	{signature: signature{faultTyphaCertificate, "typha, sync_client.go", ofAny("sync_client"),
		lazy.New(`^Failed to (?:load certificate and key|read CA data|add CA data to pool)`)},
		level: levelError, Over: greetTypha, Least: 1},
	{signature: signature{faultTyphaOld, "typha, sync_client.go", ofAny("sync_client"),
		lazy.New(`^(?:Server responded without support for node resource updates|We require SyncerType \S+ but Typha server doesn't support it)`)},
		level: levelWarning, Least: 1},
	{signature: signature{faultTyphaDrops, "typha, sync_client.go and sync_server.go", ofAny("sync_client"),
		lazy.New(`^Failed to read from server.*error=(?:EOF|unexpected EOF|read tcp .*(?:connection reset by peer|i/o timeout))`)},
		level: levelError, Least: 4, Spread: 2 * time.Minute}, // Typha's restart makes several components log it once
	{signature: signature{faultCNIToken, "node, token_watch.go", ofAny("token_watch"),
		lazy.New(`^Unable to create token for CNI kubeconfig.*(?:not found|is forbidden|Unauthorized|is invalid)`)},
		level: levelError, Least: 2, Over: lazy.New(`^(?:[a-z][\w-]*/)?token_watch\.go \d+: (?:Wrote updated CNI kubeconfig|Update of CNI kubeconfig)`)},
	{signature: signature{FaultTunnelAddress, "node, allocateip.go; libcalico-go, ipam.go", ofAny("allocateip|main|nodeservices"), noTunnelAddress},
		level: levelError, Least: 1, Over: lazy.New(`^(?:[a-z][\w-]*/)?allocateip\.go \d+: (?:Assigned tunnel address to node|Current address is still valid)`)},
	{signature: signature{faultBPFOff, "felix, daemon.go and bpf.go", ofAny("daemon"),
		lazy.New(`^BPF dataplane mode enabled but not supported by the kernel`)}, level: levelError, Least: 1, Lasts: true, Over: felixStarts},
	{signature: signature{faultBPFFailed, "felix, int_dataplane.go and bpf_ep_mgr.go", ofAny("int_dataplane|bpf_ep_mgr"),
		lazy.New(`^(?:error creating bpf maps|Failed to create BPF endpoint manager|BPFConnTimeLBEnabled but failed to attach|Failed to configure BPF devices|Cannot load interface state map)`)},
		level: levelFatal, Least: 1},
	{signature: signature{faultBPFMount, "felix, maps.go and connecttime.go; node, calico-init_linux.go", ofAny("maps|connecttime|calico-init_linux"),
		lazy.New(`^Failed to mount (?:bpffs|BPF filesystem|cgroup2 filesystem)`)}, level: levelError, Least: 1},
	{signature: signature{faultBPFVerifier, "felix, bpf_ep_mgr.go; a rejected program that Felix splits is no fault", ofAny("bpf_ep_mgr"),
		lazy.New(`^Failed to load BPF policy program.*error=(?:permission denied|operation not permitted|invalid argument|cannot allocate memory|argument list too long|function not implemented)`)}, level: levelError, Least: 1},
	{signature: signature{faultTables, "felix, table.go; seen: native nft rules in ip nat (v3.32.1)", ofAny("table"),
		lazy.New(`^iptables-save failed because there are incompatible nft rules in the table`)},
		level: levelError, Least: 2},
	{signature: signature{faultKernelLacks, "felix, table.go; iptables, libxtables", ofAny("table"),
		lazy.New(`^Failed to execute ip\(6\)tables-restore command`)}, level: levelWarning, Least: 2, module: lacksModule},
	{signature: signature{faultKernelLacks, "felix, ipsets.go; ipset, libipset", ofAny("ipsets"),
		lazy.New(`^(?:Failed to complete ipset restore|Failed to get the list of Calico ipsets|Failed to read ipset)`)},
		level: levelWarning, Least: 2, module: lacksModule},
	{signature: signature{faultKernelLacks, "felix, nftables", ofAny("table|ipsets|maps"),
		lazy.New(`^(?:nftables command failed|Failed to run nft transaction)`)}, level: levelWarning, Least: 2, module: lacksModule},
	{signature: signature{faultKernelLacks, "felix, route_mgr.go, ipip_mgr.go and vxlan_mgr.go; netlink, RTM_NEWLINK", ofAny("route_mgr|ipip_mgr|vxlan_mgr"),
		lazy.New(`^(?:Failed to configure (?:tunnel|VXLAN tunnel|IPIP tunnel) device|Failed configure IPIP tunnel device)`)},
		level: levelWarning, Least: 2, module: lacksTunnel},
	{signature: signature{faultKernelLacks, "felix, wireguard.go", ofAny("wireguard"),
		lazy.New(`^Wireguard is not supported`)},
		level: levelInfo, Least: 1, Lasts: true, module: func(string) string { return "wireguard" },
		Over: lazy.New(`^(?:felix/)?(?:wireguard\.go \d+: Created wireguard device|daemon\.go \d+: Felix starting up)`)},
}

// typhaRepeats lists faults in Typha's own log. The lines name its clients.
var typhaRepeats = []*repeated{
	{signature: signature{faultTyphaRefuses, "typha, sync_server.go and tlsutils.go; crypto/tls", ofAny("sync_server"),
		lazy.New(`^Failed to read from client.*(?:` + refusedCertificate + `)`)}, level: levelInfo, Least: 2},
	{signature: signature{faultTyphaSheds, "typha, sync_server.go", ofAny("sync_server"),
		lazy.New(`^(?:Client fell behind\. Disconnecting|Too long since last pong from client, disconnecting)`)},
		level: levelInfo, Least: 3},
}

// noTunnelAddress matches IPAM's error that it has no address for the node's own tunnel.
var noTunnelAddress = lazy.New(`^(?:Tunnel IP allocator failed|Node services exiting due to error|Failed to reconcile tunnel address|Unable to autoassign an )` +
	`.*(?:Assigned 0 out of|No IPs available|no more free blocks|per host block limit|no configured Calico pools|no IP pools provided)`)

// Errors from iptables, ipset and nft if the kernel lacks something, with the group that names it.
var (
	lacksExtension = lazy.New(`Extension (\w+) revision \d+ not supported, missing kernel module`)
	lacksTable     = lazy.New("(ip6?)tables(?:-restore)?[^\"]{0,40}?(?:can't initialize ip6?tables table [`']|unable to initialize table ')(\\w+)'")
	lacksIPSet     = lazy.New(`Can't open socket to ipset|Cannot open session to kernel`)
	lacksSetType   = lazy.New(`Kernel error received: set type not supported`)
	lacksNFT       = lazy.New(`Failed to initialize nft: (?:Protocol|Operation) not supported|Unable to initialize Netlink socket: Protocol not supported`)
	ofTunnel       = lazy.New(`tunnelDevice="?([\w.-]+)`)
)

// lacksModule returns the kernel module that iptables, ipset or nft needs according to a message. It returns "" if the
// message is about something else. It ignores the command's input.
func lacksModule(text string) string {
	if before, rest, ok := strings.Cut(text, ` input="`); ok {
		_, after, _ := strings.Cut(rest, `" `)
		text = before + " " + after
	}
	if m := lacksExtension.FindStringSubmatch(text); m != nil {
		return "xt_" + strings.ToLower(m[1])
	}
	if m := lacksTable.FindStringSubmatch(text); m != nil {
		return m[1] + "table_" + m[2]
	}
	switch {
	case lacksIPSet.MatchString(text):
		return "ip_set"
	case lacksSetType.MatchString(text):
		return "ip_set_hash_net"
	case lacksNFT.MatchString(text):
		return "nf_tables"
	}
	return ""
}

// lacksTunnel returns the kernel module for a tunnel type that the kernel lacks. It returns "" if the tunnel failed
// for another reason.
func lacksTunnel(text string) string {
	if !strings.Contains(text, "operation not supported") {
		return ""
	}
	switch m := ofTunnel.FindStringSubmatch(text); {
	case m != nil && strings.HasPrefix(m[1], "vxlan"), strings.Contains(strings.ToLower(text), "vxlan"):
		return "vxlan"
	case m != nil && strings.HasPrefix(m[1], "tunl"), strings.Contains(text, "IPIP"):
		return "ipip"
	}
	return ""
}
