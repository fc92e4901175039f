package checks

import "regexp"

// A signature is a line that stands for a known fault.
type signature struct {
	id     string // the value of the fact signature
	source string // where such a line was seen, or the source that writes it
	match  *regexp.Regexp
}

// Signatures of the lines that calico-log recognises.
const (
	SaysForbidden      = "forbidden"       // the account lacks a right
	SaysUnauthorized   = "unauthorized"    // its token is refused
	SaysNoResource     = "no-resource"     // the API server does not know the resource: a CRD is missing
	SaysBadAddress     = "bad-address"     // the address in its environment is none
	SaysBadSetting     = "bad-setting"     // a setting has a value that it does not take
	SaysAddressTaken   = "address-taken"   // another node is registered with its address
	SaysNoAddress      = "no-address"      // the autodetection method finds no address
	SaysLocked         = "locked"          // the datastore is marked not ready
	SaysCertificate    = "certificate"     // a certificate has run out, or is of another authority
	SaysNoAPI          = "no-api"          // the datastore is not reached
	SaysNoTypha        = "no-typha"        // Typha is not reached
	SaysDiskFull       = "disk-full"       // no space left
	SaysReadOnly       = "read-only"       // a file system is read-only
	SaysLooseRPF       = "loose-rpf"       // Felix before v3.12 ends where rp_filter is 2
	SaysXtablesLock    = "xtables-lock"    // another program holds the lock of iptables
	SaysKernelFeature  = "kernel-feature"  // a kernel module or an ipset type is missing
	SaysBIRDConfig     = "bird-config"     // BIRD does not take its configuration
	SaysNoPools        = "no-pools"        // no IP pool fits this node
	SaysOutOfMemory    = "out-of-memory"   // the process got no memory
	SaysBPFMount       = "bpf-mount"       // the BPF file system cannot be mounted
	SaysPermission     = "permission"      // the kernel refuses it: a security policy, or a missing capability
	SaysExecFormat     = "exec-format"     // the program is for another architecture
	SaysNodeNotFound   = "node-not-found"  // Kubernetes has no node of the name that Calico uses
	SaysIPAMMigrations = "ipam-migrations" // upgrade-ipam cannot migrate
)

// forbidden names the account and what it may not do.
var forbidden = regexp.MustCompile(`is forbidden: User "system:serviceaccount:([\w.-]+:[\w.-]+)" cannot (\w+) resource "([\w./-]+)"`)

// signatures are asked in order; the first that fits is it.
var signatures = []*signature{
	{SaysForbidden, "seen: calico-node without its ClusterRoleBinding (v3.32.1)", forbidden},
	{SaysForbidden, "Kubernetes apiserver, authorization errors", regexp.MustCompile(`is forbidden: User `)},
	{SaysLocked, "libcalico-go, clientv3 and the CNI plugin", regexp.MustCompile(`Calico is currently not ready to process requests`)},
	{SaysUnauthorized, "projectcalico/calico#5712; the CNI plugin with a token that has run out",
		regexp.MustCompile(`connection is unauthorized|: Unauthorized\b|the server has asked for the client to provide credentials`)},
	{SaysNoResource, "seen: the CRD felixconfigurations deleted (v3.32.1)",
		regexp.MustCompile(`the server could not find the requested resource`)},
	{SaysBadAddress, "seen: IP=999.1.2.3 (v3.32.1); node, startup.go",
		regexp.MustCompile(`Environment does not contain a valid IPv[46] address|Invalid IP address specified|failed, \S+ is invalid`)},
	{SaysAddressTaken, "projectcalico/calico#1628, #2521; node, startup.go", regexp.MustCompile(`is already using the IPv[46] address`)},
	{SaysNoAddress, "node, startup.go and autodetection",
		regexp.MustCompile(`(?i:couldn't autodetect an IPv[46] address|Unable to auto-detect an? IPv[46] address|Unable to get ifconfig addresses|No IP address(es)? found)`)},
	{SaysCertificate, "crypto/x509", regexp.MustCompile(`x509: (certificate has expired|certificate signed by unknown authority|certificate is (not )?valid)|tls: (bad|expired|unknown) certificate`)},
	{SaysIPAMMigrations, "node, upgrade-ipam", regexp.MustCompile(`failed to migrate ipam|Error migrating IPAM`)},
	{SaysNoTypha, "typha, syncclient", regexp.MustCompile(`Failed to connect to Typha|Failed to find Typha|all Typha instances`)},
	{SaysLooseRPF, "Felix before v3.12", regexp.MustCompile(`RPF check is set to 'loose'`)},
	{SaysXtablesLock, "projectcalico/calico#2648; iptables",
		regexp.MustCompile(`(?i:holding the xtables lock|Another app is currently holding|failed to acquire (the )?(old|new )?iptables lock)`)},
	{SaysDiskFull, "errno ENOSPC", regexp.MustCompile(`no space left on device|disk quota exceeded`)},
	{SaysReadOnly, "errno EROFS", regexp.MustCompile(`read-only file system`)},
	{SaysOutOfMemory, "Go's runtime; errno ENOMEM", regexp.MustCompile(`cannot allocate memory|runtime: out of memory`)},
	{SaysExecFormat, "errno ENOEXEC", regexp.MustCompile(`exec format error`)},
	{SaysBPFMount, "node, mountns and bpf", regexp.MustCompile(`(?i:failed to mount bpf|unable to mount bpf)`)},
	{SaysKernelFeature, "projectcalico/calico#3706, #6286; ipset, modprobe",
		regexp.MustCompile(`modprobe: (FATAL|ERROR)|ipset v[\d.]+: .*(?:not supported|Kernel error|cannot be created)|Kernel support .* missing|iptables: No chain/target/match by that name`)},
	{SaysBIRDConfig, "BIRD's parser", regexp.MustCompile(`^bird6?: .*(syntax error|Unable to open configuration file)`)},
	{SaysNoPools, "libcalico-go, ipam", regexp.MustCompile(`no configured Calico pools|No configured IP pools|unable to find an IP pool`)},
	{SaysNodeNotFound, "node, startup.go; projectcalico/calico#2322",
		regexp.MustCompile(`nodes "[^"]+" not found|Unable to (get|find) node configuration`)},
	{SaysBadSetting, "felix, config; node, startup.go",
		regexp.MustCompile(`(?i:failed to parse (config|value|raw datastore)|Invalid (value|environment|CALICO_|NODENAME|AS number)|Failed to parse value|could not parse|Missing required value|Unsupported |unknown (value|method) )`)},
	{SaysPermission, "errno EPERM, EACCES", regexp.MustCompile(`operation not permitted|permission denied`)},
	{SaysNoAPI, "client-go; node, startup.go",
		regexp.MustCompile(`Hit error connecting to datastore|dial tcp [^ ]+: (i/o timeout|connect: )|context deadline exceeded|TLS handshake timeout|no such host`)},
}

func signatureOf(text string) *signature {
	for _, s := range signatures {
		if s.match.MatchString(text) {
			return s
		}
	}
	return nil
}
