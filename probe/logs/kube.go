package logs

import (
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe/lazy"
)

// Signatures of log lines from kube-proxy and CoreDNS.
const (
	faultConntrack = "conntrack" // kube-proxy is not allowed to set nf_conntrack_max
	faultLoop      = "loop"      // CoreDNS forwards queries to itself
	faultMode      = "mode"      // the kernel or the image does not support kube-proxy's mode
	faultCorefile  = "corefile"  // CoreDNS rejects its configuration
)

// Signatures of log lines from a running component, in addition to those from one that exited.
const (
	FaultUpstream = "upstream" // the DNS server to which CoreDNS forwards does not answer
	faultSync     = "sync"     // the kernel rejects kube-proxy's rules
)

// The components whose logs kube-log reads.
const (
	kubeProxy   = "kube-proxy"
	coreDNS     = "coredns"
	controllers = "calico-kube-controllers"
	typha       = "calico-typha"
)

// complaint describes how a running component logs that a dependency is failing.
type complaint struct {
	Line       *lazy.Regexp // the text is what the pattern captures
	Signatures []*signature // one of these must match
	Once       bool         // it is logged only once, at the start
}

// reflectorLine matches client-go's line in the klog format: Failed to watch, with the reason.
const reflectorLine = `(reflector\.go:\d+\] .*(?:Failed to (?:watch|list)|failed to list) .*)$`

// apiRefusals match a client's errors about an API server that is unreachable or denies access.
var apiRefusals = []*signature{
	{ID: FaultForbidden, Source: "API server", Match: lazy.New(`is forbidden: `)},
	{ID: FaultUnauthorized, Source: "API server",
		Match: lazy.New(`Unauthorized\b|the server has asked for the client to provide credentials`)},
	{ID: FaultCertificate, Source: "crypto/x509", Match: lazy.New(`x509: `)},
	{ID: FaultNoAPI, Source: "client-go; net",
		Match: lazy.New(`dial tcp [^ ]+: (?:i/o timeout|connect: )|dial tcp: lookup |TLS handshake timeout|no such host`)},
}

// complaints lists the complaints of each running component.
var complaints = map[string][]complaint{
	kubeProxy: {
		{Line: lazy.New(`^[EW]\d{4} [\d:.]+ +\d+ ` + reflectorLine), Signatures: apiRefusals},
		{Line: lazy.New(`^[EW]\d{4} [\d:.]+ +\d+ ((?:node|server)\.go:\d+\] "?(?:Timed out waiting for node to exist|Failed to retrieve node info).*)$`),
			Once: true, Signatures: []*signature{{ID: faultNodeNotFound, Source: "kube-proxy, pkg/proxy/node.go; before v1.34 pkg/util/node",
				Match: lazy.New(`Timed out waiting for node to exist|nodes \\?"[^"]*" not found`)}}},
		{Line: lazy.New(`^[EW]\d{4} [\d:.]+ +\d+ (proxier\.go:\d+\] "(?:Failed to execute iptables-restore|nftables sync failed|Failed to ensure chain (?:exists|jumps)|Failed to (?:create dummy interface|add IPVS service|sync service)).*)$`),
			Signatures: []*signature{{ID: faultSync, Source: "kube-proxy, pkg/proxy/*/proxier.go", Match: lazy.New(`err=`)}}},
	},
	coreDNS: {
		{Line: lazy.New(`^\[(?:ERROR|WARNING|INFO)\] (plugin/kubernetes: .*` + strings.TrimPrefix(reflectorLine, "(")),
			Signatures: apiRefusals},
		// The client chooses the name to query, and the name contains no blank.
		{Line: lazy.New(`^\[ERROR\] (plugin/errors: 2 \S+ [A-Z\d]+: (?:read udp \S+->\S+: i/o timeout|dial (?:udp|tcp) \S+: .*))$`),
			Signatures: []*signature{{ID: FaultUpstream, Source: "coredns/coredns#4211; plugin/errors, plugin/forward",
				Match: lazy.New(`: (?:read|dial) `)}}},
	},
}

// ending describes the format of the line with which a component exits, and the known reasons that
// the line can contain.
type ending struct {
	Ends       *lazy.Regexp // the text is what the pattern captures
	Signatures []*signature
}

// anyEnding lists reasons that may be in the last line of any program.
var anyEnding = slices.Concat([]*signature{
	{ID: FaultPortTaken, Source: "errno EADDRINUSE", Match: lazy.New(`address already in use`)},
}, apiRefusals, []*signature{
	{ID: faultPermission, Source: "errno EPERM, EACCES", Match: lazy.New(`operation not permitted|permission denied`)},
	{ID: faultExecFormat, Source: "errno ENOEXEC", Match: lazy.New(`exec format error`)},
})

// calicosLastLine matches the last line of Calico's own programs, as in calico-log.
var calicosLastLine = lazy.New(`^\d{4}-\d\d-\d\d [\d:.]+ \[(?:FATAL|PANIC)\](?:\[\d+\])? (.*)$`)

// endings lists the endings of each component.
var endings = map[string]ending{
	kubeProxy: { // klog: E1122 21:19:11.123456       1 server.go:560] "Error running ProxyServer" err="..."
		lazy.New(`^[EF]\d{4} [\d:.]+ +\d+ (\S+:\d+\] (?:"Error running ProxyServer"|"command failed"|failed complete|unable to create proxier).*)$`),
		[]*signature{
			{ID: faultConntrack, Source: "kubernetes/kubernetes#45419; pkg/proxy/conntrack, sysctls.go",
				Match: lazy.New(`nf_conntrack_(?:max|buckets)|nf_conntrack/parameters/hashsize|could not set conntrack parameters`)},
			{ID: faultMode, Source: "kube-proxy, server_linux.go; sigs.k8s.io/knftables, nftables.go",
				Match: lazy.New(`can't use the IPVS proxier|could not (?:find nftables binary|run nftables command)|nft version must be|iptables is not available on this host|no support for primary IP family`)},
			{ID: faultNodeNotFound, Source: "kube-proxy, pkg/proxy/node.go",
				Match: lazy.New(`timeout waiting for node \\?"[^"]*" to exist`)},
			{ID: FaultBadSetting, Source: "kube-proxy, options.go",
				Match: lazy.New(`failed (?:complete|validate): |kube-proxy configuration is incorrect|invalid configuration`)},
		},
	},
	controllers: {calicosLastLine, nil},
	typha:       {calicosLastLine, nil},
	coreDNS: {
		lazy.New(`^(\[(?:FATAL|PANIC)\] .*|\S+:\d+ - (?:Error during parsing|Syntax error): .*|loading Caddyfile .*|plugin/\S+: .*|no action found for directive .*|listen \S+ .*: bind: .*|Listen: .*)$`),
		[]*signature{
			{ID: faultLoop, Source: "coredns/coredns#2391; plugin/loop", Match: lazy.New(`^\[FATAL\] plugin/loop: Loop \([^)]*\) detected for zone`)},
			{ID: faultCorefile, Source: "seen: CoreDNS with an invalid Corefile, or without one",
				Match: lazy.New(`:\d+ - (?:Error during parsing|Syntax error): |^loading Caddyfile |^plugin/\S+: |^no action found for directive `)},
		},
	},
}
