// Package logs recognises known faults in the logs of a node's components. It contains the checks that read logs,
// and one table of signatures for each component. The table names the source of each line:
//
//	log lines → a check judges their time → a signature names the fault → causes select by the same constant
//
// A pattern begins with text that the component itself writes, because a line may quote text from a tenant.
// Recognising a line requires neither a file nor a clock.
package logs

import (
	"slices"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/lazy"
)

// Checks lists the checks that read logs, in the order of the output.
func Checks() []*probe.Check {
	return []*probe.Check{CalicoLog, CalicoErrors, KubeLog, DaemonLog}
}

// A signature identifies a line that shows a known fault.
type signature struct {
	ID     string         // the value of the fact signature
	Source string         // where such a line was seen, or the source code that writes it
	By     []*lazy.Regexp // the components that write it
	Match  *lazy.Regexp   // the text that follows
}

// Signatures of the lines that calico-log recognises.
const (
	FaultForbidden      = "forbidden"       // calico-node's account lacks a right
	FaultUnauthorized   = "unauthorized"    // the account's token is rejected
	faultNoResource     = "no-resource"     // the API server does not have the resource, because a CRD is missing
	faultBadAddress     = "bad-address"     // the address in calico-node's environment is invalid
	FaultBadSetting     = "bad-setting"     // a setting has an invalid value
	faultAddressTaken   = "address-taken"   // another node has registered calico-node's address
	faultNoAddress      = "no-address"      // the autodetection method finds no address
	faultLocked         = "locked"          // the datastore is marked not ready
	FaultCertificate    = "certificate"     // a certificate has expired, or comes from another authority
	FaultNoAPI          = "no-api"          // the datastore is unreachable
	faultNoTypha        = "no-typha"        // Typha is unreachable
	FaultDiskFull       = "disk-full"       // no space left
	FaultReadOnly       = "read-only"       // a file system is read-only
	faultLooseRPF       = "loose-rpf"       // Felix before v3.12 exits if rp_filter is 2
	faultXtablesLock    = "xtables-lock"    // another program holds the iptables lock
	faultKernelFeature  = "kernel-feature"  // a kernel module or an ipset type is missing
	faultBIRDConfig     = "bird-config"     // BIRD rejects its configuration
	faultNoPools        = "no-pools"        // no IP pool applies to this node
	faultNoRoom         = "no-room"         // no more processes, threads or open files are available
	faultOutOfMemory    = "out-of-memory"   // the process could not allocate memory
	faultBPFMount       = "bpf-mount"       // the BPF file system cannot be mounted
	faultPermission     = "permission"      // the kernel denies it because of a security policy or a missing capability
	faultExecFormat     = "exec-format"     // the program is for another architecture
	faultNodeNotFound   = "node-not-found"  // Kubernetes has no node with the name that Calico uses
	faultIPAMMigrations = "ipam-migrations" // upgrade-ipam cannot migrate
	faultNoLocalhost    = "no-localhost"    // the name localhost has no address
)

// forbidden captures the account and the action that was denied.
var forbidden = lazy.New(`is forbidden: User "system:serviceaccount:([\w.-]+:[\w.-]+)" cannot (\w+) resource "([\w./-]+)"`)

