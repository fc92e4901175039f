package tools

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// Dial opens connections.
var Dial = &probe.Tool{
	Name: "dial", Usage: "[-u] [--tls] [--sni NAME] [--http PATH] [-t TIMEOUT] HOST:PORT | unix:PATH",
	Short: "open a connection: TCP, TLS, HTTP, UNIX",
	Doc: `Opens a connection, prints how long that took and the source address, and closes it.

  HOST:PORT    an address, a node's name (its InternalIP), or a name that the node resolves
               with its own /etc/hosts and name servers; IPv6 in brackets: [fd00::1]:443
  unix:PATH    a socket of the node
  --tls        does a TLS handshake and prints the server's certificate: subject, issuer,
               names, and whether it is valid now. It sends no credentials and does not
               verify the issuer
  --sni NAME   the server name to send, instead of HOST; implies --tls
  --http PATH  sends one GET without credentials and prints status, headers and first lines;
               HTTPS with --tls. Not for UNIX sockets, where a GET could read secrets. A
               cloud's metadata service (169.254.169.254 and any link-local address, also
               through NAT64) returns the node's credentials, so only the status and the
               names of the headers are printed
  -u           UDP: sends an empty packet. Any reply proves that the host is up, and so does
               an ICMP refusal. Silence proves nothing
  -t TIMEOUT   3s by default

  dial 10.0.0.12:179
  dial --tls 10.96.0.1:443
  dial --http /liveness 127.0.0.1:9099
  dial unix:/run/containerd/containerd.sock

Fails when the connection is not accepted, or the answer is an error (HTTP 400 and above, a
certificate that is not valid now).`,
	Check: check(ParseDial),
}

// DialArgs holds the arguments of dial.
type DialArgs struct {
	Host     string
	Port     uint16
	Addr     netip.Addr // the address in Host, if Host is an address
	Socket   string     // a path, "" = use the network
	UDP, TLS bool
	SNI      string // the server name to send in TLS, "" = no --sni
	Page     string // the path from --http, "" = do not fetch a page
	Wait     time.Duration
}

// ParseDial parses the arguments of dial.
func ParseDial(args []string) (*DialArgs, error) {
	d := &DialArgs{}
	f := options("dial")
	f.BoolVar(&d.UDP, "u", false, "")
	f.BoolVar(&d.TLS, "tls", false, "")
	f.StringVar(&d.SNI, "sni", "", "")
	f.StringVar(&d.Page, "http", "", "")
	seconds(f, &d.Wait, "t", 3*time.Second)
	rest, err := words(f, args)
	if err == nil {
		err = within("-t", d.Wait, 10*time.Millisecond, time.Minute)
	}
	if err != nil {
		return d, err
	}
	if len(rest) != 1 {
		return d, errors.New("dial takes one HOST:PORT or unix:PATH: dial 10.0.0.12:179")
	}
	text := rest[0]
	d.TLS = d.TLS || d.SNI != ""
	if name, ok := strings.CutPrefix(text, "unix:"); ok {
		if !path.IsAbs(name) {
			return d, fmt.Errorf("unix: takes a path from the root: unix:/run/containerd/containerd.sock, not %q",
				name)
		}
		if d.Page != "" || d.TLS || d.UDP {
			return d, errors.New("a UNIX socket takes no --http, --tls or -u")
		}
		d.Socket = path.Clean(name)
		return d, nil
	}
	host, port, err := net.SplitHostPort(text)
	n, bad := strconv.ParseUint(port, 10, 16)
	if err != nil || bad != nil || n == 0 || host == "" {
		return d, fmt.Errorf("dial takes HOST:PORT, [IPv6]:PORT or unix:PATH, not %q", text)
	}
	d.Host, d.Port = host, uint16(n)
	if d.Addr, err = netip.ParseAddr(host); err != nil {
		if !isName(host) {
			return d, fmt.Errorf("%q is neither an address nor a name", host)
		}
	}
	d.Addr = d.Addr.Unmap()
	switch {
	case d.Page != "" && (!strings.HasPrefix(d.Page, "/") ||
		strings.ContainsFunc(d.Page, func(r rune) bool { return r <= ' ' || r == 0x7f })):
		return d, fmt.Errorf("--http takes a path: --http /liveness, not %q", d.Page)
	case d.UDP && (d.TLS || d.Page != ""):
		return d, errors.New("-u excludes --tls and --http")
	}
	return d, nil
}
