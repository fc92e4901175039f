package tools

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// DNS queries name servers.
var DNS = &probe.Tool{
	Name: "dns", Usage: "[--tcp] [--search] [--of NAMESPACE] [-t TIMEOUT] NAME [TYPE] [@SERVER] | -x ADDRESS", Short: "look a name up",
	Doc: `Queries a name server and prints its answer: code, flags, records with their TTL, and how
long it took. A truncated UDP answer is repeated over TCP.

  NAME         used as typed, with or without a trailing dot
  TYPE         A and AAAA by default: MX, NS, SOA, SRV, TXT, CNAME, PTR, ...
  @SERVER      a server's address, with its port if that is not 53. By default the servers
               of the node's own /etc/resolv.conf, one after another, until one answers
  -x ADDRESS   reverse lookup: the name of an address
  --search     also try NAME in the domains of the node's search list, in the order that a
               program would use
  --of NAMESPACE
               resolve NAME as a pod of that namespace does: with fewer than five dots,
               first in the pod's search list (NAMESPACE.svc.cluster.local, ...)
  --tcp        use TCP from the start
  -t TIMEOUT   for each try, 2s by default; UDP gets two tries

  dns kubernetes.default.svc.cluster.local @10.96.0.10
  dns example.com MX
  dns -x 10.244.7.9 @10.96.0.10

Fails when the name does not exist (NXDOMAIN), has no such record, the server cannot
resolve it (SERVFAIL) or no server answers.`,
	Check: check(ParseDNS),
}

// DNSArgs holds the arguments of dns.
type DNSArgs struct {
	Name        string         // as the user typed it
	Reverse     string         // an address to look up instead, "" = none
	Type        string         // in capitals, "" = A and AAAA
	Server      netip.AddrPort // invalid = the node's own servers
	TCP, Search bool
	Namespace   string // "" = do not resolve the name as a pod
	Wait        time.Duration
}

// types lists the record types that can be queried (IANA's registry of DNS parameters). AXFR and IXFR are missing,
// because they return whole zones.
var types = strings.Fields(`
	A AAAA AFSDB AMTRELAY ANY APL ATMA AVC CAA CDNSKEY CDS CERT CNAME CSYNC DHCID DLV DNAME DNSKEY DS EID EUI48
	EUI64 GID GPOS HINFO HIP HTTPS IPSECKEY ISDN KEY KX L32 L64 LOC LP MAILA MAILB MB MD MF MG MINFO MR MX NAPTR
	NID NIMLOC NINFO NS NSAP-PTR NSEC NSEC3 NSEC3PARAM NULL NXNAME NXT OPENPGPKEY OPT PTR PX RESINFO RKEY RP
	RRSIG RT SIG SMIMEA SOA SPF SRV SSHFP SVCB TA TALINK TKEY TLSA TSIG TXT UID UINFO UNSPEC URI X25 ZONEMD`)

// ParseDNS parses the arguments of dns.
func ParseDNS(args []string) (*DNSArgs, error) {
	l := &DNSArgs{}
	f := options("dns")
	f.StringVar(&l.Reverse, "x", "", "")
	f.BoolVar(&l.TCP, "tcp", false, "")
	f.BoolVar(&l.Search, "search", false, "")
	f.StringVar(&l.Namespace, "of", "", "")
	seconds(f, &l.Wait, "t", 2*time.Second)
	rest, err := words(f, args)
	if err == nil {
		err = within("-t", l.Wait, 10*time.Millisecond, time.Minute)
	}
	if err != nil {
		return l, err
	}
	if strings.Trim(l.Namespace, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return l, fmt.Errorf("--of takes a namespace, not %q", l.Namespace)
	}
	if i := slices.IndexFunc(rest, func(w string) bool { return strings.HasPrefix(w, "@") }); i >= 0 {
		if l.Server, err = parseServer(rest[i][1:]); err != nil {
			return l, err
		}
		rest = slices.Delete(rest, i, i+1)
	}
	if l.Reverse != "" {
		if net.ParseIP(l.Reverse) == nil {
			return l, fmt.Errorf("-x takes an address, not %q", l.Reverse)
		}
		if len(rest) > 0 {
			return l, errors.New("dns takes a name or -x ADDRESS, not both")
		}
		return l, nil
	}
	if len(rest) == 0 || len(rest) > 2 {
		return l, errors.New("dns takes a name, and a type if it is not A and AAAA: dns example.com MX @10.96.0.10")
	}
	if !isDomainName(rest[0]) || strings.ContainsFunc(rest[0], func(r rune) bool { return r <= ' ' || r > '~' }) {
		return l, fmt.Errorf("%q is not a valid DNS name", rest[0])
	}
	if a, err := netip.ParseAddr(rest[0]); err == nil {
		return l, fmt.Errorf("%s is an address: 'dns -x %s' looks up its name", a, a)
	}
	l.Name = rest[0]
	if len(rest) == 2 {
		if l.Type = strings.ToUpper(rest[1]); !slices.Contains(types, l.Type) {
			return l, fmt.Errorf("dns has no type %q", rest[1])
		}
	}
	return l, nil
}

// parseServer parses an address with an optional port.
func parseServer(text string) (netip.AddrPort, error) {
	if at, err := netip.ParseAddrPort(text); err == nil && at.Port() != 0 {
		return at, nil
	}
	a, err := netip.ParseAddr(strings.Trim(text, "[]"))
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("@%s: a server is an address, such as @10.96.0.10 or @[fd00::a]:53", text)
	}
	const usual = 53
	return netip.AddrPortFrom(a, usual), nil
}