// The parts of Calico that write a line, identified by the process name and the source file. Older versions omit
// the process name. Watchers and managers are excluded, because their lines may contain a tenant's text, such as a
// pod's annotation.
var (
	byStart    = lazy.New(`^(?:(?:startup|complete-startup|init|init-best-effort|node)/\S+|(?:startup|startup_linux|utils|autodetection_methods|calico-init_linux)\.go) \d+: `)
	byInstall  = lazy.New(`^(?:cni-installer/\S+|(?:install|token_watch)\.go) \d+: `)
	byIPAM     = lazy.New(`^(?:ipam/\S+|ipam_plugin\.go) \d+: `)
	byFelix    = lazy.New(`^(?:felix/|node-services/)?(?:daemon|startsyncerclient|config_params|int_dataplane|driver|maps|connecttime)\.go \d+: `)
	byTables   = lazy.New(`^(?:felix/)?(?:table|ipsets?|feature_detect\w*)\.go \d+: `)
	byHealth   = lazy.New(`^(?:felix/)?health(?:_aggregator)?\.go \d+: `)
	byNoLogger = lazy.New(`^`) // programs without a logger: the pattern begins at the start of the line

	byTunnel = lazy.New(`^(?:(?:tunnel-ip-allocator|node-services|node)/)?(?:allocateip|main|nodeservices)\.go \d+: `)

	anyStart = []*lazy.Regexp{byStart, byInstall, byIPAM, byFelix}
)

