package do

import (
	"bytes"
	"errors"
	"io/fs"
	"net/netip"
	"slices"

	"github.com/miekg/dns"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/reach"
)

// resolver holds the contents of the node's resolv.conf.
type resolver struct {
	servers []netip.AddrPort
	search  []string
	ndots   int
}

// resolvConf is the file that configures the node's name servers.
const resolvConf = "/etc/resolv.conf"

// readResolver reads the node's resolv.conf. If the file does not exist, glibc queries the machine
// itself (resolv.conf(5)).
func readResolver(h *probe.Host) (resolver, error) {
	text, err := h.ReadFile(resolvConf)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return resolver{}, err
	}
	return parseResolver(text), nil
}

func parseResolver(text []byte) resolver {
	c, err := dns.ClientConfigFromReader(bytes.NewReader(text))
	if err != nil { // from reading memory
		return resolver{}
	}
	r := resolver{ndots: c.Ndots}
	const maxServers, maxDomains = 3, 32 // the limits in glibc and Kubernetes
	for _, s := range c.Servers[:min(len(c.Servers), maxServers)] {
		if a, err := netip.ParseAddr(s); err == nil {
			r.servers = append(r.servers, netip.AddrPortFrom(a, portDNS))
		}
	}
	if len(c.Servers) == 0 {
		r.servers = []netip.AddrPort{netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), portDNS)}
	}
	for _, d := range c.Search[:min(len(c.Search), maxDomains)] {
		if _, ok := dns.IsDomainName(d); ok && d != "." {
			r.search = append(r.search, dns.Fqdn(d))
		}
	}
	return r
}

// candidates returns the names that a program's resolver tries for a name that the user typed, in order.
func (r resolver) candidates(name string, dotted bool) []string {
	if dotted {
		return []string{name}
	}
	var out []string
	for _, d := range r.search {
		if _, ok := dns.IsDomainName(name + d); ok {
			out = append(out, name+d)
		}
	}
	if dns.CountLabel(name)-1 >= r.ndots {
		return slices.Insert(out, 0, name)
	}
	return append(out, name)
}

// inPod returns the names that a program in a pod tries, in order. If a name is in the cluster's domain, inPod
// tries it unchanged first, because the search list gives no useful results for it.
func inPod(h *probe.Host, l lookup) []string {
	const ndots = 5 // as the kubelet configures it
	search, domain := reach.PodSearch(h, l.Namespace)
	pod := resolver{ndots: ndots}
	for _, d := range search {
		pod.search = append(pod.search, dns.Fqdn(d))
	}
	return pod.candidates(l.name, l.typedDot || l.types[0] == dns.TypePTR || dns.IsSubDomain(dns.Fqdn(domain), l.name))
}
