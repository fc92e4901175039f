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

// resolver is what the node's own resolv.conf says.
type resolver struct {
	servers []netip.AddrPort
	search  []string
	ndots   int
}

// resolvConf is where the servers of the node are named.
const resolvConf = "/etc/resolv.conf"

// readResolver reads the node's resolv.conf. Without one glibc asks the machine itself
// (resolv.conf(5)).
func readResolver(h *probe.Host) (resolver, error) {
	text, err := h.ReadFile(resolvConf)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return resolver{}, err
	}
	return parseResolver(text), nil
}

func parseResolver(text []byte) resolver {
	c, err := dns.ClientConfigFromReader(bytes.NewReader(text))
	if err != nil { // that of reading from memory
		return resolver{}
	}
	r := resolver{ndots: c.Ndots}
	const mostServers, mostDomains = 3, 32 // as many as glibc, and as Kubernetes heeds
	for _, s := range c.Servers[:min(len(c.Servers), mostServers)] {
		if a, err := netip.ParseAddr(s); err == nil {
			r.servers = append(r.servers, netip.AddrPortFrom(a, portDNS))
		}
	}
	if len(c.Servers) == 0 {
		r.servers = []netip.AddrPort{netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), portDNS)}
	}
	for _, d := range c.Search[:min(len(c.Search), mostDomains)] {
		if _, ok := dns.IsDomainName(d); ok && d != "." {
			r.search = append(r.search, dns.Fqdn(d))
		}
	}
	return r
}

// candidates are the names a program's resolver asks for one that is typed, in order.
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

// inPod are the names that a program in a pod asks for, in order. One of the cluster's domain is asked as it
// stands at once: what its search list makes of it before is not worth reading.
func inPod(h *probe.Host, l lookup) []string {
	const ndots = 5 // as the kubelet sets it
	search, domain := reach.PodSearch(h, l.Namespace)
	pod := resolver{ndots: ndots}
	for _, d := range search {
		pod.search = append(pod.search, dns.Fqdn(d))
	}
	return pod.candidates(l.name, l.typedDot || l.types[0] == dns.TypePTR || dns.IsSubDomain(dns.Fqdn(domain), l.name))
}
