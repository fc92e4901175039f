package do

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/httpget"
)

// The maximum amount of a page that is shown.
const (
	maxLines = 40
	maxWidth = 300
	maxPage  = 64 << 10
)

// get requests one page.
func (d dialling) get(ctx context.Context, j *probe.Job, to netip.AddrPort) probe.Result {
	one, cancel := context.WithTimeout(ctx, d.Wait)
	defer cancel()
	scheme, roleOf := "http", httpget.Options{Most: maxPage}
	if d.TLS {
		scheme = "https"
	}
	if !d.Addr.IsValid() {
		roleOf.Host = net.JoinHostPort(d.Host, strconv.Itoa(int(d.Port)))
	}
	roleOf.ServerName = cmp.Or(d.SNI, d.Host)
	began := time.Now()
	page, err := httpget.Get(one, fmt.Sprintf("%s://%s%s", scheme, to, d.Page), roleOf)
	if err != nil {
		reason := probe.Reason(err)
		switch {
		case ctx.Err() != nil:
			return probe.Found(probe.Unknown, "stopped before %s answered", to)
		case reason == "timeout":
			return probe.Found(probe.Fail, "%s accepts the connection, but does not answer GET %s within %s", to,
				d.Page, short(d.Wait)).With(probe.FactReason, reason)
		}
		return probe.Found(probe.Fail, "%s accepts the connection, but GET %s fails: %v", to, d.Page, err).
			With(probe.FactReason, reason)
	}
	j.Say("%s %d %s in %s", page.Proto, page.Code, http.StatusText(page.Code), short(time.Since(began)))
	printPage(j, to.Addr(), page)
	status := probe.OK
	if page.Code >= 400 {
		status = probe.Fail
	}
	return probe.Found(status, "%s answers %d %s to GET %s", to, page.Code, http.StatusText(page.Code), d.Page)
}

// metadata lists the addresses at which clouds give any program on a machine the machine's credentials and the token
// for joining its cluster. They are the link-local addresses (AWS, Azure, GCP, OpenStack and most others), AWS over
// IPv6, GCP over IPv6, Alibaba Cloud, Azure's wire server, and Scaleway over IPv6.
var metadata = []netip.Prefix{
	netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("fe80::/10"),
	netip.MustParsePrefix("fd00:ec2::/32"), netip.MustParsePrefix("fd20:ce::254/128"),
	netip.MustParsePrefix("100.100.100.200/32"), netip.MustParsePrefix("168.63.129.16/32"),
	netip.MustParsePrefix("fd00:42::42/128"),
}

// mayReturnSecrets reports whether answers from an address must not be shown.
func mayReturnSecrets(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return slices.ContainsFunc(append(embedded(a), a), func(a netip.Addr) bool {
		return slices.ContainsFunc(metadata, func(p netip.Prefix) bool { return p.Contains(a) })
	})
}

// embedded returns the IPv4 addresses to which a packet for an IPv6 address may be forwarded. It covers NAT64 with
// the well-known prefix or the prefix for local use (RFC 6052, RFC 8215), NAT64 with a custom prefix of any length in
// RFC 6052, 6to4 (RFC 3056), and the deprecated IPv4-compatible form (RFC 4291, 2.5.5.1). A custom prefix is
// recognised only by its form, so a few unrelated addresses also match.
func embedded(a netip.Addr) []netip.Addr {
	if !a.Is6() {
		return nil
	}
	b := a.As16()
	var out []netip.Addr
	// byte 8 is reserved
	for _, at := range [][4]int{{4, 5, 6, 7}, {5, 6, 7, 9}, {6, 7, 9, 10}, {7, 9, 10, 11}, {9, 10, 11, 12},
		{12, 13, 14, 15}} {
		out = append(out, netip.AddrFrom4([4]byte{b[at[0]], b[at[1]], b[at[2]], b[at[3]]}))
	}
	if b[0] == 0x20 && b[1] == 0x02 {
		out = append(out, netip.AddrFrom4([4]byte(b[2:6])))
	}
	return out
}

// printPage prints the parts of a server's answer that may be shown.
func printPage(j *probe.Job, of netip.Addr, page httpget.Page) {
	if !mayReturnSecrets(of) {
		printHeader(j, page.Header)
		printBody(j, page.Body)
		return
	}
	j.Say("headers: %s", strings.Join(slices.Sorted(maps.Keys(page.Header)), ", "))
	j.Say("(%s may be a cloud's metadata, which has the node's credentials: header values and %s of body are not shown)", of, several(len(page.Body), "byte"))
}

// printBody prints the first lines of a text page.
func printBody(j *probe.Job, body []byte) {
	if len(body) == 0 {
		return
	}
	j.Say("")
	if bytes.IndexByte(body, 0) >= 0 {
		j.Say("(%d bytes that are not text)", len(body))
		return
	}
	lines := bufio.NewScanner(bytes.NewReader(body))
	lines.Buffer(nil, maxPage+1)
	for n := 0; lines.Scan(); n++ {
		if n == maxLines {
			j.Say("(more is not shown)")
			return
		}
		text := lines.Text()
		if len(text) > maxWidth {
			text = strings.ToValidUTF8(text[:maxWidth], "") + "…"
		}
		j.Say("%s", text)
	}
}

// secretHeaders lists the headers whose values must not be shown.
var secretHeaders = []string{"Set-Cookie", "Authorization", "Proxy-Authorization", "X-Auth-Token", "X-Api-Key"}

// printHeader prints the headers in sorted order.
func printHeader(j *probe.Job, h http.Header) {
	const maxHeaders = 40
	keys := slices.Sorted(maps.Keys(h))
	for _, k := range keys[:min(len(keys), maxHeaders)] {
		v := strings.Join(h[k], ", ")
		if slices.Contains(secretHeaders, k) {
			v = "(not shown)"
		}
		if len(v) > maxWidth {
			v = strings.ToValidUTF8(v[:maxWidth], "") + "…"
		}
		j.Say("%s: %s", k, v)
	}
}