// signatures are tried in order, and the first match wins.
var signatures = []*signature{
	{FaultForbidden, "seen: calico-node without its ClusterRoleBinding (v3.32.1)", anyStart, forbidden},
	{faultLocked, "libcalico-go, clientv3 and the CNI plugin", anyStart, lazy.New(`Calico is currently not ready to process requests`)},
	{FaultUnauthorized, "projectcalico/calico#5712; the CNI plugin with an expired token", anyStart,
		lazy.New(`connection is unauthorized|^Connection to the datastore is unauthorized|: Unauthorized\b|the server has asked for the client to provide credentials`)},
	{faultNoResource, "seen: the CRD felixconfigurations deleted (v3.32.1)", anyStart,
		lazy.New(`the server could not find the requested resource`)},
	{faultBadAddress, "seen: IP=999.1.2.3 (v3.32.1); node, startup.go", []*lazy.Regexp{byStart},
		lazy.New(`^(?:Environment does not contain a valid IPv[46] address|Invalid IP address specified|Attempt to get the local CIDR: \S+ failed, \S+ is invalid)`)},
	{faultAddressTaken, "projectcalico/calico#1628, #2521; node, startup.go", []*lazy.Regexp{byStart},
		lazy.New(`^Calico node '[^']*' is already using the IPv[46] address`)},
	{faultNoAddress, "node, startup.go and autodetection", []*lazy.Regexp{byStart},
		lazy.New(`^(?:Couldn't autodetect an IPv[46] address|Unable to auto-detect an IPv[46] address|Failed to configure IP addresses .*failed to autodetect an IPv[46] address)`)},
	{FaultCertificate, "crypto/x509", anyStart, lazy.New(`x509: (certificate has expired|certificate signed by unknown authority|certificate is (not )?valid)|tls: (bad|expired|unknown) certificate`)},
	{faultIPAMMigrations, "node, upgrade-ipam", []*lazy.Regexp{byIPAM}, lazy.New(`^(?:failed to migrate ipam|Error migrating IPAM)`)},
	{faultNoTypha, "typha, syncclient; felix, daemon", []*lazy.Regexp{byFelix, byStart},
		lazy.New(`^(?:Failed to connect to Typha|Failed to find Typha|Typha discovery enabled but discovery failed)`)},
	{faultNoRoom, "errno EAGAIN of fork and clone, EMFILE", slices.Concat(anyStart, []*lazy.Regexp{byTables, byHealth}),
		lazy.New(`(?:fork/exec \S+|clone|pthread_create\S*|fork): [Rr]esource temporarily unavailable|failed to create new OS thread|too many open files`)},
	{faultNoRoom, "Go's runtime and the shell", []*lazy.Regexp{byNoLogger},
		lazy.New(`^(?:runtime: failed to create new OS thread|runtime/cgo: pthread_create failed|\S*sh: (?:\d+: )?[Cc]annot fork|\S*sh: fork: )`)},
	{faultLooseRPF, "Felix before v3.12", []*lazy.Regexp{byFelix}, lazy.New(`RPF check is set to 'loose'`)},
	{faultXtablesLock, "projectcalico/calico#2648; iptables", []*lazy.Regexp{byTables},
		lazy.New(`(?i:holding the xtables lock|Another app is currently holding|failed to acquire (the )?(old|new )?iptables lock)`)},
	{faultNoLocalhost, "projectcalico/calico#5228; seen: /etc/hosts without localhost (v3.32.1)", []*lazy.Regexp{byHealth},
		lazy.New(`\blookup localhost\b`)},
	{FaultDiskFull, "errno ENOSPC", anyStart, lazy.New(`no space left on device|disk quota exceeded`)},
	{FaultReadOnly, "errno EROFS", anyStart, lazy.New(`read-only file system`)},
	{faultOutOfMemory, "errno ENOMEM", anyStart, lazy.New(`cannot allocate memory`)},
	{faultOutOfMemory, "Go's runtime", []*lazy.Regexp{byNoLogger},
		lazy.New(`^(?:runtime: out of memory|fatal error: runtime: (?:out of memory|cannot allocate memory))`)},
	{faultExecFormat, "errno ENOEXEC", []*lazy.Regexp{byNoLogger}, lazy.New(`^(?:exec |standard_init_linux\.go:\d+: ).*exec format error`)},
	{faultBPFMount, "node, mountns and bpf", []*lazy.Regexp{byStart, byFelix}, lazy.New(`^Failed to mount (?:BPF|bpffs)`)},
	{faultKernelFeature, "projectcalico/calico#3706, #6286; ipset, modprobe", []*lazy.Regexp{byTables, byFelix},
		lazy.New(`modprobe: (FATAL|ERROR)|ipset v[\d.]+: .*(?:not supported|Kernel error|cannot be created)|Kernel support .* missing|iptables: No chain/target/match by that name`)},
	{FaultTunnelAddress, "node, allocateip.go and main.go", []*lazy.Regexp{byTunnel}, noTunnelAddress},
	{faultBIRDConfig, "BIRD's parser", []*lazy.Regexp{byNoLogger}, lazy.New(`^bird6?: .*(syntax error|Unable to open configuration file)`)},
	{faultNoPools, "libcalico-go, ipam", []*lazy.Regexp{byStart, byIPAM}, lazy.New(`no configured Calico pools|unable to find an IP pool`)},
	{faultNodeNotFound, "node, startup.go; projectcalico/calico#2322", anyStart, lazy.New(`nodes "[^"]+" not found`)},
	{FaultBadSetting, "node, startup.go and autodetection", []*lazy.Regexp{byStart},
		lazy.New(`^(?:Invalid (?:IP autodetection method|blocksize|node selector|configuration with NO_DEFAULT_POOLS|CIDR specified in)|Unable to convert blocksize|Unrecognized (?:IPIP|VXLAN) mode|The AS number specified in the environment)`)},
	{FaultBadSetting, "felix, config_params.go and daemon.go", []*lazy.Regexp{byFelix},
		lazy.New(`^Failed to parse (?:value for|config|configuration environment variable)`)},
	{faultPermission, "errno EPERM, EACCES", anyStart, lazy.New(`operation not permitted|permission denied`)},
	{FaultNoAPI, "client-go; node, startup.go", anyStart,
		lazy.New(`^Hit error connecting to datastore|dial tcp [^ ]+: (i/o timeout|connect: )|context deadline exceeded|TLS handshake timeout|no such host`)},
}

// calicoFaults recognises a line by its writer and its text. If a right was denied to an account other than
// calico-node's ("" = unknown), it ignores the line.
func calicoFaults(text, account string) *signature {
	if m := forbidden.FindStringSubmatch(text); m != nil && account != "" && m[1] != account {
		return nil
	}
	for _, s := range signatures {
		for _, by := range s.By {
			if at := by.FindStringIndex(text); at != nil && s.Match.MatchString(text[at[1]:]) {
				return s
			}
		}
	}
	return nil
}
